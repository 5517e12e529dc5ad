// Rotation in bfloat16. One version per SIMD target.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "encodings/rotary/rope_rotate_bf16_kernel.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "encodings/rotary/rope_tokens-inl.h"
#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {

void rotate_bf16(const RotateCall<Bfloat16>& call, Index first, Index last, Index head, Index head_end,
                 float* scratch) {
  rotate_any(call, first, last, head, head_end, scratch);
}

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing {

HWY_EXPORT(rotate_bf16);

template <>
RotateKernel<Bfloat16> rotate_kernel<Bfloat16>() {
  return BEARING_DISPATCH(rotate_bf16);
}

}  // namespace bearing
#endif
