#pragma once

#include <vector>

#include "attention/amx/amx_kernels.hpp"
#include "simd/target.hpp"

namespace bearing::test {

/// A choice of kernels for matrix tiles.
struct Named {
  const char* name;
  const attend::amx::Kernels& kernels;
};

/// Those that any machine can run, and what this one can.
inline std::vector<Named> all_kernels() {
  std::vector<Named> all = {{"emulated", attend::amx::emulated}};
#if defined(__x86_64__)
  if (simd::has_avx512_bf16()) all.push_back({"emulated tiles, AVX-512", attend::amx::emulated_avx512});
  if (simd::has_amx_bf16()) all.push_back({"AMX", attend::amx::machine});
#endif
  return all;
}

}  // namespace bearing::test
