// 2^x, which attention's kernels share. Included once per SIMD target, inside no namespace.
#if defined(BEARING_ATTENTION_EXPONENTIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEARING_ATTENTION_EXPONENTIAL_INL_H_
#undef BEARING_ATTENTION_EXPONENTIAL_INL_H_
#else
#define BEARING_ATTENTION_EXPONENTIAL_INL_H_
#endif

#include <hwy/highway.h>

#include "attention/shared/panels-inl.h"
#include "attention/softmax/softmax_kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::attend::HWY_NAMESPACE {

template <class A>
using Vector = hn::Vec<Tag<A>>;

// 2^x is 2^n · 2^f with n the nearest integer and f the rest in [−1/2, 1/2]. Adding `shift` to x rounds it: the sum's
// low bits hold n less `lowest`, which moved up are the number 2^n / unit; x is held above `lowest`, where they are all
// zero, so that what is below is exactly 0.
//
//     2 · 2^f = 2 + f · exp2(f)     2^f − 1 = f · expm1(f)
//
// are minimax polynomials (Remez). Relative errors: 2^f 9.2e-8 and 3.4e-18, 2^f − 1 1.1e-8 and 2.4e-19.
template <class A>
struct Exponential;
template <>
struct Exponential<float> {
  static constexpr float lowest = least_exponent<float>, shift = 0x1.8p23f - lowest, unit = 0x1p63f;  // 127 + lowest
  static constexpr int mantissa_bits = 23;
  static constexpr float exp2[] = {0x1.62e42ap+0f, 0x1.ebf9bcp-2f, 0x1.c6b752p-4f, 0x1.3cea68p-6f, 0x1.5bba44p-9f};
  static constexpr float expm1[] = {0x1.62e430p-1f, 0x1.ebfbdep-3f,  0x1.c6af6ep-5f,
                                    0x1.3b2ba0p-7f, 0x1.5f07b4p-10f, 0x1.4308fap-13f};
};
template <>
struct Exponential<double> {
  static constexpr double lowest = least_exponent<double>, shift = 0x1.8p52 - lowest, unit = 0x1p511;
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

/// `times` a power of two, which costs nothing.
template <class A, int Terms>
HWY_INLINE Vector<A> polynomial(Vector<A> x, const A (&factor)[Terms], A times = 1) {
  const Tag<A> d;
  Vector<A> sum = hn::Set(d, times * factor[Terms - 1]);
#pragma GCC unroll 12
  for (int i = Terms - 2; i >= 0; --i) sum = hn::MulAdd(sum, x, hn::Set(d, times * factor[i]));
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

/// x = n + f; power = 2^n / unit, or 0 at `lowest`.
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

/// 2^x for x from `lowest` on, or less by rounding: its callers see to that before they multiply, for −1.7 times the
/// type's lowest number, a common mask, would overflow.
template <class A>
HWY_INLINE Vector<A> exp2(Vector<A> x) {
  using E = Exponential<A>;
  const Tag<A> d;
  Vector<A> f, power;
  split<A>(x, f, power);
  return hn::Mul(power, hn::MulAdd(f, polynomial<A>(f, E::exp2, E::unit / 2), hn::Set(d, E::unit)));
}

}  // namespace bearing::attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
