#include <algorithm>
#include <bearing/encodings/relative_logits.hpp>
#include <bearing/error.hpp>
#include <bearing/scores.hpp>
#include <cmath>
#include <memory>

#include "describe/describer.hpp"
#include "encodings/temperature_checks.hpp"
#include "terms/checks.hpp"
#include "terms/relation.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

/// Whether a query has no part in a tile: then its r may be anything, as that of padding is, and a product of NaN is
/// NaN even with a gradient of 0.
template <class A>
bool is_apart(const Tile<A>& tile, const A* d_s, Index row) {
  return std::all_of(d_s + row * tile.stride, d_s + row * tile.stride + tile.cols, [](A x) { return x == 0; });
}

void check_spec(const RelativeLogits& spec) {
  if (spec.extent < 1 || spec.extent > max_position) {
    throw RangeError(concat("[RelativeLogitsTerm] extent: must be from 1 to 2^31, got ", spec.extent));
  }
  if (spec.clip && !(std::isfinite(*spec.clip) && *spec.clip > 0)) {
    throw RangeError(concat("[RelativeLogitsTerm] clip: must be above 0 and finite, or left out, got ", *spec.clip));
  }
  if (!spec.temperature) return;
  check_temperature("RelativeLogitsTerm", *spec.temperature);
  if (spec.temperature->form == TemperatureForm::learned) {
    throw RangeError("[RelativeLogitsTerm] temperature: must be stepped, clamped or power, got learned");
  }
}

}  // namespace

template <class A>
RelativeLogitsTerm<A>::RelativeLogitsTerm(const RelativeLogits& spec, Param<A, 3> table, Param<A, 4> r)
    : spec_(spec), table_(table), r_(r) {
  check_spec(spec);
  const std::array<Index, 3> wanted{table.value.shape[0], spec.extent, std::max<Index>(1, table.value.shape[2])};
  check_param("RelativeLogitsTerm", "table", table, wanted, "[heads or 1, extent, rank]");
  check_features("RelativeLogitsTerm", "table", table);
  const std::array<Index, 4>& shape = r.value.shape;
  check_param("RelativeLogitsTerm", "r", r, {shape[0], shape[1], shape[2], wanted[2]},
              "[batch or 1, heads, q_len, rank]");
  // Row δ is for the distance −δ, key minus query.
  const IndexMap by_distance{
      .zero = 0, .step = -1, .least = 1 - spec.extent, .most = 0, .from = 1 - spec.extent, .to = 0};
  terms_.add({.scale = RowsByIndex<A>::Scale::none,
              .table = table.value,
              .map = by_distance,
              .table_block = grad_block(0, 0).offsets()[0]});
}

template <class A>
void RelativeLogitsTerm<A>::check(const char* function, const Problem& problem) const {
  if (table_.value.shape[0] != 1 && table_.value.shape[0] != problem.heads) {
    throw ShapeError(concat("[", function,
                            "] RelativeLogits.table: must be one table for all heads or one for each of ",
                            problem.heads, ", got ", table_.value.shape[0]));
  }
  const Index batch = r_.value.shape[0] == 1 ? 1 : problem.batch;
  check_param(function, "RelativeLogits.r", r_, {batch, problem.heads, problem.q_len, rank()},
              "[batch or 1, heads, q_len, rank]");
  check_whole(function, "RelativeLogits", problem);
  if (spec_.temperature) check_places(function, *spec_.temperature, problem);
}

template <class A>
const A* RelativeLogitsTerm<A>::states(const Tile<A>& tile, Index row) const {
  return &r_.value(r_.value.shape[0] == 1 ? 0 : tile.batch, tile.head, tile.row + row, 0);
}

template <class A>
auto RelativeLogitsTerm<A>::factor(const Tile<A>& tile, Index row) const -> Factor {
  const double temperature = spec_.temperature ? spec_.temperature->factor(tile.q_positions[0][row]) : 1;
  if (!spec_.clip) return {temperature, 0};
  const A* r = states(tile, row);
  double squares = 0;
  for (Index u = 0; u < rank(); ++u) {
    const auto number = static_cast<double>(r[u * r_.value.stride[3]]);
    squares += number * number;
  }
  const double norm = std::sqrt(squares) + RelativeLogits::clip_epsilon;
  if (norm <= *spec_.clip) return {temperature, 0};
  return {temperature * *spec_.clip / norm, norm};
}

template <class A>
Tile<A> RelativeLogitsTerm<A>::mixed(const Tile<A>& tile) const {
  A* to = tile.scratch;
  for (Index i = 0; i < tile.rows; ++i, to += rank()) {
    const double by = factor(tile, i).all;
    const A* r = states(tile, i);
    for (Index u = 0; u < rank(); ++u) {
      to[u] = static_cast<A>(by * static_cast<double>(r[u * r_.value.stride[3]]));
    }
  }
  Tile<A> of_r = tile;
  of_r.dim = of_r.q_stride = rank();
  of_r.q = tile.scratch;
  of_r.scratch = tile.scratch + 2 * tile.rows * rank();
  return of_r;
}

template <class A>
void RelativeLogitsTerm<A>::unmix(const Tile<A>& tile, Index row, const A* d_mixed, A* d_r) const {
  const auto [by, norm] = factor(tile, row);
  const A* r = states(tile, row);
  const Index step = r_.value.stride[3];
  double along = 0;  // what the clip takes off: the part of the gradient that would lengthen r
  if (norm > 0) {
    for (Index u = 0; u < rank(); ++u) along += static_cast<double>(r[u * step]) * static_cast<double>(d_mixed[u]);
    along /= norm * (norm - RelativeLogits::clip_epsilon);
  }
  for (Index u = 0; u < rank(); ++u) {
    d_r[u] += static_cast<A>(by * (static_cast<double>(d_mixed[u]) - along * static_cast<double>(r[u * step])));
  }
}

template <class A>
void RelativeLogitsTerm<A>::add_scores(const Tile<A>& tile, A* s) const {
  relation::add_scores(terms_, mixed(tile), s);
}

template <class A>
void RelativeLogitsTerm<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (grads.params == nullptr) return;
  const Tile<A> of_r = mixed(tile);
  for (Index i = 0; i < tile.rows; ++i) {
    if (is_apart(tile, d_s, i)) std::fill_n(tile.scratch + i * rank(), rank(), A{0});
  }
  const auto [d_table, d_r] = grad_block(0, 0).split(grads.params);
  if (d_r == nullptr) return relation::add_score_grads(terms_, of_r, d_s, {.params = grads.params});
  A* d_mixed = tile.scratch + tile.rows * rank();
  std::fill_n(d_mixed, tile.rows * rank(), A{0});
  relation::add_score_grads(terms_, of_r, d_s, {.params = grads.params, .d_q = d_mixed, .d_q_stride = rank()});
  for (Index i = 0; i < tile.rows; ++i) {
    if (!is_apart(tile, d_s, i)) unmix(tile, i, d_mixed + i * rank(), d_r + (tile.row + i) * rank());
  }
}

template <class A>
Index RelativeLogitsTerm<A>::scratch_size(Index rows, Index cols) const {
  return 2 * rows * rank() + relation::scratch_size(terms_, rows, cols);
}

template class RelativeLogitsTerm<float>;
template class RelativeLogitsTerm<double>;

namespace {

constexpr Index example_rank = 16;

/// r of as many tokens as there are keys, the same for the same token; and a drawn table.
inspect::Specimen logits_example(const ExampleSize& size, const RelativeLogits& spec) {
  inspect::Specimen specimen{.options = size, .causal = true};
  const Index extent = spec.extent;
  const auto table = std::make_shared<const inspect::Array>(inspect::Normal(size.seed).array(1, extent, example_rank));
  specimen.parameters = specimen.held = extent * example_rank;
  specimen.score_terms = [spec, size, table, extent](const Positions& q_positions, const Positions& k_positions,
                                                     View<const double, 4> q, View<const double, 4> k,
                                                     View<double, 4> scores, const Executor& on) {
    const Index q_len = q.shape[2], before = std::max(k.shape[2], q_len) - q_len;
    inspect::Array r(size.heads, q_len, example_rank);
    for (Index h = 0; h < size.heads; ++h) {
      inspect::Normal draw(size.seed + 1000 * static_cast<std::uint64_t>(h + 1));
      for (Index t = 0; t < before + q_len; ++t) {
        for (Index u = 0; u < example_rank; ++u) {
          const double number = draw() / 4;
          if (t >= before) r(h, t - before, u) = number;
        }
      }
    }
    const RelativeLogitsTerm<double> term(spec, {dense<const double>(table->values.data(), 1, extent, example_rank)},
                                          {dense<const double>(r.values.data(), 1, size.heads, q_len, example_rank)});
    bearing::add_scores(with(term), {.q_positions = q_positions, .k_positions = k_positions}, scores, on);
  };
  return specimen;
}

}  // namespace

void describe_relative_logits(Describer& to) {
  to.home("relative_logits", {"Thinking Machines Lab", 2026, "thinkingmachines/Inkling"});
  to.record("RelativeLogits", RelativeLogits{},
            "Relative logits made by content: RelativeLogitsTerm.\n\n"
            "    s_ij <- s_ij + tau(m) clip(r_i) table[m - n]      for 0 <= m - n < extent\n"
            "    clip(r) = r min(1, C / (|r| + 1e-6))\n\n"
            "Thinking Machines Lab 2026, Inkling and Inkling 2.")
      .member("extent", &RelativeLogits::extent,
              "Distances from 0 to extent - 1 have a row of the table: rel_extent, or the window's size.")
      .member("clip", &RelativeLogits::clip, "The greatest norm of r, Inkling 2's 8 (rel_l2_clip_threshold).")
      .member("temperature", &RelativeLogits::temperature,
              "What the bias is multiplied by, as the queries are (log_scaling_n_floor, log_scaling_alpha).")
      .constant("clip_epsilon", RelativeLogits::clip_epsilon, "What is added to the norm of r before the clip.");
  to.encoding<RelativeLogits, 3, 4>(
        "RelativeLogitsTerm",
        "Relative logits made by content: each query mixes learned profiles over the distance.\n\n"
        "    s_ij <- s_ij + tau(m) clip(r_i) table[m - n]      for 0 <= m - n < extent\n"
        "    clip(r) = r min(1, C / (|r| + 1e-6))\n\n"
        "table [extent, rank], or one for each head: the transpose of the models' rel_logits_proj.proj. r [batch or "
        "1,\n"
        "heads, q_len, rank], by the queries' indices, which the model computes from its input. Positions are whole\n"
        "numbers. Keys after the query get 0 and are meant to be masked.\n\n"
        "Thinking Machines Lab 2026, Inkling and Inkling 2.",
        {Parameter("table", {or_one("heads"), "extent", any("rank")},
                   "A profile over the distance for each number of r.")
             .starts(normal(0.02))
             .draws(normal(1)),
         Parameter("r", {or_one("batch"), "heads", "q_len", any("rank")}, "How much of each profile a query takes.")
             .computed()
             .starts(constant(0))
             .draws(normal(1))},
        make_with_spec<RelativeLogitsTerm>)
      .form(Form::per_query)
      .whole_positions()
      .causal()
      .called("relative_logits", "relative logits made by content", "queries mix learned profiles over the distance",
              [](const ExampleSize&) { return RelativeLogits{}; })
      .also({"inkling"})
      .example(logits_example);
}

}  // namespace bearing
