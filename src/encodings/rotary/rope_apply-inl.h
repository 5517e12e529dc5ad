// Turning heads by phases that are ready: the choice of an inner loop. Included once per SIMD target.
//
// Phases come in the order that a loop needs (PhaseOrder), so that the loop itself is loads, two products, a sum and a
// store. They are made once per token and serve all of its heads.
#if defined(BEARING_ROPE_APPLY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEARING_ROPE_APPLY_INL_H_
#undef BEARING_ROPE_APPLY_INL_H_
#else
#define BEARING_ROPE_APPLY_INL_H_
#endif

#include "encodings/rotary/rope_bf16_avx512.hpp"
#include "encodings/rotary/rope_registers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Whether the target may have AVX-512's conversion to bfloat16. If it has, phases come in natural order.
template <class T>
constexpr bool has_bf16_lines() {
  return std::is_same_v<T, Bfloat16> && HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3;
}

/// Lines of bfloat16 by the instruction for it.
template <bool stream>
HWY_INLINE void bf16_lines_avx512(const Lines<Bfloat16>& l) {
#if HWY_ARCH_X86
  const auto turn_lines = l.pairing == Pairing::half ? turn_bf16_half_avx512 : turn_bf16_interleaved_avx512;
  const bool touch = l.from_memory && l.pairing == Pairing::half && l.pairs != 64;  // which is loaded in order anyway
  const Index ahead = lines_ahead(l);
  for (Index token = 0, tokens = 1; token < l.tokens; token += tokens) {
    for (Index head = 0, heads = 0; head < l.heads; head += heads) {
      const Run<Bfloat16> run = run_from(l, ahead, token, head);
      tokens = touch ? 1 : run.tokens;
      heads = touch ? HWY_MIN(run.heads, Index{4}) : run.heads;
      const Bfloat16* in = l.line_in(token, head);
      if (touch) {
        for (Index h = 0; h < heads; ++h) simd::touch_in_order(in + h * l.in_head, 2 * l.pairs);
      }
      turn_lines({l.cos + token, l.sin + token, l.negative_sin, stream, in, l.line_out(token, head), l.in_token,
                  l.out_token, l.in_head, l.out_head, tokens, heads, l.pairs, run.soon});
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
  if constexpr (order == PhaseOrder::natural && has_bf16_lines<T>()) {
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
  if (numbers % (most * lanes) == 0 && l.in_parts) return lines_in_parts<order, most, stream>(l);
  // Heads of 80, 96 and 112, and of 64 where vectors are widest: 1.3 to 1.7 times in float32.
  if (numbers % (2 * lanes) == 0 && l.in_parts) return lines_in_parts<order, 2, stream>(l);
#endif
  // What is fetched ahead comes in order already: reading it again costs a tenth (Zen 3, 64 MiB of float32).
  const bool touch = l.from_memory && l.pairing == Pairing::half && (HWY_TARGET != HWY_AVX2 || l.next == nullptr);
  const Index ahead = lines_ahead(l);
  for (Index token = 0; token < l.tokens; ++token) {
    const Phases<T> phases{l.cos[token], l.sin[token], l.negative_sin, l.pairs};
    each_head(l, ahead, token, [&](const T* in, T* out, const T* soon) HWY_ATTR {
      if (touch) simd::touch_in_order(in, 2 * l.pairs);
      fetch_line(soon, l.pairs);
      one_line<order, stream>(phases, l.pairing, in, out);
    });
  }
}

#if BEARING_PHASE_VECTORS
/// Whether phases are brought into the order of the loop where they are loaded into registers, so that nothing is
/// written for them: a row of doubled phases that fits in registers (Intel Emerald Rapids, 64 MiB of float32, two
/// threads: 0.98 of LIMIT and 0.87 before, heads first 0.93 and 0.84), and with few registers lines in parts (Zen 3,
/// 256 KiB of float32: 0.93 times as long with 32 heads, 0.88 with 8).
template <class T>
HWY_INLINE bool spreads(Pairing pairing, Index pairs, bool in_parts) {
  constexpr Index lanes = hn::MaxLanes(hn::ScalableTag<Compute<T>>());
  constexpr bool bf16 = std::is_same_v<T, Bfloat16>;
  if (bf16 != (pairing == Pairing::half)) return false;  // whose loops take natural phases
  if constexpr (BEARING_PHASE_VECTORS == 8) return !bf16 && (2 * pairs == 4 * lanes || 2 * pairs == 8 * lanes);
  return in_parts && pairs % (bf16 ? 2 * lanes : lanes) == 0;
}

/// … whose phases are brought into order in registers.
template <PhaseOrder order, bool stream, class T>
requires(order == PhaseOrder::spread) HWY_NOINLINE void apply(const Lines<T> l) {
  constexpr Index lanes = hn::MaxLanes(hn::ScalableTag<Compute<T>>());
  const Index numbers = (std::is_same_v<T, Bfloat16> ? 1 : 2) * l.pairs;
  if constexpr (BEARING_PHASE_VECTORS == 8) {
    numbers == 4 * lanes ? lines_with_row_in_registers<order, 4, stream>(l)
                         : lines_with_row_in_registers<order, 8, stream>(l);
  } else {
    numbers % (4 * lanes) == 0 ? lines_in_parts<order, 4, stream>(l) : lines_in_parts<order, 2, stream>(l);
  }
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
