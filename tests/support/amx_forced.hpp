#pragma once

#include "attention/amx/amx_kernels.hpp"

namespace bearing::attend::amx {

/// For its lifetime attention takes these kernels, or none. For tests.
class Forced {
 public:
  explicit Forced(const Kernels* kernels) { force_kernels(kernels); }
  ~Forced() { force_kernels(std::nullopt); }
  Forced(const Forced&) = delete;
  Forced& operator=(const Forced&) = delete;
};

}  // namespace bearing::attend::amx
