#pragma once

#include <hwy/highway.h>

namespace bearing::simd {

/// The target in force. Our own, not Highway's global one: another library in the process may have set that.
const hwy::ChosenTarget& chosen();

/// Whether the target in force also has AVX-512's conversions to bfloat16 and permutations of bytes.
bool has_avx512_bf16();

/// Whether it also has tiles of bfloat16 (AMX), and the system lets this process use them, which is asked once.
bool has_amx_bf16();

/// How this processor walks through a large tensor fastest, as was measured for rotations.
struct MemoryWalk {
  /// How many bytes ahead software asks for lines; 0: it does not. +20 to 50 % on Sapphire Rapids, +5 to 50 % on Zen 3,
  /// +5 to 15 % on Zen 5 (and up to +60 % where heads lie further apart than tokens); −15 to 25 % on Zen 4. By 4 KiB,
  /// where the hardware's own prefetch would stop at the border of a page; less where vectors have 32 bytes
  /// (rope_lines-inl.h).
  int ahead;
  /// … where numbers have 16 bits: there are twice as many in a line of 64 bytes, so it turns in about twice the time.
  /// Intel with AMX, 256 MiB of bfloat16: 0.85 of LIMIT by 2 KiB, 0.77 by 4, 0.60 by 8; with AVX2 alone 2 KiB take 0.82
  /// to 0.93 times as long as 4. Zen 3, 32 MiB: 0.92 by 4 KiB, 0.75 by 1, 0.60 without.
  int narrow_ahead;
  /// With the four quarters of a token in turn: four pages are read and written side by side, as memcpy does it. Intel
  /// Emerald Rapids, 32 heads of 128: 1.1 to 1.25 times as fast. On AMD it takes up to three times as long.
  bool quarters;
  /// Heads side by side, where they lie further apart than tokens: each is a stream. Zen 4, without fetching ahead:
  /// eight take 0.62 to 0.76 times as long as two with it, and sixteen 1.2 times, as a cache has eight ways for heads
  /// that lie 2^n bytes apart. Emerald Rapids, float32: 0.98 of LIMIT by four, 0.85 by two, 0.74 by eight, 0.76 by one.
  /// Zen 5, bfloat16: 0.82 of LIMIT by two, 0.62 by four, 0.55 by one.
  int heads;
};
const MemoryWalk& memory_walk();

}  // namespace bearing::simd

// The pointer to FUNC's version for the target in force; once per public call. FUNC was named in HWY_EXPORT.
#if HWY_IDE || ((HWY_TARGETS & (HWY_TARGETS - 1)) == 0)
#define BEARING_DISPATCH(FUNC) (HWY_DISPATCH_TABLE(FUNC)[0])
#else
#define BEARING_DISPATCH(FUNC) (HWY_DISPATCH_TABLE(FUNC)[bearing::simd::chosen().GetIndex()])
#endif
