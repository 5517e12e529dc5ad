// Weights of attention and the cap of its scores, once per SIMD target.

#include <bearing/view.hpp>

#include "attention/kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/softmax_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <limits>

#include "attention/panels-inl.h"
#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::attend::HWY_NAMESPACE {

template <class A>
using Vector = hn::Vec<Tag<A>>;

// 2^x is 2^n · 2^f with n the nearest integer and f the rest in [−1/2, 1/2]. Adding `shift` to x rounds it: the sum's
// low bits hold n plus a bias that makes them, moved up, the number 2^(n − 1); x is held above `lowest`, where they are
// all zero, so that what would be denormal is exactly 0.
//
//     2 · 2^f = 2 + f · exp2(f)     2^f − 1 = f · expm1(f)
//
// are minimax polynomials (Remez). Relative errors: 2^f 9.2e-8 and 3.4e-18, 2^f − 1 1.1e-8 and 2.4e-19.
template <class A>
struct Exponential;
template <>
struct Exponential<float> {
  static constexpr float shift = 0x1.8p23f + 126, lowest = -126;
  static constexpr int mantissa_bits = 23;
  static constexpr float exp2[] = {0x1.62e42ap+0f, 0x1.ebf9bcp-2f, 0x1.c6b752p-4f, 0x1.3cea68p-6f, 0x1.5bba44p-9f};
  static constexpr float expm1[] = {0x1.62e430p-1f, 0x1.ebfbdep-3f,  0x1.c6af6ep-5f,
                                    0x1.3b2ba0p-7f, 0x1.5f07b4p-10f, 0x1.4308fap-13f};
};
template <>
struct Exponential<double> {
  static constexpr double shift = 0x1.8p52 + 1022, lowest = -1022;
  static constexpr int mantissa_bits = 52;
  static constexpr double exp2[] = {0x1.62e42fefa39efp+0,  0x1.ebfbdff82c5a4p-2,  0x1.c6b08d7049fe9p-4,
                                    0x1.3b2ab6fba0141p-6,  0x1.5d87fe78cd5bdp-9,  0x1.4309130ed212cp-12,
                                    0x1.ffcbfba9aa348p-16, 0x1.62bfc7ac5b516p-19, 0x1.b5267cc086cc3p-23,
                                    0x1.e61b37f96be9fp-27, 0x1.e79bae0399790p-31};
  static constexpr double expm1[] = {0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0c6p-5,
                                     0x1.3b2ab6fba4e60p-7,  0x1.5d87fe78a3fe5p-10, 0x1.430912f874164p-13,
                                     0x1.ffcbfc6d8d398p-17, 0x1.62c0221b620dcp-20, 0x1.b524ec0c0172dp-24,
                                     0x1.e4cfae597a2e1p-28, 0x1.e9ebc1b5e2d26p-32, 0x1.c3bd5d1e60ec9p-36};
};

template <class A, int Terms>
HWY_INLINE Vector<A> polynomial(Vector<A> x, const A (&factor)[Terms]) {
  const Tag<A> d;
  Vector<A> sum = hn::Set(d, factor[Terms - 1]);
#pragma GCC unroll 12
  for (int i = Terms - 2; i >= 0; --i) sum = hn::MulAdd(sum, x, hn::Set(d, factor[i]));
  return sum;
}

/// max(low, x), where a NaN stays one.
template <class A>
HWY_INLINE Vector<A> at_least(Vector<A> low, Vector<A> x) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3
  return hn::Max(low, x);  // the second operand, where one is no number
#else
  return hn::IfThenElse(hn::Lt(x, low), low, x);
#endif
}

/// x = n + f; power = 2^(n − 1), or 0 at `lowest`.
template <class A>
HWY_INLINE void split(Vector<A> x, Vector<A>& f, Vector<A>& power) {
  using E = Exponential<A>;
  const Tag<A> d;
  const hn::RebindToUnsigned<Tag<A>> du;
  const auto shift = hn::Set(d, E::shift);
  const auto shifted = hn::Add(x, shift);
  f = hn::Sub(x, hn::Sub(shifted, shift));
  power = hn::BitCast(d, hn::ShiftLeft<E::mantissa_bits>(hn::BitCast(du, shifted)));
}

/// 2^x for x ≤ 1 or so.
template <class A>
HWY_INLINE Vector<A> exp2(Vector<A> x) {
  using E = Exponential<A>;
  const Tag<A> d;
  Vector<A> f, power;
  split<A>(at_least<A>(hn::Set(d, E::lowest), x), f, power);
  return hn::Mul(power, hn::MulAdd(f, polynomial<A>(f, E::exp2), hn::Set(d, A{2})));
}

/// tanh z = −e / (2 + e), e = exp(−2|z|) − 1 by its own polynomial, so that nothing cancels near 0.
template <class A>
HWY_INLINE Vector<A> tanh(Vector<A> z) {
  using E = Exponential<A>;
  const Tag<A> d;
  const auto minus_two_log2e = hn::Set(d, A(-2 * 1.4426950408889634074));
  Vector<A> f, half_power;
  split<A>(at_least<A>(hn::Set(d, E::lowest), hn::Mul(minus_two_log2e, hn::Abs(z))), f, half_power);
  const auto power = hn::Add(half_power, half_power);
  const auto e = hn::MulAdd(power, hn::Mul(f, polynomial<A>(f, E::expm1)), hn::Sub(power, hn::Set(d, A{1})));
  return hn::CopySign(hn::Div(e, hn::Add(hn::Set(d, A{2}), e)), z);
}

template <class A>
HWY_INLINE void cap_impl(Index rows, Index first, Index end, A cap, A* s, Index stride) {
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

/// row ← 2^(scale · (row − max)); returns their sum. Each vector of a panel has a sum of its own.
template <class A>
HWY_NOINLINE A exponentials(A* row, Index cols, A scale, A max) {
  const Tag<A> d;
  const auto scales = hn::Set(d, scale), most = hn::Set(d, max);
  Vector<A> sum[panel_vectors];
#pragma GCC unroll 4
  for (int x = 0; x < panel_vectors; ++x) sum[x] = hn::Zero(d);
  for (Index j = 0; j < cols; j += panel_lanes<A>()) {
#pragma GCC unroll 4
    for (int x = 0; x < panel_vectors; ++x) {
      const Index at = j + x * lanes<A>();
      const auto weight = exp2<A>(hn::Mul(scales, hn::Sub(hn::LoadU(d, row + at), most)));
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
HWY_INLINE void open_row(const Strip<A>& strip, Index i) {
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
  const Tag<A> d;
  strip.max[i] = max;
  strip.rescale[i] = before == max ? A{1} : hn::GetLane(exp2<A>(hn::Set(d, strip.log2_scale * (before - max))));
}

/// First what is largest in each row, then the exponentials, which would wait for their own row's.
template <class A>
HWY_INLINE void weigh_impl(const Strip<A>& strip) {
  for (Index i = 0; i < strip.rows; ++i) open_row(strip, i);
  for (Index i = 0; i < strip.rows; ++i) {
    if (strip.row_first[i] >= strip.row_end[i]) continue;
    const Index first = panel_before<A>(strip.row_first[i]), end = panel_after<A>(strip.row_end[i]);
    const A max = strip.max[i];
    const A origin = max == -std::numeric_limits<A>::infinity() ? A{0} : max;  // −∞ less −∞ is no number
    const A sum = exponentials(strip.s + i * strip.stride + first, end - first, strip.log2_scale, origin);
    strip.sum[i] = strip.rescale[i] * strip.sum[i] + sum;
  }
}

void cap_f32(Index rows, Index first, Index end, float cap, float* s, Index stride) {
  cap_impl(rows, first, end, cap, s, stride);
}
void cap_f64(Index rows, Index first, Index end, double cap, double* s, Index stride) {
  cap_impl(rows, first, end, cap, s, stride);
}
void weigh_f32(const Strip<float>& strip) { weigh_impl(strip); }
void weigh_f64(const Strip<double>& strip) { weigh_impl(strip); }

}  // namespace bearing::attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::attend {
HWY_EXPORT(cap_f32);
HWY_EXPORT(cap_f64);
HWY_EXPORT(weigh_f32);
HWY_EXPORT(weigh_f64);

template <class A>
void cap(Index rows, Index first, Index end, A cap, A* s, Index stride) {
  if constexpr (sizeof(A) == sizeof(float)) {
    BEARING_DISPATCH(cap_f32)(rows, first, end, cap, s, stride);
  } else {
    BEARING_DISPATCH(cap_f64)(rows, first, end, cap, s, stride);
  }
}
template <class A>
void weigh(const Strip<A>& strip) {
  if constexpr (sizeof(A) == sizeof(float)) {
    BEARING_DISPATCH(weigh_f32)(strip);
  } else {
    BEARING_DISPATCH(weigh_f64)(strip);
  }
}

template void cap<float>(Index, Index, Index, float, float*, Index);
template void cap<double>(Index, Index, Index, double, double*, Index);
template void weigh<float>(const Strip<float>&);
template void weigh<double>(const Strip<double>&);

}  // namespace bearing::attend
#endif
