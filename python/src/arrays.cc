#include "arrays.hpp"

#include <cstring>
#include <new>
#include <string_view>

namespace bearing::python {

namespace {

bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

std::string class_of(nb::handle x) { return nb::cast<std::string>(nb::str(nb::handle(x.type()))); }

ArrayKind kind_of(nb::handle x) {
  // A handful of types ever come here; modules are asked once for each.
  static std::vector<std::pair<PyTypeObject*, ArrayKind>> seen;
  PyTypeObject* type = Py_TYPE(x.ptr());
  for (const auto& [known, kind] : seen) {
    if (known == type) return kind;
  }
  const auto module = nb::cast<std::string>(nb::handle(x.type()).attr("__module__"));
  ArrayKind kind = ArrayKind::other;
  if (starts_with(module, "numpy")) kind = ArrayKind::numpy;
  if (starts_with(module, "torch")) kind = ArrayKind::torch;
  if (starts_with(module, "jax")) kind = ArrayKind::jax;
  Py_INCREF(type);  // so that no other type takes its place
  seen.emplace_back(type, kind);
  return kind;
}

/// NumPy's bfloat16 is ml_dtypes'; no protocol carries it, so that its bits go as integers.
bool is_numpy_bfloat16(nb::handle x) {
  return nb::hasattr(x, "dtype") && nb::cast<std::string>(nb::str(nb::object(x.attr("dtype")))) == "bfloat16";
}

/// Autograd refuses a backward whose saved tensors have been written since, if it is told of the writing.
void count_write(nb::handle tensor) {
  static const nb::handle increment_version =
      nb::object(nb::module_::import_("torch.autograd.graph").attr("increment_version")).release();
  increment_version(tensor);
}

constexpr const char* floating = "an array of float64, float32, bfloat16 or float16";

/// The type of an array's elements, or what it is if it is none.
std::string type_text(nb::handle x) {
  return nb::hasattr(x, "dtype") ? nb::cast<std::string>(nb::str(nb::object(x.attr("dtype")))) : class_of(x);
}

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

void Argument::fail(const std::string& wanted, const std::string& got) const {
  throw nb::type_error((std::string("[") + function + "] " + name + ": must be " + wanted + ", got " + got).c_str());
}

Array::Array(nb::handle from, const Argument& argument, bool write) : argument_(argument), kind_(kind_of(from)) {
  if (kind_ != ArrayKind::numpy) {
    take_dlpack(from, write);
  } else if (!take_buffer(from, write, false)) {
    if (!is_numpy_bfloat16(from)) argument.fail(floating, type_text(from));
    take_buffer(nb::object(from.attr("view")("uint16")), write, true);
  }
}

/// NumPy's arrays; as_bits: bfloat16, that came as integers. False for a type that the buffer protocol does not know.
bool Array::take_buffer(nb::handle from, bool write, bool as_bits) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(from.ptr(), &buffer, PyBUF_RECORDS_RO) != 0) {
    PyErr_Clear();
    return false;
  }
  // The object alone keeps the memory; what the buffer points to lives no longer than this function.
  struct Release {
    Py_buffer& buffer;
    ~Release() { PyBuffer_Release(&buffer); }
  } const release{buffer};
  object_ = nb::borrow(from);
  std::string_view format = buffer.format;
  // Native order, said in so many words: NumPy does where elements are not aligned.
  if (format.size() == 2 && (format[0] == '^' || format[0] == '=' || format[0] == '@')) format.remove_prefix(1);
  if (as_bits) {
    type_ = DataType::bf16;
  } else if (format == "f") {
    type_ = DataType::f32;
  } else if (format == "d") {
    type_ = DataType::f64;
  } else if (format == "e") {
    type_ = DataType::f16;
  } else {
    argument_.fail(floating, type_text(from));
  }
  if (write && buffer.readonly) argument_.fail("an array that may be written", "one that is read-only");
  if (buffer.ndim > static_cast<int>(Extents::most)) {
    argument_.fail("an array of at most 8 axes", "one of " + std::to_string(buffer.ndim));
  }
  bool aligned = reinterpret_cast<std::uintptr_t>(buffer.buf) % static_cast<std::uintptr_t>(buffer.itemsize) == 0;
  for (int axis = 0; axis < buffer.ndim; ++axis) {
    aligned = aligned && (buffer.strides[axis] % buffer.itemsize == 0 || buffer.shape[axis] < 2);
    shape_.push_back(buffer.shape[axis]);
    stride_.push_back(buffer.strides[axis] / buffer.itemsize);
  }
  if (!aligned && buffer.len != 0) argument_.fail("in memory that is aligned to its elements", "an array that is not");
  data_ = buffer.buf;
  return true;
}

/// PyTorch's, JAX's and all others.
void Array::take_dlpack(nb::handle from, bool write) {
  if (kind_ == ArrayKind::torch && nb::hasattr(from, "requires_grad") && nb::cast<bool>(from.attr("requires_grad"))) {
    argument_.fail("a tensor without requires_grad: bearing.torch has the functions that keep gradients",
                   "one that requires them");
  }
  if (!nb::try_cast(from, array_, false)) {
    argument_.fail("an array (NumPy, PyTorch, JAX or DLPack)", class_of(from));
  }
  // A view such as z.conj().imag has its sign in a flag, which DLPack does not carry.
  if (kind_ == ArrayKind::torch && nb::cast<bool>(from.attr("is_neg")())) {
    argument_.fail("a tensor whose memory holds its numbers", "a negated view: resolve_neg() makes one of it");
  }
  if (array_.device_type() != nb::device::cpu::value) {
    argument_.fail("in the CPU's memory",
                   "an array on " + nb::cast<std::string>(nb::str(nb::object(from.attr("device")))));
  }
  type_ = type_of(array_.dtype(), from, argument_);
  if (write) {
    if (kind_ == ArrayKind::jax) argument_.fail("an array that may be written", "a JAX array, which never may");
    nb::ndarray<> writable;  // PyTorch's tensors always may
    if (kind_ != ArrayKind::torch && !nb::try_cast(from, writable, false)) {
      argument_.fail("an array that may be written", "one that is read-only");
    }
    if (kind_ == ArrayKind::torch) count_write(from);
  }
  if (array_.ndim() > Extents::most) {
    argument_.fail("an array of at most 8 axes", "one of " + std::to_string(array_.ndim()));
  }
  data_ = array_.data();
  for (std::size_t axis = 0; axis < array_.ndim(); ++axis) {
    shape_.push_back(static_cast<Index>(array_.shape(axis)));
    stride_.push_back(array_.stride(axis));
  }
}

Array::Array(nb::handle from, const Argument& argument) : Array(from, argument, false) {}
Array Array::writable(nb::handle from, const Argument& argument) { return {from, argument, true}; }

void Array::check_rank(std::size_t rank) const {
  if (shape_.size() == rank) return;
  argument_.fail("an array of " + std::to_string(rank) + " axes", "one of " + std::to_string(shape_.size()));
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
  const std::size_t n = shape_.size();
  if (n < 2 || n > 4)
    argument_.fail("an array of 2 to 4 axes, of which the last is dim", "one of " + std::to_string(n));
  View<const T, 4> out{static_cast<const T*>(data_), {1, 1, 1, 1}, {0, 0, 0, 0}};
  for (std::size_t axis = 0; axis < n; ++axis) {
    std::size_t to = 4 - n + axis;
    if (time_first && n > 2 && (to == 1 || to == 2)) to = 3 - to;
    out.shape[to] = shape_[axis];
    out.stride[to] = stride_[axis];
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

/// NumPy makes its arrays faster than any protocol could hand them over.
NewArray new_numpy_array(DataType type, const std::vector<Index>& shape) {
  const nb::object extents = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    PyTuple_SetItem(extents.ptr(), static_cast<Py_ssize_t>(axis), PyLong_FromLongLong(shape[axis]));
  }
  const bool is_bfloat16 = type == DataType::bf16;
  nb::object array = numpy.empty(extents, is_bfloat16 ? nb::object(nb::module_::import_("ml_dtypes").attr("bfloat16"))
                                                      : nb::borrow(numpy.dtypes[static_cast<std::size_t>(type)]));
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
  constexpr std::array<std::size_t, 4> bytes{8, 4, 2, 2};
  std::size_t size = bytes[static_cast<std::size_t>(type)];
  std::vector<std::size_t> extents;
  for (Index extent : shape) {
    extents.push_back(static_cast<std::size_t>(extent));
    if (extent > 0 && size > PTRDIFF_MAX / extents.back()) throw std::bad_alloc();
    size *= extents.back();
  }
  void* data = ::operator new (size == 0 ? 1 : size, std::align_val_t{64});
  nb::capsule owner(data, [](void* p) noexcept { ::operator delete (p, std::align_val_t{64}); });
  constexpr auto code = [](nb::dlpack::dtype_code c) { return static_cast<std::uint8_t>(c); };
  const std::array<nb::dlpack::dtype, 4> dtypes{nb::dtype<double>(), nb::dtype<float>(),
                                                nb::dlpack::dtype{code(nb::dlpack::dtype_code::Bfloat), 16, 1},
                                                nb::dlpack::dtype{code(nb::dlpack::dtype_code::Float), 16, 1}};
  const nb::dlpack::dtype dtype = dtypes[static_cast<std::size_t>(type)];
  const auto make = [&]<class Framework>(nb::dlpack::dtype as) {
    return nb::cast(nb::ndarray<Framework>(data, extents.size(), extents.data(), owner, nullptr, as));
  };
  if (kind == ArrayKind::torch) return {make.template operator()<nb::pytorch>(dtype), data};
  return {make.template operator()<nb::jax>(dtype), data};
}

nb::object numpy_array(std::span<const double> values, const std::vector<Index>& shape) {
  const NewArray array = new_array(ArrayKind::numpy, DataType::f64, shape);
  if (!values.empty()) std::memcpy(array.data, values.data(), values.size() * sizeof(double));
  return array.object;
}

namespace {

bool is_integer(nb::dlpack::dtype type) {
  return type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int) ||
         type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt);
}

/// A number in an array's clothes: NumPy's int64(3), an array or a tensor without axes.
bool is_one_integer(nb::handle from) {
  if (PyBool_Check(from.ptr()) || !PyIndex_Check(from.ptr())) return false;
  return !nb::hasattr(from, "ndim") || nb::cast<Index>(nb::object(from.attr("ndim"))) == 0;
}

}  // namespace

template <class T>
FlagArray<T>::FlagArray(nb::handle from, const Argument& argument) : argument_(argument) {
  if (from.is_none()) return;
  constexpr const char* wanted =
      std::is_same_v<T, bool> ? "an array of bool on the CPU" : "an array of integers on the CPU";
  nb::object owned = nb::borrow(from);
  if (!nb::hasattr(from, "dtype")) owned = nb::module_::import_("numpy").attr("asarray")(from);
  if (!nb::try_cast(owned, array_, false) || array_.device_type() != nb::device::cpu::value) {
    argument.fail(wanted, type_text(from));
  }
  for (std::size_t axis = 0; axis < array_.ndim(); ++axis) {
    shape_.push_back(static_cast<Index>(array_.shape(axis)));
    stride_.push_back(array_.stride(axis));
  }
  static const T nothing{};
  data_ = array_.size() == 0 ? &nothing : static_cast<const T*>(array_.data());
  if (array_.dtype() == nb::dtype<T>()) return;
  if constexpr (std::is_same_v<T, Index>) {
    if (is_integer(array_.dtype())) {
      // PyTorch's tensors have long(), the others astype().
      owned = nb::hasattr(owned, "astype") ? owned.attr("astype")("int64") : owned.attr("long")();
      if (nb::try_cast(owned, array_, false)) {
        data_ = static_cast<const T*>(array_.data());
        for (std::size_t axis = 0; axis < array_.ndim(); ++axis) stride_[axis] = array_.stride(axis);
        return;
      }
    }
  }
  argument.fail(wanted, "one of " + nb::cast<std::string>(nb::str(nb::object(owned.attr("dtype")))));
}

template <class T>
void FlagArray<T>::check_rank(std::size_t rank) const {
  if (shape_.size() == rank) return;
  argument_.fail("an array of " + std::to_string(rank) + " axes", "one of " + std::to_string(shape_.size()));
}
template class FlagArray<Index>;
template class FlagArray<bool>;

PositionsArgument::PositionsArgument(nb::handle from, const Argument& argument) {
  if (from.is_none()) return;
  if (is_one_integer(from)) {
    Index past = 0;
    const nb::object number = nb::steal(PyNumber_Index(from.ptr()));
    if (!number.is_valid()) PyErr_Clear();
    if (number.is_valid() && nb::try_cast(number, past)) {
      positions_ = Positions(past);
      return;
    }
    argument.fail("None, an int that fits 64 bits, or an array", nb::cast<std::string>(nb::repr(from)));
  }
  if (kind_of(from) == ArrayKind::torch && nb::hasattr(from, "requires_grad") &&
      nb::cast<bool>(from.attr("requires_grad"))) {
    argument.fail("a tensor without requires_grad: positions have no gradient here", "one that requires them");
  }
  nb::object owned = nb::borrow(from);
  if (nb::isinstance<nb::sequence>(from) && !nb::hasattr(from, "dtype")) {
    owned = nb::module_::import_("numpy").attr("asarray")(from);
  }
  if (!nb::try_cast(owned, array_, false) || array_.ndim() < 1 || array_.ndim() > 3 ||
      array_.device_type() != nb::device::cpu::value) {
    argument.fail("None, an int, or an array [time], [batch, time] or [axes, batch, time] on the CPU",
                  class_of(from) + (nb::hasattr(from, "dtype") ? " of " + type_text(from) : ""));
  }
  const std::size_t axes = array_.ndim();
  // Those of one sequence serve the whole batch.
  const std::size_t n = axes == 2 && array_.shape(0) == 1 ? 1 : axes;
  std::array<Index, 3> shape{1, 1, 1}, stride{};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    shape[3 - axes + axis] = static_cast<Index>(array_.shape(axis));
    stride[3 - axes + axis] = array_.stride(axis);
  }
  time_ = shape[2];
  const auto place = [&]<class T>(const T* data) {
    if constexpr (std::is_same_v<T, Index>) {
      if (n == 1) positions_ = Positions(View<const Index, 1>{data, {shape[2]}, {stride[2]}});
      if (n == 2) positions_ = Positions(View<const Index, 2>{data, {shape[1], shape[2]}, {stride[1], stride[2]}});
      if (n == 3) positions_ = Positions(View<const Index, 3>{data, shape, stride});
    } else if constexpr (std::is_same_v<T, double>) {
      if (n == 1) positions_ = Positions(View<const double, 1>{data, {shape[2]}, {stride[2]}});
      if (n == 2) positions_ = Positions(View<const double, 2>{data, {shape[1], shape[2]}, {stride[1], stride[2]}});
      if (n == 3) positions_ = Positions(View<const double, 3>{data, shape, stride});
    }
  };
  // Other integers and float32 are copied: positions are few.
  const auto copy = [&]<class T, class To>(const T* data, std::vector<To>& to) {
    for (Index a = 0; a < shape[0]; ++a) {
      for (Index b = 0; b < shape[1]; ++b) {
        for (Index t = 0; t < shape[2]; ++t) {
          to.push_back(static_cast<To>(data[a * stride[0] + b * stride[1] + t * stride[2]]));
        }
      }
    }
    stride = {shape[1] * shape[2], shape[2], 1};
    place(static_cast<const To*>(to.data()));
  };
  const nb::dlpack::dtype type = array_.dtype();
  const void* data = array_.data();
  bool taken = false;
  const auto try_type = [&]<class T>(T, auto take, auto&... to) {
    if (taken || type != nb::dtype<T>()) return;
    taken = true;
    take(static_cast<const T*>(data), to...);
  };
  try_type(Index{}, place);
  try_type(double{}, place);
  try_type(std::int32_t{}, copy, whole_);
  try_type(std::int16_t{}, copy, whole_);
  try_type(std::int8_t{}, copy, whole_);
  try_type(std::uint8_t{}, copy, whole_);
  try_type(std::uint16_t{}, copy, whole_);
  try_type(std::uint32_t{}, copy, whole_);
  const auto copy_if_small = [&](const std::uint64_t* from_data) {
    for (Index a = 0; a < shape[0]; ++a) {
      for (Index b = 0; b < shape[1]; ++b) {
        for (Index t = 0; t < shape[2]; ++t) {
          const std::uint64_t position = from_data[a * stride[0] + b * stride[1] + t * stride[2]];
          if (position > INT64_MAX) argument.fail("positions that fit 64 bits with a sign", std::to_string(position));
        }
      }
    }
    copy(from_data, whole_);
  };
  try_type(std::uint64_t{}, copy_if_small);
  try_type(float{}, copy, real_);
  if (taken) return;
  const std::string name = type_text(owned);
  argument.fail(name.ends_with("float16") ? "integers, float64 or float32 (16-bit floats cannot count past 2048)"
                                          : "integers, float64 or float32",
                name);
}

}  // namespace bearing::python
