// Turning one line of any length by phases in memory. Included once per SIMD target.
#if defined(BEARING_ROPE_LINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEARING_ROPE_LINE_INL_H_
#undef BEARING_ROPE_LINE_INL_H_
#else
#define BEARING_ROPE_LINE_INL_H_
#endif

#include "encodings/rotary/rope_lines-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace lanes = simd::HWY_NAMESPACE;

/// A token's cos and sin, as a line needs them.
template <class T>
struct Phases {
  const Compute<T>* cos;
  const Compute<T>* sin;
  bool negative_sin;
  Index pairs;
};

/// One line, half pairing, natural order: (u, v) ← (u c − v s, u s + v c).
template <bool stream, class T>
HWY_INLINE void half_line(const Phases<T>& l, const T* in, T* out) {
  using C = Compute<T>;
  const C sign = l.negative_sin ? C(-0.0) : C(0.0);
  over_range<C, 1>(l.pairs, [&](auto d, Index i) HWY_ATTR {
    const auto c = hn::LoadU(d, l.cos + i), s = hn::Xor(hn::LoadU(d, l.sin + i), hn::Set(d, sign));
    const auto u = load(d, in + i), v = load(d, in + l.pairs + i);
    store<stream>(d, hn::Sub(hn::Mul(u, c), hn::Mul(v, s)), out + i);
    store<stream>(d, hn::Add(hn::Mul(u, s), hn::Mul(v, c)), out + l.pairs + i);
  });
}

/// One line, interleaved pairing, doubled order: x c + swapped(x) s.
template <bool stream, class T>
HWY_INLINE void doubled_line(const Phases<T>& l, const T* in, T* out) {
  over_range<Compute<T>, 2>(2 * l.pairs, [&](auto d, Index i) HWY_ATTR {
    const auto x = load(d, in + i);
    const auto turned =
        hn::Add(hn::Mul(x, hn::LoadU(d, l.cos + i)), hn::Mul(hn::Reverse2(d, x), hn::LoadU(d, l.sin + i)));
    store<stream>(d, turned, out + i);
  });
}

/// Two bfloat16 in each 32-bit lane, as float32: the lower one shifted up, the upper one with the lower masked off.
template <class DF>
struct Bf16Pair {
  hn::VFromD<DF> lower, upper;
};

template <class DF>
HWY_INLINE Bf16Pair<DF> load_bf16_pairs(DF df, const Bfloat16* from) {
  const hn::RebindToUnsigned<DF> du;
  const auto both = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(from));
  return {hn::BitCast(df, hn::ShiftLeft<16>(both)), hn::BitCast(df, hn::And(both, hn::Set(du, 0xFFFF'0000u)))};
}

template <bool stream, class DF>
HWY_INLINE void store_bf16_pairs(DF df, hn::VFromD<DF> lower, hn::VFromD<DF> upper, Bfloat16* to) {
  const hn::RebindToUnsigned<DF> du;
  store<stream>(du, lanes::round_to_bf16_pairs(df, lower, upper), reinterpret_cast<std::uint32_t*>(to));
}

/// One line of bfloat16, interleaved pairing: a lane is a pair.
template <bool stream>
HWY_INLINE void bf16_interleaved_line(const Phases<Bfloat16>& l, const Bfloat16* in, Bfloat16* out) {
  const float sign = l.negative_sin ? -0.0f : 0.0f;
  over_range<float, 1>(l.pairs, [&](auto d, Index i) HWY_ATTR {
    const auto c = hn::LoadU(d, l.cos + i), s = hn::Xor(hn::LoadU(d, l.sin + i), hn::Set(d, sign));
    const auto x = load_bf16_pairs(d, in + 2 * i);
    store_bf16_pairs<stream>(d, hn::Sub(hn::Mul(x.lower, c), hn::Mul(x.upper, s)),
                             hn::Add(hn::Mul(x.lower, s), hn::Mul(x.upper, c)), out + 2 * i);
  });
}

/// One line of bfloat16, half pairing, split order: a lane holds two neighbours of the same half.
template <bool stream>
HWY_INLINE void bf16_half_line(const Phases<Bfloat16>& l, const Bfloat16* in, Bfloat16* out) {
  const Bfloat16* in_v = in + l.pairs;
  Bfloat16* out_v = out + l.pairs;
  over_range<float, 1>(l.pairs / 2, [&](auto d, Index lane) HWY_ATTR {
    const Index i = 2 * lane, odd = i + static_cast<Index>(hn::Lanes(d));
    const auto u = load_bf16_pairs(d, in + i), v = load_bf16_pairs(d, in_v + i);
    const auto c0 = hn::LoadU(d, l.cos + i), s0 = hn::LoadU(d, l.sin + i);
    const auto c1 = hn::LoadU(d, l.cos + odd), s1 = hn::LoadU(d, l.sin + odd);
    store_bf16_pairs<stream>(d, hn::Sub(hn::Mul(u.lower, c0), hn::Mul(v.lower, s0)),
                             hn::Sub(hn::Mul(u.upper, c1), hn::Mul(v.upper, s1)), out + i);
    store_bf16_pairs<stream>(d, hn::Add(hn::Mul(u.lower, s0), hn::Mul(v.lower, c0)),
                             hn::Add(hn::Mul(u.upper, s1), hn::Mul(v.upper, c1)), out_v + i);
  });
  if (l.pairs % 2 != 0) {
    const Index i = l.pairs - 1;
    const float c = l.cos[i], s = l.sin[i], u = static_cast<float>(in[i]), v = static_cast<float>(in_v[i]);
    out[i] = Bfloat16(u * c - v * s);
    out_v[i] = Bfloat16(u * s + v * c);
  }
}

/// One line, interleaved pairing, natural order, where vectors have one lane.
template <class T>
HWY_INLINE void scalar_interleaved_line(const Phases<T>& l, const T* in, T* out) {
  using C = Compute<T>;
  for (Index i = 0; i < l.pairs; ++i) {
    const C u = static_cast<C>(in[2 * i]), v = static_cast<C>(in[2 * i + 1]);
    const C c = l.cos[i], s = l.negative_sin ? -l.sin[i] : l.sin[i];
    out[2 * i] = static_cast<T>(u * c - v * s);
    out[2 * i + 1] = static_cast<T>(u * s + v * c);
  }
}

template <PhaseOrder order, bool stream, class T>
HWY_INLINE void one_line(const Phases<T>& phases, Pairing pairing, const T* in, T* out) {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    if constexpr (order == PhaseOrder::split) {
      bf16_half_line<stream>(phases, in, out);
    } else {
      bf16_interleaved_line<stream>(phases, in, out);
    }
  } else if constexpr (order == PhaseOrder::doubled) {
    doubled_line<stream>(phases, in, out);
  } else if (HWY_TARGET == HWY_SCALAR && pairing == Pairing::interleaved) {
    scalar_interleaved_line(phases, in, out);
  } else {
    half_line<stream>(phases, in, out);
  }
}

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
