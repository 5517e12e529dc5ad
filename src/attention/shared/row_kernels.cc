// Kernels of single rows, once per SIMD target.

#include "attention/shared/row_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/shared/row_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After it, as it must be.
#include <hwy/highway.h>
#include <cstdint>
#include <limits>

#include "simd/dispatch.hpp"
#include "simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bearing::attend::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using simd::HWY_NAMESPACE::lanes;
using simd::HWY_NAMESPACE::Tag;

template <class A>
void row_products(Index rows, Index dim, const A* a, Index a_stride, const A* b, Index b_stride, A* out) {
  const Tag<A> d;
  for (Index i = 0; i < rows; ++i, a += a_stride, b += b_stride) {
    auto lanes_sum = hn::Zero(d);
    Index x = 0;
    for (; x + lanes<A>() <= dim; x += lanes<A>()) {
      lanes_sum = hn::MulAdd(hn::LoadU(d, a + x), hn::LoadU(d, b + x), lanes_sum);
    }
    A sum = hn::GetLane(hn::SumOfLanes(d, lanes_sum));
    for (; x < dim; ++x) sum += a[x] * b[x];
    out[i] = sum;
  }
}

/// A byte for each lane of D, as wide as its lanes.
template <class D>
HWY_INLINE auto widened_bytes(const char* from) {
  const hn::Rebind<std::uint8_t, D> narrow;
  const auto bytes = hn::LoadU(narrow, reinterpret_cast<const std::uint8_t*>(from));
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    const hn::Rebind<std::uint32_t, D> middle;
    return hn::PromoteTo(hn::RebindToUnsigned<D>(), hn::PromoteTo(middle, bytes));
  } else {
    return hn::PromoteTo(hn::RebindToUnsigned<D>(), bytes);
  }
}

template <class A>
void hide(Index n, const char* seen, A* s) {
  constexpr A infinity = std::numeric_limits<A>::infinity();
  const Tag<A> d;
  const hn::RebindToUnsigned<Tag<A>> du;
  Index j = 0;
  for (; j + lanes<A>() <= n; j += lanes<A>()) {
    const auto hidden = hn::RebindMask(d, hn::Eq(widened_bytes<Tag<A>>(seen + j), hn::Zero(du)));
    hn::StoreU(hn::IfThenElse(hidden, hn::Set(d, -infinity), hn::LoadU(d, s + j)), d, s + j);
  }
  for (; j < n; ++j) s[j] = seen[j] == 0 ? -infinity : s[j];
}

template <class A>
void divide(Index n, A divisor, A* x) {
  const Tag<A> d;
  const auto by = hn::Set(d, divisor);
  Index j = 0;
  for (; j + lanes<A>() <= n; j += lanes<A>()) hn::StoreU(hn::Div(hn::LoadU(d, x + j), by), d, x + j);
  for (; j < n; ++j) x[j] /= divisor;
}

template <class H>
HWY_INLINE void widen_any(Index n, const H* from, float* to) {
  const Tag<float> d;
  Index j = 0;
  for (; j + lanes<float>() <= n; j += lanes<float>()) hn::StoreU(simd::HWY_NAMESPACE::load(d, from + j), d, to + j);
  for (; j < n; ++j) to[j] = static_cast<float>(from[j]);
}
void widen_f16(Index n, const Float16* from, float* to) { widen_any(n, from, to); }
void widen_bf16(Index n, const Bfloat16* from, float* to) { widen_any(n, from, to); }

template <class H>
HWY_INLINE void narrow_any(Index n, const float* from, H* to) {
  const Tag<float> d;
  Index j = 0;
  for (; j + lanes<float>() <= n; j += lanes<float>()) simd::HWY_NAMESPACE::store(d, hn::LoadU(d, from + j), to + j);
  for (; j < n; ++j) to[j] = H(from[j]);
}
void narrow_f16(Index n, const float* from, Float16* to) { narrow_any(n, from, to); }
void narrow_bf16(Index n, const float* from, Bfloat16* to) { narrow_any(n, from, to); }

}  // namespace bearing::attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::attend {

BEARING_KERNEL(void, row_products,
               (Index rows, Index dim, const A* a, Index a_stride, const A* b, Index b_stride, A* out),
               (rows, dim, a, a_stride, b, b_stride, out))

BEARING_KERNEL(void, hide, (Index n, const char* seen, A* s), (n, seen, s))

BEARING_KERNEL(void, divide, (Index n, A divisor, A* x), (n, divisor, x))

HWY_EXPORT(widen_f16);
HWY_EXPORT(widen_bf16);
HWY_EXPORT(narrow_f16);
HWY_EXPORT(narrow_bf16);
void widen(Index n, const Float16* from, float* to) { BEARING_DISPATCH(widen_f16)(n, from, to); }
void widen(Index n, const Bfloat16* from, float* to) { BEARING_DISPATCH(widen_bf16)(n, from, to); }
void narrow(Index n, const float* from, Float16* to) { BEARING_DISPATCH(narrow_f16)(n, from, to); }
void narrow(Index n, const float* from, Bfloat16* to) { BEARING_DISPATCH(narrow_bf16)(n, from, to); }

}  // namespace bearing::attend
#endif
