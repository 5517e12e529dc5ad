// The few vector operations that Highway 1.0.3 lacks or leaves to the target, with the same bits on every one.
// Included once per target, inside no namespace.
#if defined(BEARING_SIMD_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEARING_SIMD_LANES_INL_H_
#undef BEARING_SIMD_LANES_INL_H_
#else
#define BEARING_SIMD_LANES_INL_H_
#endif

#include <hwy/highway.h>
#include <bearing/half.hpp>
#include <bearing/view.hpp>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace bearing::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class A>
using Tag = hn::ScalableTag<A>;
template <class A>
HWY_INLINE Index lanes() {
  return static_cast<Index>(hn::Lanes(Tag<A>()));
}

/// a·b as the unevaluated sum of the rounded product and its error, both exact: with one fused operation, or by
/// Dekker's splitting into halves of 26 bits where there is none. Either way the same two numbers.
template <class D, class V>
HWY_INLINE V two_product(D d, V a, V b, V& error) {
  const V product = hn::Mul(a, b);
#if HWY_NATIVE_FMA
  (void)d;
  error = hn::MulSub(a, b, product);
#else
  const V splitter = hn::Set(d, 0x1p27 + 1);
  const V a_scaled = hn::Mul(splitter, a), b_scaled = hn::Mul(splitter, b);
  const V a_high = hn::Sub(a_scaled, hn::Sub(a_scaled, a)), b_high = hn::Sub(b_scaled, hn::Sub(b_scaled, b));
  const V a_low = hn::Sub(a, a_high), b_low = hn::Sub(b, b_high);
  const V rest = hn::Sub(product, hn::Mul(a_high, b_high));
  error = hn::Sub(hn::Mul(a_low, b_low), hn::Sub(hn::Sub(rest, hn::Mul(a_low, b_high)), hn::Mul(a_high, b_low)));
#endif
  return product;
}

/// a + b as the unevaluated sum of the rounded sum and its error (Knuth), whatever the magnitudes.
template <class V>
HWY_INLINE V two_sum(V a, V b, V& error) {
  const V sum = hn::Add(a, b);
  const V b_part = hn::Sub(sum, a);
  error = hn::Add(hn::Sub(a, hn::Sub(sum, b_part)), hn::Sub(b, b_part));
  return sum;
}

/// Two float32 vectors to bfloat16, round to nearest even, side by side in each 32-bit lane. Works on all 16-bit halves
/// at once: the upper halves go up by one where the lower ones are above the middle, or on it and the upper one is odd,
/// which is where the lower one's highest bit stays after one is taken off it, if the upper one is even. For values
/// computed from bfloat16 and finite numbers, whose NaNs have nothing in the lower half.
template <class DF, class VF>
HWY_INLINE auto round_to_bf16_pairs(DF df, VF lower, VF upper) {
  const hn::RebindToUnsigned<DF> du;
#if HWY_TARGET == HWY_SCALAR
  (void)df;
  const std::uint32_t low = Bfloat16(hn::GetLane(lower)).bits, high = Bfloat16(hn::GetLane(upper)).bits;
  return hn::Set(du, low | (high << 16));
#else
  const hn::Repartition<std::uint16_t, decltype(du)> d16;
  const auto low = hn::BitCast(du, lower), high = hn::BitCast(du, upper);
  const auto kept = hn::BitCast(d16, hn::OddEven(hn::BitCast(d16, high), hn::BitCast(d16, hn::ShiftRight<16>(low))));
  const auto dropped = hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(high)), hn::BitCast(d16, low));
  const auto even = hn::AndNot(kept, hn::Set(d16, std::uint16_t{1}));
  (void)df;
  return hn::BitCast(du, hn::Add(kept, hn::ShiftRight<15>(hn::SaturatedSub(dropped, even))));
#endif
}

#undef BEARING_F16_BY_HAND
// float16 conversion is one instruction with F16C and on Arm; older x86 and the scalar target do it in integers.
#if HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
#define BEARING_F16_BY_HAND 1
#else
#define BEARING_F16_BY_HAND 0
#endif

template <class DF>
HWY_INLINE hn::VFromD<DF> load_f16([[maybe_unused]] DF df, const Float16* from) {
#if BEARING_F16_BY_HAND
  HWY_ALIGN float wide[hn::MaxLanes(df)];
  for (std::size_t i = 0; i < hn::Lanes(df); ++i) wide[i] = static_cast<float>(from[i]);
  return hn::Load(df, wide);
#else
  const hn::Rebind<hwy::float16_t, DF> dh;
  return hn::PromoteTo(df, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from)));
#endif
}

/// `stream` writes past the caches, where `to` lies on a vector's border.
template <bool stream, class DF>
HWY_INLINE void store_f16([[maybe_unused]] DF df, hn::VFromD<DF> value, Float16* to) {
#if BEARING_F16_BY_HAND
  HWY_ALIGN float wide[hn::MaxLanes(df)];
  hn::Store(value, df, wide);
  for (std::size_t i = 0; i < hn::Lanes(df); ++i) to[i] = Float16(wide[i]);
#else
  const hn::Rebind<hwy::float16_t, DF> dh;
  if constexpr (stream && hn::MaxLanes(dh) >= 8) {
    hn::Stream(hn::DemoteTo(dh, value), dh, reinterpret_cast<hwy::float16_t*>(to));
  } else {
    hn::StoreU(hn::DemoteTo(dh, value), dh, reinterpret_cast<hwy::float16_t*>(to));
  }
#endif
}

/// Numbers as they are stored, widened to those of D.
template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const hn::TFromD<D>* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const Bfloat16* from) {
  const hn::RebindToUnsigned<D> wide;
  const hn::Rebind<std::uint16_t, D> narrow;
  const auto bits = hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
}
template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const Float16* from) {
  return load_f16(d, from);
}

/// … and back, rounded to nearest even; NaNs stay NaNs.
template <class D>
HWY_INLINE void store(D d, hn::VFromD<D> value, hn::TFromD<D>* to) {
  hn::StoreU(value, d, to);
}
template <class D>
HWY_INLINE void store(D d, hn::VFromD<D> value, Bfloat16* to) {
  (void)d;
  const hn::RebindToUnsigned<D> wide;
  const hn::Rebind<std::uint16_t, D> narrow;
  const auto bits = hn::BitCast(wide, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7FFFu))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(wide, 0x40u));
  const auto number = hn::RebindMask(wide, hn::Eq(value, value));
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(hn::RebindToSigned<D>(), hn::IfThenElse(number, rounded, quiet))), narrow,
             reinterpret_cast<std::uint16_t*>(to));
}
template <class D>
HWY_INLINE void store(D d, hn::VFromD<D> value, Float16* to) {
  store_f16<false>(d, value, to);
}

}  // namespace bearing::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
