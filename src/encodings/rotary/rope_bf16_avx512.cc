#include "encodings/rotary/rope_bf16_avx512.hpp"

#include <array>
#include <bearing/encodings/rope.hpp>
#include <cstddef>
#include <cstdint>

#include "simd/prefetch.hpp"

// AVX-512 BF16 rounds two vectors of float32 to one of bfloat16 in one instruction, to nearest even, but takes and
// gives subnormal numbers as zero. Where a zero comes out of a number that was not, its pairs are done again in the
// ordinary way, so that the bits are those of the other targets.

#if defined(__x86_64__)

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own header starts some vectors undefined
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#define BEARING_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512bf16")))

namespace bearing {
namespace {

/// Which byte of a vector each byte of another one is: four for each of 16 lanes.
struct alignas(64) Bytes {
  std::array<std::uint8_t, 64> of{};
};

/// Lanes of which each holds number first + lane in its upper half. The lower half is masked.
constexpr Bytes wide_from(std::size_t first) {
  Bytes b;
  for (std::size_t lane = 0; lane < 16; ++lane) {
    b.of[4 * lane + 2] = static_cast<std::uint8_t>(2 * (first + lane));
    b.of[4 * lane + 3] = static_cast<std::uint8_t>(2 * (first + lane) + 1);
  }
  return b;
}

/// Lanes of which each holds number `lane` and number 16 + lane.
constexpr Bytes lanes_in_turn() {
  Bytes b = wide_from(16);
  for (std::size_t lane = 0; lane < 16; ++lane) {
    b.of[4 * lane] = static_cast<std::uint8_t>(2 * lane);
    b.of[4 * lane + 1] = static_cast<std::uint8_t>(2 * lane + 1);
  }
  return b;
}

constexpr Bytes first_half = wide_from(0), second_half = wide_from(16), in_turn = lanes_in_turn();

// Bytes, as permutations of 16-bit numbers are slower (Intel Emerald Rapids, 32 interleaved pairs: 17 cycles,
// not 15.8).

/// 16 neighbours as float32.
BEARING_AVX512_BF16 inline __m512 widened(const Bytes& which, __m512i numbers) {
  constexpr __mmask64 upper_halves = 0xCCCC'CCCC'CCCC'CCCCu;
  return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi8(upper_halves, _mm512_load_si512(which.of.data()), numbers));
}

/// The lower and the upper one of the two numbers in each 32-bit lane, as float32.
BEARING_AVX512_BF16 inline __m512 lower(__m512i both) { return _mm512_castsi512_ps(_mm512_slli_epi32(both, 16)); }
BEARING_AVX512_BF16 inline __m512 upper(__m512i both) {
  return _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xFFFF'0000u))));
}

/// `first` before `second`, rounded to nearest even.
BEARING_AVX512_BF16 inline __m512i rounded(__m512 first, __m512 second) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
}

template <bool stream>
BEARING_AVX512_BF16 inline void put(Bfloat16* to, __m512i value) {
  if constexpr (stream) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), value);
  } else {
    _mm512_storeu_si512(to, value);
  }
}

/// cos and sin of 16·n pairs, sin with its sign.
template <int n>
struct Phases {
  __m512 c[n], s[n];

  BEARING_AVX512_BF16 inline Phases(const float* cos, const float* sin, bool negative_sin) {
    const __m512 sign = _mm512_set1_ps(negative_sin ? -0.0f : 0.0f);
#pragma GCC unroll 4
    for (int k = 0; k < n; ++k) {
      c[k] = _mm512_loadu_ps(cos + 16 * k);
      s[k] = _mm512_xor_ps(_mm512_loadu_ps(sin + 16 * k), sign);
    }
  }
};

/// Where 16·n pairs lie: half of the vectors in each of two runs, which are u and v, or one behind the other.
struct Place {
  const Bfloat16* in[2];
  Bfloat16* out[2];
};

/// Sixteen pairs: (u c − v s, u s + v c), each product and sum rounded.
BEARING_AVX512_BF16 inline void turn_sixteen(__m512 u, __m512 v, __m512 c, __m512 s, __m512& out_u, __m512& out_v) {
  out_u = _mm512_sub_ps(_mm512_mul_ps(u, c), _mm512_mul_ps(v, s));
  out_v = _mm512_add_ps(_mm512_mul_ps(u, s), _mm512_mul_ps(v, c));
}

/// A few pairs in vectors of float32: what becomes each vector of bfloat16. By halves of the vector in half pairing;
/// else the lower and the upper ones of its lanes.
template <int n>
struct TurnedPairs {
  __m512 first[n], second[n];
};

/// As many bytes as the pairs take are fetched from soon[first] on, beside the loads: a burst of requests before these
/// stops them (Intel with AMX, 32 MiB: 0.69 of LIMIT, 0.86 beside the loads). Null: nothing.
template <Pairing pairing, int n>
BEARING_AVX512_BF16 inline TurnedPairs<n> turned(const Phases<n>& phases, const Place& at, const Bfloat16* soon,
                                                 Index first) {
  constexpr int half = n / 2;
  __m512i x[n];
#pragma GCC unroll 4
  for (int k = 0; k < n; ++k) {
    if (soon != nullptr) simd::prefetch(soon, first + 32 * k);
    x[k] = _mm512_loadu_si512(at.in[k / half] + k % half * 32);
    // One load for both permutations: GCC 12 would make two (Zen 5, 32 pairs: 8.3 cycles, not 7.0).
    asm("" : "+v"(x[k]));
  }
  TurnedPairs<n> y;
  if constexpr (pairing == Pairing::half) {
#pragma GCC unroll 4
    for (int k = 0; k < half; ++k) {
      const __m512i u = x[k], v = x[half + k];
      turn_sixteen(widened(first_half, u), widened(first_half, v), phases.c[2 * k], phases.s[2 * k], y.first[k],
                   y.first[half + k]);
      turn_sixteen(widened(second_half, u), widened(second_half, v), phases.c[2 * k + 1], phases.s[2 * k + 1],
                   y.second[k], y.second[half + k]);
    }
  } else {  // a lane is a pair
#pragma GCC unroll 4
    for (int k = 0; k < n; ++k)
      turn_sixteen(lower(x[k]), upper(x[k]), phases.c[k], phases.s[k], y.first[k], y.second[k]);
  }
  return y;
}

/// … as bfloat16, in the order of memory.
template <Pairing pairing, int n>
BEARING_AVX512_BF16 inline __m512i vector(const TurnedPairs<n>& y, int k) {
  const __m512i value = rounded(y.first[k], y.second[k]);
  if constexpr (pairing == Pairing::half) return value;
  return _mm512_permutexvar_epi8(_mm512_load_si512(in_turn.of.data()), value);
}

/// A head of a token.
struct Line {
  const float *cos, *sin;
  bool negative_sin;
  const Bfloat16* in;
  Bfloat16* out;
  Index pairs;
  const Bfloat16* soon;
};

/// Head 0 of a token.
BEARING_AVX512_BF16 inline Line first_line(const Bf16Lines& l, Index token) {
  return {l.cos[token],
          l.sin[token],
          l.negative_sin,
          l.in + token * l.in_token,
          l.out + token * l.out_token,
          l.pairs,
          l.soon == nullptr ? nullptr : l.soon + token * l.in_token};
}

/// From one head to the next. A copy, as for all that the compiler knows what is stored could be a field of Bf16Lines
/// (Zen 5, 32 pairs: 7.0 cycles, not 6.3).
struct Heads {
  Index count, in, out;

  explicit Heads(const Bf16Lines& l) : count(l.heads), in(l.in_head), out(l.out_head) {}
  BEARING_AVX512_BF16 inline void move_on(Line& line) const {
    line.in += in;
    line.out += out;
    if (line.soon != nullptr) line.soon += in;
  }
};

/// Where pairs i, i + 1, … of a line lie, 16·n of them.
template <Pairing pairing, int n>
BEARING_AVX512_BF16 inline Place place(const Line& line, Index i) {
  const Index first = pairing == Pairing::half ? i : 2 * i, other = pairing == Pairing::half ? line.pairs : 16 * n;
  return {{line.in + first, line.in + first + other}, {line.out + first, line.out + first + other}};
}

/// Their phases.
template <int n>
BEARING_AVX512_BF16 inline Phases<n> phases_of(const Line& line, Index i) {
  return Phases<n>(line.cos + i, line.sin + i, line.negative_sin);
}

/// Pairs among which there are zeros. If one is a subnormal number, turns all of them with the ordinary rounding and
/// says so. Rarely needed, so it starts anew: nothing has to be kept for it.
template <Pairing pairing, int n>
[[gnu::noinline]] BEARING_AVX512_BF16 bool turn_subnormal(Line line, Index i) {
  const Place at = place<pairing, n>(line, i);
  const TurnedPairs<n> y = turned<pairing>(phases_of<n>(line, i), at, nullptr, 0);
  constexpr int subnormal = 0x20;
  int found = 0;
  for (int k = 0; k < n; ++k) {
    found |= _mm512_fpclass_ps_mask(y.first[k], subnormal) | _mm512_fpclass_ps_mask(y.second[k], subnormal);
  }
  if (found == 0) return false;
  for (int k = 0; k < n; ++k) {
    alignas(64) float first[16], second[16];
    _mm512_store_ps(first, y.first[k]);
    _mm512_store_ps(second, y.second[k]);
    Bfloat16* out = at.out[k / (n / 2)] + k % (n / 2) * 32;
    constexpr int step = pairing == Pairing::half ? 1 : 2, other = pairing == Pairing::half ? 16 : 1;
    for (int lane = 0; lane < 16; ++lane) {
      out[step * lane] = Bfloat16(first[lane]);
      out[step * lane + other] = Bfloat16(second[lane]);
    }
  }
  return true;
}

template <Pairing pairing, bool stream, int n>
BEARING_AVX512_BF16 inline void turn_pairs(const Line& line, Index i, const Phases<n>& phases) {
  const Place at = place<pairing, n>(line, i);
  const TurnedPairs<n> y = turned<pairing>(phases, at, line.soon, 2 * i);
  const __m512i magnitude = _mm512_set1_epi16(0x7FFF);
  __m512i packed[n];
  __mmask32 nonzero = ~__mmask32{0};
#pragma GCC unroll 4
  for (int k = 0; k < n; ++k) {
    packed[k] = vector<pairing>(y, k);
    nonzero = _mm512_mask_test_epi16_mask(nonzero, packed[k], magnitude);
  }
  if (__builtin_expect(nonzero != ~__mmask32{0}, 0) && turn_subnormal<pairing, n>(line, i)) return;
#pragma GCC unroll 4
  for (int k = 0; k < n; ++k) put<stream>(at.out[k / (n / 2)] + k % (n / 2) * 32, packed[k]);
}

/// Lines of 16·n pairs: their phases stay in registers.
template <Pairing pairing, bool stream, int n>
BEARING_AVX512_BF16 inline void short_lines(const Bf16Lines& l) {
  const Heads heads(l);
  for (Index token = 0; token < l.tokens; ++token) {
    Line line = first_line(l, token);
    const Phases<n> phases = phases_of<n>(line, 0);
    for (Index head = 0; head < heads.count; ++head, heads.move_on(line))
      turn_pairs<pairing, stream, n>(line, 0, phases);
  }
}

/// Lines of any number of pairs, 32 at a time.
template <Pairing pairing, bool stream>
BEARING_AVX512_BF16 inline void long_lines(const Bf16Lines& l) {
  const Heads heads(l);
  for (Index token = 0; token < l.tokens; ++token) {
    Line line = first_line(l, token);
    for (Index head = 0; head < heads.count; ++head, heads.move_on(line)) {
      for (Index i = 0; i < l.pairs; i += 32) turn_pairs<pairing, stream, 2>(line, i, phases_of<2>(line, i));
    }
  }
}

template <Pairing pairing, bool stream>
BEARING_AVX512_BF16 inline void lines(const Bf16Lines& l) {
  if (l.pairs == 64) return short_lines<pairing, stream, 4>(l);
  if (l.pairs == 32) return short_lines<pairing, stream, 2>(l);
  long_lines<pairing, stream>(l);
}

}  // namespace

BEARING_AVX512_BF16 void turn_bf16_half_avx512(const Bf16Lines& l) {
  l.stream ? lines<Pairing::half, true>(l) : lines<Pairing::half, false>(l);
}

BEARING_AVX512_BF16 void turn_bf16_interleaved_avx512(const Bf16Lines& l) {
  l.stream ? lines<Pairing::interleaved, true>(l) : lines<Pairing::interleaved, false>(l);
}

}  // namespace bearing

#endif
