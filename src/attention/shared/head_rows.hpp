#pragma once

#include <algorithm>
#include <bearing/memory.hpp>
#include <cstddef>
#include <cstdlib>

#include "attention/shared/stored_numbers.hpp"
#include "tensor_checks.hpp"

namespace bearing {

/// A tensor [batch, heads, time, dim] of numbers of any type.
template <class A>
class StoredRows {
 public:
  StoredRows() = default;
  template <class T>
  explicit StoredRows(View<T, 4> x)
      : address_(const_cast<std::remove_const_t<T>*>(x.data)),
        shape_(x.shape),
        stride_(x.stride),
        numbers_(&stored_numbers<std::remove_const_t<T>>) {}

  bool given() const { return address_ != nullptr; }
  const std::array<Index, 4>& shape() const { return shape_; }
  Index dim() const { return shape_[3]; }
  NumberType type() const { return numbers_->type; }
  /// Whether the numbers are A already.
  bool same() const { return numbers_ == &stored_numbers<A>; }
  /// Whether a row's features lie side by side.
  bool plain() const { return stride_[3] == 1 || shape_[3] <= 1; }
  /// … and rows too.
  bool contiguous() const { return plain() && (stride_[2] == shape_[3] || shape_[2] == 1); }
  /// Whether rows fall on few sets of the caches, as at strides of whole pages they do: products are 3 to 6 % slower.
  bool far_apart() const { return std::abs(stride_[2]) >= 4096 / numbers_->bytes; }
  Index row_stride() const { return dim() == 0 ? 0 : stride_[2]; }

  Memory memory() const {
    Memory of;
    if (!given()) return of;
    of.data = address_;
    of.bytes = dim() == 0 || shape_[0] == 0 || shape_[1] == 0 || shape_[2] == 0 ? 0 : numbers_->bytes;
    of.shape = shape_, of.stride = stride_;
    return of;
  }

 protected:
  /// The number d of row j; null where rows have no features, and perhaps no memory.
  std::byte* at(Index b, Index h, Index j, Index d = 0) const {
    if (dim() == 0) return nullptr;
    const Index offset = b * stride_[0] + h * stride_[1] + j * stride_[2] + d * stride_[3];
    return static_cast<std::byte*>(address_) + offset * numbers_->bytes;
  }

  void* address_ = nullptr;
  std::array<Index, 4> shape_{}, stride_{};
  const StoredNumbers<A>* numbers_ = &stored_numbers<A>;
};

/// Rows of queries, keys or values that are read, wherever they lie: side by side, or in the blocks of a paged cache.
template <class A>
class HeadRows : public StoredRows<A> {
 public:
  HeadRows() = default;
  template <class T>
  explicit HeadRows(View<const T, 4> x, View<const Index, 2> table = {})
      : StoredRows<A>(x), table_(table), paged_(is_given(table)) {}

  bool paged() const { return paged_; }
  const View<const Index, 2>& table() const { return table_; }

  /// Null where rows have no features. Its type is what type() says.
  const void* address(Index b, Index h, Index j) const {
    if (!paged()) return this->at(b, h, j);
    const Index block_size = this->shape_[2];
    return this->at(table_(b, j / block_size), h, j % block_size);
  }
  /// Where the numbers are A.
  const A* row(Index b, Index h, Index j) const { return static_cast<const A*>(address(b, h, j)); }
  /// Rows from j on that row_stride() leads to.
  Index run(Index j) const { return paged() ? this->shape_[2] - j % this->shape_[2] : this->shape_[2] - j; }
  /// Whether a row holds wild numbers.
  bool wild(Index b, Index h, Index j) const {
    return this->numbers_->wild(address(b, h, j), this->dim(), this->stride_[3]);
  }

  /// to [n, dim] ← rows first … first + n − 1
  void load(Index b, Index h, Index first, Index n, A* to) const {
    for (Index i = 0, some; this->dim() > 0 && i < n; i += some) {
      some = paged() ? std::min(run(first + i), n - i) : n;
      this->numbers_->load(address(b, h, first + i), this->stride_[2], this->stride_[3], some, this->dim(),
                           to + i * this->dim());
    }
  }
  /// to [n, cols] ← columns [col, col + cols) of rows side by side
  void load(Index b, Index h, Index first, Index n, Index col, Index cols, A* to) const {
    if (cols == 0 || n == 0) return;
    this->numbers_->load(this->at(b, h, first, col), this->stride_[2], this->stride_[3], n, cols, to);
  }
  /// Rows first … first + n − 1: where they lie, or copied to `room`.
  const A* read(bool direct, Index b, Index h, Index first, Index n, A* room) const {
    if (this->dim() == 0) return room;
    if (direct) return row(b, h, first);
    load(b, h, first, n, room);
    return room;
  }

 private:
  View<const Index, 2> table_ = {};
  bool paged_ = false;
};

/// Rows of results that are written.
template <class A>
class ResultRows : public StoredRows<A> {
 public:
  ResultRows() = default;
  template <class O>
  explicit ResultRows(View<O, 4> x) : StoredRows<A>(x) {}

  /// Whether sums can be taken where the rows lie.
  bool direct() const { return this->given() && this->same() && this->plain(); }
  A* row(Index b, Index h, Index j) const { return reinterpret_cast<A*>(this->at(b, h, j)); }
  /// Rows first … first + n − 1 ← from, which lie from_stride apart; nothing where there is no memory.
  void store(const A* from, Index from_stride, Index n, Index b, Index h, Index first) const {
    store(from, from_stride, n, 0, this->dim(), b, h, first);
  }
  /// … their columns [col, col + cols)
  void store(const A* from, Index from_stride, Index n, Index col, Index cols, Index b, Index h, Index first) const {
    if (!this->given() || cols == 0 || n == 0) return;
    this->numbers_->store(from, from_stride, n, cols, this->at(b, h, first, col), this->stride_[2], this->stride_[3]);
  }
};

}  // namespace bearing
