#pragma once

#include <array>
#include <bearing/export.hpp>
#include <bearing/view.hpp>
#include <cstddef>

// Where tensors lie in memory: what is written must lie apart from all else that a call is given.

namespace bearing {

/// The place of a tensor, whatever its type.
struct Memory {
  static constexpr std::size_t most_axes = 4;

  const void* data = nullptr;
  Index bytes = 0;                       ///< of one element; 0: no elements
  std::array<Index, most_axes> shape{};  ///< unused axes have an extent of 1
  std::array<Index, most_axes> stride{};
  Device device{};

  Memory() = default;
  template <class T, int Rank>
  requires(static_cast<std::size_t>(Rank) <= most_axes) Memory(View<T, Rank> x)
      : data(x.data), bytes(x.data == nullptr ? 0 : static_cast<Index>(sizeof(T))), device(x.device) {
    shape.fill(1);
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(Rank); ++axis) {
      shape[axis] = x.shape[axis];
      stride[axis] = x.stride[axis];
      if (shape[axis] == 0) bytes = 0;  // whatever the others are: their product need not fit 64 bits
    }
  }

  bool operator==(const Memory&) const = default;
};

/// Whether two tensors have a byte in common. Exact: rows of one may lie between rows of the other, as queries and keys
/// in one buffer of a fused projection do. Takes time that does not depend on the extents, except for strides that fit
/// each other nowhere; where 100,000 steps do not tell, the answer is yes.
BEARING_EXPORT bool shares_memory(const Memory& a, const Memory& b);

/// What a call does with a tensor.
enum class MemoryUse {
  read,
  write,
  add,  ///< += to the gradient of a parameter; tied parameters may share one, if it is the very same view
};

/// Takes what an encoding tells of the memory that it refers to.
class MemoryList {
 public:
  using Add = void (*)(void* to, const char* name, MemoryUse use, const Memory& memory);
  MemoryList(void* to, Add add) : to_(to), add_(add) {}

  /// Names are as in "T5.table".
  template <class T, int Rank>
  void reads(const char* name, View<const T, Rank> x) {
    add_(to_, name, MemoryUse::read, x);
  }
  template <class A, int Rank>
  void param(const char* name, const Param<A, Rank>& of) {
    add_(to_, name, MemoryUse::read, of.value);
    if (of.grad.data != nullptr) add_(to_, name, MemoryUse::add, of.grad);
  }

 private:
  void* to_;
  Add add_;
};

}  // namespace bearing
