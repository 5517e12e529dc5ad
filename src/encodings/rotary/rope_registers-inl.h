// Turning all heads of a token by phases that stay in vector registers. Included once per SIMD target.
#if defined(BEARING_ROPE_REGISTERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEARING_ROPE_REGISTERS_INL_H_
#undef BEARING_ROPE_REGISTERS_INL_H_
#else
#define BEARING_ROPE_REGISTERS_INL_H_
#endif

#include <algorithm>
#include <atomic>

#include "encodings/rotary/rope_line-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

  /// Natural phases as split ones.
  HWY_INLINE void load_split(const C* cos, const C* sin, bool negative_sin) {
    static_assert(vectors % 2 == 0);
    const hn::ScalableTag<C> d;
    constexpr Index lanes = hn::MaxLanes(d);
    const auto sign = hn::Set(d, negative_sin ? C(-0.0) : C(0.0));
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v += 2) {
      const auto c0 = hn::LoadU(d, cos + v * lanes), c1 = hn::LoadU(d, cos + (v + 1) * lanes);
      const auto s0 = hn::LoadU(d, sin + v * lanes), s1 = hn::LoadU(d, sin + (v + 1) * lanes);
      c[v] = hn::ConcatEven(d, c1, c0);
      c[v + 1] = hn::ConcatOdd(d, c1, c0);
      s[v] = hn::Xor(hn::ConcatEven(d, s1, s0), sign);
      s[v + 1] = hn::Xor(hn::ConcatOdd(d, s1, s0), sign);
    }
  }
};

/// Keeps the compiler from loading and storing the two halves of a line in turns. On Zen 5 a line in order takes 0.88
/// times as long out of place from memory, and in float64 0.87 times from the second cache.
HWY_INLINE void in_this_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// Vectors of each half of a line that are loaded before any is stored: as many as leave registers for the phases. Of
/// 32 registers four vectors and the phases of eight take all but a few.
inline constexpr int vectors_at_once(int vectors) { return BEARING_PHASE_VECTORS == 8 ? std::min(vectors, 4) : 1; }

/// A line, or as much of it as there are phases for, whose halves are `pairs` apart. With `fetch` it asks for another
/// one beside the loads, as a burst of requests stops these (Zen 5, 64 MiB of float32 in halves: 0.97 of LIMIT, 0.83 by
/// a burst).
template <PhaseOrder order, bool stream, int vectors, bool fetch = false, class T>
HWY_INLINE void turn_line(const PhasesInRegisters<Compute<T>, vectors>& phases, Index pairs, const T* in, T* out,
                          const T* soon = nullptr) {
  const hn::ScalableTag<Compute<T>> d;
  constexpr Index lanes = hn::MaxLanes(d);
  constexpr int n = vectors_at_once(vectors);
  hn::VFromD<decltype(d)> y[2 * n];
#pragma GCC unroll 8
  for (int first = 0; first < vectors; first += n) {
    const auto *c = phases.c + first, *s = phases.s + first;
    const T* from = in + first * lanes;
    T* to = out + first * lanes;
    const auto load_beside_fetch = [&](Index half, Index k) HWY_ATTR {
      const Index at = half + k * lanes;
      const bool new_line = k * lanes * static_cast<Index>(sizeof(T)) % 64 == 0;
      if (fetch && new_line) hwy::Prefetch(soon + first * lanes + at);
      return load(d, from + at);
    };
    if constexpr (order == PhaseOrder::doubled || order == PhaseOrder::spread) {
      (void)pairs;
      for (int k = 0; k < n; ++k) {
        const auto x = load_beside_fetch(0, k);
        y[k] = hn::Add(hn::Mul(x, c[k]), hn::Mul(hn::Reverse2(d, x), s[k]));
      }
      for (int k = 0; k < n; ++k) store<stream>(d, y[k], to + k * lanes);
    } else {
      for (int k = 0; k < n; ++k) {
        y[k] = load_beside_fetch(0, k);
        if (fetch || k == n - 1) in_this_order();
      }
      for (int k = 0; k < n; ++k) {
        y[n + k] = load_beside_fetch(pairs, k);
        if (fetch || k == n - 1) in_this_order();
      }
      for (int k = 0; k < n; ++k) {
        const auto u = y[k], v = y[n + k];
        y[k] = hn::Sub(hn::Mul(u, c[k]), hn::Mul(v, s[k]));
        y[n + k] = hn::Add(hn::Mul(u, s[k]), hn::Mul(v, c[k]));
      }
      for (int k = 0; k < n; ++k) store<stream>(d, y[k], to + k * lanes);
      in_this_order();
      for (int k = 0; k < n; ++k) store<stream>(d, y[n + k], to + pairs + k * lanes);
    }
  }
}

/// A line, half pairing, that is read and written from its first to its last vector. The second half is read twice, as
/// there are no registers for it.
template <bool stream, int vectors, class C>
HWY_INLINE void turn_line_in_order(const PhasesInRegisters<C, vectors>& phases, Index pairs, const C* in, C* out) {
  const hn::ScalableTag<C> d;
  constexpr Index lanes = hn::MaxLanes(d);
  const auto &c = phases.c, &s = phases.s;
  hn::VFromD<decltype(d)> u[vectors];
#pragma GCC unroll 8
  for (int k = 0; k < vectors; ++k) u[k] = load(d, in + k * lanes);
#pragma GCC unroll 8
  for (int k = 0; k < vectors; ++k) {
    const auto v = load(d, in + pairs + k * lanes);
    store<stream>(d, hn::Sub(hn::Mul(u[k], c[k]), hn::Mul(v, s[k])), out + k * lanes);
    u[k] = hn::Mul(u[k], s[k]);
  }
#pragma GCC unroll 8
  for (int k = 0; k < vectors; ++k) {
    const auto v = load(d, in + pairs + k * lanes);
    store<stream>(d, hn::Add(u[k], hn::Mul(v, c[k])), out + pairs + k * lanes);
  }
}

/// As much of a line of bfloat16 as there are phases for: a lane is a pair, or holds two neighbours of the same half.
template <PhaseOrder order, bool stream, int vectors>
HWY_INLINE void turn_line(const PhasesInRegisters<float, vectors>& phases, Index pairs, const Bfloat16* in,
                          Bfloat16* out) {
  const hn::ScalableTag<float> d;
  constexpr Index width = 2 * hn::MaxLanes(d);
  const auto &c = phases.c, &s = phases.s;
  if constexpr (order == PhaseOrder::split || order == PhaseOrder::spread) {
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
    // Zen 4, 128 MiB of float64: 0.92 of LIMIT, out of place 1.5 of memcpy; in two parts 0.70 and 1.2. In a cache the
    // parts are ahead, as they are for float16, which would be converted twice.
    if constexpr (order == PhaseOrder::natural && vectors == 8 && std::is_same_v<T, Compute<T>>) {
      if (touch && ahead == 0) {
        for (Index head = 0; head < l.heads; ++head) {
          turn_line_in_order<stream>(phases, l.pairs, l.line_in(token, head), l.line_out(token, head));
        }
        continue;
      }
    }
    if (ahead != 0) {
      each_head(l, ahead, token, [&](const T* in, T* out, const T* soon) HWY_ATTR {
        if (touch) simd::touch_in_order(in, 2 * l.pairs);
        turn_line<order, stream, vectors, true>(phases, l.pairs, in, out, soon);
      });
      continue;
    }
    for (Index head = 0; head < l.heads; ++head) {
      if (touch) simd::touch_in_order(l.line_in(token, head), 2 * l.pairs);
      turn_line<order, stream, vectors>(phases, l.pairs, l.line_in(token, head), l.line_out(token, head));
    }
  }
}

/// Lines with a multiple of that, part by part. In a cache any order of reading is as fast. From memory the heads that
/// come next are asked for meanwhile, from the first byte to the last.
template <PhaseOrder order, int vectors, bool stream, class T>
HWY_INLINE void lines_in_parts(const Lines<T>& l) {
  constexpr Index part = vectors * hn::MaxLanes(hn::ScalableTag<Compute<T>>());
  constexpr bool bf16 = std::is_same_v<T, Bfloat16>, spread = order == PhaseOrder::spread;
  constexpr Index width = order == PhaseOrder::natural && bf16 ? 2 * part : part;
  const Index numbers = order == PhaseOrder::doubled || (spread && !bf16) ? 2 * l.pairs : l.pairs;
  const bool negative_sin = l.negative_sin && order == PhaseOrder::natural;
  // What each head of each part asks for, of a later token: the next piece of all its heads, or a piece of this head.
  const Index share = l.from_memory ? 2 * l.pairs * part / numbers : 0, tokens = tokens_ahead(l);
  const Index next_head = share == 0 ? 0 : l.heads_inside ? share : l.in_head;
  const Index next_part = l.heads_inside ? share * l.heads : share;
  for (Index token = 0; token < l.tokens; ++token) {
    const T *in = l.line_in(token, 0), *later = later_token(l, token, tokens);
    T* out = l.line_out(token, 0);
    for (Index i = 0; i < numbers; i += part, in += width, out += width, later += next_part) {
      const T* soon = later;
      PhasesInRegisters<Compute<T>, vectors> phases;
      if constexpr (spread && bf16) {
        phases.load_split(l.cos[token] + i, l.sin[token] + i, l.negative_sin);
      } else if constexpr (spread) {
        phases.load_doubled(l.cos[token] + i / 2, l.sin[token] + i / 2, l.negative_sin);
      } else {
        phases.load(l.cos[token] + i, l.sin[token] + i, negative_sin);
      }
      for (Index head = 0; head < l.heads; ++head) {
        for (Index k = 0; k < share; k += 64 / static_cast<Index>(sizeof(T))) hwy::Prefetch(soon + k);
        soon += next_head;
        turn_line<order, stream, vectors>(phases, l.pairs, in + head * l.in_head, out + head * l.out_head);
      }
    }
  }
}
#endif

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
