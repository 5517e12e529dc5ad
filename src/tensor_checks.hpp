#pragma once

#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/kept.hpp>
#include <bearing/positions.hpp>
#include <bearing/view.hpp>
#include <cstdint>
#include <string_view>

#include "overlaps.hpp"
#include "text.hpp"

// What every tensor of a caller must be, checked before anything is written. A build that only draws has no callers:
// its tensors are the library's own. By reference: a view that was just copied is read slowly, in other pieces than it
// was written in.

namespace bearing {

inline Index magnitude(Index x) { return x < 0 ? -x : x; }

/// Bytes are counted in 60 bits.
template <class T>
inline constexpr Index most_elements = (Index{1} << 60) / static_cast<Index>(sizeof(T));

/// Throws ShapeError unless the elements' distances in memory can be counted; no extent is 0.
template <class T, class Function, class Argument, std::size_t Rank>
void check_span(const Function& function, const Argument& argument, const std::array<Index, Rank>& shape,
                const std::array<Index, Rank>& strides) {
  if constexpr (!kept_whole) return;
  constexpr Index most = most_elements<T>;
  Index span = 0;
  bool countable = true;
  for (std::size_t axis = 0; axis < Rank && countable; ++axis) {
    if (shape[axis] == 1) continue;
    const Index stride = strides[axis];
    Index reach = 0;
    countable = stride >= -most && stride <= most &&
                !__builtin_mul_overflow(magnitude(stride), shape[axis] - 1, &reach) && reach <= most - span;
    if (countable) span += reach;
  }
  if (!countable) {
    throw ShapeError(text::concat("[", function, "] ", argument, ": must span at most 2^60 bytes, got strides ",
                                  strides, " for shape ", shape));
  }
}

/// Throws ShapeError unless the elements' number and their distances in memory can be counted.
template <class Function, class Argument, class T, int Rank>
void check_countable(const Function& function, const Argument& argument, const View<T, Rank>& x) {
  if constexpr (!kept_whole) return;
  Index elements = 1;
  bool countable = true;
  if (std::find(x.shape.begin(), x.shape.end(), 0) != x.shape.end()) return;
  // By products that say whether they fit: seven divisions would be a tenth of the time of one token's rotation.
  for (std::size_t axis = 0; axis < x.shape.size() && countable; ++axis) {
    countable = !__builtin_mul_overflow(elements, x.shape[axis], &elements) && elements <= most_elements<T>;
  }
  if (!countable)
    throw ShapeError(
        text::concat("[", function, "] ", argument, ": must span at most 2^60 bytes, got shape ", x.shape));
  check_span<T>(function, argument, x.shape, x.stride);
}

/// Throws ShapeError for a negative extent.
template <class Function, class Argument, class T, int Rank>
void check_extents(const Function& function, const Argument& argument, const View<T, Rank>& x) {
  if constexpr (!kept_whole) return;
  for (const Index extent : x.shape) {
    if (extent >= 0) continue;
    throw ShapeError(
        text::concat("[", function, "] ", argument, ": must have extents of at least 0, got shape ", x.shape));
  }
}

/// Whether an argument that may be left out is there. An empty one has a shape, though perhaps no memory; a shape
/// without memory is none, and is refused like that of any other tensor.
template <class T, int Rank>
bool is_given(const View<T, Rank>& x) {
  return x.data != nullptr || x.shape != std::array<Index, static_cast<std::size_t>(Rank)>{};
}

/// Out of line, so that a check is a comparison.
[[noreturn]] void refuse_device(std::string_view function, std::string_view argument, const Device& device);

/// Throws ShapeError for memory that the host cannot read as it is. Whatever a caller gives passes here or in
/// CallMemory before it is read.
template <class Function, class Argument>
void check_host(const Function& function, const Argument& argument, const Device& device) {
  if (!device.is_host()) refuse_device(function, argument, device);
}

/// Throws ShapeError for memory that does not begin at a multiple of its numbers' alignment: they cannot be read there.
template <class T, class Function, class Argument>
void check_aligned(const Function& function, const Argument& argument, const T* data) {
  const auto at = reinterpret_cast<std::uintptr_t>(data) % alignof(T);
  if (at == 0) return;
  throw ShapeError(text::concat("[", function, "] ", argument, ": must begin at a multiple of ",
                                static_cast<Index>(alignof(T)), " bytes, got an address ", static_cast<Index>(at),
                                " past one"));
}

/// Throws ShapeError unless a tensor that has elements has memory for them on the host, and they can be counted.
template <class T, int Rank>
void check_memory(const char* function, const char* argument, const View<T, Rank>& x) {
  if constexpr (!kept_whole) return;
  check_host(function, argument, x.device);
  check_countable(function, argument, x);
  check_aligned(function, argument, x.data);
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
void check_tensor(const char* function, const char* argument, const View<T, Rank>& x) {
  check_extents(function, argument, x);
  check_memory(function, argument, x);
}

/// Throws ShapeError unless a tensor has the shape that others ask for, and memory.
template <class T, int Rank>
void check_shape(const char* function, const char* argument, const View<T, Rank>& x,
                 const std::type_identity_t<std::array<Index, static_cast<std::size_t>(Rank)>>& shape,
                 const char* axes) {
  if (x.shape != shape) {
    throw ShapeError(text::concat("[", function, "] ", argument, ": must be ", axes, " = ", shape, ", got ", x.shape));
  }
  check_memory(function, argument, x);
}

/// Throws ShapeError if two elements of a tensor that is written share memory.
template <class T, int Rank>
void check_distinct(const char* function, const char* argument, const View<T, Rank>& x) {
  if constexpr (!kept_whole) return;
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
void check_output(const char* function, const char* argument, const View<T, Rank>& x) {
  check_tensor(function, argument, x);
  check_distinct(function, argument, x);
}

}  // namespace bearing
