#pragma once

#include <bearing/attention.hpp>
#include <vector>

#include "aligned.hpp"
#include "attention/shared/extents.hpp"
#include "attention/shared/head_rows.hpp"
#include "attention/shared/hidden_keys.hpp"
#include "attention/shared/row_turner.hpp"
#include "attention/shared/value_turner.hpp"
#include "attention/softmax/attention_call.hpp"
#include "attention/softmax/softmax_kernels.hpp"

namespace bearing {

/// A worker's keys and values of one kv head, made ready block by block as they are first asked for: keys turned and
/// packed for products; values as panels of A, turned too where an encoding does, or the caller's own rows where few
/// queries look at them. Hidden keys with wild numbers are zeros, in copies.
template <class A>
class HeadKeys {
 public:
  /// `block`: keys in a block, whole panels. Throws std::bad_alloc; nothing below does.
  HeadKeys(const AttentionCall<A>& call, const Visibility& visibility, Index block)
      : hidden_(visibility, call.problem),
        keys_(call.k),
        values_(call.v),
        turner_(call.rows, *call.k_turned_at, Side::key, rows_at_once, call.in_dim),
        value_turner_(call.value_rows, *call.problem.k_positions, Side::key, call.problem.value_dim),
        k_len_(call.problem.k_len),
        dim_(call.problem.dim),
        block_(block),
        direct_values_(values_.same() && values_.plain() && !values_.paged() && !value_turner_.turns() &&
                       call.problem.q_len < many_queries),
        conceals_(visibility.conceals()),
        packed_(round_up(k_len_, attend::panel_width<A>()) * dim_),
        panels_(direct_values_ ? 0 : round_up(k_len_, block) * values_.dim()),
        cleared_values_(direct_values_ && conceals_ ? block * values_.dim() : 0) {
    if (!direct_values_) loaded_values_.resize(size(rows_at_once * values_.dim()));
    loaded_.resize(size(rows_at_once * keys_.dim()));
    turned_.resize(size(rows_at_once * dim_));
    ready_.resize(size(pieces(k_len_, block)));
  }

  void open(Index b, Index kv_head) {
    if (b == b_ && kv_head == kv_head_) return;
    b_ = b, kv_head_ = kv_head, copied_block_ = -1;
    hidden_.open(b, kv_head);
    std::fill(ready_.begin(), ready_.end(), State::unread);
  }

  /// Makes the block that starts at key `first` ready, of which keys from `end` on do not exist.
  void ready(Index first, Index end) {
    State& state = ready_[size(first / block_)];
    end = std::min({end, first + block_, k_len_});
    if (state == State::unread) state = read(first, end) ? State::cleared : State::as_it_is;
    if (!direct_values_ || state != State::cleared || copied_block_ == first) return;
    copied_block_ = first;
    values_.load(b_, kv_head_, first, end - first, cleared_values_.data());
    hidden_.clear(first, end - first, values_.dim(), cleared_values_.data());
  }

  /// The panel of a key; a multiple of the panel's width.
  A* packed(Index j) { return packed_.data() + j * dim_; }
  /// Values from key j on, of the block that was made ready last.
  attend::Values<A> values(Index j) const {
    const Index first = j / block_ * block_;
    if (!direct_values_) {
      const Index dim = values_.dim(), width = attend::panel_width<A>();
      return {panels_.data() + first * dim, j - first, width, dim % width, block_ * width};
    }
    const auto rows = [](const A* data, Index row, Index stride) {
      return attend::Values<A>{data, row, stride, stride, attend::panel_width<A>()};
    };
    if (copied_block_ == first) return rows(cleared_values_.data(), j - first, values_.dim());
    return rows(values_.row(b_, kv_head_, j), 0, values_.row_stride());
  }

  /// Whether rows() needs no room.
  bool direct_rows() const { return rows_as_they_are() && !conceals_; }
  /// Rows [n, dim] as they enter the product, for terms that look at them: the caller's own where they are that
  /// already, else made again, in `room`.
  const A* rows(Index first, Index n, A* room, Index& stride) {
    if (rows_as_they_are() && ready_[size(first / block_)] != State::cleared) {
      stride = keys_.row_stride();
      return keys_.row(b_, kv_head_, first);
    }
    stride = dim_;
    for (Index j = 0; j < n; j += rows_at_once) {
      const Index some = std::min(rows_at_once, n - j);
      const KeyRows made = turned_rows(first + j, some);
      for (Index i = 0; i < some; ++i) std::copy_n(made.rows + i * made.stride, dim_, room + (j + i) * dim_);
    }
    return room;
  }

 private:
  /// From so many on, a copy of values in panels costs less than it saves: a product reads it in one stream. On AMD's
  /// Zen 3 products with values became 5 to 8 % faster, all of attention 2 to 3 %, and other programs disturb it less.
  static constexpr Index many_queries = 64;
  /// How a block was read: cleared, if hidden keys in it were made zeros.
  enum class State : char { unread, as_it_is, cleared };

  bool rows_as_they_are() const { return keys_.same() && !turner_.turns() && keys_.plain() && !keys_.paged(); }

  /// Returns whether hidden keys were cleared, or values that are used where they lie would have to be.
  bool read(Index first, Index end) {
    cleared_ = false;
    for (Index j = first; j < end; j += rows_at_once) {
      const Index n = std::min(rows_at_once, end - j);
      const KeyRows made = turned_rows(j, n);
      attend::pack(n, dim_, made.rows, made.stride, packed(j));
      if (!direct_values_) {
        put_values(j, n);
      } else if (hidden_.any()) {
        for (Index i = j; i < j + n; ++i) cleared_ = cleared_ || (values_.wild(b_, kv_head_, i) && hidden_(i));
      }
    }
    return cleared_;
  }

  void put_values(Index first, Index n) {
    const Index dim = values_.dim(), width = attend::panel_width<A>();
    A* const rows = loaded_values_.data();
    values_.load(b_, kv_head_, first, n, rows);
    hidden_.clear(first, n, dim, rows);
    value_turner_.turn(b_, kv_head_, first, n, rows, dim);
    const Index block = first / block_ * block_;
    for (Index x = 0; x < dim; x += width) {
      const Index wide = std::min(width, dim - x);
      A* const to = panels_.data() + block * dim + x * block_ + (first - block) * wide;
      for (Index j = 0; j < n; ++j) std::copy_n(rows + j * dim + x, wide, to + j * wide);
    }
  }

  struct KeyRows {
    const A* rows;
    Index stride;
  };

  KeyRows turned_rows(Index first, Index n) {
    const bool direct = keys_.same() && keys_.plain() && !keys_.paged() && !hidden_.any();
    const KeyRows from{keys_.read(direct, b_, kv_head_, first, n, loaded_.data()),
                       direct ? keys_.row_stride() : keys_.dim()};
    if (!direct) cleared_ = hidden_.clear(first, n, keys_.dim(), loaded_.data()) || cleared_;
    if (!turner_.turns()) return from;
    turner_.turn(b_, kv_head_, first, n, from.rows, from.stride, turned_.data());
    return {turned_.data(), dim_};
  }

  HiddenKeys hidden_;
  HeadRows<A> keys_, values_;
  RowTurner<A> turner_;
  ValueTurner<A> value_turner_;
  Index k_len_, dim_, block_;
  bool direct_values_, conceals_, cleared_ = false;
  Index b_ = -1, kv_head_ = -1;
  Index copied_block_ = -1;  ///< whose values are in cleared_values_
  AlignedVector<A> loaded_, loaded_values_, turned_;
  AlignedArray<A> packed_, panels_, cleared_values_;
  std::vector<State> ready_;
};

}  // namespace bearing
