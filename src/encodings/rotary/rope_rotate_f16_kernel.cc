// Rotation in float16. One version per SIMD target.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "encodings/rotary/rope_rotate_f16_kernel.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "encodings/rotary/rope_tokens-inl.h"
#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {

void rotate_f16(const RotateCall<Float16>& call, Index first, Index last, Index head, Index head_end, float* scratch) {
  rotate_any(call, first, last, head, head_end, scratch);
}

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing {

HWY_EXPORT(rotate_f16);

template <>
RotateKernel<Float16> rotate_kernel<Float16>() {
  return BEARING_DISPATCH(rotate_f16);
}

}  // namespace bearing
#endif
