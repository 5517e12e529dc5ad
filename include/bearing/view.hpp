#pragma once

#include <array>
#include <bearing/device.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace bearing {

/// Counts, indices, extents, strides and integer positions: signed, 64 bits.
using Index = std::int64_t;

/// Elements that may be written: a function that works in place takes no view of const ones.
template <class T>
concept Writable = !std::is_const_v<T>;

/// a · b, or the Index nearest to it where 64 bits do not hold it: sizes come from files too.
constexpr Index extents_product(Index a, Index b) {
  Index product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) == (b < 0) ? std::numeric_limits<Index>::max() : std::numeric_limits<Index>::min();
}

/// A tensor that someone else owns: a pointer, a shape, strides, and the device whose memory it is.
///
/// Strides count elements, not bytes, and may be negative; 0 (a broadcast axis) where a function only reads. Element
/// (i, j, …) lies at data[i·stride[0] + j·stride[1] + …]. Functions of this library run on the host: a tensor that lies
/// elsewhere is refused with a ShapeError, before anything is read or written.
template <class T, int Rank>
struct View {
  T* data = nullptr;
  std::array<Index, static_cast<std::size_t>(Rank)> shape{};
  std::array<Index, static_cast<std::size_t>(Rank)> stride{};
  Device device{};  ///< the host's memory, if nothing is said

  /// The element at the given indices, one per axis; unchecked.
  template <class... I>
  requires(sizeof...(I) == Rank) constexpr T& operator()(I... index) const {
    Index offset = 0;
    std::size_t axis = 0;
    ((offset += static_cast<Index>(index) * stride[axis++]), ...);
    return data[offset];
  }

  /// The number of elements: the product of the shape, or the largest Index where that does not fit 64 bits.
  constexpr Index size() const {
    for (Index extent : shape) {
      if (extent == 0) return 0;  // whatever the others are: their product alone may not fit
    }
    Index n = 1;
    for (Index extent : shape) n = extents_product(n, extent);
    return n;
  }

  /// A view that may be written also serves where one is only read.
  constexpr operator View<const T, Rank>() const requires(!std::is_const_v<T>) { return {data, shape, stride, device}; }
};

/// A row-major view: dense(p, 2, 3) has shape [2, 3] and strides [3, 1].
template <class T, class... I>
constexpr View<T, sizeof...(I)> dense(T* data, I... extent) {
  View<T, sizeof...(I)> view{data, {static_cast<Index>(extent)...}, {}};
  Index step = 1;
  for (std::size_t axis = sizeof...(I); axis-- > 0;) {
    view.stride[axis] = step;
    step = extents_product(step, view.shape[axis]);
  }
  return view;
}

/// The same memory with one axis more, the first, of extent 1: one sequence as a batch.
template <class T, int Rank>
constexpr View<T, Rank + 1> batch_of_one(const View<T, Rank>& x) {
  View<T, Rank + 1> batch{x.data, {1}, {0}, x.device};
  for (std::size_t axis = 0; axis < Rank; ++axis) {
    batch.shape[axis + 1] = x.shape[axis];
    batch.stride[axis + 1] = x.stride[axis];
  }
  return batch;
}

/// Contiguous memory in the order batch, heads, time, dim. Axes of the view: (batch, heads, time, dim).
template <class T>
constexpr View<T, 4> bhtd(T* data, Index batch, Index heads, Index time, Index dim) {
  const Index head = extents_product(time, dim);
  return {data, {batch, heads, time, dim}, {extents_product(heads, head), head, dim, 1}};
}

/// Contiguous memory in the order batch, time, heads, dim. Axes of the view are still (batch, heads, time, dim).
template <class T>
constexpr View<T, 4> bthd(T* data, Index batch, Index time, Index heads, Index dim) {
  const Index token = extents_product(heads, dim);
  return {data, {batch, heads, time, dim}, {extents_product(time, token), dim, token, 1}};
}

/// A parameter and where its gradient is added (+=). With an empty grad (null data) no gradient is computed.
template <class T, int Rank>
struct Param {
  View<const T, Rank> value;
  View<T, Rank> grad = {};
};

/// A member without a default: an initialiser that leaves it out does not compile.
template <class T>
class Required {
 public:
  constexpr Required(T value) : value_(value) {}
  constexpr operator T() const { return value_; }

 private:
  T value_;
};

}  // namespace bearing
