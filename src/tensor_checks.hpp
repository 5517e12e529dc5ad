#pragma once

#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/positions.hpp>
#include <bearing/view.hpp>

#include "text.hpp"

// What every tensor of a caller must be, checked before anything is written.

namespace bearing {

inline Index magnitude(Index x) { return x < 0 ? -x : x; }

/// Throws ShapeError unless the elements' number and their distances in memory can be counted in 60 bits of bytes.
template <class T, int Rank>
void check_countable(const char* function, const char* argument, View<T, Rank> x) {
  constexpr Index most = (Index{1} << 60) / static_cast<Index>(sizeof(T));
  constexpr auto axes = static_cast<std::size_t>(Rank);
  Index elements = 1, span = 0;
  bool countable = true;
  if (std::find(x.shape.begin(), x.shape.end(), 0) != x.shape.end()) return;
  for (std::size_t axis = 0; axis < axes && countable; ++axis) {
    countable = x.shape[axis] <= most / elements;
    if (countable) elements *= x.shape[axis];
  }
  if (!countable) throw ShapeError(text::concat("[", function, "] ", argument, ": too large, got shape ", x.shape));
  for (std::size_t axis = 0; axis < axes && countable; ++axis) {
    if (x.shape[axis] == 1) continue;
    const Index stride = x.stride[axis];
    countable = stride >= -most && stride <= most && magnitude(stride) <= (most - span) / (x.shape[axis] - 1);
    if (countable) span += magnitude(stride) * (x.shape[axis] - 1);
  }
  if (!countable) {
    throw ShapeError(
        text::concat("[", function, "] ", argument, ": too large, got strides ", x.stride, " for shape ", x.shape));
  }
}

/// Throws ShapeError for a negative extent.
template <class T, int Rank>
void check_extents(const char* function, const char* argument, View<T, Rank> x) {
  for (const Index extent : x.shape) {
    if (extent >= 0) continue;
    throw ShapeError(
        text::concat("[", function, "] ", argument, ": extents must not be negative, got shape ", x.shape));
  }
}

/// Throws ShapeError unless a tensor that has elements has memory for them, and they can be counted.
template <class T, int Rank>
void check_memory(const char* function, const char* argument, View<T, Rank> x) {
  check_countable(function, argument, x);
  if (x.data != nullptr || x.size() == 0) return;
  throw ShapeError(
      text::concat("[", function, "] ", argument, ": must have memory, got a null pointer; shape is ", x.shape));
}

/// Whether a grid has at most 2^31 patches. Neither side may be longer, even if the other one is 0.
inline bool countable_grid(Index height, Index width) {
  const auto side = [](Index n) { return n >= 0 && n <= max_position; };
  return side(height) && side(width) && (width == 0 || height <= max_position / width);
}

/// Both; for tensors whose shape is what it must be, or is compared with nothing.
template <class T, int Rank>
void check_tensor(const char* function, const char* argument, View<T, Rank> x) {
  check_extents(function, argument, x);
  check_memory(function, argument, x);
}

/// Throws ShapeError unless a tensor has the shape that others ask for, and memory.
template <class T, int Rank>
void check_shape(const char* function, const char* argument, View<T, Rank> x,
                 const std::type_identity_t<std::array<Index, static_cast<std::size_t>(Rank)>>& shape,
                 const char* axes) {
  if (x.shape != shape) {
    throw ShapeError(text::concat("[", function, "] ", argument, ": must be ", axes, " = ", shape, ", got ", x.shape));
  }
  check_memory(function, argument, x);
}

/// Throws ShapeError if two elements of a tensor that is written share memory.
template <class T, int Rank>
void check_distinct(const char* function, const char* argument, View<T, Rank> x) {
  if (x.size() == 0) return;
  // Each axis must step over all that the axes with smaller strides span.
  constexpr auto axes = static_cast<std::size_t>(Rank);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    if (x.shape[axis] == 1) continue;
    const Index step = magnitude(x.stride[axis]);
    Index span = 1;
    for (std::size_t other = 0; other < axes; ++other) {
      const Index reach = magnitude(x.stride[other]);
      if (other != axis && x.shape[other] > 1 && (reach < step || (reach == step && other < axis))) {
        span += (x.shape[other] - 1) * reach;
      }
    }
    if (step < span) {
      throw ShapeError(text::concat("[", function, "] ", argument, ": no two elements may share memory, got strides ",
                                    x.stride, " for shape ", x.shape));
    }
  }
}

/// A tensor that is written: has memory, and an element of its own for each index.
template <class T, int Rank>
void check_output(const char* function, const char* argument, View<T, Rank> x) {
  check_tensor(function, argument, x);
  check_distinct(function, argument, x);
}

/// Throws ShapeError if a tensor that is written starts where another one does. Tensors may well lie between each
/// other's rows (slices of one array of queries, keys and values), so that more cannot be told from their ends.
template <class T, class U, int Rank, int OtherRank>
void check_other(const char* function, const char* argument, View<T, Rank> written, const char* than,
                 View<U, OtherRank> other) {
  if (written.size() == 0 || other.size() == 0) return;
  if (static_cast<const void*>(written.data) != static_cast<const void*>(other.data)) return;
  throw ShapeError(
      text::concat("[", function, "] ", argument, ": must be another tensor than ", than, ", got the same memory"));
}

/// The memory that a view's elements lie in: [first, last) in bytes; empty for an empty view.
struct MemoryExtent {
  std::uintptr_t first = 0, last = 0;

  template <class T, int Rank>
  explicit MemoryExtent(View<T, Rank> x) {
    if (x.size() == 0) return;
    Index low = 0, high = 1;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(Rank); ++axis) {
      (x.stride[axis] < 0 ? low : high) += (x.shape[axis] - 1) * x.stride[axis];
    }
    const auto base = reinterpret_cast<std::uintptr_t>(x.data);
    first = base + static_cast<std::uintptr_t>(low) * sizeof(T);
    last = base + static_cast<std::uintptr_t>(high) * sizeof(T);
  }
};

/// Throws ShapeError unless `out` is the very view `in` or lies elsewhere.
template <class T, int Rank>
void check_apart(const char* function, const char* argument, View<const T, Rank> in, View<T, Rank> out) {
  if (in.data == out.data && in.shape == out.shape && in.stride == out.stride) return;
  const MemoryExtent a(in), b(out);
  if (a.first < b.last && b.first < a.last) {
    throw ShapeError(text::concat("[", function, "] ", argument,
                                  ": must be the input's own view or share no memory with it, got views that overlap"));
  }
}

}  // namespace bearing
