#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>

// DLPack's interface in C, by which a framework's tensors come and go without a call in Python (DLPack 1.3). PyTorch
// has it on the class of its tensors, as __dlpack_c_exchange_api__; where it does not, there is the usual way. The
// names of the members are ours, their order and types are DLPack's.

namespace bearing::python {

namespace nb = nanobind;

/// A tensor, and what to call when nobody needs it.
struct ManagedTensor {
  std::uint32_t major, minor;  ///< the version of DLPack
  void* context;
  void (*release)(ManagedTensor*);
  std::uint64_t flags;
  nb::dlpack::dltensor tensor;

  void* data() const { return static_cast<char*>(tensor.data) + tensor.byte_offset; }
};

struct ReleaseTensor {
  void operator()(ManagedTensor* tensor) const {
    if (tensor->release != nullptr) tensor->release(tensor);
  }
};
using OwnedTensor = std::unique_ptr<ManagedTensor, ReleaseTensor>;

/// The tensor's memory, which is kept as long as this is; none where PyTorch has no such interface or refuses. Leaves
/// no error of Python's behind.
OwnedTensor exchanged(nb::handle tensor);

/// A tensor of PyTorch's over new memory on the CPU, row-major, not filled; the tensor owns the memory. None where
/// PyTorch has no such interface or refuses.
struct ExchangedTensor {
  nb::object object;
  void* data = nullptr;
};
ExchangedTensor new_exchanged(nb::dlpack::dtype type, const std::int64_t* shape, std::size_t axes, std::size_t bytes);

}  // namespace bearing::python
