// The natural phases at a position: in a table, or made. Included once per SIMD target.
#if defined(BEARING_ROPE_PHASES_AT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEARING_ROPE_PHASES_AT_INL_H_
#undef BEARING_ROPE_PHASES_AT_INL_H_
#else
#define BEARING_ROPE_PHASES_AT_INL_H_
#endif

#include "encodings/rotary/rope_angles-inl.h"
#include "encodings/rotary/rope_call.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {

/// Phases in double, times the factor, rounded to C.
template <class C>
HWY_INLINE void finish_phases(const double* one, Index padded, double factor, C* out) {
  const WideTag d;
  for (Index i = 0; i < 2 * padded; i += static_cast<Index>(hn::Lanes(d))) {
    const WideVec scaled = hn::Mul(hn::LoadU(d, one + i), hn::Set(d, factor));
    if constexpr (std::is_same_v<C, double>) {
      hn::StoreU(scaled, d, out + i);
    } else {
      const hn::Rebind<float, WideTag> d32;
      hn::StoreU(hn::DemoteTo(d32, scaled), d32, out + i);
    }
  }
}

template <class C>
HWY_INLINE void computed_phases(const RopePhases<C>& phases, double p, double* one, C* out) {
  const PhaseFrequencies& f = phases.frequencies;
  exact_phases(f, p, one, one + f.padded);
  if (phases.decay.any()) phases.decay.apply(p, one, one + f.padded);
  finish_phases(one, f.padded, f.attention_factor, out);
}

/// Phases at p from a compact table, by the addition theorem; where its rounding is not sure, the exact evaluation
/// decides.
HWY_INLINE void combined_phases(const RopePhases<float>& phases, Index p, float* out) {
  const WideTag d;
  const hn::Rebind<float, WideTag> d32;
  const PhaseFrequencies& f = phases.frequencies;
  const Index magnitude = p < 0 ? -p : p;
  // fine_count is a power of two: no division.
  const auto bits =
      static_cast<Index>(hwy::Num0BitsBelowLS1Bit_Nonzero64(static_cast<std::uint64_t>(phases.fine_count)));
  const double* fine = phases.fine.data() + (magnitude & (phases.fine_count - 1)) * 2 * f.padded;
  const double* coarse = phases.coarse.data() + (magnitude >> bits) * 2 * f.padded;
  const WideVec a = hn::Set(d, f.attention_factor);
  const WideVec error =
      hn::Set(d, addition_error * (f.attention_factor < 0 ? -f.attention_factor : f.attention_factor));
  const WideVec sign = hn::Set(d, p < 0 ? -0.0 : 0.0);
  for (Index i = 0; i < f.padded; i += static_cast<Index>(hn::Lanes(d))) {
    const WideVec c0 = hn::Load(d, coarse + i), s0 = hn::Load(d, coarse + f.padded + i);
    const WideVec c1 = hn::Load(d, fine + i), s1 = hn::Load(d, fine + f.padded + i);
    const WideVec c = hn::Sub(hn::Mul(c0, c1), hn::Mul(s0, s1));
    const WideVec s = hn::Xor(hn::Add(hn::Mul(s0, c1), hn::Mul(c0, s1)), sign);
    bool unsure = false;
    auto c32 = rounded_if_sure(d32, hn::Mul(c, a), error, unsure);
    auto s32 = rounded_if_sure(d32, hn::Mul(s, a), error, unsure);
    if (HWY_UNLIKELY(unsure)) {
      WideVec exact_c, exact_s;
      exact_pairs(f, static_cast<double>(p), i, exact_c, exact_s);
      c32 = hn::DemoteTo(d32, hn::Mul(exact_c, a));
      s32 = hn::DemoteTo(d32, hn::Mul(exact_s, a));
    }
    hn::StoreU(c32, d32, out + i);
    hn::StoreU(s32, d32, out + f.padded + i);
  }
}

/// The natural phases at p: in the table, or made in `out`; `exact` is room for 2·padded doubles.
template <class C>
HWY_INLINE const C* phases_at(const RopePhases<C>& phases, double p, double* exact, C* out) {
  const Index padded = phases.frequencies.padded;
  const Index whole = static_cast<Index>(p);  // |p| ≤ 2^31
  if (static_cast<double>(whole) == p) {
    if (whole >= 0 && whole < phases.length) return phases.full.data() + whole * 2 * padded;
    if constexpr (std::is_same_v<C, float>) {
      if (phases.fine_count > 0 && (whole < 0 ? -whole : whole) < phases.fine_count * phases.coarse_count) {
        combined_phases(phases, whole, out);
        return out;
      }
    }
  }
  computed_phases(phases, p, exact, out);
  return out;
}

/// out ← each pair's phase on the pair's axis; one_axis(axis, room) gives those of an axis. `rooms` has room for four.
template <class C, class OneAxis>
HWY_INLINE void mix_axes(const PhaseFrequencies& f, const OneAxis& one_axis, C* rooms, C* out) {
  const hn::CappedTag<C, 16> d;
  for (Index axis = 0; axis < f.axes; ++axis) {
    const C* one = one_axis(axis, rooms + axis * 2 * f.padded);
    const auto mine = hn::Set(d, static_cast<C>(axis));
    for (Index i = 0; i < f.padded; i += static_cast<Index>(hn::Lanes(d))) {
      const auto here = hn::Eq(hn::Load(d, f.axis_lanes<C>() + i), mine);
      for (Index part : {Index{0}, f.padded}) {
        const auto mixed = hn::LoadU(d, out + part + i), its = hn::LoadU(d, one + part + i);
        hn::StoreU(axis == 0 ? its : hn::IfThenElse(here, its, mixed), d, out + part + i);
      }
    }
  }
}

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
