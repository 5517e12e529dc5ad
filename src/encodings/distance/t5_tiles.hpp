#pragma once

#include <algorithm>
#include <bearing/encodings/t5.hpp>

#include "terms/checks.hpp"

// T5's buckets over a tile whose rows have factors: what T5 on any axis and gated T5 share.

namespace bearing {

/// Positions of one axis, and what their differences are multiplied with before they are cut to whole numbers.
struct T5Distances {
  std::size_t axis = 0;
  double multiplier = 1;

  template <class A>
  Index operator()(const Tile<A>& tile, Index i, Index j) const {
    // Every bucket reaches up to the same far distance, which whole numbers hold.
    constexpr double far = 0x1p62;
    const double distance = multiplier * (tile.k_positions[axis][j] - tile.q_positions[axis][i]);
    return static_cast<Index>(std::clamp(distance, -far, far));
  }
  /// Whether a tile's distances are those of its diagonals.
  template <class A>
  bool by_diagonal(const Tile<A>& tile) const {
    return tile.consecutive && axis == 0 && multiplier == 1;
  }
};

/// The table's numbers for a tile's scores, row by row, in the tile's scratch of [2 · (rows + cols)].
template <class A>
class T5Rows {
 public:
  T5Rows(const T5Buckets& buckets, const T5Distances& distances, View<const A, 2> table, const Tile<A>& tile)
      : buckets_(buckets),
        distances_(distances),
        table_(table),
        tile_(tile),
        by_diagonal_(distances.by_diagonal(tile)) {
    if (!by_diagonal_) return;
    for (Index x = 0; x < diagonals(); ++x) tile.scratch[x] = table(buckets(diagonal(x)), tile.head);
  }

  /// [cols] the numbers of row i.
  const A* row(Index i) {
    if (by_diagonal_) return tile_.scratch + tile_.rows - 1 - i;
    for (Index j = 0; j < tile_.cols; ++j) tile_.scratch[j] = table_(bucket(i, j), tile_.head);
    return tile_.scratch;
  }

  /// d_table [buckets] += Σ factor(i) · d_s_ij of the scores in each bucket.
  template <class Factor>
  void add_grads(const A* d_s, const Factor& factor, A* d_table) {
    A* sums = tile_.scratch + tile_.rows + tile_.cols;
    if (by_diagonal_) std::fill_n(sums, diagonals(), A{0});
    for (Index i = 0; i < tile_.rows; ++i) {
      const A* d = d_s + i * tile_.stride;
      const A by = factor(i);
      if (by_diagonal_) {
        A* to = sums + tile_.rows - 1 - i;
        for (Index j = 0; j < tile_.cols; ++j) to[j] += by * d[j];
      } else {
        for (Index j = 0; j < tile_.cols; ++j) d_table[bucket(i, j)] += by * d[j];
      }
    }
    for (Index x = 0; by_diagonal_ && x < diagonals(); ++x) d_table[buckets_(diagonal(x))] += sums[x];
  }

 private:
  Index bucket(Index i, Index j) const { return buckets_(distances_(tile_, i, j)); }
  Index diagonals() const { return tile_.rows == 0 ? 0 : tile_.rows + tile_.cols - 1; }
  /// The distance of a diagonal: the last row's first column has the first.
  Index diagonal(Index x) const { return distances_(tile_, tile_.rows - 1, 0) + x; }

  const T5Buckets& buckets_;
  T5Distances distances_;
  View<const A, 2> table_;
  const Tile<A>& tile_;
  bool by_diagonal_;
};

/// s_ij += factor(i) · the table's number.
template <class A, class Factor>
void add_t5(T5Rows<A> rows, const Tile<A>& tile, const Factor& factor, A* s) {
  for (Index i = 0; i < tile.rows; ++i) {
    const A* row = rows.row(i);
    const A by = factor(i);
    for (Index j = 0; j < tile.cols; ++j) s[i * tile.stride + j] += by * row[j];
  }
}

}  // namespace bearing
