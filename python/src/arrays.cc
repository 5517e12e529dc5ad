#include "arrays.hpp"

#include <cstring>
#include <new>
#include <string_view>

namespace bearing::python {

namespace {

constexpr const char* floating = "an array of float64, float32, bfloat16 or float16";

DataType type_of(nb::dlpack::dtype type, nb::handle x, const Argument& argument) {
  if (type == nb::dtype<float>()) return DataType::f32;
  if (type == nb::dtype<double>()) return DataType::f64;
  if (type.bits == 16 && type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat)) return DataType::bf16;
  if (type.bits == 16 && type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float)) return DataType::f16;
  argument.fail(floating, type_text(x));
}

}  // namespace

const char* name_of(DataType type) {
  constexpr std::array<const char*, 4> names{"float64", "float32", "bfloat16", "float16"};
  return names[static_cast<std::size_t>(type)];
}

std::string axes_text(std::size_t count) { return std::to_string(count) + (count == 1 ? " axis" : " axes"); }

Array::Array(nb::handle from, const Argument& argument, Memory::Use use)
    : argument_(argument),
      memory_(from, argument, {"an array (NumPy, PyTorch, JAX or DLPack)", floating}, use),
      type_(type_of(memory_.type, from, argument)) {}
Array::Array(nb::handle from, const Argument& argument) : Array(from, argument, Memory::Use::read) {}
Array Array::writable(nb::handle from, const Argument& argument) { return {from, argument, Memory::Use::write}; }

void Array::check_rank(std::size_t rank) const {
  if (shape().size() == rank) return;
  if (shape().size() == 0) argument_.fail("an array of " + axes_text(rank), "shape []");  // one object that is no array
  argument_.fail_shape("an array of " + axes_text(rank), "shape " + shape_text(shape()));
}

bool is_time_first(const char* function, nb::handle layout) {
  std::string word;
  if (nb::try_cast(layout, word)) {
    if (word == "bhtd") return false;
    if (word == "bthd") return true;
  }
  const std::string text = std::string("[") + function + "] layout: must be 'bhtd' or 'bthd', got " +
                           nb::cast<std::string>(nb::repr(layout));
  throw nb::value_error(text.c_str());
}

template <class T>
View<const T, 4> Array::tensor(bool time_first) const {
  const std::size_t n = shape().size();
  if (n < 2 || n > 4)
    argument_.fail_shape("an array of 2 to 4 axes, [batch, heads, time, dim]", "shape " + shape_text(shape()));
  View<const T, 4> out{static_cast<const T*>(data()), {1, 1, 1, 1}, {0, 0, 0, 0}};
  for (std::size_t axis = 0; axis < n; ++axis) {
    std::size_t to = 4 - n + axis;
    if (time_first && n > 2 && (to == 1 || to == 2)) to = 3 - to;
    out.shape[to] = shape()[axis];
    out.stride[to] = stride()[axis];
  }
  return out;
}
template View<const double, 4> Array::tensor(bool) const;
template View<const float, 4> Array::tensor(bool) const;
template View<const Bfloat16, 4> Array::tensor(bool) const;
template View<const Float16, 4> Array::tensor(bool) const;

namespace {

/// What new NumPy arrays are made with; kept as long as the module, which is for ever.
struct Numpy {
  nb::handle empty;
  std::array<nb::handle, 4> dtypes;  // none for bfloat16, which may not be there: it is asked for when it is needed
};
Numpy numpy;

/// NumPy's bfloat16, which ml_dtypes has.
nb::object numpy_bfloat16() {
  try {
    return nb::module_::import_("ml_dtypes").attr("bfloat16");
  } catch (nb::python_error& error) {
    nb::raise_from(error, PyExc_ImportError,
                   "NumPy's arrays of bfloat16 need ml_dtypes: pip install 'bearing-pe[bfloat16]'");
  }
}

/// NumPy makes its arrays faster than any protocol could hand them over.
NewArray new_numpy_array(DataType type, const std::vector<Index>& shape) {
  const nb::object extents = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    PyTuple_SetItem(extents.ptr(), static_cast<Py_ssize_t>(axis), PyLong_FromLongLong(shape[axis]));
  }
  const bool is_bfloat16 = type == DataType::bf16;
  nb::object array =
      numpy.empty(extents, is_bfloat16 ? numpy_bfloat16() : nb::borrow(numpy.dtypes[static_cast<std::size_t>(type)]));
  const nb::object bits = is_bfloat16 ? nb::object(array.attr("view")("uint16")) : array;
  Py_buffer buffer;
  if (PyObject_GetBuffer(bits.ptr(), &buffer, PyBUF_STRIDES) != 0) throw nb::python_error();
  void* data = buffer.buf;
  PyBuffer_Release(&buffer);
  return {std::move(array), data};
}

}  // namespace

void prepare_arrays() {
  const nb::module_ module = nb::module_::import_("numpy");
  numpy.empty = nb::object(module.attr("empty")).release();
  const nb::object dtype = module.attr("dtype");
  numpy.dtypes = {nb::object(dtype("float64")).release(), nb::object(dtype("float32")).release(), nb::handle(),
                  nb::object(dtype("float16")).release()};
}

NewArray new_array(ArrayKind kind, DataType type, const std::vector<Index>& shape) {
  if (kind == ArrayKind::numpy || kind == ArrayKind::other) return new_numpy_array(type, shape);
  constexpr auto code = [](nb::dlpack::dtype_code c) { return static_cast<std::uint8_t>(c); };
  const std::array<nb::dlpack::dtype, 4> dtypes{nb::dtype<double>(), nb::dtype<float>(),
                                                nb::dlpack::dtype{code(nb::dlpack::dtype_code::Bfloat), 16, 1},
                                                nb::dlpack::dtype{code(nb::dlpack::dtype_code::Float), 16, 1}};
  const nb::dlpack::dtype dtype = dtypes[static_cast<std::size_t>(type)];
  std::size_t size = dtype.bits / 8;
  std::vector<std::size_t> extents;
  for (Index extent : shape) {
    extents.push_back(static_cast<std::size_t>(extent));
    if (extent > 0 && size > PTRDIFF_MAX / extents.back()) throw std::bad_alloc();
    size *= extents.back();
  }
  if (kind == ArrayKind::torch) {
    ExchangedTensor made = new_exchanged(dtype, shape.data(), shape.size(), size);
    if (made.object.is_valid()) return {std::move(made.object), made.data};
  }
  void* data = ::operator new (size == 0 ? 1 : size, std::align_val_t{64});
  nb::capsule owner(data, [](void* p) noexcept { ::operator delete (p, std::align_val_t{64}); });
  const auto make = [&]<class... Framework>() {
    return nb::cast(nb::ndarray<Framework...>(data, extents.size(), extents.data(), owner, nullptr, dtype));
  };
  if (kind == ArrayKind::jax) return {make.template operator()<nb::jax>(), data};
  // As a capsule: an object of nanobind's would be asked for its device and its protocol first, in Python, for a
  // microsecond.
  static constinit Imported from_dlpack{"torch.utils.dlpack", "from_dlpack"};
  return {from_dlpack.get()(make.template operator()<>()), data};
}

nb::object numpy_array(std::span<const double> values, const std::vector<Index>& shape) {
  const NewArray array = new_array(ArrayKind::numpy, DataType::f64, shape);
  if (!values.empty()) std::memcpy(array.data, values.data(), values.size() * sizeof(double));
  return array.object;
}

namespace {

/// A number in an array's clothes: NumPy's int64(3), an array or a tensor without axes.
bool is_one_integer(nb::handle from) {
  static const nb::handle ndim = interned("ndim");
  if (PyBool_Check(from.ptr()) || !PyIndex_Check(from.ptr())) return false;
  if (PyLong_CheckExact(from.ptr())) return true;
  const nb::object axes = member_or_none(from, ndim);
  return axes.is_none() || nb::cast<Index>(axes) == 0;
}

/// Lists and what else NumPy makes an array of, as that; arrays as they are.
nb::object array_of(nb::handle from) {
  if (nb::hasattr(from, "dtype")) return nb::borrow(from);
  return nb::module_::import_("numpy").attr("asarray")(from);
}

}  // namespace

template <class T>
FlagArray<T>::FlagArray(nb::handle from, const Argument& argument) : argument_(argument) {
  if (from.is_none()) return;
  constexpr const char* wanted =
      std::is_same_v<T, bool> ? "an array of bool on the CPU" : "an array of integers on the CPU";
  memory_.emplace(array_of(from), argument, Expected{wanted, wanted});
  if constexpr (std::is_same_v<T, Index>) {
    if (auto elements = integers_of(*memory_, argument)) {
      elements_ = std::move(*elements);
      return;
    }
  } else if (memory_->type == nb::dtype<T>()) {
    elements_ = {{}, static_cast<const T*>(memory_->data), memory_->stride};
    return;
  }
  argument.fail(wanted, "an array of " + type_text(array_of(from)));
}

template <class T>
void FlagArray<T>::fail_rank(const std::string& wanted) const {
  argument_.fail_shape("an array of " + wanted, "shape " + shape_text(memory_->shape));
}
template class FlagArray<Index>;
template class FlagArray<bool>;

PositionsArgument::PositionsArgument(nb::handle from, const Argument& argument) {
  if (from.is_none()) return;
  if (requires_grad(from)) {
    argument.fail("a tensor without requires_grad: positions have no gradient here", "one that requires them");
  }
  if (is_one_integer(from)) {
    if (!PyLong_CheckExact(from.ptr()) && nb::hasattr(from, "dtype")) check_array(from, argument);
    Index past = 0;
    const nb::object number = nb::steal(PyNumber_Index(from.ptr()));
    if (!number.is_valid()) PyErr_Clear();
    if (number.is_valid() && nb::try_cast(number, past)) {
      positions_ = Positions(past);
      return;
    }
    argument.fail("None, an int that fits 64 bits, or an array", nb::cast<std::string>(nb::repr(from)));
  }
  constexpr const char* wanted = "None, an int, or an array [time], [batch, time] or [axes, batch, time] on the CPU";
  const bool is_list = nb::isinstance<nb::sequence>(from) && !nb::isinstance<nb::str>(from);
  const nb::object owned = is_list ? array_of(from) : nb::borrow(from);
  memory_.emplace(owned, argument, Expected{wanted, "integers, float64 or float32"});
  const std::size_t axes = memory_->shape.size();
  const auto got = [&] { return class_of(from) + " of shape " + shape_text(memory_->shape); };
  if (axes < 1) argument.fail(wanted, got());  // a number that is no whole one
  if (axes > 3) argument.fail_shape(wanted, got());
  time_ = memory_->shape[axes - 1];
  if (auto whole = integers_of(*memory_, argument)) {
    whole_ = std::move(*whole);
    place(whole_);
    return;
  }
  if (auto real = reals_of(*memory_)) {
    real_ = std::move(*real);
    place(real_);
    return;
  }
  const std::string name = type_text(owned);
  argument.fail(name.ends_with("float16") ? "integers, float64 or float32 (16-bit floats cannot count past 2048)"
                                          : "integers, float64 or float32",
                name);
}

template <class T>
void PositionsArgument::place(const Elements<T>& elements) {
  const Extents &shape = memory_->shape, &stride = elements.stride;
  const auto view = [&]<std::size_t n>(std::array<Index, n>) {
    View<const T, static_cast<int>(n)> out{elements.data, {}, {}};
    std::copy_n(shape.begin(), n, out.shape.begin());
    std::copy_n(stride.begin(), n, out.stride.begin());
    positions_ = Positions(out);
  };
  const std::size_t axes = shape.size();
  if (axes == 1) return view(std::array<Index, 1>{});
  if (axes == 2) return view(std::array<Index, 2>{});
  view(std::array<Index, 3>{});
}

}  // namespace bearing::python
