#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <bearing/half.hpp>
#include <bearing/positions.hpp>
#include <bearing/view.hpp>
#include <span>
#include <string>
#include <vector>

// Arrays in and out: NumPy, PyTorch, JAX and whatever speaks DLPack come in without a copy, and results leave as the
// caller's own kind.

namespace bearing::python {

namespace nb = nanobind;

enum class ArrayKind { numpy, torch, jax, other };
enum class DataType { f64, f32, bf16, f16 };
const char* name_of(DataType type);

/// Extents or strides: few, and never on the heap.
class Extents {
 public:
  static constexpr std::size_t most = 8;

  void push_back(Index extent) { values_[size_++] = extent; }
  std::size_t size() const { return size_; }
  Index operator[](std::size_t axis) const { return values_[axis]; }
  const Index* begin() const { return values_.data(); }
  const Index* end() const { return values_.data() + size_; }
  operator std::vector<Index>() const { return {begin(), end()}; }

 private:
  std::array<Index, most> values_{};
  std::size_t size_ = 0;
};

/// To be called once, when the module is made.
void prepare_arrays();

/// Whether a `layout` argument says that time comes before heads: "bthd", not "bhtd". Throws ValueError for others.
bool is_time_first(const char* function, nb::handle layout);

/// What an array is asked for, said in errors.
struct Argument {
  const char* function;
  const char* name;

  [[noreturn]] void fail(const std::string& wanted, const std::string& got) const;
};

/// An array of a caller, on the CPU. Keeps it alive.
class Array {
 public:
  /// Throws TypeError for what is no array of floating-point numbers on the CPU, or would lose a gradient.
  Array(nb::handle from, const Argument& argument);
  /// The same, and its memory may be written.
  static Array writable(nb::handle from, const Argument& argument);

  ArrayKind kind() const { return kind_; }
  DataType type() const { return type_; }
  std::size_t rank() const { return shape_.size(); }
  const Extents& shape() const { return shape_; }
  const Extents& stride() const { return stride_; }
  const void* data() const { return data_; }

  /// Throws ValueError unless the array has so many axes, TypeError for another type.
  template <class T, int Rank>
  View<const T, Rank> view() const {
    check_rank(Rank);
    View<const T, Rank> out{static_cast<const T*>(data_), {}, {}};
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(Rank); ++axis) {
      out.shape[axis] = shape_[axis];
      out.stride[axis] = stride_[axis];
    }
    return out;
  }
  template <class T, int Rank>
  View<T, Rank> written() const {
    const View<const T, Rank> out = view<T, Rank>();
    return {const_cast<T*>(out.data), out.shape, out.stride};
  }

  /// Axes (batch, heads, time, dim), from arrays of 2 (time, dim), 3 (heads, time, dim) or 4 axes; with layout "bthd"
  /// the caller's are (batch, time, heads, dim), or (time, heads, dim).
  template <class T>
  View<const T, 4> tensor(bool time_first) const;
  template <class T>
  View<T, 4> written_tensor(bool time_first) const {
    const View<const T, 4> out = tensor<T>(time_first);
    return {const_cast<T*>(out.data), out.shape, out.stride};
  }

  const Argument& argument() const { return argument_; }

 private:
  Array(nb::handle from, const Argument& argument, bool write);
  bool take_buffer(nb::handle from, bool write, bool as_bits);
  void take_dlpack(nb::handle from, bool write);
  void check_rank(std::size_t rank) const;

  Argument argument_;
  ArrayKind kind_ = ArrayKind::other;
  DataType type_ = DataType::f32;
  nb::object object_;          ///< keeps NumPy's memory
  nb::ndarray<nb::ro> array_;  ///< keeps that of others
  const void* data_ = nullptr;
  Extents shape_, stride_;
};

/// An array of whole numbers (starts, lengths, a block table), or of truth values. Other integers than int64 are
/// copied.
template <class T>
class FlagArray {
 public:
  FlagArray(nb::handle from, const Argument& argument);

  /// An empty view for None. Throws TypeError unless the array has so many axes.
  template <int Rank>
  View<const T, Rank> view() const {
    View<const T, Rank> out;
    if (data_ == nullptr) return out;
    check_rank(Rank);
    out.data = data_;
    std::copy_n(shape_.begin(), Rank, out.shape.begin());
    std::copy_n(stride_.begin(), Rank, out.stride.begin());
    return out;
  }

 private:
  void check_rank(std::size_t rank) const;

  Argument argument_;
  nb::ndarray<nb::ro> array_;
  const T* data_ = nullptr;
  std::vector<Index> shape_, stride_;
};
using IndexArray = FlagArray<Index>;
using BoolArray = FlagArray<bool>;

/// A new array of a kind and type, row-major, not filled. Its object goes to Python.
struct NewArray {
  nb::object object;
  void* data;
};
NewArray new_array(ArrayKind kind, DataType type, const std::vector<Index>& shape);

template <class T, int Rank>
View<T, Rank> view_of(const NewArray& array, const std::array<Index, Rank>& shape) {
  View<T, Rank> out{static_cast<T*>(array.data), shape, {}};
  Index step = 1;
  for (std::size_t axis = Rank; axis-- > 0; step *= shape[axis]) out.stride[axis] = step;
  return out;
}

/// Its view as (batch, heads, time, dim), of a shape that an Array has.
template <class T>
View<T, 4> new_tensor(const NewArray& array, const Extents& shape, bool time_first) {
  std::array<Index, 4> all{1, 1, 1, 1};
  std::copy(shape.begin(), shape.end(), all.end() - static_cast<std::ptrdiff_t>(shape.size()));
  T* data = static_cast<T*>(array.data);
  if (time_first && shape.size() > 2) return bthd(data, all[0], all[1], all[2], all[3]);
  return bhtd(data, all[0], all[1], all[2], all[3]);
}

/// A new NumPy array of float64 with these numbers.
nb::object numpy_array(std::span<const double> values, const std::vector<Index>& shape);

/// body.template operator()<T>() for the type's T.
template <class Body>
decltype(auto) with_type(DataType type, Body&& body) {
  switch (type) {
    case DataType::f64:
      return body.template operator()<double>();
    case DataType::f32:
      return body.template operator()<float>();
    case DataType::bf16:
      return body.template operator()<Bfloat16>();
    default:
      return body.template operator()<Float16>();
  }
}

/// Positions as Python gives them: None, a number of tokens that came before, or integers or reals [time],
/// [batch, time] or [axes, batch, time]. Keeps them, or its copy of them, alive.
class PositionsArgument {
 public:
  PositionsArgument(nb::handle from, const Argument& argument);
  const Positions& operator*() const { return positions_; }
  operator const Positions&() const { return positions_; }
  /// How many tokens an array of them has; −1: they were not given as an array.
  Index time() const { return time_; }

 private:
  nb::ndarray<nb::ro> array_;
  std::vector<Index> whole_;
  std::vector<double> real_;
  Positions positions_;
  Index time_ = -1;
};

}  // namespace bearing::python
