#pragma once

#include <bearing/half.hpp>
#include <bearing/view.hpp>

namespace bearing {

/// Heads of several tokens; the phases in natural order. The fields are as in Lines (rope_lines-inl.h).
struct Bf16Lines {
  const float* const* cos;
  const float* const* sin;
  bool negative_sin, stream;
  const Bfloat16* in;
  Bfloat16* out;
  Index in_token, out_token, in_head, out_head, tokens, heads, pairs;
  const Bfloat16*
      soon;  ///< what to fetch while the first line turns, and for others as far from it as they are; null: nothing
};

/// The number of pairs must be a multiple of this.
inline constexpr Index bf16_avx512_pairs = 32;

/// Turns all heads with AVX-512's own conversion to bfloat16, which Highway 1.0.3 does not offer: same
/// bits as every other target. Only where simd::has_avx512_bf16() says so.
void turn_bf16_half_avx512(const Bf16Lines& lines);
void turn_bf16_interleaved_avx512(const Bf16Lines& lines);

}  // namespace bearing
