#pragma once

#include <array>
#include <bearing/view.hpp>
#include <cstddef>

// Where an encoding's backward adds to its parameters: one block of numbers for each batch and head, so that tasks do
// not meet, added to the gradients when all are done. A block is as large as what its head owns of each gradient.

namespace bearing {

/// x at one index of an axis, without that axis. An extent of 1 serves every index: all heads share it.
template <class T, int Rank>
requires(Rank > 0) constexpr View<T, Rank - 1> slice(const View<T, Rank>& x, std::size_t axis, Index index) {
  View<T, Rank - 1> rest{x.data, {}, {}, x.device};
  for (std::size_t from = 0, to = 0; from < Rank; ++from) {
    if (from == axis) continue;
    rest.shape[to] = x.shape[from];
    rest.stride[to++] = x.stride[from];
  }
  if (x.data != nullptr && x.shape[axis] != 1) rest.data += index * x.stride[axis];
  return rest;
}

/// The block of one batch and head: what they own of each gradient, one after another, row by row. An empty gradient
/// (null data) is not wanted and takes no room.
template <class A, std::size_t Parts>
class ParamBlock {
 public:
  /// Each of up to three axes.
  template <int... Rank>
  requires(sizeof...(Rank) == Parts && ((Rank <= 3) && ...)) explicit ParamBlock(const View<A, Rank>&... grads)
      : parts_{part(grads)...} {}

  /// Numbers in the block.
  Index size() const {
    Index n = 0;
    for (const View<A, 3>& grad : parts_) n += grad.data == nullptr ? 0 : grad.size();
    return n;
  }

  /// Where each gradient's numbers begin in a block; null where it is not wanted, or the block is null.
  template <class T>
  std::array<T*, Parts> split(T* block) const {
    std::array<T*, Parts> begin{};
    const std::array<Index, Parts> offset = offsets();
    for (std::size_t i = 0; i < Parts && block != nullptr; ++i) {
      if (offset[i] >= 0) begin[i] = block + offset[i];
    }
    return begin;
  }

  /// Where each gradient's numbers begin, counted from the block's first; −1 where it is not wanted.
  std::array<Index, Parts> offsets() const {
    std::array<Index, Parts> begin{};
    Index next = 0;
    for (std::size_t i = 0; i < Parts; ++i) {
      begin[i] = parts_[i].data == nullptr ? -1 : next;
      if (parts_[i].data != nullptr) next += parts_[i].size();
    }
    return begin;
  }

  /// Adds a block to the gradients.
  void collect(const A* block) const {
    for (const View<A, 3>& grad : parts_) {
      if (grad.data == nullptr) continue;
      const auto [height, width, depth] = grad.shape;
      for (Index i = 0; i < height; ++i) {
        for (Index j = 0; j < width; ++j, block += depth) add(depth, block, &grad(i, j, Index{0}), grad.stride[2]);
      }
    }
  }

 private:
  /// As a view of three axes, the first ones of extent 1.
  template <int Rank>
  static View<A, 3> part(const View<A, Rank>& grad) {
    View<A, 3> part{grad.data, {1, 1, 1}, {}, grad.device};
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      part.shape[axis + 3 - Rank] = grad.shape[axis];
      part.stride[axis + 3 - Rank] = grad.stride[axis];
    }
    return part;
  }

  static void add(Index n, const A* from, A* to, Index step) {
    if (step == 1) {
      for (Index x = 0; x < n; ++x) to[x] += from[x];
    } else {
      for (Index x = 0; x < n; ++x) to[x * step] += from[x];
    }
  }

  std::array<View<A, 3>, Parts> parts_;
};
template <class A, int... Rank>
ParamBlock(const View<A, Rank>&...) -> ParamBlock<A, sizeof...(Rank)>;

/// An encoding that says by grad_block() where its gradients are, or has param_size() and collect() itself.
template <class E>
concept HasGradBlock = requires(const E& e) {
  e.grad_block(Index{}, Index{}).size();
};
template <class E>
concept HasParams = HasGradBlock<E> || requires(const E& e) {
  e.param_size();
};

/// Numbers in one batch and head's block of an encoding's gradients.
template <HasParams E>
Index param_size(const E& encoding) {
  if constexpr (HasGradBlock<E>) {
    return encoding.grad_block(0, 0).size();
  } else {
    return encoding.param_size();
  }
}

/// Adds such a block to the gradients of the encoding behind a pointer.
template <class A, HasParams E>
void collect_params(const void* self, Index batch, Index head, const A* d_params) {
  const E& encoding = *static_cast<const E*>(self);
  if constexpr (HasGradBlock<E>) {
    encoding.grad_block(batch, head).collect(d_params);
  } else {
    encoding.collect(batch, head, d_params);
  }
}

}  // namespace bearing
