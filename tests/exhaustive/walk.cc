#include "walk.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace bearing::exhaustive {
namespace {

constexpr std::size_t max_pairs = 512;
constexpr Index block = 1024;  // rows between two looks for what is farthest off

/// The reference's error is below 2^-50 of the result: the remainder of a quarter turn is rounded once to double
/// (2^-53), its product with π/2 twice more, the polynomials end where the next term is below 2^-55, and their last
/// sums round. So an error in ulps of float, 2^-24 of the result at least, is right to 2^-26.
struct CosSin {
  double cos, sin;
};

/// The cosine and sine of high·2^-64 + low·2^-128 turns.
[[gnu::always_inline]] inline CosSin cos_sin(std::uint64_t high, std::uint64_t low) {
  // Nearest quarter, and what remains, as a signed number of 128 bits: within an eighth of a turn.
  const std::uint64_t quarter = (high + (std::uint64_t{1} << 61)) >> 62;
  const auto rest = static_cast<std::int64_t>(high - (quarter << 62));
  // low counts from 0 upwards; its 53 upper bits are enough, as |rest| is at least some 2^20 for 2^38 angles.
  const double turns =
      static_cast<double>(rest) * 0x1p-64 + static_cast<double>(static_cast<std::int64_t>(low >> 11)) * 0x1p-117;
  const double x = turns * 6.283185307179586476925287, xx = x * x;
  // Taylor's series, alternating and falling: at |x| ≤ π/4 the first term left out is below 2^-57 of the result.
  double s = -1.0 / 1307674368000;
  s = s * xx + 1.0 / 6227020800;
  s = s * xx - 1.0 / 39916800;
  s = s * xx + 1.0 / 362880;
  s = s * xx - 1.0 / 5040;
  s = s * xx + 1.0 / 120;
  s = s * xx - 1.0 / 6;
  s = x + x * xx * s;
  double c = 1.0 / 20922789888000;
  c = c * xx - 1.0 / 87178291200;
  c = c * xx + 1.0 / 479001600;
  c = c * xx - 1.0 / 3628800;
  c = c * xx + 1.0 / 40320;
  c = c * xx - 1.0 / 720;
  c = c * xx + 1.0 / 24;
  c = c * xx - 0.5;
  c = 1.0 + xx * c;
  const bool odd = (quarter & 1) != 0;
  const double cos = odd ? s : c, sin = odd ? c : s;
  // Quarters 1 and 2 turn the cosine's sign, 2 and 3 the sine's.
  return {((quarter + 1) & 2) != 0 ? -cos : cos, (quarter & 2) != 0 ? -sin : sin};
}

/// |got − truth| in ulps of float at the truth, which is no subnormal; infinite for anything but 0 where the truth is
/// 0.
[[gnu::always_inline]] inline double ulps(float got, double truth) {
  // The exponent of 2^23 / 2^e is 2·1023 + 23 less that of the truth, as doubles store them.
  const std::uint64_t exponent = std::max(std::bit_cast<std::uint64_t>(truth) >> 52 & 0x7ff, std::uint64_t{23});
  const double per_ulp = std::bit_cast<double>((2 * 1023 + 23 - exponent) << 52);
  return std::abs(static_cast<double>(got) - truth) * per_ulp;
}

/// For each pair, the largest error of `count` rows into cos_worst and sin_worst; returns how many are past ½ ulp.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#endif
Index worst_of_pairs(const Turns& step, Turns& at, const float* cos, const float* sin, Index count, double* cos_worst,
                     double* sin_worst) {
  const std::size_t pairs = step.high.size();
  std::uint64_t* const high = at.high.data();
  std::uint64_t* const low = at.low.data();
  const std::uint64_t* const step_high = step.high.data();
  const std::uint64_t* const step_low = step.low.data();
  Index past_half = 0;
  for (Index t = 0; t < count; ++t, cos += pairs, sin += pairs) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < pairs; ++i) {
      const CosSin truth = cos_sin(high[i], low[i]);
      const double c = ulps(cos[i], truth.cos), s = ulps(sin[i], truth.sin);
      past_half += static_cast<Index>(c > 0.5) + static_cast<Index>(s > 0.5);
      cos_worst[i] = cos_worst[i] < c ? c : cos_worst[i];
      sin_worst[i] = sin_worst[i] < s ? s : sin_worst[i];
      const std::uint64_t sum = low[i] + step_low[i];
      high[i] += step_high[i] + (sum < step_low[i] ? 1 : 0);
      low[i] = sum;
    }
  }
  return past_half;
}

}  // namespace

Turns Turns::times(std::uint64_t times) const {
  Turns product = *this;
  for (std::size_t i = 0; i < high.size(); ++i) {
    // By halves of 32 bits, whose products with `times` fit into 64.
    const std::uint64_t right = (low[i] & 0xffff'ffff) * times;
    const std::uint64_t left = (low[i] >> 32) * times + (right >> 32);
    product.low[i] = left << 32 | (right & 0xffff'ffff);
    product.high[i] = high[i] * times + (left >> 32);
  }
  return product;
}

Found compare(const Turns& step, Turns& at, const float* cos, const float* sin, Index first, Index count) {
  const std::size_t pairs = step.high.size();
  Found found;
  for (Index begin = 0; begin < count; begin += block) {
    const Index rows = std::min(block, count - begin);
    const auto offset = static_cast<std::size_t>(begin) * pairs;
    const Turns before = at;
    double cos_worst[max_pairs] = {}, sin_worst[max_pairs] = {};
    found.past_half += worst_of_pairs(step, at, cos + offset, sin + offset, rows, cos_worst, sin_worst);
    for (std::size_t i = 0; i < pairs; ++i) {
      if (!(cos_worst[i] > found.cos.ulps) && !(sin_worst[i] > found.sin.ulps)) continue;
      // One pair of one block again, slowly, for the place.
      for (Index t = 0; t < rows; ++t) {
        const std::size_t at_row = offset + static_cast<std::size_t>(t) * pairs + i;
        const Turns one{{step.high[i]}, {step.low[i]}};
        Turns here = one.times(static_cast<std::uint64_t>(t));
        const std::uint64_t sum = here.low[0] + before.low[i];
        const std::uint64_t top = here.high[0] + before.high[i] + (sum < before.low[i] ? 1 : 0);
        const CosSin truth = cos_sin(top, sum);
        found.cos.see({ulps(cos[at_row], truth.cos), first + begin + t, static_cast<Index>(i)});
        found.sin.see({ulps(sin[at_row], truth.sin), first + begin + t, static_cast<Index>(i)});
      }
    }
  }
  return found;
}

}  // namespace bearing::exhaustive
