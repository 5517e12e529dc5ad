#pragma once

#include <vector>

#include "aligned.hpp"
#include "attention/shared/row_turner.hpp"
#include "attention/shared/value_turner.hpp"
#include "attention/softmax/backward_plan.hpp"

namespace bearing {

/// What the probabilities of rows and their gradients are computed from, as attend::ScoreRows takes it.
template <class A>
struct RowNumbers {
  A* origin;  ///< null where no row of the call is anchored
  A *log2_sum, *along;
};

/// A worker's block of queries: their rows and those of d_o, made ready for products, what each of them sees, and where
/// their gradients are summed.
template <class A>
class BackwardQueries {
 public:
  /// Throws std::bad_alloc; nothing below does.
  explicit BackwardQueries(BackwardPlan<A>& plan);

  /// Goes to the block that starts at query `row`, and looks which keys each of its rows sees; returns those between
  /// the first and the last.
  Columns see(Index b, Index h, Index row);
  /// Makes rows of q ready; then those of d_o, and what probabilities are computed from. Gradients are not wanted yet.
  void open();
  void open_numbers();
  /// Sums of gradients start at 0, where they are wanted; they go back through the queries' encodings, and are stored.
  void open_grads();
  void close_grads();

  Index b() const { return b_; }
  Index h() const { return h_; }
  /// The block's rows are `row` … row + rows − 1 of the head, and counted from 0 below.
  Index row() const { return row_; }
  Index rows() const { return rows_; }
  Columns sees(Index i) const { return sees_[size(i)]; }
  /// Of these columns, those between the first and the last that any of the rows sees.
  Columns seen_by(Columns rows, Columns among) const;
  /// The rows of these between the first and the last that see any of the columns.
  Columns that_see(Columns rows, Columns cols) const;
  /// Of the keys from `col` on that are worked on at once, those that the block must meet; maybe none. It sees `all`.
  Columns meeting(Index col, Columns all) const;

  /// Rows as they enter products, side by side.
  const A* q(Index i) const { return q_ + i * plan_->scores.call.problem.dim; }
  const A* d_out(Index i) const { return d_out_ + i * plan_->scores.call.problem.value_dim; }
  /// Null where it is not wanted.
  A* d_q(Index i) { return sums_ == nullptr ? nullptr : sums_ + i * plan_->scores.call.problem.dim; }
  RowNumbers<A> numbers(Index i);
  /// The forward's result, whether it is anchored, and whether any row of the block is.
  A lse(Index i) const { return plan_->results.lse(b_, h_, row_ + i); }
  bool anchored(Index i) const { return is_anchored(lse(i)); }
  bool any_anchored() const;

 private:
  void clear_blind_rows();
  void add_sinks();

  BackwardPlan<A>* plan_;
  HeadRows<A> q_rows_, out_rows_, d_out_rows_;
  bool direct_q_, direct_out_, direct_d_out_;  ///< used where they lie
  RowTurner<A> turner_;
  ValueTurner<A> value_turner_;
  Index b_ = -1, h_ = -1, row_ = 0, rows_ = 0;
  std::vector<Columns> sees_;
  const A *unturned_ = nullptr, *q_ = nullptr, *d_out_ = nullptr;
  AlignedArray<A> q_in_, d_out_in_;  ///< room where rows are not used where they lie, or are cleared
  std::vector<A> q_turned_, origin_, log2_sum_, along_;
  A* sums_ = nullptr;
  std::vector<A> d_q_;
  std::vector<A> run_in_, run_out_;  ///< rows that are on their way for a moment
};

}  // namespace bearing
