#pragma once

#include <cstdint>

// What src/simd/target.cc needs of Highway, as a newer one has it: BUILT are the targets of the build, best of which
// its baseline is BASELINE, and HERE what the machine has.

#define HWY_AVX10_2 (1LL << 3)
#define HWY_AVX3_SPR (1LL << 4)
#define HWY_AVX3_ZEN4 (1LL << 6)
#define HWY_AVX3_DL (1LL << 7)
#define HWY_AVX3 (1LL << 8)
#define HWY_AVX2 (1LL << 9)
#define HWY_SSE4 (1LL << 11)
#define HWY_SSSE3 (1LL << 12)
#define HWY_SSE2 (1LL << 14)
#define HWY_NEON_BF16 (1LL << 26)
#define HWY_NEON (1LL << 28)
#define HWY_NEON_WITHOUT_AES (1LL << 29)
#define HWY_LASX (1LL << 40)
#define HWY_LSX (1LL << 41)
#define HWY_PPC10 (1LL << 47)
#define HWY_PPC9 (1LL << 48)
#define HWY_PPC8 (1LL << 49)
#define HWY_Z15 (1LL << 50)
#define HWY_Z14 (1LL << 51)
#define HWY_WASM_EMU256 (1LL << 58)
#define HWY_WASM (1LL << 59)
#define HWY_EMU128 (1LL << 61)
#define HWY_SCALAR (1LL << 62)

#define HWY_TARGETS (BUILT)
#define HWY_STATIC_TARGET (BASELINE)

namespace hwy {
inline std::int64_t SupportedTargets() { return HERE; }
struct ChosenTarget {
  std::int64_t bit = 0;
  void Update(std::int64_t target) { bit = target; }
};
}  // namespace hwy
