#include "encodings/rope_bf16_avx512.hpp"

// AVX-512 BF16 rounds two vectors of float32 to one of bfloat16 in one instruction, to nearest even, but takes and
// gives subnormal numbers as zero. Where a result is subnormal, its pairs are done again in the ordinary way, so that
// the bits are those of the other targets.

#if defined(__x86_64__)

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own header starts some vectors undefined
#endif
#include <immintrin.h>

#define BEARING_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

namespace bearing {
namespace {

/// Pairs (u[step·i], v[step·i]), i < count, the ordinary way. Out of line: the loops below rarely need it.
[[gnu::noinline]] void turn_ordinarily(const float* cos, const float* sin, float sign, const Bfloat16* u,
                                       const Bfloat16* v, Index step, Index count, Bfloat16* out_u, Bfloat16* out_v) {
  for (Index i = 0; i < count; ++i) {
    const float c = cos[i], s = sign * sin[i];
    const float x = static_cast<float>(u[step * i]), y = static_cast<float>(v[step * i]);
    out_u[step * i] = Bfloat16(x * c - y * s);
    out_v[step * i] = Bfloat16(x * s + y * c);
  }
}

BEARING_AVX512_BF16 inline __m512 widen(const Bfloat16* from) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

BEARING_AVX512_BF16 inline __mmask16 subnormal(__m512 a, __m512 b) {
  constexpr int subnormal_class = 0x20;
  return static_cast<__mmask16>(_mm512_fpclass_ps_mask(a, subnormal_class) |
                                _mm512_fpclass_ps_mask(b, subnormal_class));
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
  float sign;

  Line(const Bf16Lines& l, Index line)
      : cos(l.cos[l.one_row ? 0 : line]),
        sin(l.sin[l.one_row ? 0 : line]),
        in(l.in + line * l.in_stride),
        out(l.out + line * l.out_stride),
        pairs(l.pairs),
        sign(l.negative_sin ? -1.0f : 1.0f) {}
};

template <bool stream>
BEARING_AVX512_BF16 inline void half_line(const Line& l, __m512 flip) {
  const Bfloat16 *in_u = l.in, *in_v = l.in + l.pairs;
  Bfloat16 *out_u = l.out, *out_v = l.out + l.pairs;
  Index i = 0;
  for (; i + 32 <= l.pairs; i += 32) {
    const Turned a = turn(widen(in_u + i), widen(in_v + i), _mm512_loadu_ps(l.cos + i),
                          _mm512_xor_ps(_mm512_loadu_ps(l.sin + i), flip));
    const Turned b = turn(widen(in_u + i + 16), widen(in_v + i + 16), _mm512_loadu_ps(l.cos + i + 16),
                          _mm512_xor_ps(_mm512_loadu_ps(l.sin + i + 16), flip));
    if (__builtin_expect((subnormal(a.u, a.v) | subnormal(b.u, b.v)) != 0, 0)) {
      turn_ordinarily(l.cos + i, l.sin + i, l.sign, in_u + i, in_v + i, 1, 32, out_u + i, out_v + i);
      continue;
    }
    put<stream>(out_u + i, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b.u, a.u)));
    put<stream>(out_v + i, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b.v, a.v)));
  }
  if (i < l.pairs) {
    turn_ordinarily(l.cos + i, l.sin + i, l.sign, in_u + i, in_v + i, 1, l.pairs - i, out_u + i, out_v + i);
  }
}

template <bool stream>
BEARING_AVX512_BF16 inline void interleaved_line(const Line& l, __m512 flip, __m512i in_turn) {
  Index i = 0;
  for (; i + 16 <= l.pairs; i += 16) {
    const __m512i both = _mm512_loadu_si512(l.in + 2 * i);
    const __m512 u = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    const __m512 v = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xFFFF'0000u))));
    const Turned y = turn(u, v, _mm512_loadu_ps(l.cos + i), _mm512_xor_ps(_mm512_loadu_ps(l.sin + i), flip));
    if (__builtin_expect(subnormal(y.u, y.v) != 0, 0)) {
      turn_ordinarily(l.cos + i, l.sin + i, l.sign, l.in + 2 * i, l.in + 2 * i + 1, 2, 16, l.out + 2 * i,
                      l.out + 2 * i + 1);
      continue;
    }
    const __m512i packed = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(y.v, y.u));
    put<stream>(l.out + 2 * i, _mm512_permutexvar_epi16(in_turn, packed));
  }
  if (i < l.pairs) {
    turn_ordinarily(l.cos + i, l.sin + i, l.sign, l.in + 2 * i, l.in + 2 * i + 1, 2, l.pairs - i, l.out + 2 * i,
                    l.out + 2 * i + 1);
  }
}

}  // namespace

BEARING_AVX512_BF16 void turn_bf16_half_avx512(const Bf16Lines& l, Index first, Index last) {
  const __m512 flip = _mm512_set1_ps(l.negative_sin ? -0.0f : 0.0f);
  if (l.stream) {
    for (Index line = first; line < last; ++line) half_line<true>(Line(l, line), flip);
  } else {
    for (Index line = first; line < last; ++line) half_line<false>(Line(l, line), flip);
  }
}

BEARING_AVX512_BF16 void turn_bf16_interleaved_avx512(const Bf16Lines& l, Index first, Index last) {
  const __m512 flip = _mm512_set1_ps(l.negative_sin ? -0.0f : 0.0f);
  // The conversion puts all u before all v; this takes one of each in turn: 0, 16, 1, 17, …
  const __m512i even = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i in_turn = _mm512_or_si512(even, _mm512_slli_epi32(_mm512_add_epi32(even, _mm512_set1_epi32(16)), 16));
  if (l.stream) {
    for (Index line = first; line < last; ++line) interleaved_line<true>(Line(l, line), flip, in_turn);
  } else {
    for (Index line = first; line < last; ++line) interleaved_line<false>(Line(l, line), flip, in_turn);
  }
}

}  // namespace bearing

#endif
