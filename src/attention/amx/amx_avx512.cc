#include "attention/amx/amx_emulated.hpp"

// The one file with AMX and the AVX-512 around it. Only where simd says that the machine has them.

#if defined(__x86_64__)

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own header starts some vectors undefined
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#define BEARING_TILE_CODE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16")))
#include "attention/amx/amx_block-inl.hpp"

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
  BEARING_TILE_CODE ~AmxTiles() { _tile_release(); }
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
  BEARING_TILE_CODE void multiply(const std::uint16_t* a, Index a_stride, const Bfloat16* b, Index b_column) {
    in_memory(a);
    _tile_loadd(6, b, 64);
    _tile_loadd(4, a, 2 * a_stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, a + 16 * a_stride, 2 * a_stride);
    _tile_dpbf16ps(2, 5, 6);
    _tile_loadd(7, b + b_column, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }

 private:
  /// GCC 12 does not know that tile instructions read memory: what was written before must be there, and stay in order.
  static void in_memory(const void* p) { __asm__ volatile("" : : "r"(p) : "memory"); }
};

struct Avx512Lanes {
  using Floats = __m512;

  BEARING_TILE_CODE static Floats all(float x) { return _mm512_set1_ps(x); }
  BEARING_TILE_CODE static Floats load(const float* from) { return _mm512_loadu_ps(from); }
  BEARING_TILE_CODE static Floats load(std::uint16_t seen, const float* from) {
    return _mm512_maskz_loadu_ps(seen, from);
  }
  BEARING_TILE_CODE static void store(float* to, Floats x) { _mm512_storeu_ps(to, x); }
  BEARING_TILE_CODE static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  BEARING_TILE_CODE static Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  BEARING_TILE_CODE static Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  BEARING_TILE_CODE static Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  BEARING_TILE_CODE static Floats max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  BEARING_TILE_CODE static Floats where(std::uint16_t seen, Floats a, Floats b) {
    return _mm512_mask_blend_ps(seen, b, a);
  }
  BEARING_TILE_CODE static Floats raise_unless_less(Floats x, Floats limit, Floats p, Floats shifted) {
    const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    const __mmask16 large = _mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ);
    return _mm512_castsi512_ps(_mm512_maskz_add_epi32(large, _mm512_castps_si512(p), exponent));
  }
  BEARING_TILE_CODE static Floats narrow(float* to, Floats low, Floats high, Floats sum) {
    const __m512i pairs = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
    _mm512_storeu_si512(to, pairs);
    // Times 1, upper halves first, each product added in one rounding: 1 instruction where a mask, a shift and two sums
    // are 4.
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(pairs),
                            reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3F80'3F80)));
  }
  BEARING_TILE_CODE static float max_of(Floats x) { return _mm512_reduce_max_ps(x); }
  BEARING_TILE_CODE static float sum_of(Floats x) { return _mm512_reduce_add_ps(x); }
};

/// A type of its own, so that what this file makes of it is not taken for what other files make.
struct SlowTiles : EmulatedTiles {};

}  // namespace

BEARING_TILE_CODE void attend_block(const Block& block) { attend<AmxTiles, Avx512Lanes>(block); }
BEARING_TILE_CODE void attend_block_emulated_avx512(const Block& block) { attend<SlowTiles, Avx512Lanes>(block); }

}  // namespace bearing::attend::amx

#endif
