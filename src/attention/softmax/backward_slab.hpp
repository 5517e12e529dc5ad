#pragma once

#include <vector>

#include "attention/softmax/backward_kernels.hpp"
#include "attention/softmax/backward_plan.hpp"

namespace bearing {

/// Rows of the block of queries that are worked on at once, and the keys that they meet, from a panel's first on.
struct Slab {
  Columns rows, cols;
};

/// A worker's room for what is computed of a slab: probabilities and their gradients. A row and a column of the slab
/// are counted as its block's rows are, and as the head's keys.
template <class A>
class SlabScores {
 public:
  /// Throws std::bad_alloc; nothing below does.
  explicit SlabScores(const BackwardPlan<A>& plan);

  void open(const Slab& slab) { slab_ = slab; }
  const Slab& slab() const { return slab_; }
  Index stride() const { return stride_; }
  A* s(Index row, Index col) { return s_.data() + at(row, col); }
  A* d_p(Index row, Index col) { return d_p_.data() + at(row, col); }
  /// The slope of the cap; null where there is none.
  A* slope(Index row, Index col) { return slopes_.empty() ? nullptr : slopes_.data() + at(row, col); }
  /// What the rows from `row` on see of the slab, to be filled in.
  RowRuns& seen() { return seen_; }

 private:
  Index at(Index row, Index col) const { return (row - slab_.rows.first) * stride_ + col - slab_.cols.first; }

  Slab slab_;
  Index stride_;
  std::vector<A> s_, d_p_, slopes_;
  RowRuns seen_;
};

/// Gradients of biases by distance: a slab's, summed along its diagonals, and a head's.
template <class A>
class DiagonalGrads {
 public:
  /// Throws std::bad_alloc; nothing below does.
  explicit DiagonalGrads(BackwardPlan<A>& plan);

  /// The sums of a head start at 0, if they are wanted …
  void open(Index b, bool wanted);
  bool wanted() const { return wanted_; }
  /// … and become gradients of parameters.
  void close(Index b, Index h);
  /// A slab's sums start at 0, and come to those of the head; its block starts at query `row`.
  void open_slab();
  void close_slab(const Slab& slab, Index row);
  /// Row i and column j of the slab add to [j − i], both counted from these rows on and the slab's first column.
  A* at(const Slab& slab, Index row) { return slab_.data() + (slab.rows.end - 1 - row); }

 private:
  BackwardPlan<A>* plan_;
  bool wanted_ = false;
  std::vector<A> slab_, head_;
};

}  // namespace bearing
