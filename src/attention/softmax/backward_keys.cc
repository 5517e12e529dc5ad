#include "attention/softmax/backward_keys.hpp"

#include <algorithm>
#include <type_traits>

#include "attention/softmax/softmax_kernels.hpp"

// A worker's keys and values in the backward: rows come in, turned and packed; sums of gradients go out.

namespace bearing {

namespace {

/// Whether a worker keeps a head's turned keys, which every block of queries asks for again: where there are no sums of
/// d_k beside them, or where 4 MiB hold them.
template <class A>
bool keeps_turned(const BackwardPlan<A>& plan, bool direct_d_k) {
  constexpr Index most = (Index{4} << 20) / static_cast<Index>(sizeof(A));
  const Problem& problem = plan.scores.call.problem;
  return direct_d_k || !plan.want_k || problem.k_len * problem.dim <= most;
}

}  // namespace

template <class A>
BackwardKeys<A>::BackwardKeys(BackwardPlan<A>& plan, BackwardUnits units, AmxGrads* tiles)
    : plan_(&plan),
      tiles_(tiles),
      hidden_(plan.scores.visibility, plan.scores.call.problem),
      k_rows_(plan.scores.call.k),
      v_rows_(plan.scores.call.v),
      turner_(plan.scores.call.rows, *plan.scores.call.k_turned_at, Side::key, rows_at_once, plan.scores.call.in_dim),
      value_turner_(plan.scores.call.value_rows, *plan.scores.call.problem.k_positions, Side::key,
                    plan.scores.call.problem.value_dim) {
  const AttentionCall<A>& call = plan.scores.call;
  const Index dim = call.problem.dim, value_dim = call.problem.value_dim, k_len = call.problem.k_len;
  direct_k_ = k_rows_.same() && !turner_.turns() && !plan.scores.visibility.conceals() &&
              (call.whole_rows ? k_rows_.plain() : k_rows_.contiguous());
  direct_v_ = v_rows_.same() && v_rows_.plain() && !value_turner_.turns();
  direct_d_k_ = tiles == nullptr && plan.grads.d_k.direct() && dim == call.in_dim;
  direct_d_v_ = tiles == nullptr && plan.grads.d_v.direct();
  keeps_keys_ = call.whole_rows || (tiles == nullptr && turner_.turns() && keeps_turned(plan, direct_d_k_));
  const Index kept = keeps_keys_ ? round_up(k_len, rows_at_once) : tiles != nullptr ? rows_at_once : plan.cols;
  k_in_.resize(size(rows_at_once * call.in_dim));
  k_turned_.resize(size_if(!direct_k_, kept * dim));
  turned_blocks_.resize(size_if(keeps_keys_ && !direct_k_, plan.key_blocks()));
  v_in_.resize(size_if(!direct_v_, rows_at_once * value_dim));
  packed_k_.resize(size_if(tiles == nullptr, plan.cols * dim));
  packed_v_.resize(size_if(tiles == nullptr, plan.cols * value_dim));
  const Index keys = tiles != nullptr ? rows_at_once : units == BackwardUnits::together ? k_len : plan.cols;
  d_k_sums_.resize(size_if(plan.want_k && !direct_d_k_, keys * dim));
  d_v_sums_.resize(size_if(plan.want_v && !direct_d_v_, keys * value_dim));
  run_in_.resize(size_if(turner_.turns(), rows_at_once * dim));
  run_out_.resize(size_if(turner_.turns(), rows_at_once * call.in_dim));
}

template <class A>
void BackwardKeys<A>::open(Index b, Index kv_head, Index first) {
  const AttentionCall<A>& call = plan_->scores.call;
  const Index dim = call.problem.dim, value_dim = call.problem.value_dim;
  if (b_ == b && kv_head_ == kv_head && first_ == first) return;
  if (b_ != b || kv_head_ != kv_head) std::fill(turned_blocks_.begin(), turned_blocks_.end(), char{0});
  b_ = b, kv_head_ = kv_head, first_ = first;
  hidden_.open(b, kv_head);
  if (tiles_ != nullptr && !tiles_->open_keys(b, kv_head, first)) return;
  const Index end = std::min(first + plan_->cols, plan_->scores.visibility.existing(b));
  k_first_ = keeps_keys_ ? 0 : first;
  k_stride_ = direct_k_ ? k_rows_.row_stride() : dim;
  k_ = direct_k_ ? k_rows_.read(true, b, kv_head, k_first_, Index{0}, k_turned_.data()) : k_turned_.data();
  for (Index j = first; j < end; j += rows_at_once) {
    const Index n = std::min(rows_at_once, end - j);
    const A* keys = ready(j, n);
    const A* values = v_rows_.read(direct_v_, b, kv_head, j, n, v_in_.data());
    value_turner_.turn(b, kv_head, j, n, v_in_.data(), value_dim);
    pack(j, n, keys, values, direct_v_ ? v_rows_.row_stride() : value_dim);
  }
  if (!turned_blocks_.empty()) turned_blocks_[size(first / plan_->cols)] = 1;
}

template <class A>
void BackwardKeys<A>::pack(Index j, Index n, const A* keys, const A* values, Index v_stride) {
  if constexpr (std::is_same_v<A, float>) {
    if (tiles_ != nullptr) return tiles_->pack(j, n, keys, k_stride_, values, v_stride);
  }
  const Index dim = plan_->scores.call.problem.dim, value_dim = plan_->scores.call.problem.value_dim;
  attend::pack(n, dim, keys, k_stride_, packed_k_.data() + (j - first_) * dim);
  attend::pack(n, value_dim, values, v_stride, packed_v_.data() + (j - first_) * value_dim);
}

/// Rows of the head's keys as they enter products; what is kept of them was made once.
template <class A>
const A* BackwardKeys<A>::ready(Index j, Index n) {
  const Index in_dim = plan_->scores.call.in_dim, dim = plan_->scores.call.problem.dim;
  A* const room = k_turned_.data() + (direct_k_ || tiles_ != nullptr ? 0 : (j - k_first_) * dim);
  if (!turned_blocks_.empty() && turned_blocks_[size(j / plan_->cols)] != 0) return room;
  if (turner_.turns()) {
    turner_.turn(b_, kv_head_, j, n, unturned(j, n), in_dim, room);
    return room;
  }
  const A* rows = k_rows_.read(direct_k_, b_, kv_head_, j, n, room);
  hidden_.clear(j, n, in_dim, room);
  return rows;
}

/// Rows of keys as they come, for encodings that turn them.
template <class A>
const A* BackwardKeys<A>::unturned(Index j, Index n) {
  const bool direct = k_rows_.same() && k_rows_.contiguous() && !hidden_.any();
  const A* rows = k_rows_.read(direct, hidden_.batch(), hidden_.kv_head(), j, n, k_in_.data());
  hidden_.clear(j, n, plan_->scores.call.in_dim, k_in_.data());
  return rows;
}

template <class A>
void BackwardKeys<A>::open_grads(Index b, Index kv_head, Index first, Index end) {
  const auto open = [&](bool wanted, bool direct, const ResultRows<A>& to, std::vector<A>& sums, Index features) {
    GradRows<A> rows;
    if (!wanted || features == 0) return rows;
    rows = {sums.data(), features, first};
    if (tiles_ != nullptr) return rows;
    if (direct && first < end) rows = {to.row(b, kv_head, first), to.row_stride(), first};
    for (Index j = first; j < end; ++j) std::fill_n(rows.row(j), features, A{0});
    return rows;
  };
  const Problem& problem = plan_->scores.call.problem;
  d_k_ = open(plan_->want_k, direct_d_k_, plan_->grads.d_k, d_k_sums_, problem.dim);
  d_v_ = open(plan_->want_v, direct_d_v_, plan_->grads.d_v, d_v_sums_, problem.value_dim);
  if (tiles_ != nullptr) tiles_->open_grads(first, end);
}

/// Rows j … j + n − 1 of the sums, from where they were summed; those behind the first `there`, which tiles touch too,
/// are 0.
template <class A>
void BackwardKeys<A>::take_sums(Index j, Index n, Index there) {
  if constexpr (std::is_same_v<A, float>) {
    if (tiles_ == nullptr) return;
    d_k_.first = d_v_.first = j;
    const auto take = [&](const GradRows<A>& rows, const auto& sums) {
      if (rows.data == nullptr) return;
      sums(rows.data);
      std::fill_n(rows.row(j + there), (n - there) * rows.stride, A{0});
    };
    take(d_k_, [&](A* rows) { tiles_->key_grads(j, there, rows); });
    take(d_v_, [&](A* rows) { tiles_->value_grads(j, there, rows); });
  }
}

/// The keys' gradients go back through their encodings, to the caller, and so do the values'.
template <class A>
void BackwardKeys<A>::close_grads(Index b, Index kv_head, Index first, Index end) {
  const AttentionCall<A>& call = plan_->scores.call;
  const Index dim = call.problem.dim, existing = plan_->scores.visibility.existing(b);
  hidden_.open(b, kv_head);
  for (Index j = first; j < end; j += rows_at_once) {
    const Index n = std::min(rows_at_once, end - j);
    const Index there = std::clamp<Index>(existing - j, 0, n);  // and behind them padding, which turns nothing
    take_sums(j, n, there);
    if (d_v_.data != nullptr) value_turner_.turn_grads(b, kv_head, j, there, d_v_.row(j), d_v_.stride);
    if (d_v_.data != nullptr && !direct_d_v_) plan_->grads.d_v.store(d_v_.row(j), d_v_.stride, n, b, kv_head, j);
    if (d_k_.data == nullptr) continue;
    if (!turner_.turns()) {
      if (!direct_d_k_) plan_->grads.d_k.store(d_k_.row(j), d_k_.stride, n, b, kv_head, j);
      continue;
    }
    const A* d_rows = d_k_.row(j);
    for (Index i = 0; d_k_.stride != dim && i < there; ++i) std::copy_n(d_k_.row(j + i), dim, run_in_.data() + i * dim);
    if (d_k_.stride != dim) d_rows = run_in_.data();
    if (there > 0) {
      turner_.turn_grads(b, kv_head, j, there, unturned(j, there), d_rows, run_out_.data(),
                         [&](Index t) { return plan_->k_blocks.block(b, kv_head, t); });
    }
    std::fill_n(run_out_.data() + there * call.in_dim, (n - there) * call.in_dim, A{0});
    plan_->grads.d_k.store(run_out_.data(), call.in_dim, n, b, kv_head, j);
  }
  d_k_ = d_v_ = {};
}

template class BackwardKeys<double>;
template class BackwardKeys<float>;

}  // namespace bearing
