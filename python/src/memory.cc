#include "memory.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <bearing/error.hpp>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "members.hpp"

namespace bearing::python {

namespace {

/// What is known of a type of arrays.
struct Known {
  PyTypeObject* type;
  ArrayKind kind;
  bool is_array;  ///< of NumPy's: not one of its scalars
  bool is_masked;
  bool is_fake;  ///< a tensor of PyTorch's FakeTensorMode
};

Known known(nb::handle x) {
  // A handful of types ever come here; modules are asked once for each.
  static std::vector<Known> seen;
  PyTypeObject* type = Py_TYPE(x.ptr());
  for (const Known& one : seen) {
    if (one.type == type) return one;
  }
  std::string module;
  nb::try_cast(nb::object(nb::handle(x.type()).attr("__module__")), module);  // None for some of ctypes'
  Known made{type, ArrayKind::other, false, false, false};
  if (module.starts_with("torch")) made.kind = ArrayKind::torch;
  if (module.starts_with("jax")) made.kind = ArrayKind::jax;
  if (module.starts_with("numpy")) made.kind = ArrayKind::numpy;
  const nb::module_ numpy = nb::module_::import_("numpy");
  made.is_array = nb::isinstance(x, numpy.attr("ndarray"));
  if (made.is_array) made.kind = ArrayKind::numpy;  // and all that derives from it
  // numpy.ma is loaded by those who use it, and is not loaded here.
  const nb::object masked = nb::module_::import_("sys").attr("modules").attr("get")("numpy.ma");
  made.is_masked = made.is_array && !masked.is_none() && nb::isinstance(x, nb::object(masked.attr("MaskedArray")));
  if (made.kind == ArrayKind::other && nb::hasattr(x, "__torch_function__") && nb::hasattr(x, "untyped_storage")) {
    made.kind = ArrayKind::torch;  // a class of somebody else's that derives from Tensor
  }
  made.is_fake = made.kind == ArrayKind::torch && nb::hasattr(x, "fake_mode");
  Py_INCREF(type);  // so that no other type takes its place
  seen.push_back(made);
  return made;
}

/// NumPy's bfloat16 is ml_dtypes'; no protocol carries it, so that its bits go as integers.
bool is_numpy_bfloat16(nb::handle x) { return text_of(nb::object(x.attr("dtype"))) == "bfloat16"; }

/// Autograd refuses a backward whose saved tensors have been written since, if it is told of the writing.
void count_write(nb::handle tensor) {
  static constinit Imported increment_version{"torch.autograd.graph", "increment_version"};
  increment_version.get()(tensor);
}

/// The type of a buffer's elements in the machine's own order of bytes; 0 bits for others.
nb::dlpack::dtype type_of_format(const char* text, Py_ssize_t bytes) {
  std::string_view format = text == nullptr ? "B" : text;
  // Native order, said in so many words: NumPy does where elements are not aligned, ctypes always.
  if (format.size() == 2 && (format[0] == '^' || format[0] == '=' || format[0] == '@' || format[0] == '<')) {
    format.remove_prefix(1);
  }
  if (format.size() != 1) return {};
  constexpr std::string_view whole = "bhilqn", natural = "BHILQN", real = "efd";
  const auto made = [&](nb::dlpack::dtype_code code) {
    return nb::dlpack::dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bytes * 8), 1};
  };
  if (whole.find(format[0]) != std::string_view::npos) return made(nb::dlpack::dtype_code::Int);
  if (natural.find(format[0]) != std::string_view::npos) return made(nb::dlpack::dtype_code::UInt);
  if (real.find(format[0]) != std::string_view::npos) return made(nb::dlpack::dtype_code::Float);
  if (format[0] == '?') return made(nb::dlpack::dtype_code::Bool);
  return {};
}

PyObject* checked(PyObject* made) {
  if (made == nullptr) throw nb::python_error();
  return made;
}
nb::object member(nb::handle of, nb::handle name) { return nb::steal(checked(PyObject_GetAttr(of.ptr(), name.ptr()))); }
nb::object ask(nb::handle of, nb::handle name) {
  return nb::steal(checked(PyObject_CallMethodNoArgs(of.ptr(), name.ptr())));
}

/// As the library refuses a view of such memory.
[[noreturn]] void refuse_device(const Argument& argument, const std::string& device) {
  throw nb::type_error((std::string("[") + argument.function + "] " + argument.name +
                        ": must lie in host memory, got memory on " + device)
                           .c_str());
}

/// Why a tensor's memory cannot be had: what it is beside its class.
std::string tensor_text(nb::handle x) {
  std::string text = class_of(x);
  const auto add = [&](const char* name, const char* usual, const char* before) {
    try {
      const std::string value = text_of(nb::object(x.attr(name)));
      if (value != usual) text += before + value;
    } catch (const nb::python_error&) {
    }
  };
  add("dtype", "", " of ");
  add("layout", "torch.strided", ", ");
  add("device", "cpu", ", on ");
  const auto ask = [&](const char* module, const char* question, const char* answer) {
    try {
      if (nb::cast<bool>(nb::module_::import_(module).attr(question)(x))) text += answer;
    } catch (const std::exception&) {
    }
  };
  ask("torch._C._functorch", "is_functorch_wrapped_tensor", ", inside torch.func's grad, jvp or vmap");
  return text;
}

std::string said_of(const Argument& argument, const std::string& wanted, const std::string& got) {
  return std::string("[") + argument.function + "] " + argument.name + ": must be " + wanted + ", got " + got;
}

}  // namespace

void Argument::fail(const std::string& wanted, const std::string& got) const {
  throw nb::type_error(said_of(*this, wanted, got).c_str());
}
void Argument::fail_shape(const std::string& wanted, const std::string& got) const {
  throw ShapeError(said_of(*this, wanted, got));
}

std::string text_of(nb::handle x) { return nb::cast<std::string>(nb::str(x)); }

std::string class_of(nb::handle x) { return text_of(nb::handle(x.type())); }

std::string type_text(nb::handle x) {
  if (nb::hasattr(x, "dtype")) return text_of(nb::object(x.attr("dtype")));
  if (!PyObject_CheckBuffer(x.ptr())) return class_of(x);
  const nb::object view = nb::steal(PyMemoryView_FromObject(x.ptr()));
  if (!view.is_valid()) PyErr_Clear();
  return class_of(x) + (view.is_valid() ? " of format '" + text_of(nb::object(view.attr("format"))) + "'" : "");
}

nb::handle interned(const char* name) { return PyUnicode_InternFromString(name); }

bool is_tensor(nb::handle x) { return known(x).kind == ArrayKind::torch; }

nb::object member_or_none(nb::handle of, nb::handle name) {
  const nb::object found = nb::steal(PyObject_GetAttr(of.ptr(), name.ptr()));
  if (found.is_valid()) return found;
  PyErr_Clear();
  return nb::none();
}

bool requires_grad(nb::handle tensor) {
  static const nb::handle with_grad = interned("requires_grad");
  if (!is_tensor(tensor)) return false;
  const nb::object found = member_or_none(tensor, with_grad);
  return !found.is_none() && nb::cast<bool>(found);
}

Memory::Memory(nb::handle from, const Argument& argument, const Expected& wanted, Use use) : kind(known(from).kind) {
  if (kind == ArrayKind::numpy) {
    take_numpy(from, argument, wanted, use);
  } else if (kind == ArrayKind::torch) {
    take_tensor(from, argument, wanted, use);
  } else if (kind == ArrayKind::other && PyObject_CheckBuffer(from.ptr())) {
    // A memoryview fills in the strides that others leave out, and keeps the exporter from moving its memory.
    const nb::object view = nb::steal(PyMemoryView_FromObject(from.ptr()));
    if (!view.is_valid()) PyErr_Clear();
    if (!view.is_valid() || !take_buffer(view, argument, use)) argument.fail(wanted.array, class_of(from));
  } else {
    take_dlpack(from, argument, wanted, use);
  }
  if (type.bits == 0 && use != Use::look) argument.fail(wanted.type, type_text(from));
  static const double nothing = 0;
  if (data == nullptr) data = &nothing;  // an array without elements has no memory, but has been given
}

void Memory::check_mask(nb::handle from, const Argument& argument) const {
  if (!nb::cast<bool>(nb::module_::import_("numpy").attr("ma").attr("is_masked")(from))) return;
  argument.fail("an array without masked elements, as the mask would be ignored (filled() makes one of it)",
                "one with some");
}

void Memory::take_numpy(nb::handle from, const Argument& argument, const Expected& wanted, Use use) {
  const Known about = known(from);
  if (!about.is_array) {
    argument.fail(wanted.array, class_of(from) + (nb::hasattr(from, "dtype") ? " of " + type_text(from) : ""));
  }
  if (about.is_masked) check_mask(from, argument);
  if (take_buffer(from, argument, use)) return;
  if (!is_numpy_bfloat16(from)) argument.fail(wanted.type, type_text(from));
  take_buffer(nb::object(from.attr("view")("uint16")), argument, use);
  type = {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1};
}

/// False for a type that the buffer protocol does not know.
bool Memory::take_buffer(nb::handle from, const Argument& argument, Use use) {
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
  type = type_of_format(buffer.format, buffer.itemsize);
  if (type.bits == 0) return true;
  if (use == Use::write && buffer.readonly) argument.fail("an array that may be written", "one that is read-only");
  if (buffer.ndim > static_cast<int>(Extents::most)) {
    argument.fail_shape("an array of at most 8 axes", std::to_string(buffer.ndim) + " axes");
  }
  bool aligned = reinterpret_cast<std::uintptr_t>(buffer.buf) % static_cast<std::uintptr_t>(buffer.itemsize) == 0;
  for (int axis = 0; axis < buffer.ndim; ++axis) {
    aligned = aligned && (buffer.strides[axis] % buffer.itemsize == 0 || buffer.shape[axis] < 2);
    shape.push_back(buffer.shape[axis]);
    stride.push_back(buffer.strides[axis] / buffer.itemsize);
  }
  if (!aligned && buffer.len != 0) argument.fail("in memory that is aligned to its elements", "an array that is not");
  data = buffer.buf;
  return true;
}

/// PyTorch's, of which DLPack says too little: neither that the memory went, nor what the numbers' signs are.
void Memory::take_tensor(nb::handle from, const Argument& argument, const Expected& wanted, Use use) {
  // Without the checks of Tensor.__dlpack__(), which are in Python and made here.
  static constinit Imported to_dlpack{"torch.utils.dlpack", "to_dlpack"};
  if (known(from).is_fake) argument.fail(wanted.array, tensor_text(from));
  bool negated = false;
  Index offset = 0, bytes = 0;
  try {
    static const nb::handle with_grad = interned("requires_grad"), on_cpu = interned("is_cpu"),
                            is_neg = interned("is_neg"), storage_offset = interned("storage_offset"),
                            untyped_storage = interned("untyped_storage"), nbytes = interned("nbytes");
    if (nb::cast<bool>(member(from, with_grad))) {
      argument.fail("a tensor without requires_grad: bearing.torch has the functions that keep gradients",
                    "one that requires them");
    }
    if (!nb::cast<bool>(member(from, on_cpu))) {
      refuse_device(argument, text_of(nb::object(from.attr("device"))));
    }
    negated = nb::cast<bool>(ask(from, is_neg));
    offset = nb::cast<Index>(ask(from, storage_offset));
    bytes = nb::cast<Index>(ask(ask(from, untyped_storage), nbytes));
    tensor_ = exchanged(from);
    if (tensor_ == nullptr) {
      const nb::object capsule = to_dlpack.get()(from);
      if (!nb::try_cast(capsule, array_, false)) argument.fail(wanted.array, tensor_text(from));
    }
  } catch (const nb::python_error&) {
    argument.fail(wanted.array, tensor_text(from));
  } catch (const nb::cast_error&) {
    argument.fail(wanted.array, tensor_text(from));
  }
  if (negated)
    argument.fail("a tensor whose memory holds its numbers", "a negated view: resolve_neg() makes one of it");
  if (tensor_ == nullptr) {
    place_array(argument);
  } else {
    const nb::dlpack::dltensor& tensor = tensor_->tensor;
    place(argument, tensor.dtype, tensor_->data(), tensor.shape, tensor.strides, static_cast<std::size_t>(tensor.ndim));
  }
  Index last = offset;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) last += (shape[axis] - 1) * stride[axis];
  const Index needed = (last + 1) * type.bits / 8;
  if (!is_empty() && data == nullptr && bytes > 0) argument.fail(wanted.array, tensor_text(from));
  if (!is_empty() && needed > bytes) {
    argument.fail("a tensor whose storage holds it", "one that needs " + std::to_string(needed) +
                                                         " bytes of a storage of " + std::to_string(bytes) +
                                                         ": was it freed?");
  }
  if (use == Use::write) count_write(from);
}

/// JAX's, and all that speak DLPack.
void Memory::take_dlpack(nb::handle from, const Argument& argument, const Expected& wanted, Use use) {
  if (kind == ArrayKind::jax && nb::isinstance(from, nb::module_::import_("jax.core").attr("Tracer"))) {
    argument.fail("an array that has its numbers: bearing.jax has the functions that JAX can trace",
                  "a traced value of " + type_text(from));
  }
  if (!nb::try_cast(from, array_, false)) {
    argument.fail(wanted.array, class_of(from) + (nb::hasattr(from, "dtype") ? " of " + type_text(from) : ""));
  }
  const Device device{static_cast<Device::Kind>(array_.device_type()), array_.device_id()};  // numbered alike
  if (!device.is_host()) refuse_device(argument, std::string(name(device.kind)) + ":" + std::to_string(device.index));
  if (use == Use::write) {
    if (kind == ArrayKind::jax) argument.fail("an array that may be written", "a JAX array, which never may");
    nb::ndarray<> writable;
    if (!nb::try_cast(from, writable, false)) argument.fail("an array that may be written", "one that is read-only");
  }
  place_array(argument);
  if (data == nullptr && !is_empty()) argument.fail(wanted.array, class_of(from) + " without memory");
}

void Memory::place_array(const Argument& argument) {
  place(argument, array_.dtype(), array_.data(), array_.shape_ptr(), array_.stride_ptr(), array_.ndim());
}

void Memory::place(const Argument& argument, nb::dlpack::dtype of, const void* from, const std::int64_t* extents,
                   const std::int64_t* strides, std::size_t axes) {
  if (axes > Extents::most) argument.fail_shape("an array of at most 8 axes", std::to_string(axes) + " axes");
  type = of;
  data = from;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    shape.push_back(extents[axis]);
    stride.push_back(strides[axis]);
  }
}

namespace {

/// How many elements, and in how much memory from where: [first, first + span) beside the data.
struct Extent {
  double count = 1;  // a broadcast array's may not fit 64 bits
  Index first = 0, span = 1;

  explicit Extent(const Memory& of) {
    for (std::size_t axis = 0; axis < of.shape.size(); ++axis) {
      count *= static_cast<double>(of.shape[axis]);
      const Index reach = (of.shape[axis] - 1) * of.stride[axis];
      first += std::min<Index>(reach, 0);
      span += std::abs(reach);
    }
  }
};

template <class T, class To>
Elements<To> copied(const Memory& from) {
  Elements<To> out;
  const Extent extent(from);
  const T* data = static_cast<const T*>(from.data);
  if (static_cast<double>(extent.span) <= extent.count) {
    out.copy.assign(data + extent.first, data + extent.first + extent.span);
    out.data = out.copy.data() - extent.first;
    out.stride = from.stride;
    return out;
  }
  const auto count = static_cast<Index>(extent.count);
  out.copy.reserve(static_cast<std::size_t>(count));
  const std::size_t axes = from.shape.size();
  for (Index i = 0; i < count; ++i) {
    Index offset = 0, rest = i;
    for (std::size_t axis = axes; axis-- > 0; rest /= from.shape[axis]) {
      offset += rest % from.shape[axis] * from.stride[axis];
    }
    out.copy.push_back(static_cast<To>(data[offset]));
  }
  out.data = out.copy.data();
  Index left = count;
  for (std::size_t axis = 0; axis < axes; ++axis) out.stride.push_back(left /= from.shape[axis]);
  return out;
}

/// A copy of an array of one of the T's. Of an empty one nothing is read.
template <class To, class... T>
std::optional<Elements<To>> elements_of(const Memory& from) {
  std::optional<Elements<To>> out;
  const auto own = [&] { return Elements<To>{{}, static_cast<const To*>(from.data), from.stride}; };
  ((from.type == nb::dtype<T>() ? void(out = from.is_empty() ? own() : copied<T, To>(from)) : void()), ...);
  return out;
}

}  // namespace

std::optional<Elements<Index>> integers_of(const Memory& from, const Argument& argument) {
  auto out = elements_of<Index, Index, std::int32_t, std::int16_t, std::int8_t, std::uint8_t, std::uint16_t,
                         std::uint32_t, std::uint64_t>(from);
  if (out && from.type == nb::dtype<std::uint64_t>()) {
    for (const Index one : out->copy) {
      if (one >= 0) continue;
      argument.fail("integers that fit 64 bits with a sign", std::to_string(static_cast<std::uint64_t>(one)));
    }
  }
  return out;
}

std::optional<Elements<double>> reals_of(const Memory& from) {
  if (from.type == nb::dtype<double>()) return Elements<double>{{}, static_cast<const double*>(from.data), from.stride};
  return elements_of<double, float>(from);
}

void check_array(nb::handle from, const Argument& argument) {
  const Known about = known(from);
  const bool is_scalar = about.kind == ArrayKind::numpy && !about.is_array;
  if (!nb::hasattr(from, "dtype")) return;
  if (is_scalar) {
    const std::string type = type_text(from);
    if (type.starts_with("datetime64") || type.starts_with("timedelta64")) argument.fail("a sequence of numbers", type);
    return;
  }
  const Memory memory(from, argument, {"a sequence of numbers", "a sequence of numbers"}, Memory::Use::look);
  const auto last = static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bool);
  if (memory.type.code > last) argument.fail("a sequence of numbers", type_text(from));
}

void check_sequence(nb::handle values, const Place& at) {
  check_array(values, {at.owner, at.member});
  if (!PyMemoryView_Check(values.ptr()) || nb::len(values) == 0) return;
  const nb::object first = nb::steal(PySequence_GetItem(values.ptr(), 0));  // ctypes' formats yield nothing
  if (first.is_valid()) return;
  PyErr_Clear();
  Argument{at.owner, at.member}.fail("a sequence of numbers", type_text(values));
}

}  // namespace bearing::python
