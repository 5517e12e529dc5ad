#pragma once

#include <bearing/rows_by_index.hpp>
#include <bearing/term_list.hpp>

// Operands times rows picked by index, on a tile: the forward and backward of every encoding with rows_by_index(). A
// tile is cut into parts that meet few rows each: the products of a part's operands with these rows are one matrix
// product; then every score takes its own product, by diagonal where tokens are consecutive.

namespace bearing::relation {

/// s += all terms.
template <class A>
void add_scores(const RowsByIndexList<A>& terms, const Tile<A>& tile, A* s);

/// Their gradients.
template <class A>
void add_score_grads(const RowsByIndexList<A>& terms, const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads);

/// o_i += Σ_j p_ij table[row(i, j)]
template <class A>
void add_values(const RowsByIndexList<A>& terms, const Tile<A>& tile, const A* p, Index value_dim, A* o,
                Index o_stride);

/// Its gradients: d_p, unless null, and the table's.
template <class A>
void add_value_grads(const RowsByIndexList<A>& terms, const Tile<A>& tile, const A* p, Index value_dim, const A* d_o,
                     Index d_o_stride, A* d_p, const TileGrads<A>& grads);

/// What these need of a tile's scratch.
template <class A>
Index scratch_size(const RowsByIndexList<A>& terms, Index rows, Index cols);

/// A table that all heads share, as a table of one head.
template <class T>
View<T, 3> shared(const View<T, 2>& table) {
  return batch_of_one(table);
}
/// Tables [rows, heads, dim] as [heads, rows, dim].
template <class T>
View<T, 3> by_head(const View<T, 3>& tables) {
  const auto& [data, shape, stride, device] = tables;
  return {data, {shape[1], shape[0], shape[2]}, {stride[1], stride[0], stride[2]}, device};
}
/// Vectors [heads, dim] as tables of one row.
template <class T>
View<T, 3> one_row(const View<T, 2>& vectors) {
  const auto& [data, shape, stride, device] = vectors;
  return {data, {shape[0], 1, shape[1]}, {stride[0], 0, stride[1]}, device};
}

/// Smallest and greatest distance, key minus query, that a sequence's tokens have.
struct Reach {
  Index least, most;
};
Reach reach(const Problem& problem, Index b);

}  // namespace bearing::relation
