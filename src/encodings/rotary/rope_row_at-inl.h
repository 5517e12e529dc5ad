// The natural row at a position: in a table, or made. Included once per SIMD target.
#if defined(BEARING_ROPE_ROW_AT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEARING_ROPE_ROW_AT_INL_H_
#undef BEARING_ROPE_ROW_AT_INL_H_
#else
#define BEARING_ROPE_ROW_AT_INL_H_
#endif

#include "encodings/rotary/rope_angles-inl.h"
#include "encodings/rotary/rope_call.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {

/// A row in double, times the factor, rounded to C.
template <class C>
HWY_INLINE void finish_row(const double* row, Index padded, double factor, C* out) {
  const WideTag d;
  for (Index i = 0; i < 2 * padded; i += static_cast<Index>(hn::Lanes(d))) {
    const WideVec scaled = hn::Mul(hn::LoadU(d, row + i), hn::Set(d, factor));
    if constexpr (std::is_same_v<C, double>) {
      hn::StoreU(scaled, d, out + i);
    } else {
      const hn::Rebind<float, WideTag> d32;
      hn::StoreU(hn::DemoteTo(d32, scaled), d32, out + i);
    }
  }
}

template <class C>
HWY_INLINE void computed_row(const RopeRows<C>& rows, double p, double* row, C* out) {
  const RowFrequencies& f = rows.frequencies;
  exact_row(f, p, row, row + f.padded);
  if (rows.decay.any()) rows.decay.apply(p, row, row + f.padded);
  finish_row(row, f.padded, f.attention_factor, out);
}

/// Row p of a compact table by the addition theorem; where its rounding is not sure, the exact evaluation decides.
HWY_INLINE void combined_row(const RopeRows<float>& rows, Index p, float* out) {
  const WideTag d;
  const hn::Rebind<float, WideTag> d32;
  const RowFrequencies& f = rows.frequencies;
  const Index magnitude = p < 0 ? -p : p;
  // fine_rows is a power of two: no division.
  const auto bits = static_cast<Index>(hwy::Num0BitsBelowLS1Bit_Nonzero64(static_cast<std::uint64_t>(rows.fine_rows)));
  const double* fine = rows.fine.data() + (magnitude & (rows.fine_rows - 1)) * 2 * f.padded;
  const double* coarse = rows.coarse.data() + (magnitude >> bits) * 2 * f.padded;
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

/// The natural row at p: in the table, or made in `out`; `exact` is room for 2·padded doubles.
template <class C>
HWY_INLINE const C* row_at(const RopeRows<C>& rows, double p, double* exact, C* out) {
  const Index padded = rows.frequencies.padded;
  const Index whole = static_cast<Index>(p);  // |p| ≤ 2^31
  if (static_cast<double>(whole) == p) {
    if (whole >= 0 && whole < rows.length) return rows.full.data() + whole * 2 * padded;
    if constexpr (std::is_same_v<C, float>) {
      if (rows.fine_rows > 0 && (whole < 0 ? -whole : whole) < rows.fine_rows * rows.coarse_rows) {
        combined_row(rows, whole, out);
        return out;
      }
    }
  }
  computed_row(rows, p, exact, out);
  return out;
}

/// out ← each pair from the row of its own axis, which one_axis(axis, room) gives; `rooms` has room for four rows.
template <class C, class OneAxis>
HWY_INLINE void mix_axes(const RowFrequencies& f, const OneAxis& one_axis, C* rooms, C* out) {
  const hn::CappedTag<C, 16> d;
  for (Index axis = 0; axis < f.axes; ++axis) {
    const C* row = one_axis(axis, rooms + axis * 2 * f.padded);
    const auto mine = hn::Set(d, static_cast<C>(axis));
    for (Index i = 0; i < f.padded; i += static_cast<Index>(hn::Lanes(d))) {
      const auto here = hn::Eq(hn::Load(d, f.axis_lanes<C>() + i), mine);
      for (Index part : {Index{0}, f.padded}) {
        const auto mixed = hn::LoadU(d, out + part + i), its = hn::LoadU(d, row + part + i);
        hn::StoreU(axis == 0 ? its : hn::IfThenElse(here, its, mixed), d, out + part + i);
      }
    }
  }
}

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
