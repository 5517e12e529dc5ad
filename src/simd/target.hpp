#pragma once

#include <hwy/highway.h>

namespace bearing::simd {

/// The target in force. Our own, not Highway's global one: another library in the process may have set that.
const hwy::ChosenTarget& chosen();

/// Whether the target in force also has AVX-512's conversions to bfloat16 and permutations of bytes.
bool has_avx512_bf16();

/// Whether it also has tiles of bfloat16 (AMX), and the system lets this process use them, which is asked once.
bool has_amx_bf16();

/// Whether software prefetch makes a stream from memory faster here: measured, +20 to 50 % on Sapphire Rapids, +5 to
/// 50 % on Zen 3, −15 to 25 % on Zen 4.
bool prefetch_pays();

}  // namespace bearing::simd

// The pointer to FUNC's version for the target in force; once per public call. FUNC was named in HWY_EXPORT.
#if HWY_IDE || ((HWY_TARGETS & (HWY_TARGETS - 1)) == 0)
#define BEARING_DISPATCH(FUNC) (HWY_DISPATCH_TABLE(FUNC)[0])
#else
#define BEARING_DISPATCH(FUNC) (HWY_DISPATCH_TABLE(FUNC)[bearing::simd::chosen().GetIndex()])
#endif
