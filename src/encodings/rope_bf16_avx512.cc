#include "encodings/rope_bf16_avx512.hpp"

// AVX-512 BF16 rounds two vectors of float32 to one of bfloat16 in one instruction, to nearest even, but takes and
// gives subnormal numbers as zero. Where a zero comes out of a number that was not, its pairs are done again in the
// ordinary way, so that the bits are those of the other targets.

#if defined(__x86_64__)

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own header starts some vectors undefined
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#define BEARING_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

namespace bearing {
namespace {

/// Pairs (u[2i], v[2i]), i < 16, the ordinary way. Out of line: the loops below rarely need it.
[[gnu::noinline]] void turn_ordinarily(const float* cos, const float* sin, float sign, const Bfloat16* u,
                                       const Bfloat16* v, Bfloat16* out_u, Bfloat16* out_v) {
  for (Index i = 0; i < 16; ++i) {
    const float c = cos[i], s = sign * sin[i];
    const float x = static_cast<float>(u[2 * i]), y = static_cast<float>(v[2 * i]);
    out_u[2 * i] = Bfloat16(x * c - y * s);
    out_v[2 * i] = Bfloat16(x * s + y * c);
  }
}

/// The lower and the upper one of the two numbers in each 32-bit lane, as float32.
BEARING_AVX512_BF16 inline __m512 lower(__m512i both) { return _mm512_castsi512_ps(_mm512_slli_epi32(both, 16)); }
BEARING_AVX512_BF16 inline __m512 upper(__m512i both) {
  return _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xFFFF'0000u))));
}

/// Back into lanes of two. The conversion puts all lower ones before all upper ones; `in_turn` takes one of each.
BEARING_AVX512_BF16 inline __m512i together(__m512 low, __m512 high, __m512i in_turn) {
  return _mm512_permutexvar_epi16(in_turn, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
}

BEARING_AVX512_BF16 inline __m512i lanes_in_turn() {  // 0, 16, 1, 17, …
  const __m512i even = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return _mm512_or_si512(even, _mm512_slli_epi32(_mm512_add_epi32(even, _mm512_set1_epi32(16)), 16));
}

BEARING_AVX512_BF16 inline bool any_zero(__m512i packed) {
  return _mm512_testn_epi16_mask(packed, _mm512_set1_epi16(0x7FFF)) != 0;
}

BEARING_AVX512_BF16 inline bool any_subnormal(__m512 a, __m512 b) {
  constexpr int subnormal = 0x20;
  return (_mm512_fpclass_ps_mask(a, subnormal) | _mm512_fpclass_ps_mask(b, subnormal)) != 0;
}

template <bool stream>
BEARING_AVX512_BF16 inline void put(Bfloat16* to, __m512i value) {
  if constexpr (stream) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), value);
  } else {
    _mm512_storeu_si512(to, value);
  }
}

struct Turned {
  __m512 u, v;
};

/// Sixteen pairs: (u c − v s, u s + v c), each product and sum rounded.
BEARING_AVX512_BF16 inline Turned turn(__m512 u, __m512 v, __m512 c, __m512 s) {
  return {_mm512_sub_ps(_mm512_mul_ps(u, c), _mm512_mul_ps(v, s)),
          _mm512_add_ps(_mm512_mul_ps(u, s), _mm512_mul_ps(v, c))};
}

/// What one line needs, in registers.
struct Line {
  const float *cos, *sin;
  const Bfloat16* in;
  Bfloat16* out;
  Index pairs;

  Line(const Bf16Lines& l, Index line)
      : cos(l.cos[l.one_row ? 0 : line]),
        sin(l.sin[l.one_row ? 0 : line]),
        in(l.in + line * l.in_stride),
        out(l.out + line * l.out_stride),
        pairs(l.pairs) {}
};

/// Thirty-two pairs, half pairing: u and v as they came from memory, the row in split order (the 16 even pairs first).
template <bool stream>
BEARING_AVX512_BF16 inline void half_pairs(const Line& l, Index i, __m512i u, __m512i v, __m512i in_turn) {
  const Turned even = turn(lower(u), lower(v), _mm512_loadu_ps(l.cos + i), _mm512_loadu_ps(l.sin + i));
  const Turned odd = turn(upper(u), upper(v), _mm512_loadu_ps(l.cos + i + 16), _mm512_loadu_ps(l.sin + i + 16));
  const __m512i y_u = together(even.u, odd.u, in_turn), y_v = together(even.v, odd.v, in_turn);
  Bfloat16 *out_u = l.out + i, *out_v = l.out + l.pairs + i;
  if (__builtin_expect(any_zero(y_u) || any_zero(y_v), 0)) {  // really zero, or subnormal?
    if (any_subnormal(even.u, even.v) || any_subnormal(odd.u, odd.v)) {
      const Bfloat16 *in_u = l.in + i, *in_v = l.in + l.pairs + i;
      turn_ordinarily(l.cos + i, l.sin + i, 1, in_u, in_v, out_u, out_v);
      turn_ordinarily(l.cos + i + 16, l.sin + i + 16, 1, in_u + 1, in_v + 1, out_u + 1, out_v + 1);
      return;
    }
  }
  put<stream>(out_u, y_u);
  put<stream>(out_v, y_v);
}

template <bool stream>
BEARING_AVX512_BF16 inline void half_line(const Line& l, __m512i in_turn) {
  const Bfloat16 *in_u = l.in, *in_v = l.in + l.pairs;
  Index i = 0;
  for (; i + 64 <= l.pairs; i += 64) {  // a head of 128 is loaded in its own order, then turned
    const __m512i u0 = _mm512_loadu_si512(in_u + i), u1 = _mm512_loadu_si512(in_u + i + 32);
    const __m512i v0 = _mm512_loadu_si512(in_v + i), v1 = _mm512_loadu_si512(in_v + i + 32);
    half_pairs<stream>(l, i, u0, v0, in_turn);
    half_pairs<stream>(l, i + 32, u1, v1, in_turn);
  }
  if (i < l.pairs) {
    half_pairs<stream>(l, i, _mm512_loadu_si512(in_u + i), _mm512_loadu_si512(in_v + i), in_turn);
  }
}

/// Interleaved pairing, rows in natural order: a lane is a pair.
template <bool stream>
BEARING_AVX512_BF16 inline void interleaved_line(const Line& l, __m512 flip, __m512i in_turn) {
  for (Index i = 0; i < l.pairs; i += 16) {
    const __m512i x = _mm512_loadu_si512(l.in + 2 * i);
    const __m512 sin = _mm512_xor_ps(_mm512_loadu_ps(l.sin + i), flip);
    const Turned y = turn(lower(x), upper(x), _mm512_loadu_ps(l.cos + i), sin);
    const __m512i packed = together(y.u, y.v, in_turn);
    if (__builtin_expect(any_zero(packed), 0) && any_subnormal(y.u, y.v)) {
      const float sign = __builtin_signbit(_mm512_cvtss_f32(flip)) ? -1.0f : 1.0f;
      turn_ordinarily(l.cos + i, l.sin + i, sign, l.in + 2 * i, l.in + 2 * i + 1, l.out + 2 * i, l.out + 2 * i + 1);
      continue;
    }
    put<stream>(l.out + 2 * i, packed);
  }
}

}  // namespace

BEARING_AVX512_BF16 void turn_bf16_half_avx512(const Bf16Lines& l, Index first, Index last) {
  const __m512i in_turn = lanes_in_turn();
  if (l.stream) {
    for (Index line = first; line < last; ++line) half_line<true>(Line(l, line), in_turn);
  } else {
    for (Index line = first; line < last; ++line) half_line<false>(Line(l, line), in_turn);
  }
}

BEARING_AVX512_BF16 void turn_bf16_interleaved_avx512(const Bf16Lines& l, Index first, Index last) {
  const __m512 flip = _mm512_set1_ps(l.negative_sin ? -0.0f : 0.0f);
  const __m512i in_turn = lanes_in_turn();
  if (l.stream) {
    for (Index line = first; line < last; ++line) interleaved_line<true>(Line(l, line), flip, in_turn);
  } else {
    for (Index line = first; line < last; ++line) interleaved_line<false>(Line(l, line), flip, in_turn);
  }
}

}  // namespace bearing

#endif
