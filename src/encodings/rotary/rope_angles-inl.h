// Exact cos and sin of position times frequency, in vectors of double. Included once per SIMD target.
//
// Angles are counted in quarter turns: u = p·t with t = θ·2/π held as the sum of three doubles. The product is formed
// exactly enough that u minus its nearest integer n is right to 2^-100 even where cos or sin vanishes; n mod 4 picks
// the quadrant and only the small rest ever meets a polynomial. Products and sums are rounded one by one, so every
// target gives the same bits.
#if defined(BEARING_ROPE_ANGLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEARING_ROPE_ANGLES_INL_H_
#undef BEARING_ROPE_ANGLES_INL_H_
#else
#define BEARING_ROPE_ANGLES_INL_H_
#endif

#include "encodings/rotary/rope_phases.hpp"
#include "simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using simd::HWY_NAMESPACE::two_product;
using simd::HWY_NAMESPACE::two_sum;

using WideTag = hn::CappedTag<double, 8>;  // divides pair_padding
using WideVec = hn::VFromD<WideTag>;

/// An angle reduced to [−1/2, 1/2] quarter turns around the n-th: high + low. The lowest bits of `turns` are n.
struct Reduced {
  WideVec turns, high, low;
};

/// 1.5·2^52: adding it to a double below 2^51 leaves that double's nearest integer in the low bits of the sum.
inline constexpr double integer_shift = 0x1.8p52;

HWY_INLINE Reduced renormalised(WideVec turns, WideVec high, WideVec low) {
  Reduced r{turns, high, low};
  r.high = two_sum(high, low, r.low);
  return r;
}

/// p·(t0 + t1 + t2), reduced.
HWY_INLINE Reduced reduce(WideVec p, WideVec t0, WideVec t1, WideVec t2) {
  const WideTag d;
  WideVec error0, error1;
  const WideVec product0 = two_product(d, p, t0, error0);
  const WideVec product1 = two_product(d, p, t1, error1);
  const WideVec turns = hn::Add(product0, hn::Set(d, integer_shift));
  const WideVec fraction = hn::Sub(product0, hn::Sub(turns, hn::Set(d, integer_shift)));  // exact
  // fraction, error0 and product1 may cancel to almost nothing; two_sum keeps what they leave.
  WideVec rest0, rest1;
  const WideVec sum0 = two_sum(fraction, error0, rest0);
  const WideVec sum1 = two_sum(sum0, product1, rest1);
  return renormalised(turns, sum1, hn::Add(hn::Add(rest0, rest1), hn::Add(error1, hn::Mul(p, t2))));
}

/// a − b, reduced again.
HWY_INLINE Reduced difference(const Reduced& a, const Reduced& b) {
  const WideTag d;
  const hn::RebindToUnsigned<WideTag> du;
  const WideVec shift = hn::Set(d, integer_shift);
  WideVec rest;
  const WideVec high = two_sum(a.high, hn::Neg(b.high), rest);
  const WideVec extra = hn::Add(high, shift);  // −1, 0 or 1 more quarter turns
  const auto turns = hn::Add(hn::Sub(hn::BitCast(du, a.turns), hn::BitCast(du, b.turns)), hn::BitCast(du, extra));
  return renormalised(hn::BitCast(d, turns), hn::Sub(high, hn::Sub(extra, shift)),
                      hn::Add(rest, hn::Sub(a.low, b.low)));
}

/// cos and sin of a reduced angle, each within 0.8 ulp: the minimax polynomials of fdlibm (Sun Microsystems, 1993) on
/// [−π/4, π/4], which take the angle as x + y with y below an ulp of x.
HWY_INLINE void cos_sin(const Reduced& angle, WideVec& cos, WideVec& sin) {
  const WideTag d;
  const auto k = [d](double value) HWY_ATTR { return hn::Set(d, value); };
  const WideVec half_pi = k(0x1.921fb54442d18p+0), half_pi_rest = k(0x1.1a62633145c07p-54);
  WideVec error;
  const WideVec large = two_product(d, angle.high, half_pi, error);
  const WideVec small = hn::Add(error, hn::Add(hn::Mul(angle.high, half_pi_rest), hn::Mul(angle.low, half_pi)));
  WideVec y;
  const WideVec x = two_sum(large, small, y);

  const WideVec z = hn::Mul(x, x);
  WideVec s = hn::Add(k(-2.50507602534068634195e-08), hn::Mul(z, k(1.58969099521155010221e-10)));
  s = hn::Add(k(2.75573137070700676789e-06), hn::Mul(z, s));
  s = hn::Add(k(-1.98412698298579493134e-04), hn::Mul(z, s));
  s = hn::Add(k(8.33333333332248946124e-03), hn::Mul(z, s));
  const WideVec cube = hn::Mul(z, x);
  const WideVec tail = hn::Sub(hn::Mul(z, hn::Sub(hn::Mul(k(0.5), y), hn::Mul(cube, s))), y);
  const WideVec sine = hn::Sub(x, hn::Sub(tail, hn::Mul(cube, k(-1.66666666666666324348e-01))));

  WideVec c = hn::Add(k(2.08757232129817482790e-09), hn::Mul(z, k(-1.13596475577881948265e-11)));
  c = hn::Add(k(-2.75573143513906633035e-07), hn::Mul(z, c));
  c = hn::Add(k(2.48015872894767294178e-05), hn::Mul(z, c));
  c = hn::Add(k(-1.38888888888741095749e-03), hn::Mul(z, c));
  c = hn::Mul(z, hn::Add(k(4.16666666666666019037e-02), hn::Mul(z, c)));
  const WideVec half_square = hn::Mul(k(0.5), z);
  const WideVec head = hn::Sub(k(1.0), half_square);
  const WideVec lost = hn::Sub(hn::Sub(k(1.0), head), half_square);  // what rounding took from 1 − z/2
  const WideVec cosine = hn::Add(head, hn::Add(lost, hn::Sub(hn::Mul(z, c), hn::Mul(x, y))));

  // Quadrants 1 and 3 swap the two; cos is negative in 1 and 2, sin in 2 and 3.
  const hn::RebindToUnsigned<WideTag> du;
  const auto n = hn::BitCast(du, angle.turns);
  const auto one = hn::Set(du, 1u);
  const auto odd = hn::RebindMask(d, hn::Eq(hn::And(n, one), one));
  const auto cos_sign = hn::ShiftLeft<62>(hn::And(hn::Add(n, one), hn::Set(du, 2u)));
  const auto sin_sign = hn::ShiftLeft<62>(hn::And(n, hn::Set(du, 2u)));
  cos = hn::Xor(hn::IfThenElse(odd, sine, cosine), hn::BitCast(d, cos_sign));
  sin = hn::Xor(hn::IfThenElse(odd, cosine, sine), hn::BitCast(d, sin_sign));
}

/// The angles p·θ of pairs i … i + lanes − 1. As float32, in Hugging Face's order: float(p)·float(θ), rounded to float.
HWY_INLINE Reduced reduced_angle(const PhaseFrequencies& f, double p, Index i) {
  const WideTag d;
  const double* t = f.quarter_turns.data() + i;
  if (f.angles == Angles::exact) {
    return reduce(hn::Set(d, p), hn::Load(d, t), hn::Load(d, t + f.padded), hn::Load(d, t + 2 * f.padded));
  }
  const hn::Rebind<float, WideTag> d32;
  const WideVec p32 = hn::Set(d, static_cast<double>(static_cast<float>(p)));
  const WideVec angle = hn::PromoteTo(d, hn::DemoteTo(d32, hn::Mul(p32, hn::Load(d, t))));  // the product is exact
  const WideVec two_over_pi[] = {hn::Set(d, 0x1.45f306dc9c883p-1), hn::Set(d, -0x1.6b01ec5417056p-55),
                                 hn::Set(d, -0x1.6447e493ad4cep-109)};
  return reduce(angle, two_over_pi[0], two_over_pi[1], two_over_pi[2]);
}

/// cos and sin of pairs i … i + lanes − 1 at p, without the attention factor.
HWY_INLINE void exact_pairs(const PhaseFrequencies& f, double p, Index i, WideVec& cos, WideVec& sin) {
  cos_sin(reduced_angle(f, p, i), cos, sin);
  if (f.angles == Angles::exact) return;
  const WideTag d;
  const hn::Rebind<float, WideTag> d32;
  cos = hn::PromoteTo(d, hn::DemoteTo(d32, cos));
  sin = hn::PromoteTo(d, hn::DemoteTo(d32, sin));
}

/// All phases at p, [padded], without the attention factor.
HWY_INLINE void exact_phases(const PhaseFrequencies& f, double p, double* cos, double* sin) {
  const WideTag d;
  for (Index i = 0; i < f.padded; i += static_cast<Index>(hn::Lanes(d))) {
    WideVec c, s;
    exact_pairs(f, p, i, c, s);
    hn::StoreU(c, d, cos + i);
    hn::StoreU(s, d, sin + i);
  }
}

/// The angle p_to·θ_to − p_from·θ_from, pair by pair.
HWY_INLINE void difference_phases(const PhaseFrequencies& to, double p_to, const PhaseFrequencies& from, double p_from,
                                  double* cos, double* sin) {
  const WideTag d;
  for (Index i = 0; i < to.padded; i += static_cast<Index>(hn::Lanes(d))) {
    WideVec c, s;
    cos_sin(difference(reduced_angle(to, p_to, i), reduced_angle(from, p_from, i)), c, s);
    hn::StoreU(c, d, cos + i);
    hn::StoreU(s, d, sin + i);
  }
}

/// The addition theorem in double leaves an absolute error of at most 3.9·2^-53 (factors right to 0.6·2^-53, one of
/// them also rounded after its product with the attention factor; two products and a sum rounded); the exact evaluation
/// itself has 1.3·2^-53. Their sum, rounded up; to be multiplied by the attention factor.
inline constexpr double addition_error = 0x1.8p-51;

/// x rounded to float where x ± error rounds to one float only; else `unsure` says that x does not decide.
template <class D32, class V>
HWY_INLINE hn::VFromD<D32> rounded_if_sure(D32 d32, V x, V error, bool& unsure) {
  const auto below = hn::DemoteTo(d32, hn::Sub(x, error));
  const auto above = hn::DemoteTo(d32, hn::Add(x, error));
  unsure |= !hn::AllTrue(d32, hn::Eq(below, above));
  return above;
}

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
