#pragma once

#include <algorithm>
#include <array>
#include <bearing/attention.hpp>
#include <vector>

#include "aligned.hpp"
#include "attention/shared/packed_keys.hpp"
#include "attention/shared/row_turner.hpp"
#include "attention/shared/visibility.hpp"
#include "attention/softmax/attention_call.hpp"
#include "terms/tile_work.hpp"

namespace bearing {

/// Queries and keys that are worked on at once. Columns are whole panels, and their grid starts at key 0, so that a
/// row's numbers depend on nothing but the row.
struct BlockExtents {
  Index rows, cols;
};

/// Diagonals whose biases, or their gradients, are asked for at once.
inline constexpr Index diagonals_at_once = 1024;

/// The scale in two factors: products are multiplied by the one, and logits are what is weighed times the other.
template <class A>
struct ScaleFactors {
  A products, logits;
};

/// What all workers of a call share.
template <class A>
struct AttentionPlan {
  /// Throws std::bad_alloc.
  explicit AttentionPlan(const AttentionCall<A>& of);

  /// Weighing takes the scale, which spares a pass, where scores of a sequence are products and nothing else.
  ScaleFactors<A> scale_factors(Index b) const {
    const bool alone = call.acting.size == 0 && !(call.options.soft_cap > 0) && !visibility.holes(b);
    return alone && call.late_scale() ? ScaleFactors<A>{1, call.scale} : ScaleFactors<A>{call.scale, 1};
  }
  /// Whether terms add a function of j − i in a sequence, or nothing: they need no tiles.
  bool by_diagonal(Index b) const { return diagonal_[static_cast<std::size_t>(b)] != 0; }
  /// The matrix that the terms add in a sequence and head, if that is all they do and its columns lie side by side.
  View<const A, 2> matrix(Index b, Index h) const;

  const AttentionCall<A>& call;
  Visibility visibility;
  bool tiled = false;  ///< terms of some sequence add no function of j − i
  BlockExtents extents;

 private:
  std::vector<char> diagonal_;  ///< [batch]
};

/// body(x, n, distances) for runs x … x + n − 1 of a score matrix's diagonals, each j − i + q_len − 1, with their n
/// distances, where positions rise by one.
template <class A, class Body>
void over_diagonals(const AttentionCall<A>& call, Index b, const Body& body) {
  if (call.problem.q_len == 0 || call.problem.k_len == 0) return;
  const Index total = call.problem.q_len + call.problem.k_len - 1;
  const double first =
      call.problem.k_positions->real(0, b, 0) - call.problem.q_positions->real(0, b, call.problem.q_len - 1);
  std::array<double, diagonals_at_once> distances;
  for (Index x = 0; x < total; x += diagonals_at_once) {
    const Index n = std::min(diagonals_at_once, total - x);
    for (Index y = 0; y < n; ++y) distances[static_cast<std::size_t>(y)] = first + static_cast<double>(x + y);
    body(x, n, distances.data());
  }
}

/// A call's biases by distance for one head, added up along the diagonals of its whole score matrix.
template <class A>
class Diagonals {
 public:
  explicit Diagonals(const AttentionPlan<A>& plan);

  /// Computes them, where the plan says that there are any.
  void open(Index b, Index h);
  /// Row i and column j take [j − i], for rows and columns that are counted from these; null: there is no bias.
  const A* at(Index row, Index col) const {
    return present_ ? sums_.data() + plan_->call.problem.q_len - 1 + col - row : nullptr;
  }

 private:
  const AttentionPlan<A>* plan_;
  bool present_ = false;
  Index b_ = -1, h_ = -1;
  std::vector<A> sums_;
};

/// A block of queries that is through with all its keys: out is not yet divided by divisor, and the logarithm of a
/// row's weights is max_scale · max + ln sum.
template <class A>
struct FinishedRows {
  Index b, h, row, rows;
  A* out;                        ///< [rows, value_dim], the worker's own
  const A *divisor, *max, *sum;  ///< [rows] each
  A max_scale;
};

/// One worker's memory, and the forward of a block of queries in it.
template <class A>
class ForwardWork {
 public:
  /// Throws std::bad_alloc; nothing below does.
  explicit ForwardWork(const AttentionPlan<A>& plan);

  /// Queries row … row + extents.rows − 1 of a head, over all the keys that they see.
  FinishedRows<A> block(Index b, Index h, Index row);

 private:
  bool needs_tiles() const { return plan_->tiled && matrix_.data == nullptr; }
  void open_rows(Index b, Index h, Index row);
  /// The columns that any row sees.
  Columns see();
  void begin();
  /// Scores by products, diagonals and a matrix alone, strip by strip; columns are within the block of keys that starts
  /// at col.
  void strips(Index col, Columns cols);
  /// The same with terms that act on tiles.
  void whole_tile(Columns cols);
  /// Rows i … i + n − 1 of the block take up scores s, whose column 0 is key `col`; unit · (s + bias) are logits.
  void absorb(Index i, Index n, Index col, Columns cols, A* s, Index stride, A unit, const A* bias);
  ScaleFactors<A> scale_factors() const;

  const AttentionPlan<A>* plan_;
  HeadRows<A> queries_;
  HeadKeys<A> keys_;
  RowTurner<A> turner_;
  Diagonals<A> diagonals_;
  View<const A, 2> matrix_;  // of the open head
  TileWork<A> tiles_;
  AlignedVector<A> loaded_, turned_, scores_, out_;
  std::vector<A> max_, sum_, rescale_;
  std::vector<Columns> sees_;
  RowRuns runs_;
  Index b_ = 0, h_ = 0, row_ = 0, rows_ = 0;
  const A* q_ = nullptr;
  Index q_stride_ = 0;
};

}  // namespace bearing
