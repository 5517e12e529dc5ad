// The kernels of decays, once per SIMD target.

#include "attention/linear/decay_kernels.hpp"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/linear/decay_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After it, as it must be.
#include <hwy/highway.h>

#include "simd/dispatch.hpp"
#include "simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bearing::linear::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using simd::HWY_NAMESPACE::lanes;
using simd::HWY_NAMESPACE::Tag;

/// factor · x; a NaN of x stays one unless the factor is 0.
template <class D, class V>
HWY_INLINE V decayed(D d, V factor, V x) {
  using A = hn::TFromD<D>;
  const auto zero = hn::Zero(d), least = hn::Set(d, 2 * std::numeric_limits<A>::min());
  const auto product = hn::Mul(factor, x);
  return hn::IfThenZeroElse(hn::Or(hn::Eq(factor, zero), hn::Lt(hn::Abs(product), least)), product);
}

template <class A>
void decay_numbers(Index n, const A* factors, const A* x, A* y) {
  Index j = 0;
  const auto step = [&](auto d) HWY_ATTR {
    hn::StoreU(decayed(d, hn::LoadU(d, factors + j), hn::LoadU(d, x + j)), d, y + j);
    j += static_cast<Index>(hn::Lanes(d));
  };
  while (j + lanes<A>() <= n) step(Tag<A>());
  while (j < n) step(hn::CappedTag<A, 1>());
}

template <class A>
void decay_rows(Index rows, Index dim, const A* factors, const A* x, A* y) {
  for (Index i = 0; i < rows; ++i) {
    Index j = i * dim;
    const auto step = [&](auto d) HWY_ATTR {
      hn::StoreU(decayed(d, hn::Set(d, factors[i]), hn::LoadU(d, x + j)), d, y + j);
      j += static_cast<Index>(hn::Lanes(d));
    };
    while (j + lanes<A>() <= (i + 1) * dim) step(Tag<A>());
    while (j < (i + 1) * dim) step(hn::CappedTag<A, 1>());
  }
}

}  // namespace bearing::linear::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::linear {

BEARING_KERNEL(void, decay_rows, (Index rows, Index dim, const A* factors, const A* x, A* y),
               (rows, dim, factors, x, y))
BEARING_KERNEL(void, decay_numbers, (Index n, const A* factors, const A* x, A* y), (n, factors, x, y))

}  // namespace bearing::linear
#endif
