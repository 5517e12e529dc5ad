#pragma once

#include <algorithm>
#include <bearing/term_list.hpp>

#include "terms/checks.hpp"
#include "terms/tile_kernels.hpp"

// What Shaw, BERT's relative keys, Transformer-XL and XLNet share: vectors indexed by distance, that meet queries, keys
// or values. A tile is cut into runs of consecutive tokens (one run, nearly always); a run multiplies with the vectors
// of the distances that it meets, rows + cols − 1 at most, and gathers the products along diagonals.

namespace bearing::relation {

/// One head's vectors: those of the distances least … most, the one of distance D at first + (D − least)·step. Smaller
/// and greater distances count as the ends.
template <class T>
struct Vectors {
  T* first = nullptr;
  Index step = 0, least = 0, most = -1;

  T* at(Index distance) const { return first + (distance - least) * step; }
};

enum class Order { key_minus_query, query_minus_key };

/// Rows of a table [rows, dim], in rising order of the distance or in falling order.
template <class T>
Vectors<T> vectors(View<T, 2> table, Index least, Index most, Order order) {
  if (order == Order::key_minus_query || table.data == nullptr) return {table.data, table.stride[0], least, most};
  return {table.data + (table.shape[0] - 1) * table.stride[0], -table.stride[0], least, most};
}

/// A head's table of [heads or 1, rows, dim].
template <class T>
View<T, 2> table_of(View<T, 3> tables, Index head) {
  const Index offset = tables.shape[0] == 1 ? 0 : head * tables.stride[0];
  return {tables.data + offset, {tables.shape[1], tables.shape[2]}, {tables.stride[1], tables.stride[2]}};
}

/// Adds a block of a head's gradients [rows, dim].
template <class A>
void collect_rows(const A* block, View<A, 2> grad) {
  for (Index row = 0; row < grad.shape[0]; ++row) {
    for (Index d = 0; d < grad.shape[1]; ++d) grad(row, d) += block[row * grad.shape[1] + d];
  }
}

/// A part of a tile, of consecutive tokens both ways, whose first element is (i, j) of the tile.
template <class A>
struct Run {
  Tile<A> tile;
  Index i, j;
  Index distance;  ///< of its first key from its first query
};

/// body(run) for all runs of a tile, row by row.
template <class A, class Body>
void over_runs(const Tile<A>& tile, const Body& body) {
  const auto length = [&](const double* at, Index first, Index n) {
    if (tile.consecutive) return n - first;
    Index end = first + 1;
    while (end < n && at[end] - at[end - 1] == 1) ++end;
    return end - first;
  };
  const double *q_positions = tile.q_positions[0], *k_positions = tile.k_positions[0];
  for (Index i = 0; i < tile.rows;) {
    const Index rows = length(q_positions, i, tile.rows);
    for (Index j = 0; j < tile.cols;) {
      Run<A> run{tile, i, j, static_cast<Index>(k_positions[j] - q_positions[i])};
      run.tile.row += i, run.tile.col += j;
      run.tile.rows = rows, run.tile.cols = length(k_positions, j, tile.cols);
      if (tile.q != nullptr) run.tile.q += i * tile.q_stride, run.tile.k += j * tile.k_stride;
      body(run);
      j += run.tile.cols;
    }
    i += rows;
  }
}

/// The vectors that a run meets: `band.width` of them from distance `least` on. Later keys are those after the query.
struct Meeting {
  tiles::Band band;
  Index least;
};
enum class LaterKeys { met, left_out };

template <class A, class T>
Meeting meet(const Run<A>& run, const Vectors<T>& vectors, LaterKeys later = LaterKeys::met) {
  const Index lowest = run.distance - (run.tile.rows - 1);
  Index highest = run.distance + run.tile.cols - 1;
  if (later == LaterKeys::left_out) highest = std::min<Index>(highest, 0);
  const auto within = [&](Index distance) { return std::max(vectors.least, std::min(distance, vectors.most)); };
  const Index least = within(lowest), most = within(highest);
  return {{least - lowest, std::max<Index>(most - least + 1, 1), highest - lowest + 1}, least};
}

/// Room for the products of a tile's queries (or keys) with the vectors that it meets.
inline Index product_size(Index rows, Index cols, Index vectors) { return rows * std::min(rows + cols - 1, vectors); }

/// Rows that enter a product: queries, or keys.
template <class T>
struct Operand {
  T* data;
  Index stride;
};

/// s_ij += scale · x_i · vector(distance), x a run's queries.
template <class A>
void add_query_scores(const Run<A>& run, const Meeting& met, Operand<const A> x, const Vectors<const A>& vectors, A* s,
                      A* room) {
  const Tile<A>& tile = run.tile;
  const Index width = met.band.width;
  tiles::multiply_nt(tile.rows, width, tile.dim, tile.scale, x.data, x.stride, vectors.at(met.least), vectors.step,
                     room, width);
  tiles::add_band(tile.rows, tile.cols, met.band, room, width, s, tile.stride);
}

/// Its gradients: d_x_i += scale Σ_j dS_ij vector, d_vector += scale Σ dS_ij x_i; either may be null.
template <class A>
void add_query_score_grads(const Run<A>& run, const Meeting& met, Operand<const A> x, const Vectors<const A>& vectors,
                           const A* d_s, Operand<A> d_x, const Vectors<A>& d_vectors, A* room) {
  const Tile<A>& tile = run.tile;
  const Index width = met.band.width;
  std::fill_n(room, tile.rows * width, A{0});
  tiles::scatter_band(tile.rows, tile.cols, met.band, d_s, tile.stride, room, width);
  if (d_x.data != nullptr) {
    tiles::add_multiply_nn(tile.rows, width, tile.dim, tile.scale, room, width, vectors.at(met.least), vectors.step,
                           d_x.data, d_x.stride);
  }
  if (d_vectors.first != nullptr) {
    tiles::add_multiply_tn(tile.rows, width, tile.dim, tile.scale, room, width, x.data, x.stride,
                           d_vectors.at(met.least), d_vectors.step);
  }
}

/// Smallest and greatest distance, key minus query, that a sequence's tokens have.
struct Reach {
  Index least, most;
};
Reach reach(const Problem& problem, Index b);

}  // namespace bearing::relation
