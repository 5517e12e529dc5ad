#include <bearing/encodings/gated_t5.hpp>

#include "encodings/t5_tiles.hpp"

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

}  // namespace bearing
