#pragma once

#include <bearing/error.hpp>
#include <cstring>
#include <optional>
#include <string>

#include "arrays.hpp"
#include "encodings.hpp"

// What functions over encodings share: which arrays they make, and checks.

namespace bearing::python {

template <class A>
inline constexpr DataType arithmetic_of = std::is_same_v<A, double> ? DataType::f64 : DataType::f32;

/// Throws TypeError unless an array has the type of another one, called `as`.
void check_same_type(const Array& array, const Array& other, const char* as);
/// The type that a word, or NumPy's, PyTorch's or JAX's own name, stands for.
DataType type_named(const Argument& argument, nb::handle dtype);
/// The same; none where it is nothing of these.
std::optional<DataType> type_called(nb::handle dtype);
/// Throws TypeError unless it has this type.
void check_type(const Array& array, DataType type);

/// A text of an error that begins with `to` if it began with `from`.
std::string renamed(std::string_view from, std::string_view to, std::string text);
/// body(), whose errors name what the caller knows, "[function] argument", where C++ has other names.
template <class Body>
decltype(auto) errors_as(std::string_view to, std::string_view from, Body&& body) {
  try {
    return body();
  } catch (const ShapeError& error) {
    throw ShapeError(renamed(from, to, error.what()));
  } catch (const RangeError& error) {
    throw RangeError(renamed(from, to, error.what()));
  }
}

/// body.template operator()<A>() for arrays of float64 or float32; throws TypeError for others.
template <class Body>
decltype(auto) with_arithmetic(const Array& array, Body&& body) {
  if (array.type() == DataType::f64) return body.template operator()<double>();
  if (array.type() != DataType::f32) {
    array.argument().fail("float64 or float32", name_of(array.type()));
  }
  return body.template operator()<float>();
}

/// The kind and type of an array that no other tells: `like` gives both, `dtype` (a word, or NumPy's, PyTorch's or
/// JAX's name for it) the type and, without `like`, the kind. Without either they are those of the first parameter of
/// the encodings, else NumPy's float32.
struct Wish {
  ArrayKind kind;
  DataType type;
};
Wish wish_of(const char* function, nb::handle dtype, nb::handle like, nb::handle encodings);

/// Throws TypeError for the name of an argument that a function does not have, with what to write in its place.
[[noreturn]] void fail_unknown(const char* function, const std::string& word);

/// A length: as it is given, else as many as there are positions.
Index length_of(const char* function, const char* name, nb::handle given, nb::handle positions);
/// The extents of positions [time], [batch, time] or [axes, batch, time] without their axes; none for None or an int.
std::vector<Index> extents_of(nb::handle positions);

/// A new array with the rank and order of axes that `as` has, and its view as (batch, heads, time, dim).
template <class T>
class NewTensor {
 public:
  NewTensor(const Array& as, bool time_first, Index time, Index dim)
      : NewTensor(as, as.type(), time_first, time, dim) {}
  NewTensor(const Array& as, DataType type, bool time_first, Index time, Index dim) : time_first_(time_first) {
    std::vector<Index> shape = as.shape();
    const View<const T, 4> view = as.tensor<T>(time_first);
    const std::size_t n = shape.size();
    shape[n - 1] = dim;
    shape[n - (time_first && n > 2 ? 3 : 2)] = time;
    array_ = new_array(as.kind(), type, shape);
    extents_ = {view.shape[0], view.shape[1], time, dim};
  }
  /// Of the same shape, full of zeros.
  static NewTensor zeros(const Array& as, bool time_first) {
    const View<const T, 4> view = as.tensor<T>(time_first);
    const NewTensor out(as, time_first, view.shape[2], view.shape[3]);
    if (view.size() > 0) std::memset(out.array_.data, 0, static_cast<std::size_t>(view.size()) * sizeof(T));
    return out;
  }

  View<T, 4> tensor() const {
    T* data = static_cast<T*>(array_.data);
    return time_first_ ? bthd(data, extents_[0], extents_[2], extents_[1], extents_[3])
                       : bhtd(data, extents_[0], extents_[1], extents_[2], extents_[3]);
  }
  const nb::object& object() const { return array_.object; }

 private:
  NewArray array_;
  bool time_first_;
  std::array<Index, 4> extents_{};
};

/// One encoding, made for a call.
template <class A>
struct MadeOne {
  EncodingList list;
  std::vector<Gradient> gradients;  // before what fills them
  Made<A> made;

  MadeOne(const char* function, nb::handle given, Wanted wanted)
      : list(encoding_of({function, "encoding"}, given, arithmetic_of<A>)),
        made(encoding().template make<A>(encoding().memory(function, arithmetic_of<A>, wanted, gradients))) {}

  const Encoding& encoding() const { return *list.all.front(); }

  nb::dict gradient_arrays() const {
    nb::dict all;
    for (const Gradient& one : gradients) all[one.name] = one.array;
    return all;
  }
};

}  // namespace bearing::python
