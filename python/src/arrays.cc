#include "arrays.hpp"

#include <cmath>
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

DataType type_of(nb::dlpack::dtype type, nb::handle x, const Argument& argument) {
  if (type == nb::dtype<float>()) return DataType::f32;
  if (type == nb::dtype<double>()) return DataType::f64;
  if (type.bits == 16 && type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat)) return DataType::bf16;
  if (type.bits == 16 && type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float)) return DataType::f16;
  argument.fail("an array of float64, float32, bfloat16 or float16",
                nb::cast<std::string>(nb::str(nb::object(x.attr("dtype")))));
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
  if (kind_ == ArrayKind::torch && nb::cast<bool>(from.attr("requires_grad"))) {
    argument.fail("a tensor without requires_grad: bearing.torch has the functions that keep gradients",
                  "one that requires them");
  }
  bool is_bfloat16 = false;
  if (!nb::try_cast(from, array_, false)) {
    if (kind_ != ArrayKind::numpy || !is_numpy_bfloat16(from)) {
      argument.fail("an array (NumPy, PyTorch, JAX or DLPack)", class_of(from));
    }
    is_bfloat16 = nb::try_cast(from.attr("view")("uint16"), array_, false);
  }
  if (array_.device_type() != nb::device::cpu::value) {
    argument.fail("in the CPU's memory",
                  "an array on " + nb::cast<std::string>(nb::str(nb::object(from.attr("device")))));
  }
  type_ = is_bfloat16 ? DataType::bf16 : type_of(array_.dtype(), from, argument);
  if (write) {
    nb::ndarray<> writable;
    if (kind_ == ArrayKind::jax) argument.fail("an array that may be written", "a JAX array, which never may");
    const bool may =
        is_bfloat16 ? nb::cast<bool>(from.attr("flags").attr("writeable")) : nb::try_cast(from, writable, false);
    if (!may) argument.fail("an array that may be written", "one that is read-only");
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

NewArray new_array(ArrayKind kind, DataType type, const std::vector<Index>& shape) {
  constexpr std::array<std::size_t, 4> bytes{8, 4, 2, 2};
  std::size_t size = bytes[static_cast<std::size_t>(type)];
  std::vector<std::size_t> extents;
  for (Index extent : shape) {
    extents.push_back(static_cast<std::size_t>(extent));
    size *= static_cast<std::size_t>(extent);
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
  if (kind == ArrayKind::jax) return {make.template operator()<nb::jax>(dtype), data};
  if (type != DataType::bf16) return {make.template operator()<nb::numpy>(dtype), data};
  const nb::object bits = make.template operator()<nb::numpy>(nb::dtype<std::uint16_t>());
  return {bits.attr("view")(nb::module_::import_("ml_dtypes").attr("bfloat16")), data};
}

template <class T>
FlagArray<T>::FlagArray(nb::handle from, const Argument& argument) : argument_(argument) {
  if (from.is_none()) return;
  constexpr const char* wanted =
      std::is_same_v<T, bool> ? "an array of bool on the CPU" : "an array of int64 on the CPU";
  nb::object owned = nb::borrow(from);
  if (!nb::hasattr(from, "dtype")) owned = nb::module_::import_("numpy").attr("asarray")(from);
  if (!nb::try_cast(owned, array_, false) || array_.device_type() != nb::device::cpu::value) {
    argument.fail(wanted, class_of(from));
  }
  for (std::size_t axis = 0; axis < array_.ndim(); ++axis) {
    shape_.push_back(static_cast<Index>(array_.shape(axis)));
    stride_.push_back(array_.stride(axis));
  }
  static const T nothing{};
  data_ = array_.size() == 0 ? &nothing : static_cast<const T*>(array_.data());
  if (array_.dtype() == nb::dtype<T>()) return;
  if constexpr (std::is_same_v<T, Index>) {
    if (array_.dtype() == nb::dtype<std::int32_t>()) {
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
  Index past = 0;
  if (!PyBool_Check(from.ptr()) && PyLong_Check(from.ptr()) && nb::try_cast(from, past)) {
    positions_ = Positions(past);
    return;
  }
  nb::object owned = nb::borrow(from);
  if (nb::isinstance<nb::sequence>(from) && !nb::hasattr(from, "dtype")) {
    owned = nb::module_::import_("numpy").attr("asarray")(from);
  }
  if (!nb::try_cast(owned, array_, false) || array_.ndim() < 1 || array_.ndim() > 3 ||
      array_.device_type() != nb::device::cpu::value) {
    argument.fail("None, an int, or an array [time], [batch, time] or [axes, batch, time] on the CPU", class_of(from));
  }
  const std::size_t n = array_.ndim();
  std::array<Index, 3> shape{1, 1, 1}, stride{};
  for (std::size_t axis = 0; axis < n; ++axis) {
    shape[3 - n + axis] = static_cast<Index>(array_.shape(axis));
    stride[3 - n + axis] = array_.stride(axis);
  }
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
  try_type(std::uint8_t{}, copy, whole_);
  try_type(std::uint16_t{}, copy, whole_);
  try_type(std::uint32_t{}, copy, whole_);
  try_type(float{}, copy, real_);
  if (taken) return;
  argument.fail("int64 or float64 positions (16-bit floats cannot count past 2048)",
                nb::cast<std::string>(nb::str(nb::object(owned.attr("dtype")))));
}

}  // namespace bearing::python
