// Sines and cosines into rows of pairs. One version per SIMD target.

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

void interleave_rows(const Interleave& x) {
  for (Index row = 0; row < x.rows; ++row) {
    const float *sin = x.sin + row * x.from_stride, *cos = x.cos + row * x.from_stride;
    float* to = x.to + row * x.to_stride;
    Index i = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::CappedTag<float, 16> d;
    const Index lanes = static_cast<Index>(hn::Lanes(d));
    HWY_ALIGN float both[2 * hn::MaxLanes(d)];
    for (; i + lanes <= x.pairs; i += lanes) {
      const auto s = hn::LoadU(d, sin + i), c = hn::LoadU(d, cos + i);
      if (x.past_caches) {
        hn::StoreInterleaved2(s, c, d, both);
        hn::Stream(hn::Load(d, both), d, to + 2 * i);
        hn::Stream(hn::Load(d, both + lanes), d, to + 2 * i + lanes);
      } else {
        hn::StoreInterleaved2(s, c, d, to + 2 * i);
      }
    }
#endif
    for (; i < x.pairs; ++i) {
      to[2 * i] = sin[i];
      to[2 * i + 1] = cos[i];
    }
  }
  if (x.past_caches) hwy::FlushStream();
}

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing {

HWY_EXPORT(interleave_rows);

void interleave(const Interleave& rows) { BEARING_DISPATCH(interleave_rows)(rows); }

}  // namespace bearing
#endif
