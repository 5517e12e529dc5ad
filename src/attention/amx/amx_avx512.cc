#include "attention/amx/amx_emulated.hpp"

// The one file with AMX and the AVX-512 around it. Only where simd says that the machine has them.

#if defined(__x86_64__)

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own header starts some vectors undefined
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#define BEARING_TILE_CODE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,amx-tile,amx-bf16")))
#include "attention/amx/amx_kernels-inl.hpp"
#include "simd/denormals.hpp"

namespace bearing::attend::amx {
namespace {

/// Tile registers 0 … 3 hold the sums, 4 and 5 rows, 6 and 7 columns.
class AmxTiles {
 public:
  BEARING_TILE_CODE AmxTiles() {
    struct alignas(64) {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } config;
    static_assert(sizeof config == 64);
    in_memory(&config);
    _tile_loadconfig(&config);
  }
  /// Cleans the upper halves of vectors too: GCC 12 forgets it behind a function of tiles alone, and then each call of
  /// the C library's logf() took 200 ns.
  BEARING_TILE_CODE ~AmxTiles() {
    _tile_release();
    _mm256_zeroupper();
  }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  BEARING_TILE_CODE void zero() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  BEARING_TILE_CODE void load(const float* c, Index stride) {
    in_memory(c);
    _tile_loadd(0, c, 4 * stride);
    _tile_loadd(1, c + 16, 4 * stride);
    _tile_loadd(2, c + 16 * stride, 4 * stride);
    _tile_loadd(3, c + 16 * stride + 16, 4 * stride);
  }
  BEARING_TILE_CODE void store(float* c, Index stride) {
    _tile_stored(0, c, 4 * stride);
    _tile_stored(1, c + 16, 4 * stride);
    _tile_stored(2, c + 16 * stride, 4 * stride);
    _tile_stored(3, c + 16 * stride + 16, 4 * stride);
    in_memory(c);
  }
  template <int half>
  BEARING_TILE_CODE void row(const std::uint16_t* a, Index stride) {
    in_memory(a);
    if constexpr (half == 0) _tile_loadd(4, a, 2 * stride);
    if constexpr (half == 1) _tile_loadd(5, a + 16 * stride, 2 * stride);
  }
  /// Keys and values are mostly lost from the first cache before they are used again: the loads say so.
  template <int half>
  BEARING_TILE_CODE void column(const Bfloat16* b) {
    if constexpr (half == 0) _tile_stream_loadd(6, b, 64);
    if constexpr (half == 1) _tile_stream_loadd(7, b, 64);
  }
  template <int row, int column>
  BEARING_TILE_CODE void multiply() {
    if constexpr (row == 0 && column == 0) _tile_dpbf16ps(0, 4, 6);
    if constexpr (row == 0 && column == 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (row == 1 && column == 0) _tile_dpbf16ps(2, 5, 6);
    if constexpr (row == 1 && column == 1) _tile_dpbf16ps(3, 5, 7);
  }

 private:
  /// GCC 12 does not know that tile instructions read memory: what was written before must be there, and stay in order.
  static void in_memory(const void* p) { __asm__ volatile("" : : "r"(p) : "memory"); }
};

struct Avx512Lanes {
  using Floats = __m512;

  /// As tiles have it. A weight of a far key would take a hundred cycles otherwise.
  using Environment = simd::FlushDenormals;

  BEARING_TILE_CODE static Floats all(float x) { return _mm512_set1_ps(x); }
  BEARING_TILE_CODE static Floats load(const float* from) { return _mm512_loadu_ps(from); }
  BEARING_TILE_CODE static Floats load(std::uint16_t seen, const float* from) {
    return _mm512_maskz_loadu_ps(seen, from);
  }
  BEARING_TILE_CODE static void store(void* to, Floats x) { _mm512_storeu_ps(to, x); }
  BEARING_TILE_CODE static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  BEARING_TILE_CODE static Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  BEARING_TILE_CODE static Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  BEARING_TILE_CODE static Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  BEARING_TILE_CODE static Floats divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
  BEARING_TILE_CODE static Floats max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  BEARING_TILE_CODE static Floats min(Floats a, Floats b) { return _mm512_min_ps(a, b); }
  BEARING_TILE_CODE static Floats abs(Floats x) { return _mm512_abs_ps(x); }
  BEARING_TILE_CODE static Floats with_sign(Floats x, Floats y) {
    return _mm512_or_ps(x, _mm512_and_ps(y, all(-0.0f)));
  }
  BEARING_TILE_CODE static Floats where(std::uint16_t seen, Floats a, Floats b) {
    return _mm512_mask_blend_ps(seen, b, a);
  }
  BEARING_TILE_CODE static std::uint16_t marked(std::uint16_t seen, const char* marks) {
    const __m128i bytes = _mm_maskz_loadu_epi8(seen, marks);
    return _mm_test_epi8_mask(bytes, bytes);
  }
  BEARING_TILE_CODE static Floats quiet(Floats x) {
    // What VFIXUPIMMPS does for each kind of number, four bits each: 3, the quiet NaN, for both kinds of NaN; 0, x.
    return _mm512_fixupimm_ps(x, x, _mm512_set1_epi32(0x33), 0);
  }
  BEARING_TILE_CODE static Floats fraction(Floats x) {
    return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  }
  BEARING_TILE_CODE static Floats scale(Floats p, Floats x) { return _mm512_scalef_ps(p, x); }
  BEARING_TILE_CODE static Floats add_half(Floats x) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000)));
  }
  BEARING_TILE_CODE static Floats add_half_unless_nan(Floats x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __mmask16 number = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q);
    return _mm512_castsi512_ps(_mm512_mask_add_epi32(bits, number, bits, _mm512_set1_epi32(0x8000)));
  }
  BEARING_TILE_CODE static Floats add_half_in_range(Floats x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __mmask16 rounds = _mm512_cmp_ps_mask(_mm512_abs_ps(x), all(largest_rounded), _CMP_LE_OQ);
    return _mm512_castsi512_ps(_mm512_mask_add_epi32(bits, rounds, bits, _mm512_set1_epi32(0x8000)));
  }
  BEARING_TILE_CODE static Floats cut(Floats x) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), upper()));
  }
  BEARING_TILE_CODE static Floats pairs(Floats low, Floats high) {
    const __m512i lower_half = _mm512_srli_epi32(_mm512_castps_si512(low), 16);
    return _mm512_castsi512_ps(_mm512_or_si512(lower_half, _mm512_and_si512(_mm512_castps_si512(high), upper())));
  }
  /// to [16, 16], rows `stride` apart ← the transposed of from
  BEARING_TILE_CODE static void transpose(const float (*from)[16], float* to, Index stride) {
    __m512i row[16], half[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) row[i] = _mm512_castps_si512(load(from[i]));
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
      half[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
      half[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {  // row[i + x]: of rows i … i + 3, columns x, x + 4, x + 8 and x + 12
      row[i] = _mm512_unpacklo_epi64(half[i], half[i + 2]);
      row[i + 1] = _mm512_unpackhi_epi64(half[i], half[i + 2]);
      row[i + 2] = _mm512_unpacklo_epi64(half[i + 1], half[i + 3]);
      row[i + 3] = _mm512_unpackhi_epi64(half[i + 1], half[i + 3]);
    }
#pragma GCC unroll 4
    for (int x = 0; x < 4; ++x) {
      const __m512i a = _mm512_shuffle_i32x4(row[x], row[4 + x], 0x88),
                    b = _mm512_shuffle_i32x4(row[8 + x], row[12 + x], 0x88);
      const __m512i c = _mm512_shuffle_i32x4(row[x], row[4 + x], 0xDD),
                    d = _mm512_shuffle_i32x4(row[8 + x], row[12 + x], 0xDD);
      store(to + x * stride, _mm512_castsi512_ps(_mm512_shuffle_i32x4(a, b, 0x88)));
      store(to + (x + 4) * stride, _mm512_castsi512_ps(_mm512_shuffle_i32x4(c, d, 0x88)));
      store(to + (x + 8) * stride, _mm512_castsi512_ps(_mm512_shuffle_i32x4(a, b, 0xDD)));
      store(to + (x + 12) * stride, _mm512_castsi512_ps(_mm512_shuffle_i32x4(c, d, 0xDD)));
    }
  }
  BEARING_TILE_CODE static Floats ceil(Floats x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
  }
  BEARING_TILE_CODE static std::uint16_t equal(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
  BEARING_TILE_CODE static Floats max_of(const float (*rows)[16]) { return fold_rows(rows, Larger()); }
  BEARING_TILE_CODE static Floats sum_of(const float (*rows)[16]) { return fold_rows(rows, Sum()); }

 private:
  BEARING_TILE_CODE static __m512i upper() { return _mm512_set1_epi32(static_cast<int>(0xFFFF'0000)); }
  struct Larger {
    BEARING_TILE_CODE Floats operator()(Floats a, Floats b) const { return max(a, b); }
  };
  struct Sum {
    BEARING_TILE_CODE Floats operator()(Floats a, Floats b) const { return add(a, b); }
  };

  /// Halves onto each other, of two rows at a time, then of four, eight and sixteen: one shuffle a number.
  template <class F>
  BEARING_TILE_CODE static Floats fold_rows(const float (*rows)[16], const F& fold) {
    const auto halves = [&](int r) BEARING_TILE_CODE {  // of rows r and r + 4
      const Floats a = load(rows[r]), b = load(rows[r + 4]);
      return fold(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    };
    const auto quarters = [&](int r) BEARING_TILE_CODE {  // of rows r, r + 4, r + 8 and r + 12
      const Floats a = halves(r), b = halves(r + 8);
      return fold(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
    };
    const auto pairs = [&](int r) BEARING_TILE_CODE {
      const Floats a = quarters(r), b = quarters(r + 1);
      return fold(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xEE));
    };
    const Floats a = pairs(0), b = pairs(2);
    return fold(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD));
  }
};

/// A type of its own, so that what this file makes of it is not taken for what other files make.
struct SlowTiles : EmulatedTiles {};

}  // namespace

const Kernels machine = kernels_of<AmxTiles, Avx512Lanes>;
const Kernels emulated_avx512 = kernels_of<SlowTiles, Avx512Lanes>;

}  // namespace bearing::attend::amx

#endif
