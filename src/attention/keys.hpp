#pragma once

#include <bearing/attention.hpp>
#include <cstdlib>
#include <vector>

#include "aligned.hpp"
#include "attention/call.hpp"
#include "attention/hidden_keys.hpp"
#include "attention/kernels.hpp"
#include "attention/row_turner.hpp"

namespace bearing {

/// Rows of a head's keys or values, wherever they lie: side by side, or in the blocks of a paged cache.
template <class T>
class HeadRows {
 public:
  HeadRows() = default;
  HeadRows(View<const T, 4> x, View<const Index, 2> table) : x_(x), table_(table) {}

  Index dim() const { return x_.shape[3]; }
  /// Whether a row's features lie side by side.
  bool plain() const { return x_.stride[3] == 1 || x_.shape[3] <= 1; }
  /// Whether rows fall on few sets of the caches, as at strides of whole pages they do: products are 3 to 6 % slower.
  bool far_apart() const { return std::abs(x_.stride[2]) >= 4096 / static_cast<Index>(sizeof(T)); }
  bool paged() const { return table_.data != nullptr; }
  /// Null where rows have no features, and perhaps no memory.
  const T* row(Index b, Index h, Index j) const {
    if (dim() == 0) return nullptr;
    if (!paged()) return &x_(b, h, j, Index{0});
    const Index block_size = x_.shape[2];
    return &x_(table_(b, j / block_size), h, j % block_size, Index{0});
  }
  /// Rows from j on that row_stride() leads to.
  Index run(Index j) const { return paged() ? x_.shape[2] - j % x_.shape[2] : x_.shape[2] - j; }
  Index row_stride() const { return dim() == 0 ? 0 : x_.stride[2]; }
  /// Whether a row holds wild numbers.
  bool wild(Index b, Index h, Index j) const { return bearing::wild(row(b, h, j), dim(), x_.stride[3]); }

  /// to [n, dim] ← rows first … first + n − 1
  template <class A>
  void load(Index b, Index h, Index first, Index n, A* to) const {
    const Index step = x_.stride[3], features = dim();
    for (Index i = 0; i < n; ++i, to += features) {
      const T* from = row(b, h, first + i);
      if (step == 1) {  // apart, so that it becomes vectors
        for (Index d = 0; d < features; ++d) to[d] = static_cast<A>(from[d]);
      } else {
        for (Index d = 0; d < features; ++d) to[d] = static_cast<A>(from[d * step]);
      }
    }
  }

 private:
  View<const T, 4> x_ = {};
  View<const Index, 2> table_ = {};
};

/// A worker's keys and values of one kv head, made ready block by block as they are first asked for: keys turned and
/// packed for products; values as rows of A, the caller's own where they are that already. Hidden keys with wild
/// numbers are zeros, in copies.
template <class T>
class HeadKeys {
 public:
  using A = Compute<T>;

  /// `block`: keys in a block, whole panels. Throws std::bad_alloc; nothing below does.
  HeadKeys(const AttentionCall<T>& call, const Visibility& visibility, Index block)
      : hidden_(visibility, call.problem),
        keys_(call.in.k, call.in.block_table),
        values_(call.in.v, call.in.block_table),
        turner_(call.rows, call.in.k_positions, Side::key, turned_at_once, call.in_dim),
        k_len_(call.problem.k_len),
        dim_(call.problem.dim),
        block_(block),
        direct_values_(std::is_same_v<T, A> && values_.plain() && !values_.paged() &&
                       !(values_.far_apart() && call.problem.q_len >= many_queries)),
        conceals_(visibility.conceals()),
        cleared_values_(direct_values_ && conceals_ ? block * values_.dim() : 0) {
    const Index width = attend::panel_width<A>(), columns = (k_len_ + width - 1) / width * width;
    packed_.resize(size(columns * dim_));
    if (!direct_values_) copied_.resize(size(k_len_ * values_.dim()));
    loaded_.resize(size(turned_at_once * keys_.dim()));
    turned_.resize(size(turned_at_once * dim_));
    ready_.resize(size((k_len_ + block - 1) / block));
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
  /// Rows of values of the block that was made ready last.
  const A* values(Index j) const {
    if (copied_block_ == j / block_ * block_) return cleared_values_.data() + (j - copied_block_) * values_.dim();
    if constexpr (std::is_same_v<T, A>) {
      if (direct_values_) return values_.row(b_, kv_head_, j);
    }
    return copied_.data() + j * values_.dim();
  }
  Index value_stride(Index j) const {
    return direct_values_ && copied_block_ != j / block_ * block_ ? values_.row_stride() : values_.dim();
  }

  /// Whether rows() needs no room.
  bool direct_rows() const { return rows_as_they_are() && !conceals_; }
  /// Rows [n, dim] as they enter the product, for terms that look at them: the caller's own where they are that
  /// already, else made again, in `room`.
  const A* rows(Index first, Index n, A* room, Index& stride) {
    if constexpr (std::is_same_v<T, A>) {
      if (rows_as_they_are() && ready_[size(first / block_)] != State::cleared) {
        stride = keys_.row_stride();
        return keys_.row(b_, kv_head_, first);
      }
    }
    stride = dim_;
    for (Index j = 0; j < n; j += turned_at_once) {
      const Index some = std::min(turned_at_once, n - j);
      std::copy_n(turned_rows(first + j, some), some * dim_, room + j * dim_);
    }
    return room;
  }

 private:
  /// Rows that are turned at once: a multiple of every panel's width.
  static constexpr Index turned_at_once = 64;
  /// From so many on, a copy of values that lie far apart costs less than it saves.
  static constexpr Index many_queries = 64;
  /// How a block was read: cleared, if hidden keys in it were made zeros.
  enum class State : char { unread, as_it_is, cleared };
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }

  bool rows_as_they_are() const { return std::is_same_v<T, A> && !turner_.turns() && keys_.plain() && !keys_.paged(); }

  /// Returns whether hidden keys were cleared, or values that are used where they lie would have to be.
  bool read(Index first, Index end) {
    cleared_ = false;
    for (Index j = first; j < end; j += turned_at_once) {
      const Index n = std::min(turned_at_once, end - j);
      attend::pack(n, dim_, turned_rows(j, n), dim_, packed(j));
      if (!direct_values_) {
        A* values = copied_.data() + j * values_.dim();
        values_.load(b_, kv_head_, j, n, values);
        hidden_.clear(j, n, values_.dim(), values);
      } else if (hidden_.any()) {
        for (Index i = j; i < j + n; ++i) cleared_ = cleared_ || (values_.wild(b_, kv_head_, i) && hidden_(i));
      }
    }
    return cleared_;
  }

  const A* turned_rows(Index first, Index n) {
    keys_.load(b_, kv_head_, first, n, loaded_.data());
    cleared_ = hidden_.clear(first, n, keys_.dim(), loaded_.data()) || cleared_;
    if (!turner_.turns()) return loaded_.data();
    turner_.turn(b_, kv_head_, first, n, loaded_.data(), keys_.dim(), turned_.data());
    return turned_.data();
  }

  HiddenKeys hidden_;
  HeadRows<T> keys_, values_;
  RowTurner<A> turner_;
  Index k_len_, dim_, block_;
  bool direct_values_, conceals_, cleared_ = false;
  Index b_ = -1, kv_head_ = -1;
  Index copied_block_ = -1;  ///< whose values are in cleared_values_
  AlignedVector<A> packed_, copied_, loaded_, turned_;
  AlignedArray<A> cleared_values_;
  std::vector<State> ready_;
};

}  // namespace bearing
