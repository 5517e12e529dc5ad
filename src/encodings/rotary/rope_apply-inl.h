// Turning heads by phases that are ready: the inner loops. Included once per SIMD target.
//
// Phases come in the order that a loop needs (PhaseOrder), so that the loop itself is loads, two products, a sum and a
// store. They are made once per token and serve all of its heads.
#if defined(BEARING_ROPE_APPLY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEARING_ROPE_APPLY_INL_H_
#undef BEARING_ROPE_APPLY_INL_H_
#else
#define BEARING_ROPE_APPLY_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>

#include "encodings/rotary/rope_bf16_avx512.hpp"
#include "encodings/rotary/rope_call.hpp"
#include "simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace lanes = simd::HWY_NAMESPACE;

enum class PhaseOrder {
  natural,  ///< c0 c1 c2 …, s0 s1 s2 …
  doubled,  ///< c0 c0 c1 c1 …, −s0 s0 −s1 s1 …: interleaved pairs, whole vectors at a time
  spread,   ///< natural, and doubled where they are loaded into registers: interleaved pairs, see spreads()
  split,    ///< per vector pair, the even ones first: two bfloat16 in a 32-bit lane, half pairing
};

template <class T>
constexpr PhaseOrder phase_order(Pairing pairing) {
  constexpr bool bf16 = std::is_same_v<T, Bfloat16>;
  constexpr bool one_lane = HWY_TARGET == HWY_SCALAR;  // no neighbour to swap with
  if (pairing == Pairing::interleaved) return bf16 || one_lane ? PhaseOrder::natural : PhaseOrder::doubled;
  return bf16 ? PhaseOrder::split : PhaseOrder::natural;
}

/// Heads of several tokens; a head of a token is a line, with `pairs` pairs to turn. Tokens are the outer loop:
/// phases are loaded once for all the heads of a token.
template <class T>
struct Lines {
  const Compute<T>* const* cos;  ///< [tokens]
  const Compute<T>* const* sin;
  bool negative_sin;  ///< natural order only; the other orders have the sign in the phases
  Pairing pairing;
  const T* in;
  T* out;
  Index in_token, out_token, in_head, out_head;  ///< strides
  Index tokens, heads, pairs;
  bool avx512_bf16;   ///< bfloat16 by AVX-512's own conversion
  bool from_memory;   ///< not in a cache: each line should be read from its first to its last byte
  bool heads_inside;  ///< heads are nearer in memory than tokens
  const T* next;      ///< where the walk goes on after the last token, to fetch ahead; null: do not

  const T* line_in(Index token, Index head) const { return in + token * in_token + head * in_head; }
  T* line_out(Index token, Index head) const { return out + token * out_token + head * out_head; }
};

/// body(d, i) for every vector of a range of n numbers, with whole vectors first, then of 4, then of `least` (1 or 2).
template <class C, std::size_t least, class Body>
HWY_INLINE void over_range(Index n, const Body& body) {
  const hn::CappedTag<C, 16> full;
  const Index width = static_cast<Index>(hn::Lanes(full));
  Index i = 0;
  for (; i + width <= n; i += width) body(full, i);
  if (i == n) return;
  const hn::CappedTag<C, 4> four;
  const Index narrow = static_cast<Index>(hn::Lanes(four));
  for (; i + narrow <= n; i += narrow) body(four, i);
  const hn::CappedTag<C, least> last;
  for (; i < n; i += static_cast<Index>(hn::Lanes(last))) body(last, i);
}

template <class D, class T>
HWY_INLINE hn::VFromD<D> load(D d, const T* from) {
  if constexpr (std::is_same_v<T, Float16>) {
    return lanes::load_f16(d, from);
  } else {
    return hn::LoadU(d, from);
  }
}

template <bool stream, class D, class T>
HWY_INLINE void store(D d, hn::VFromD<D> value, T* to) {
  if constexpr (std::is_same_v<T, Float16>) {
    lanes::store_f16<stream>(d, value, to);
  } else if constexpr (stream && hn::MaxLanes(D()) * sizeof(T) >= 16) {
    hn::Stream(value, d, to);
  } else {
    hn::StoreU(value, d, to);
  }
}

/// Reads a line that is about to turn from its first byte to its last. A loop that reads both halves of a head at once
/// shows memory two interwoven streams, which costs some processors (Zen 4) three quarters of their bandwidth.
template <class T>
HWY_INLINE void touch_in_order(const Lines<T>& l, Index token, Index head) {
  const volatile char* now = reinterpret_cast<const volatile char*>(l.line_in(token, head));
  for (Index byte = 0; byte < 2 * l.pairs * static_cast<Index>(sizeof(T)); byte += 64) (void)now[byte];
}

/// How far ahead lines are fetched, in bytes. 4 KiB, where the hardware's own prefetch would stop at the border of a
/// page; with vectors of 32 bytes 1 KiB, if numbers are not converted. Zen 3, 64 MiB of float32 in halves: 1.00 of
/// LIMIT by 1 KiB, 0.94 by 4, 0.94 without; 32 MiB of bfloat16: 0.75 by 1 KiB, 0.92 by 4, 0.60 without.
template <class T>
constexpr Index prefetch_distance() {
  return HWY_TARGET == HWY_AVX2 && sizeof(T) >= 4 ? 1024 : 4096;
}

/// … in lines; 0 where none are.
template <class T>
HWY_INLINE Index lines_ahead(const Lines<T>& l) {
  if (l.next == nullptr) return 0;
  return HWY_MAX(1, prefetch_distance<T>() / (2 * l.pairs * static_cast<Index>(sizeof(T))));
}

/// The line that comes that much later. That is another head of the token, or of the next one, or the same head of a
/// later token, whichever lies there.
template <class T>
struct LineAhead {
  const T* from;
  Index heads;  ///< how many heads of that token lie from there on

  HWY_INLINE LineAhead(const Lines<T>& l, Index ahead, Index token, Index head) {
    Index later = l.heads_inside ? token : token + ahead, other = l.heads_inside ? head + ahead : head;
    for (; other >= l.heads; other -= l.heads) ++later;
    from = later < l.tokens ? l.line_in(later, other) : l.next + (later - l.tokens) * l.in_token + other * l.in_head;
    heads = l.heads - other;
  }
};

template <class T>
HWY_INLINE void prefetch_ahead(const Lines<T>& l, Index ahead, Index token, Index head) {
  const Index bytes = 2 * l.pairs * static_cast<Index>(sizeof(T));
  const T* from = LineAhead<T>(l, ahead, token, head).from;
  for (Index byte = 0; byte < bytes; byte += 64) hwy::Prefetch(reinterpret_cast<const char*>(from) + byte);
}

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

// Phases stay in vector registers for all heads, as many as leave room for what turns: of 32 registers 16, of 16 eight.
#undef BEARING_PHASE_VECTORS
#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE
#define BEARING_PHASE_VECTORS 0
#elif (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM_A64
#define BEARING_PHASE_VECTORS 8
#else
#define BEARING_PHASE_VECTORS 4
#endif

#if BEARING_PHASE_VECTORS
/// Exactly `vectors` vectors of cos and as many of sin.
template <class C, int vectors>
struct PhasesInRegisters {
  hn::VFromD<hn::ScalableTag<C>> c[vectors], s[vectors];

  HWY_INLINE void load(const C* cos, const C* sin, bool negative_sin) {
    const hn::ScalableTag<C> d;
    constexpr Index lanes = hn::MaxLanes(d);
    const auto sign = hn::Set(d, negative_sin ? C(-0.0) : C(0.0));
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      c[v] = hn::LoadU(d, cos + v * lanes);
      s[v] = hn::Xor(hn::LoadU(d, sin + v * lanes), sign);
    }
  }

  /// Natural phases as doubled ones.
  HWY_INLINE void load_doubled(const C* cos, const C* sin, bool negative_sin) {
    const hn::ScalableTag<C> d;
    const hn::RebindToSigned<decltype(d)> di;
    constexpr Index lanes = hn::MaxLanes(d);
    using Lane = hn::TFromD<decltype(di)>;
    const auto pair = hn::ShiftRight<1>(hn::Iota(di, Lane{0}));
    const auto lower = hn::IndicesFromVec(d, pair),
               upper = hn::IndicesFromVec(d, hn::Add(pair, hn::Set(di, Lane{lanes / 2})));
    const C even = negative_sin ? C(0.0) : C(-0.0);
    const auto signs = hn::OddEven(hn::Set(d, -even), hn::Set(d, even));
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v += 2) {
      const auto cosines = hn::LoadU(d, cos + v / 2 * lanes), sines = hn::LoadU(d, sin + v / 2 * lanes);
      c[v] = hn::TableLookupLanes(cosines, lower);
      c[v + 1] = hn::TableLookupLanes(cosines, upper);
      s[v] = hn::Xor(hn::TableLookupLanes(sines, lower), signs);
      s[v + 1] = hn::Xor(hn::TableLookupLanes(sines, upper), signs);
    }
  }
};

/// Vectors of each half of a line that are loaded before any is stored: as many as leave registers for the phases. Of
/// 32 registers four vectors and the phases of eight take all but a few.
inline constexpr int vectors_at_once(int vectors) { return BEARING_PHASE_VECTORS == 8 ? std::min(vectors, 4) : 1; }

/// A line, or as much of it as there are phases for, whose halves are `pairs` apart.
template <PhaseOrder order, bool stream, int vectors, class T>
HWY_INLINE void turn_line(const PhasesInRegisters<Compute<T>, vectors>& phases, Index pairs, const T* in, T* out) {
  const hn::ScalableTag<Compute<T>> d;
  constexpr Index lanes = hn::MaxLanes(d);
  constexpr int n = vectors_at_once(vectors);
  hn::VFromD<decltype(d)> y[2 * n];
#pragma GCC unroll 8
  for (int first = 0; first < vectors; first += n) {
    const auto *c = phases.c + first, *s = phases.s + first;
    const T* from = in + first * lanes;
    T* to = out + first * lanes;
    if constexpr (order == PhaseOrder::doubled || order == PhaseOrder::spread) {
      (void)pairs;
      for (int k = 0; k < n; ++k) {
        const auto x = load(d, from + k * lanes);
        y[k] = hn::Add(hn::Mul(x, c[k]), hn::Mul(hn::Reverse2(d, x), s[k]));
      }
      for (int k = 0; k < n; ++k) store<stream>(d, y[k], to + k * lanes);
    } else {
      for (int k = 0; k < n; ++k) y[k] = load(d, from + k * lanes);
      for (int k = 0; k < n; ++k) y[n + k] = load(d, from + pairs + k * lanes);
      for (int k = 0; k < n; ++k) {
        const auto u = y[k], v = y[n + k];
        y[k] = hn::Sub(hn::Mul(u, c[k]), hn::Mul(v, s[k]));
        y[n + k] = hn::Add(hn::Mul(u, s[k]), hn::Mul(v, c[k]));
      }
      for (int k = 0; k < n; ++k) store<stream>(d, y[k], to + k * lanes);
      for (int k = 0; k < n; ++k) store<stream>(d, y[n + k], to + pairs + k * lanes);
    }
  }
}

/// As much of a line of bfloat16 as there are phases for: a lane is a pair, or holds two neighbours of the same half.
template <PhaseOrder order, bool stream, int vectors>
HWY_INLINE void turn_line(const PhasesInRegisters<float, vectors>& phases, Index pairs, const Bfloat16* in,
                          Bfloat16* out) {
  const hn::ScalableTag<float> d;
  constexpr Index width = 2 * hn::MaxLanes(d);
  const auto &c = phases.c, &s = phases.s;
  if constexpr (order == PhaseOrder::split) {
    static_assert(vectors % 2 == 0);
#pragma GCC unroll 8
    for (int k = 0; k < vectors; k += 2, in += width, out += width) {
      const auto u = load_bf16_pairs(d, in), v = load_bf16_pairs(d, in + pairs);
      store_bf16_pairs<stream>(d, hn::Sub(hn::Mul(u.lower, c[k]), hn::Mul(v.lower, s[k])),
                               hn::Sub(hn::Mul(u.upper, c[k + 1]), hn::Mul(v.upper, s[k + 1])), out);
      store_bf16_pairs<stream>(d, hn::Add(hn::Mul(u.lower, s[k]), hn::Mul(v.lower, c[k])),
                               hn::Add(hn::Mul(u.upper, s[k + 1]), hn::Mul(v.upper, c[k + 1])), out + pairs);
    }
  } else {
    (void)pairs;
#pragma GCC unroll 8
    for (int k = 0; k < vectors; ++k) {
      const auto x = load_bf16_pairs(d, in + k * width);
      store_bf16_pairs<stream>(d, hn::Sub(hn::Mul(x.lower, c[k]), hn::Mul(x.upper, s[k])),
                               hn::Add(hn::Mul(x.lower, s[k]), hn::Mul(x.upper, c[k])), out + k * width);
    }
  }
}

/// Lines with `vectors` vectors of cos and as many of sin.
template <PhaseOrder order, int vectors, bool stream, class T>
HWY_INLINE void lines_with_row_in_registers(const Lines<T>& l) {
  const bool negative_sin = l.negative_sin && order == PhaseOrder::natural;
  const bool touch = l.from_memory && order == PhaseOrder::natural && vectors > vectors_at_once(vectors);
  const Index ahead = lines_ahead(l);
  for (Index token = 0; token < l.tokens; ++token) {
    PhasesInRegisters<Compute<T>, vectors> phases;
    if constexpr (order == PhaseOrder::spread) {
      phases.load_doubled(l.cos[token], l.sin[token], l.negative_sin);
    } else {
      phases.load(l.cos[token], l.sin[token], negative_sin);
    }
    for (Index head = 0; head < l.heads; ++head) {
      if (touch) touch_in_order(l, token, head);
      if (ahead != 0) prefetch_ahead(l, ahead, token, head);
      turn_line<order, stream, vectors>(phases, l.pairs, l.line_in(token, head), l.line_out(token, head));
    }
  }
}

/// Lines with a multiple of that, part by part. For heads in a cache, which is as fast in any order.
template <PhaseOrder order, int vectors, bool stream, class T>
HWY_INLINE void lines_in_parts(const Lines<T>& l) {
  constexpr Index part = vectors * hn::MaxLanes(hn::ScalableTag<Compute<T>>());
  constexpr Index width = order == PhaseOrder::natural && std::is_same_v<T, Bfloat16> ? 2 * part : part;
  const Index numbers = order == PhaseOrder::doubled ? 2 * l.pairs : l.pairs;
  const bool negative_sin = l.negative_sin && order == PhaseOrder::natural;
  for (Index token = 0; token < l.tokens; ++token) {
    const T* in = l.line_in(token, 0);
    T* out = l.line_out(token, 0);
    for (Index i = 0; i < numbers; i += part, in += width, out += width) {
      PhasesInRegisters<Compute<T>, vectors> phases;
      phases.load(l.cos[token] + i, l.sin[token] + i, negative_sin);
      for (Index head = 0; head < l.heads; ++head) {
        turn_line<order, stream, vectors>(phases, l.pairs, in + head * l.in_head, out + head * l.out_head);
      }
    }
  }
}
#endif

/// Lines of bfloat16 by the instruction for it.
template <bool stream>
HWY_INLINE void bf16_lines_avx512(const Lines<Bfloat16>& l) {
#if HWY_ARCH_X86
  const auto turn_lines = l.pairing == Pairing::half ? turn_bf16_half_avx512 : turn_bf16_interleaved_avx512;
  const bool touch = l.from_memory && l.pairing == Pairing::half && l.pairs != 64;  // which is loaded in order anyway
  const Index ahead = lines_ahead(l);
  for (Index token = 0; token < l.tokens; ++token) {
    for (Index head = 0, count = 0; head < l.heads; head += count) {
      count = l.heads - head;
      const Bfloat16* soon = nullptr;
      if (ahead != 0) {
        const LineAhead<Bfloat16> later(l, ahead, token, head);
        soon = later.from;
        count = HWY_MIN(count, later.heads);
      }
      if (touch) {
        count = HWY_MIN(count, Index{4});
        for (Index now = head; now < head + count; ++now) touch_in_order(l, token, now);
      }
      turn_lines({l.cos[token], l.sin[token], l.negative_sin, stream, l.line_in(token, head), l.line_out(token, head),
                  l.in_head, l.out_head, count, l.pairs, soon});
    }
  }
#else
  (void)l;
#endif
}

/// Turns a run of lines. Out of line, as it is most of what there is to compile and serves several callers; by value,
/// so that what the loops read stays in registers.
template <PhaseOrder order, bool stream, class T>
HWY_NOINLINE void apply(const Lines<T> l) {
  if constexpr (std::is_same_v<T, Bfloat16> && HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) {
    if (l.avx512_bf16) return bf16_lines_avx512<stream>(l);
  }
#if BEARING_PHASE_VECTORS
  constexpr int most = BEARING_PHASE_VECTORS;
  constexpr Index lanes = hn::MaxLanes(hn::ScalableTag<Compute<T>>());
  const Index numbers = order == PhaseOrder::doubled ? 2 * l.pairs : l.pairs;
  if constexpr (most == 8 && !std::is_same_v<T, Bfloat16>) {
    if (numbers == 4 * lanes) return lines_with_row_in_registers<order, 4, stream>(l);
    if (numbers == 8 * lanes) return lines_with_row_in_registers<order, 8, stream>(l);
  }
  if (numbers % (most * lanes) == 0 && !l.from_memory) return lines_in_parts<order, most, stream>(l);
  // Heads of 80, 96 and 112, and of 64 where vectors are widest: 1.3 to 1.7 times in float32.
  if (numbers % (2 * lanes) == 0 && !l.from_memory) return lines_in_parts<order, 2, stream>(l);
#endif
  // What is fetched ahead comes in order already: reading it again costs a tenth (Zen 3, 64 MiB of float32).
  const bool touch = l.from_memory && l.pairing == Pairing::half && (HWY_TARGET != HWY_AVX2 || l.next == nullptr);
  const Index ahead = lines_ahead(l);
  for (Index token = 0; token < l.tokens; ++token) {
    const Phases<T> phases{l.cos[token], l.sin[token], l.negative_sin, l.pairs};
    for (Index head = 0; head < l.heads; ++head) {
      if (touch) touch_in_order(l, token, head);
      if (ahead != 0) prefetch_ahead(l, ahead, token, head);
      one_line<order, stream>(phases, l.pairing, l.line_in(token, head), l.line_out(token, head));
    }
  }
}

#if BEARING_PHASE_VECTORS == 8
/// Whether a row of doubled phases fits in registers. Then they are doubled there, and nothing is written for them
/// (Intel Emerald Rapids, 64 MiB of float32, two threads: 0.98 of LIMIT and 0.87 before, heads first 0.93 and 0.84).
template <class T>
HWY_INLINE bool spreads(Index pairs) {
  constexpr Index lanes = hn::MaxLanes(hn::ScalableTag<Compute<T>>());
  return 2 * pairs == 4 * lanes || 2 * pairs == 8 * lanes;
}

/// … whose phases are doubled in registers.
template <PhaseOrder order, bool stream, class T>
requires(order == PhaseOrder::spread) HWY_NOINLINE void apply(const Lines<T> l) {
  constexpr Index lanes = hn::MaxLanes(hn::ScalableTag<Compute<T>>());
  2 * l.pairs == 4 * lanes ? lines_with_row_in_registers<order, 4, stream>(l)
                           : lines_with_row_in_registers<order, 8, stream>(l);
}
#endif

/// Writes natural phases [cos padded, sin padded] in the order that the loop needs, with the sign of sin put in.
template <PhaseOrder order, class C>
HWY_INLINE void lay_out(const C* cos, const C* sin, bool negative_sin, Index padded, Index pairs, C* out_cos,
                        C* out_sin) {
  const hn::CappedTag<C, 16> d;  // padded is a multiple of its lanes
  const auto sign = hn::Set(d, negative_sin ? C(-0.0) : C(0.0));
  const auto minus = hn::Set(d, C(-0.0));
  if constexpr (order == PhaseOrder::doubled) {
    (void)pairs;
    for (Index i = 0; i < padded; i += static_cast<Index>(hn::Lanes(d))) {
      const auto c = hn::LoadU(d, cos + i), s = hn::Xor(hn::LoadU(d, sin + i), sign);
      hn::StoreInterleaved2(c, c, d, out_cos + 2 * i);
      hn::StoreInterleaved2(hn::Xor(s, minus), s, d, out_sin + 2 * i);
    }
  } else {
    (void)minus;
    over_range<C, 1>(pairs / 2, [&](auto e, Index lane) HWY_ATTR {
      const Index i = 2 * lane, odd = i + static_cast<Index>(hn::Lanes(e));
      hn::VFromD<decltype(e)> even_part, odd_part;
      hn::LoadInterleaved2(e, cos + i, even_part, odd_part);
      hn::StoreU(even_part, e, out_cos + i);
      hn::StoreU(odd_part, e, out_cos + odd);
      hn::LoadInterleaved2(e, sin + i, even_part, odd_part);
      const auto flip = hn::Set(e, negative_sin ? C(-0.0) : C(0.0));
      hn::StoreU(hn::Xor(even_part, flip), e, out_sin + i);
      hn::StoreU(hn::Xor(odd_part, flip), e, out_sin + odd);
    });
    if (pairs % 2 != 0) {
      out_cos[pairs - 1] = cos[pairs - 1];
      out_sin[pairs - 1] = negative_sin ? -sin[pairs - 1] : sin[pairs - 1];
    }
  }
}

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
