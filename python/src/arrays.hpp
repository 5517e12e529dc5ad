#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <bearing/half.hpp>
#include <bearing/positions.hpp>
#include <bearing/view.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory.hpp"

// Arrays in and out: NumPy, PyTorch, JAX and whatever speaks DLPack come in without a copy, and results leave as the
// caller's own kind.

namespace bearing::python {

enum class DataType { f64, f32, bf16, f16 };
const char* name_of(DataType type);

/// "[2, 3]", for errors.
template <class Shape>
std::string shape_text(const Shape& shape) {
  std::string all;
  for (const Index extent : shape) all += (all.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + all + "]";
}
/// "1 axis", "2 axes".
std::string axes_text(std::size_t count);

/// To be called once, when the module is made.
void prepare_arrays();

/// Whether a `layout` argument says that time comes before heads: "bthd", not "bhtd". Throws ValueError for others.
bool is_time_first(const char* function, nb::handle layout);

/// An array of a caller, on the CPU. Keeps it alive.
class Array {
 public:
  /// Throws TypeError for what is no array of floating-point numbers on the CPU, or would lose a gradient.
  Array(nb::handle from, const Argument& argument);
  /// The same, and its memory may be written.
  static Array writable(nb::handle from, const Argument& argument);

  ArrayKind kind() const { return memory_.kind; }
  DataType type() const { return type_; }
  std::size_t rank() const { return memory_.shape.size(); }
  const Extents& shape() const { return memory_.shape; }
  const Extents& stride() const { return memory_.stride; }
  const void* data() const { return memory_.data; }

  /// Throws ShapeError unless the array has so many axes, TypeError for one object or another type.
  template <class T, int Rank>
  View<const T, Rank> view() const {
    check_rank(Rank);
    View<const T, Rank> out{static_cast<const T*>(data()), {}, {}};
    std::copy_n(shape().begin(), Rank, out.shape.begin());
    std::copy_n(stride().begin(), Rank, out.stride.begin());
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
  Array(nb::handle from, const Argument& argument, Memory::Use use);
  void check_rank(std::size_t rank) const;

  Argument argument_;
  Memory memory_;
  DataType type_;
};

/// An array of whole numbers (starts, lengths, a block table), which are copied, or of truth values.
template <class T>
class FlagArray {
 public:
  FlagArray(nb::handle from, const Argument& argument);

  /// An empty view for None. Throws ShapeError unless the array has so many axes.
  template <int Rank>
  View<const T, Rank> view() const {
    if (!memory_) return {};
    if (rank() != Rank) fail_rank(std::to_string(Rank) + " axes");
    return last_axes<Rank>();
  }
  /// The same for an array that may lack its first axes and have extents of 1: it serves all of a shape, as NumPy has
  /// it.
  template <int Rank>
  View<const T, Rank> view(const std::array<Index, Rank>& shape) const {
    if (!memory_) return {};
    if (rank() > Rank) fail_rank("at most " + std::to_string(Rank) + " axes");
    View<const T, Rank> out = last_axes<Rank>();
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (out.shape[axis] == 1 && shape[axis] != 1) out.shape[axis] = shape[axis], out.stride[axis] = 0;
    }
    return out;
  }

 private:
  std::size_t rank() const { return memory_->shape.size(); }
  [[noreturn]] void fail_rank(const std::string& wanted) const;
  template <int Rank>
  View<const T, Rank> last_axes() const {
    View<const T, Rank> out{elements_.data, {}, {}};
    out.shape.fill(1);
    const std::size_t missing = static_cast<std::size_t>(Rank) - rank();
    std::copy(memory_->shape.begin(), memory_->shape.end(), out.shape.begin() + missing);
    std::copy(elements_.stride.begin(), elements_.stride.end(), out.stride.begin() + missing);
    return out;
  }

  Argument argument_;
  std::optional<Memory> memory_;
  Elements<T> elements_;
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
  template <class T>
  void place(const Elements<T>& elements);

  std::optional<Memory> memory_;
  Elements<Index> whole_;
  Elements<double> real_;
  Positions positions_;
  Index time_ = -1;
};

}  // namespace bearing::python
