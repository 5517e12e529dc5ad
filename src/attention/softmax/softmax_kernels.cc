// Weights of attention and the cap of its scores, once per SIMD target.

#include <bearing/view.hpp>

#include "attention/softmax/softmax_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/softmax/softmax_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <limits>

#include "attention/shared/exponential-inl.h"
#include "attention/shared/panels-inl.h"
#include "simd/dispatch.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::attend::HWY_NAMESPACE {

/// tanh z = −e / (2 + e), e = exp(−2|z|) − 1 by its own polynomial, so that nothing cancels near 0.
template <class A>
HWY_INLINE Vector<A> tanh(Vector<A> z) {
  using E = Exponential<A>;
  const Tag<A> d;
  const auto minus_two_log2e = hn::Set(d, A(-2 * 1.4426950408889634074));
  Vector<A> f, part;
  split<A>(at_least<A>(hn::Set(d, E::lowest), hn::Mul(minus_two_log2e, hn::Abs(z))), f, part);
  const auto power = hn::Mul(hn::Set(d, E::unit), part);
  const auto e = hn::MulAdd(power, hn::Mul(f, polynomial<A>(f, E::expm1)), hn::Sub(power, hn::Set(d, A{1})));
  return hn::CopySign(hn::Div(e, hn::Add(hn::Set(d, A{2}), e)), z);
}

template <class A>
void cap(Index rows, Index first, Index end, A cap, A* s, Index stride) {
  const Tag<A> d;
  const auto to_cap = hn::Set(d, cap), from_cap = hn::Set(d, A{1} / cap);
  for (Index i = 0; i < rows; ++i) {
    A* row = s + i * stride;
    for (Index j = first & -panel_lanes<A>(); j < end; j += panel_lanes<A>()) {
#pragma GCC unroll 4
      for (int x = 0; x < panel_vectors; ++x) {
        A* at = row + j + x * lanes<A>();
        hn::StoreU(hn::Mul(to_cap, tanh<A>(hn::Mul(from_cap, hn::LoadU(d, at)))), d, at);
      }
    }
  }
}

template <class A>
HWY_INLINE A largest_lane(Vector<A> v) {
  const Tag<A> d;
#if HWY_TARGET == HWY_EMU128  // whose MaxOfLanes knows no −∞
  HWY_ALIGN A lane[hn::MaxLanes(Tag<A>())];
  hn::Store(v, d, lane);
  A largest = lane[0];
  for (Index x = 1; x < lanes<A>(); ++x) largest = lane[x] > largest ? lane[x] : largest;
  return largest;
#else
  return hn::GetLane(hn::MaxOfLanes(d, v));
#endif
}

/// The largest number of a row of whole panels, to which the bias is added first.
template <bool Biased, class A>
HWY_NOINLINE A largest(A* row, const A* bias, Index cols) {
  const Tag<A> d;
  Vector<A> most[panel_vectors];
#pragma GCC unroll 4
  for (int x = 0; x < panel_vectors; ++x) most[x] = hn::Set(d, -std::numeric_limits<A>::infinity());
  for (Index j = 0; j < cols; j += panel_lanes<A>()) {
#pragma GCC unroll 4
    for (int x = 0; x < panel_vectors; ++x) {
      const Index at = j + x * lanes<A>();
      auto score = hn::LoadU(d, row + at);
      if constexpr (Biased) {
        score = hn::Add(score, hn::LoadU(d, bias + at));
        hn::StoreU(score, d, row + at);
      }
      most[x] = hn::Max(most[x], score);
    }
  }
#pragma GCC unroll 4
  for (int x = 1; x < panel_vectors; ++x) most[0] = hn::Max(most[0], most[x]);
  return largest_lane<A>(most[0]);
}

/// row ← 2^(scale · (row − max)), from `lowest` differences on; returns their sum. Each vector of a panel has a sum of
/// its own.
template <class A>
HWY_NOINLINE A exponentials(A* row, Index cols, A scale, A lowest, A max) {
  const Tag<A> d;
  const auto scales = hn::Set(d, scale), most = hn::Set(d, max), least = hn::Set(d, lowest);
  Vector<A> sum[panel_vectors];
#pragma GCC unroll 4
  for (int x = 0; x < panel_vectors; ++x) sum[x] = hn::Zero(d);
  for (Index j = 0; j < cols; j += panel_lanes<A>()) {
#pragma GCC unroll 4
    for (int x = 0; x < panel_vectors; ++x) {
      const Index at = j + x * lanes<A>();
      const auto weight = exp2<A>(hn::Mul(scales, at_least<A>(least, hn::Sub(hn::LoadU(d, row + at), most))));
      hn::StoreU(weight, d, row + at);
      sum[x] = hn::Add(sum[x], weight);
    }
  }
#pragma GCC unroll 4
  for (int x = 1; x < panel_vectors; ++x) sum[0] = hn::Add(sum[0], sum[x]);
  return hn::GetLane(hn::SumOfLanes(d, sum[0]));
}

template <class A>
HWY_INLINE void fill(A* row, Index first, Index end, A value) {
  for (Index j = first; j < end; ++j) row[j] = value;
}

template <class A>
HWY_INLINE Index panel_before(Index j) {
  return j & -panel_lanes<A>();
}
template <class A>
HWY_INLINE Index panel_after(Index j) {
  return panel_before<A>(j + panel_lanes<A>() - 1);
}

/// Makes row i's hidden columns 0, or −∞ in panels where it sees others; its max and rescale follow.
template <class A>
HWY_INLINE void open_row(const Strip<A>& strip, Index i, A lowest) {
  constexpr A infinity = std::numeric_limits<A>::infinity();
  const Index first = panel_before<A>(strip.first), end = panel_after<A>(strip.end);
  const Index row_first = strip.row_first[i], row_end = strip.row_end[i];
  A* row = strip.s + i * strip.stride;
  const A before = strip.max[i];
  A max = before;
  if (row_first >= row_end) {
    fill(row, first, end, A{0});
  } else {
    const Index seen_first = panel_before<A>(row_first), seen_end = panel_after<A>(row_end);
    fill(row, first, seen_first, A{0});
    fill(row, seen_first, row_first, -infinity);
    fill(row, row_end, seen_end, -infinity);
    fill(row, seen_end, end, A{0});
    row += seen_first;
    const A here = strip.bias == nullptr ? largest<false>(row, strip.bias, seen_end - seen_first)
                                         : largest<true>(row, strip.bias + (seen_first - i), seen_end - seen_first);
    if (here > before) max = here;
  }
  strip.max[i] = max;
  strip.rescale[i] = 1;
  if (before == max) return;
  const Tag<A> d;
  const auto down = at_least<A>(hn::Set(d, lowest), hn::Set(d, before - max));
  strip.rescale[i] = hn::GetLane(exp2<A>(hn::Mul(hn::Set(d, strip.log2_scale), down)));
}

/// First what is largest in each row, then the exponentials, which would wait for their own row's.
template <class A>
void weigh(const Strip<A>& strip) {
  const A lowest = Exponential<A>::lowest / strip.log2_scale;
  for (Index i = 0; i < strip.rows; ++i) open_row(strip, i, lowest);
  for (Index i = 0; i < strip.rows; ++i) {
    if (strip.row_first[i] >= strip.row_end[i]) continue;
    const Index first = panel_before<A>(strip.row_first[i]), end = panel_after<A>(strip.row_end[i]);
    const A max = strip.max[i];
    const A origin = max == -std::numeric_limits<A>::infinity() ? A{0} : max;  // −∞ less −∞ is no number
    const A sum = exponentials(strip.s + i * strip.stride + first, end - first, strip.log2_scale, lowest, origin);
    strip.sum[i] = strip.rescale[i] * strip.sum[i] + sum;
  }
}

}  // namespace bearing::attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::attend {

BEARING_KERNEL(void, cap, (Index rows, Index first, Index end, A cap, A* s, Index stride),
               (rows, first, end, cap, s, stride))
BEARING_KERNEL(void, weigh, (const Strip<A>& strip), (strip))

}  // namespace bearing::attend
#endif
