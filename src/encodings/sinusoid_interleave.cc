// Two rows into one, element by element. One version per SIMD target.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "encodings/sinusoid_interleave.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "encodings/sinusoid_rows.hpp"
#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void interleave_rows(const float* even, const float* odd, Index n, float* to, [[maybe_unused]] bool past_caches) {
  Index i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<float, 16> d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    const auto a = hn::LoadU(d, even + i), b = hn::LoadU(d, odd + i);
    if (past_caches) {
      HWY_ALIGN float both[2 * hn::MaxLanes(d)];
      hn::StoreInterleaved2(a, b, d, both);
      hn::Stream(hn::Load(d, both), d, to + 2 * i);
      hn::Stream(hn::Load(d, both + lanes), d, to + 2 * i + lanes);
    } else {
      hn::StoreInterleaved2(a, b, d, to + 2 * i);
    }
  }
#endif
  for (; i < n; ++i) {
    to[2 * i] = even[i];
    to[2 * i + 1] = odd[i];
  }
}

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing {

HWY_EXPORT(interleave_rows);

void interleave(const float* even, const float* odd, Index n, float* to, bool past_caches) {
  BEARING_DISPATCH(interleave_rows)(even, odd, n, to, past_caches);
}

void flush_stores() { hwy::FlushStream(); }

}  // namespace bearing
#endif
