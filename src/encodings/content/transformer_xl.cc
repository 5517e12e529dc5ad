#include <algorithm>
#include <bearing/encodings/transformer_xl.hpp>
#include <bearing/error.hpp>
#include <bearing/scores.hpp>
#include <utility>

#include "describe/describer.hpp"
#include "describe/tensors.hpp"
#include "encodings/content/transformer_xl_words.hpp"
#include "terms/checks.hpp"
#include "terms/relation.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

template <class A>
TransformerXLTerm<A>::TransformerXLTerm(const TransformerXL& xl, Param<A, 3> r, Param<A, 2> u, Param<A, 2> v)
    : xl_(xl), r_(r), u_(u), v_(v) {
  if (xl.clamp_len < 0) {
    throw RangeError(concat("[TransformerXLTerm] clamp_len: must be at least 0 (none), got ", xl.clamp_len));
  }
  if (xl.first_offset < -max_position || xl.first_offset > max_position) {
    throw RangeError(concat("[TransformerXLTerm] first_offset: must be within ±2^31, got ", xl.first_offset));
  }
  if (r.value.shape[1] < 1) {
    throw ShapeError(concat("[TransformerXLTerm] r: must be [heads, offsets, dim] with at least one offset, got shape ",
                            r.value.shape));
  }
  const std::array<Index, 2> wanted{r.value.shape[0], r.value.shape[2]};
  if (u.value.shape != wanted || v.value.shape != wanted) {
    throw ShapeError(concat("[TransformerXLTerm] u, v: must be [heads, dim] = ", wanted, " like r, got shapes ",
                            u.value.shape, " and ", v.value.shape));
  }
  check_tensor("TransformerXLTerm", "r", r.value);
  check_tensor("TransformerXLTerm", "u", u.value);
  check_tensor("TransformerXLTerm", "v", v.value);
  check_features("TransformerXLTerm", "r", r);
  check_features("TransformerXLTerm", "u", u);
  check_features("TransformerXLTerm", "v", v);
  const auto [in_r, in_u, in_v] = grad_block(0, 0).offsets();
  const Index last = xl.direction == TransformerXLDirection::causal ? 0 : IndexMap::farthest;  // a distance
  // Row o is for the distance −first_offset − o.
  IndexMap by_offset{.zero = -xl.first_offset,
                     .step = -1,
                     .least = -xl.first_offset - r.value.shape[1] + 1,
                     .most = -xl.first_offset,
                     .to = last};
  if (xl.clamp_len > 0) {
    by_offset.least = std::max(by_offset.least, -xl.clamp_len);
    by_offset.most = std::min(by_offset.most, xl.clamp_len);
  }
  terms_.add({.table = r.value, .shift = v.value, .map = by_offset, .table_block = in_r, .shift_block = in_v});
  // u is a table of one row, which all keys meet.
  terms_.add({.operand = Side::key,
              .table = relation::one_row(u.value),
              .map = {.least = 0, .most = 0, .to = last},
              .table_block = in_u});
}

template <class A>
void TransformerXLTerm<A>::check(const char* function, const Problem& problem) const {
  if (r_.value.shape[0] != problem.heads) {
    throw ShapeError(
        concat("[", function, "] TransformerXL.r: must be for ", problem.heads, " heads, got ", r_.value.shape[0]));
  }
  check_dim(function, "TransformerXL.r", r_.value.shape[2], problem);
  check_whole(function, "TransformerXL", problem);
  const Index first = xl_.first_offset, last = first + r_.value.shape[1] - 1;
  for (Index b = 0; b < problem.batch && problem.q_len > 0 && problem.k_len > 0; ++b) {
    auto [least, most] = relation::reach(problem, b);
    if (xl_.direction == TransformerXLDirection::causal) most = std::min<Index>(most, 0);
    if (least > most) continue;  // all keys come after all queries
    if (xl_.clamp_len > 0) {
      least = std::clamp(least, -xl_.clamp_len, xl_.clamp_len);
      most = std::clamp(most, -xl_.clamp_len, xl_.clamp_len);
    }
    if (-most < first || -least > last) {
      const char* way = first == 0 && xl_.direction == TransformerXLDirection::bidirectional
                            ? " (for keys on both sides, first_offset = 1 - time, and r has 2 time - 1 rows)"
                            : "";
      throw RangeError(concat("[", function,
                              "] q_positions, k_positions: must meet offsets that TransformerXL.r has rows for, ",
                              first, " to ", last, ", got ", -most, " to ", -least, way));
    }
  }
}

template <class A>
void TransformerXLTerm<A>::add_scores(const Tile<A>& tile, A* s) const {
  relation::add_scores(rows_by_index(), tile, s);
}

template <class A>
void TransformerXLTerm<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  relation::add_score_grads(rows_by_index(), tile, d_s, grads);
}

template <class A>
Index TransformerXLTerm<A>::scratch_size(Index rows, Index cols) const {
  return relation::scratch_size(rows_by_index(), rows, cols);
}

template class TransformerXLTerm<float>;
template class TransformerXLTerm<double>;

namespace {

Tensor relative_rows(const TransformerXL& xl, const Tensor& w_r, Index heads, Index offsets, double base) {
  if (heads < 1) throw RangeError(text::concat("[transformer_xl_relative] heads: must be at least 1, got ", heads));
  return describe::in_arithmetic_of("[transformer_xl_relative] w_r", w_r, [&]<class A>() {
    const View<const A, 2> from = describe::view_of<A, 2>("[transformer_xl_relative] w_r", w_r);
    describe::NewTensor<A, 3> r({heads, std::max(offsets, Index{0}), from.shape[0] / heads});
    transformer_xl_relative<A>(xl, from, r.view, base);
    return r.tensor;
  });
}

Tensor relative_rows_backward(const TransformerXL& xl, const Tensor& d_r, Index d_model, double base) {
  return describe::in_arithmetic_of("[transformer_xl_relative_backward] d_r", d_r, [&]<class A>() {
    const View<const A, 3> from = describe::view_of<A, 3>("[transformer_xl_relative_backward] d_r", d_r);
    describe::NewTensor<A, 2> d_w_r({from.shape[0] * from.shape[2], std::max(d_model, Index{0})});
    transformer_xl_relative_backward<A>(xl, from, d_w_r.view, base);
    return d_w_r.tensor;
  });
}

bool is_causal(const TransformerXL& xl) { return xl.direction == TransformerXLDirection::causal; }

/// The spec of r for the distances of a call: r begins with the first offset.
TransformerXL for_distances(TransformerXL xl, const DistanceRange& met) {
  xl.first_offset = is_causal(xl) ? std::max<Index>(0, -met.most) : -met.most;
  return xl;
}

/// Of r, from the first offset to the last.
Index offsets_of(const TransformerXL& xl, const DistanceRange& met) {
  return std::max<Index>(1, -met.least - xl.first_offset + 1);
}

TransformerXL spec_for(const ComputedCall& call) {
  return for_distances(*call.spec.as<TransformerXL>(), call.distances);
}

/// r from w_r.
ComputedInfo computed_rows() {
  const auto heads_times_dim = [](const Record&, const Sizes& sizes) { return sizes.heads * sizes.dim; };
  return {.gives = "r",
          .from = {Parameter("w_r", {{"heads dim", heads_times_dim}, any("d_model")},
                             "The projection of the offsets' sinusoids: r_net.weight.")
                       .starts(normal(0.02))},
          .by_distance = true,
          .encoding_spec = [](const ComputedCall& call) { return Record::of(spec_for(call)); },
          .any_extent = [](const ComputedCall& call) { return offsets_of(spec_for(call), call.distances); }};
}

/// The first and the last position of a row of tokens.
std::pair<Index, Index> range_of(const Positions& at, Index time) {
  std::pair<Index, Index> range{max_position, -max_position};
  for (Index t = 0; t < time; ++t) {
    const Index position = at.integer(0, 0, t);
    range = {std::min(range.first, position), std::max(range.second, position)};
  }
  return range;
}

/// r is computed for the offsets that a call needs, as a model does. Where an encoding projects vectors of the model's
/// width, the example's model is one head wide.
inspect::Specimen xl_example(const ExampleSize& size, const TransformerXL& spec) {
  const Index heads = size.heads, dim = size.dim;
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  struct Numbers {
    std::vector<double> w_r, u, v;
  };
  const auto numbers = std::make_shared<const Numbers>(Numbers{describe::normals(heads * dim * dim, scale, size.seed),
                                                               describe::normals(heads * dim, 0.1, size.seed + 1),
                                                               describe::normals(heads * dim, 0.1, size.seed + 2)});
  inspect::Specimen specimen{.options = size, .causal = is_causal(spec)};
  specimen.parameters = specimen.held = heads * dim * (dim + 2);
  specimen.score_terms = [=](const Positions& q_positions, const Positions& k_positions, View<const double, 4> q,
                             View<const double, 4> k, View<double, 4> scores, const Executor& on) {
    const auto [q_low, q_high] = range_of(q_positions, q.shape[2]);
    const auto [k_low, k_high] = range_of(k_positions, k.shape[2]);
    const DistanceRange met{k_low - q_high, k_high - q_low};
    const TransformerXL xl = for_distances(spec, met);
    describe::NewTensor<double, 3> r({heads, offsets_of(xl, met), dim});
    transformer_xl_relative<double>(xl, dense<const double>(numbers->w_r.data(), heads * dim, dim), r.view);
    const TransformerXLTerm<double> encoding(xl, {r.view}, {dense<const double>(numbers->u.data(), heads, dim)},
                                             {dense<const double>(numbers->v.data(), heads, dim)});
    add_scores(with(encoding), {.q_positions = q_positions, .k_positions = k_positions, .q = q, .k = k, .scale = scale},
               scores, on);
  };
  return specimen;
}

}  // namespace

void describe_transformer_xl(Describer& to) {
  to.home("transformer_xl", {"Dai et al.", 2019, "arXiv 1901.02860"});
  to.record("TransformerXL", TransformerXL{},
            "Transformer-XL's relative encoding.\n\n"
            "    s_ij = scale [q_i k_j + u k_j + (q_i + v) r_{m-n}]\n"
            "    r_d = W_R [sin(d w) | cos(d w)],  w_i = base^(-2i/D)\n\n"
            "Dai, Yang, Yang, Carbonell, Le, Salakhutdinov 2019, arXiv 1901.02860.")
      .member("first_offset", &TransformerXL::first_offset,
              "The offset of r's first row, query minus key; negative if keys come after queries.")
      .member("clamp_len", &TransformerXL::clamp_len, "Offsets beyond +-clamp_len count as +-clamp_len; 0: no limit.")
      .member("direction", &TransformerXL::direction, "'causal' adds nothing to scores of keys after the query.");
  to.encoding<TransformerXL, 3, 2, 2>(
        "TransformerXLTerm",
        "What Transformer-XL adds to scale q_i k_j: its terms (b), (c) and (d).\n\n"
        "    s_ij <- s_ij + scale [u k_j + (q_i + v) r_{m-n}]\n\n"
        "r [heads, offsets, dim], row o for the offset first_offset + o, from transformer_xl_relative() or elsewhere; "
        "u, v\n"
        "[heads, dim], in the files r_w_bias and r_r_bias. Offsets are query minus key.\n\n"
        "Dai, Yang, Yang, Carbonell, Le, Salakhutdinov 2019, arXiv 1901.02860.",
        {Parameter("r", {"heads", any("offsets"), "dim"}, "The projected sinusoids of every offset.")
             .starts(normal(0.02))
             .draws(normal(1)),
         Parameter("u", {"heads", "dim"}, "Multiplied with keys in place of the query: r_w_bias.")
             .starts(normal(0.02))
             .draws(normal(1)),
         Parameter("v", {"heads", "dim"}, "Added to the query: r_r_bias.").starts(normal(0.02)).draws(normal(1))},
        make_with_spec<TransformerXLTerm>)
      .form(Form::rows_by_index)
      .whole_positions()
      .reads_content()
      .causal(is_causal)
      .both_sides([](const TransformerXL& xl) { return !is_causal(xl); })
      .computes<3, 2>(
          computed_rows(),
          []<class A>(const ComputedCall& call, const View<A, 3>& r, const Param<A, 2>& w_r) {
            transformer_xl_relative<A>(spec_for(call), w_r.value, r);
          },
          []<class A>(const ComputedCall& call, const View<const A, 3>& d_r, const Param<A, 2>& w_r) {
            transformer_xl_relative_backward<A>(spec_for(call), d_r, w_r.grad);
          })
      .called("transformer_xl", "Transformer-XL", "projected sinusoids of the distance meet queries",
              [](const ExampleSize&) { return TransformerXL{}; })
      .also({"txl"})
      .example(xl_example)
      .called("xlnet", "XLNet", "Transformer-XL's term, for keys on both sides",
              [](const ExampleSize&) { return TransformerXL{.direction = TransformerXLDirection::bidirectional}; })
      .published({"Yang et al.", 2019, "arXiv 1906.08237"})
      .page("xlnet")
      .example(xl_example);
  to.function(
      "transformer_xl_relative", relative_rows,
      {"spec", "w_r", Argument("heads").named(), Argument("offsets").named(), Argument("base", 10'000.0).named()},
      "Computes r [heads, offsets, dim] of a TransformerXLTerm: sinusoids [sin | cos] of the offsets times w_r [heads "
      "dim,\n"
      "d_model] (r_net.weight), float64 or float32.");
  to.function("transformer_xl_relative_backward", relative_rows_backward,
              {"spec", "d_r", Argument("d_model").named(), Argument("base", 10'000.0).named()},
              "Returns the gradient of w_r [heads dim, d_model], from that of r [heads, offsets, dim].");
}

}  // namespace bearing
