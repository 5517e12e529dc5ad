#include "exchange.hpp"

#include <array>
#include <cstddef>
#include <new>

#include "memory.hpp"

namespace bearing::python {

namespace {

/// DLPack's table of functions. Each returns 0, or another number with an error of Python's set.
struct Exchange {
  std::uint32_t major, minor;
  const Exchange* older;  ///< of an older major version
  void (*allocate)();     ///< not called here, as its tensors are made by PyTorch's dispatch, which modes may change
  int (*from_object)(void* object, ManagedTensor** out);
  int (*to_object)(ManagedTensor* tensor, void** out);  ///< takes the tensor, whatever comes of it
};
static_assert(offsetof(Exchange, allocate) == 8 + sizeof(void*));
static_assert(offsetof(ManagedTensor, tensor) == 16 + 2 * sizeof(void*));

constexpr std::uint32_t our_major = 1, our_minor = 3;

/// PyTorch's, or null.
const Exchange* find() {
  // The class Tensor's: its functions take tensors of subclasses, too.
  static constinit Imported tensor{"torch", "Tensor"};
  const nb::object capsule = nb::getattr(tensor.get(), "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  auto* table = static_cast<const Exchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (table != nullptr && table->major != our_major) table = table->older;
  return table;
}

/// PyTorch's, or null; looked for once. Without a static of C++'s, whose guard another thread would wait for with
/// Python's lock in its hands.
const Exchange* of_torch() {
  static constinit bool looked = false;
  static constinit const Exchange* found = nullptr;
  if (!looked) {
    found = find();
    looked = true;
  }
  return found;
}

/// What a tensor of ours says of itself. Its elements follow it, in the same piece of memory.
struct alignas(64) OurTensor {
  static constexpr std::align_val_t alignment{64};

  ManagedTensor managed{};
  std::array<std::int64_t, Extents::most> shape{}, strides{};

  static void release(ManagedTensor* managed) { ::operator delete(managed->context, alignment); }
};

}  // namespace

OwnedTensor exchanged(nb::handle tensor) {
  const Exchange* exchange = of_torch();
  ManagedTensor* out = nullptr;
  if (exchange == nullptr) return nullptr;
  if (exchange->from_object(tensor.ptr(), &out) != 0) {
    PyErr_Clear();
    return nullptr;
  }
  OwnedTensor owned(out);
  if (owned->major != our_major || (owned->tensor.ndim > 0 && owned->tensor.strides == nullptr)) return nullptr;
  return owned;
}

ExchangedTensor new_exchanged(nb::dlpack::dtype type, const std::int64_t* shape, std::size_t axes, std::size_t bytes) {
  const Exchange* exchange = of_torch();
  if (exchange == nullptr || axes > Extents::most) return {};
  if (bytes > PTRDIFF_MAX - sizeof(OurTensor)) throw std::bad_alloc();
  void* memory = ::operator new(sizeof(OurTensor) + bytes, OurTensor::alignment);
  auto* ours = new (memory) OurTensor;
  std::int64_t step = 1;
  for (std::size_t axis = axes; axis-- > 0; step *= shape[axis]) {
    ours->shape[axis] = shape[axis];
    ours->strides[axis] = step;
  }
  ours->managed = {our_major, our_minor, memory, OurTensor::release, 0, {}};
  nb::dlpack::dltensor& tensor = ours->managed.tensor;
  tensor.data = static_cast<char*>(memory) + sizeof(OurTensor);
  tensor.device.device_type = nb::device::cpu::value;
  tensor.ndim = static_cast<std::int32_t>(axes);
  tensor.dtype = type;
  tensor.shape = ours->shape.data();
  tensor.strides = ours->strides.data();
  void *data = tensor.data, *object = nullptr;
  if (exchange->to_object(&ours->managed, &object) != 0) {
    PyErr_Clear();
    return {};
  }
  return {nb::steal(static_cast<PyObject*>(object)), data};
}

}  // namespace bearing::python
