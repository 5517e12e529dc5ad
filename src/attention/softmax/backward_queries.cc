#include "attention/softmax/backward_queries.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "attention/shared/row_kernels.hpp"

// A worker's queries in the backward: rows come in, turned; sums of gradients go out.

namespace bearing {

template <class A>
BackwardQueries<A>::BackwardQueries(BackwardPlan<A>& plan)
    : plan_(&plan),
      q_rows_(plan.scores.call.q),
      out_rows_(plan.results.out),
      d_out_rows_(plan.results.d_out),
      direct_q_(q_rows_.same() && q_rows_.contiguous()),
      direct_out_(out_rows_.same() && out_rows_.plain()),
      direct_d_out_(d_out_rows_.same() && d_out_rows_.contiguous() && plan.scores.call.value_rows.size == 0),
      turner_(plan.scores.call.rows, *plan.scores.call.q_turned_at, Side::query, rows_at_once, plan.scores.call.in_dim),
      value_turner_(plan.scores.call.value_rows, *plan.scores.call.problem.q_positions, Side::query,
                    plan.scores.call.problem.value_dim),
      sees_(size(plan.rows)),
      q_in_(plan.rows * plan.scores.call.in_dim),
      d_out_in_(plan.rows * plan.scores.call.problem.value_dim) {
  const Index in_dim = plan.scores.call.in_dim, dim = plan.scores.call.problem.dim;
  q_turned_.resize(size_if(turner_.turns(), plan.rows * dim));
  for (std::vector<A>* numbers : {&along_, &log2_sum_}) numbers->resize(size(plan.rows));
  origin_.resize(size_if(!plan.anchors.empty(), plan.rows));
  d_q_.resize(size_if(plan.want_q, plan.whole(plan.rows) * dim));
  run_in_.resize(size(rows_at_once * d_out_rows_.dim()));
  run_out_.resize(size_if(turner_.turns(), rows_at_once * in_dim));
}

template <class A>
Columns BackwardQueries<A>::see(Index b, Index h, Index row) {
  b_ = b, h_ = h, row_ = row, rows_ = std::min(plan_->rows, plan_->scores.call.problem.q_len - row);
  Columns all;
  for (Index i = 0; i < rows_; ++i) {
    const bool blind = lse(i) == -std::numeric_limits<A>::infinity();
    sees_[size(i)] = blind ? Columns{} : plan_->scores.visibility.of(b, row + i);
    all.reach_over(sees_[size(i)]);
  }
  return all;
}

template <class A>
Columns BackwardQueries<A>::seen_by(Columns rows, Columns among) const {
  Columns seen;
  for (Index i = rows.first; i < rows.end; ++i) seen.reach_over(common(sees_[size(i)], among));
  return seen;
}

template <class A>
Columns BackwardQueries<A>::that_see(Columns rows, Columns cols) const {
  Columns those;
  for (Index i = rows.first; i < rows.end; ++i) {
    if (!common(sees_[size(i)], cols).empty()) those.reach_over({i, i + 1});
  }
  return those;
}

template <class A>
Columns BackwardQueries<A>::meeting(Index col, Columns all) const {
  const Columns cols = common(all, {col, col + plan_->tile_cols});
  if (cols.empty()) return {};
  const Visibility& visibility = plan_->scores.visibility;
  if (visibility.holes(b_) && !visibility.anything(b_, h_, row_, rows_, cols)) return {};
  // Keys that are hidden take part in running sums too.
  return plan_->scores.call.whole_rows ? Columns{0, visibility.existing(b_)} : cols;
}

template <class A>
void BackwardQueries<A>::open() {
  const Index in_dim = q_rows_.dim(), dim = plan_->scores.call.problem.dim;
  unturned_ = q_rows_.read(direct_q_, b_, h_, row_, rows_, q_in_.data());
  d_out_ = d_out_rows_.read(direct_d_out_, b_, h_, row_, rows_, d_out_in_.data());
  sums_ = nullptr;
  clear_blind_rows();
  q_ = turner_.turns() ? q_turned_.data() : unturned_;
  for (Index i = 0; turner_.turns() && i < rows_; i += rows_at_once) {
    turner_.turn(b_, h_, row_ + i, std::min(rows_at_once, rows_ - i), unturned_ + i * in_dim, in_dim,
                 q_turned_.data() + i * dim);
  }
}

/// Queries that see nothing count for nothing, whatever they and their gradients hold: wild ones become zeros.
template <class A>
void BackwardQueries<A>::clear_blind_rows() {
  const Visibility& visibility = plan_->scores.visibility;
  const Index dim = q_rows_.dim(), value_dim = d_out_rows_.dim();
  for (Index i = 0; i < rows_; ++i) {
    const Columns sees = sees_[size(i)];
    if (!sees.empty() && !visibility.holes(b_)) continue;
    if (!wild(unturned_ + i * dim, dim) && !wild(d_out_ + i * value_dim, value_dim)) continue;
    if (visibility.anything(b_, h_, row_ + i, 1, sees)) continue;
    if (unturned_ != q_in_.data()) std::copy_n(unturned_, rows_ * dim, q_in_.data());
    if (d_out_ != d_out_in_.data()) std::copy_n(d_out_, rows_ * value_dim, d_out_in_.data());
    unturned_ = q_in_.data(), d_out_ = d_out_in_.data();
    std::fill_n(q_in_.data() + i * dim, dim, A{0});
    std::fill_n(d_out_in_.data() + i * value_dim, value_dim, A{0});
  }
}

/// D_i = d_o_i·o_i − d_lse_i, and what takes the place of lse. D is the same before o is turned back and after, so that
/// it comes from what the caller gave; then d_o goes back to what the values added up to.
template <class A>
void BackwardQueries<A>::open_numbers() {
  const Index value_dim = d_out_rows_.dim();
  for (Index i = 0; i < rows_; i += rows_at_once) {
    const Index n = std::min(rows_at_once, rows_ - i);
    const A* out = out_rows_.read(direct_out_, b_, h_, row_ + i, n, run_in_.data());
    attend::row_products(n, value_dim, d_out(i), value_dim, out, direct_out_ ? out_rows_.row_stride() : value_dim,
                         along_.data() + i);
  }
  value_turner_.turn_grads(b_, h_, row_, rows_, d_out_in_.data(), value_dim);
  const View<const A, 3>& d_lse = plan_->results.d_lse;
  for (Index i = 0; i < rows_; ++i) {
    const Anchor<A> at = anchored(i) ? plan_->anchor(b_, h_, row_ + i)
                                     : Anchor<A>{0, std::min(lse(i), 2 * largest_lse<A>) * std::numbers::log2e_v<A>, 0};
    log2_sum_[size(i)] = at.log2_sum;
    if (!origin_.empty()) origin_[size(i)] = at.origin;
    if (d_lse.data != nullptr) along_[size(i)] -= d_lse(b_, h_, row_ + i);
  }
}

template <class A>
RowNumbers<A> BackwardQueries<A>::numbers(Index i) {
  return {origin_.empty() ? nullptr : origin_.data() + i, log2_sum_.data() + i, along_.data() + i};
}

template <class A>
bool BackwardQueries<A>::any_anchored() const {
  for (Index i = 0; i < rows_; ++i) {
    if (anchored(i)) return true;
  }
  return false;
}

template <class A>
void BackwardQueries<A>::open_grads() {
  if (!plan_->want_q) return;
  sums_ = d_q_.data();
  std::fill(d_q_.begin(), d_q_.end(), A{0});
}

template <class A>
void BackwardQueries<A>::close_grads() {
  add_sinks();
  const Index in_dim = q_rows_.dim();
  for (Index i = 0; sums_ != nullptr && i < rows_; i += rows_at_once) {
    const Index n = std::min(rows_at_once, rows_ - i);
    const A* d_rows = d_q(i);
    if (turner_.turns()) {
      turner_.turn_grads(b_, h_, row_ + i, n, unturned_ + i * in_dim, d_rows, run_out_.data(),
                         [&](Index t) { return plan_->q_blocks.block(b_, h_, t); });
      d_rows = run_out_.data();
    }
    plan_->grads.d_q.store(d_rows, in_dim, n, b_, h_, row_ + i);
  }
}

/// p_sink = exp(sink − lse), and no value: d_sink = −Σ_i p_sink (d_o_i·o_i − d_lse_i)
template <class A>
void BackwardQueries<A>::add_sinks() {
  if (plan_->d_sinks.empty()) return;
  const double sink = static_cast<double>(plan_->scores.call.options.sinks.value(h_));
  double sum = 0;
  for (Index i = 0; i < rows_; ++i) {
    const double row_lse = static_cast<double>(lse(i));
    if (std::max(sink, row_lse) == -std::numeric_limits<double>::infinity()) continue;
    // Not below what exp() can do without an error.
    const double p = anchored(i) ? static_cast<double>(plan_->anchor(b_, h_, row_ + i).sink)
                                 : std::exp(std::clamp(sink - row_lse, -700.0, 0.0));
    sum -= p * static_cast<double>(along_[size(i)]);
  }
  const Index head = b_ * plan_->scores.call.problem.heads + h_;
  plan_->d_sinks[size(head * plan_->row_blocks() + row_ / plan_->rows)] = sum;
}

template class BackwardQueries<double>;
template class BackwardQueries<float>;

}  // namespace bearing
