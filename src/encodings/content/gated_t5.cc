#include <algorithm>
#include <bearing/encodings/gated_t5.hpp>
#include <bearing/scores.hpp>
#include <memory>

#include "describe/describer.hpp"
#include "encodings/distance/t5_tiles.hpp"

namespace bearing {

template <class A>
GatedT5Bias<A>::GatedT5Bias(const GatedT5& spec, Param<A, 2> table, Param<A, 3> gate)
    : buckets_(spec.t5()), table_(table), gate_(gate) {}

template <class A>
void GatedT5Bias<A>::check(const char* function, const Problem& problem) const {
  check_present(function, "GatedT5", !buckets_.thresholds().empty());
  check_param(function, "GatedT5.table", table_, {buckets_.spec().buckets, problem.heads}, "[buckets, heads]");
  const Index batch = gate_.value.shape[0] == 1 ? 1 : problem.batch;
  check_param(function, "GatedT5.gate", gate_, {batch, problem.heads, problem.q_len}, "[batch or 1, heads, q_len]");
  check_whole(function, "GatedT5", problem);
}

template <class A>
const A* GatedT5Bias<A>::gates(const Tile<A>& tile) const {
  return &gate_.value(gate_.value.shape[0] == 1 ? 0 : tile.batch, tile.head, tile.row);
}

template <class A>
void GatedT5Bias<A>::add_scores(const Tile<A>& tile, A* s) const {
  const A* gate = gates(tile);
  const Index step = gate_.value.stride[2];
  add_t5(
      T5Rows<A>(buckets_, {}, table_.value, tile), tile, [&](Index i) { return gate[i * step]; }, s);
}

template <class A>
void GatedT5Bias<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (grads.params == nullptr) return;
  const A* gate = gates(tile);
  const Index step = gate_.value.stride[2];
  T5Rows<A> rows(buckets_, {}, table_.value, tile);
  if (gate_.grad.data != nullptr) {
    A* d_gate = grads.params + table_size() + tile.row;
    for (Index i = 0; i < tile.rows; ++i) {
      const A *row = rows.row(i), *d = d_s + i * tile.stride;
      double sum = 0;
      for (Index j = 0; j < tile.cols; ++j) sum += static_cast<double>(d[j]) * static_cast<double>(row[j]);
      d_gate[i] += static_cast<A>(sum);
    }
  }
  if (table_.grad.data != nullptr)
    rows.add_grads(
        d_s, [&](Index i) { return gate[i * step]; }, grads.params);
}

template <class A>
void GatedT5Bias<A>::collect(Index batch, Index head, const A* d_params) const {
  for (Index u = 0; u < table_size(); ++u) table_.grad(u, head) += d_params[u];
  if (gate_.grad.data == nullptr) return;
  const Index b = gate_.grad.shape[0] == 1 ? 0 : batch;
  for (Index i = 0; i < gate_.grad.shape[2]; ++i) gate_.grad(b, head, i) += d_params[table_size() + i];
}

template class GatedT5Bias<float>;
template class GatedT5Bias<double>;

namespace {

/// Gates of as many tokens as there are keys, the same for the same token, from 1 to 2; and a drawn table.
inspect::Specimen gated_example(const ExampleSize& size, const GatedT5& spec) {
  inspect::Specimen specimen{.options = size, .causal = spec.direction == T5Direction::causal};
  const auto table =
      std::make_shared<const inspect::Array>(inspect::Normal(size.seed).array(1, spec.buckets, size.heads));
  specimen.parameters = specimen.held = spec.buckets * size.heads;
  specimen.score_terms = [spec, size, table](const Positions& q_positions, const Positions& k_positions,
                                             View<const double, 4> q, View<const double, 4> k, View<double, 4> scores,
                                             const Executor& on) {
    const Index time = std::max(k.shape[2], q.shape[2]), q_len = q.shape[2];
    inspect::Array gate(1, size.heads, q_len);
    for (Index h = 0; h < size.heads; ++h) {
      inspect::Normal draw(size.seed + 1000 * static_cast<std::uint64_t>(h + 1));
      for (Index t = 0; t < time; ++t) {
        const double number = 1 + draw.uniform();
        if (t >= time - q_len) gate(0, h, t - (time - q_len)) = number;
      }
    }
    const GatedT5Bias<double> encoding(spec, {dense<const double>(table->values.data(), spec.buckets, size.heads)},
                                       {dense<const double>(gate.values.data(), 1, size.heads, q_len)});
    bearing::add_scores(with(encoding), {.q_positions = q_positions, .k_positions = k_positions}, scores, on);
  };
  return specimen;
}

}  // namespace

void describe_wavlm_gate(Describer& to);  // beside the formula, in wavlm_gate.cc

void describe_gated_t5(Describer& to) {
  to.home("gated_t5", {"Chen et al.", 2022, "arXiv 2110.13900"});
  to.record("GatedT5", GatedT5{.direction = T5Direction::bidirectional},
            "T5's bias with a gate for each query and head: GatedT5Bias.\n\n"
            "    s_ij <- s_ij + gate[b, h, i] table[bucket(n - m), h]\n\n"
            "Chen et al. 2022, arXiv 2110.13900 (WavLM).")
      .member("buckets", &GatedT5::buckets, "Buckets of both sides together (a config's num_buckets).")
      .member("max_distance", &GatedT5::max_distance,
              "Keys so many tokens away and further share the last bucket (max_bucket_distance).")
      .member("direction", &GatedT5::direction, "'bidirectional' in WavLM.");
  to.encoding<GatedT5, 2, 3>(
        "GatedT5Bias",
        "T5's bias with a gate that the model computes for each query and head.\n\n"
        "    s_ij <- s_ij + gate[b, h, i] table[bucket(n - m), h]\n\n"
        "table [buckets, heads]; gate [batch or 1, heads, q_len], by the queries' indices. In WavLM x is the layer's "
        "input,\n"
        "cut into heads, and r and s are the sigmoids of two sums, of the first and of the last four of "
        "gru_rel_pos_linear(x):\n\n"
        "    gate = r (s gru_rel_pos_const - 1) + 2\n\n"
        "Positions are whole numbers.\n\n"
        "Chen et al. 2022, arXiv 2110.13900.",
        {Parameter("table", {"buckets", "heads"}, "A number for each bucket and head.")
             .starts(constant(0))
             .draws(normal(1)),
         Parameter("gate", {or_one("batch"), "heads", "q_len"}, "The factor of each query's biases.")
             .computed()
             .starts(constant(1))
             .draws(uniform(0.5, 2))},
        make_with_spec<GatedT5Bias>)
      .form(Form::per_query)
      .whole_positions()
      .causal([](const GatedT5& spec) { return spec.direction == T5Direction::causal; })
      .both_sides([](const GatedT5& spec) { return spec.direction == T5Direction::bidirectional; })
      .called("gated_t5", "T5 buckets with a gate", "a learned bias per range of distance, times the query's gate",
              [](const ExampleSize&) { return GatedT5{.direction = T5Direction::bidirectional}; })
      .also({"wavlm"})
      .example(gated_example);
  describe_wavlm_gate(to);
}

}  // namespace bearing
