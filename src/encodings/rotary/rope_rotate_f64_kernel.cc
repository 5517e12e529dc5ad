// Rotation in float64. One version per SIMD target.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "encodings/rotary/rope_rotate_f64_kernel.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "encodings/rotary/rope_tokens-inl.h"
#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {

void rotate_f64(const RotateCall<double>& call, Index first, Index last, Index head, Index head_end, double* scratch) {
  rotate_any(call, first, last, head, head_end, scratch);
}

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing {

HWY_EXPORT(rotate_f64);

template <>
RotateKernel<double> rotate_kernel<double>() {
  return BEARING_DISPATCH(rotate_f64);
}

}  // namespace bearing
#endif
