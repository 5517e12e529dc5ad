// The panels that attention's kernels share. Included once per SIMD target, inside no namespace.
#if defined(BEARING_ATTENTION_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEARING_ATTENTION_PANELS_INL_H_
#undef BEARING_ATTENTION_PANELS_INL_H_
#else
#define BEARING_ATTENTION_PANELS_INL_H_
#endif

#include <hwy/highway.h>
#include <bearing/view.hpp>

#include "simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bearing::attend::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using simd::HWY_NAMESPACE::lanes;
using simd::HWY_NAMESPACE::Tag;

/// Vectors of a panel. Blocks of 6 rows by 4 vectors, their sums and operands, fill 32 registers; 6 by 2 fill 16.
inline constexpr int panel_vectors = HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2 ? 2 : 4;

template <class A>
HWY_INLINE Index panel_lanes() {
  return panel_vectors * lanes<A>();
}

}  // namespace bearing::attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
