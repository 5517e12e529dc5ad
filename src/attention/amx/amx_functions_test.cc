#include <gtest/gtest.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "attention/amx/amx_emulated.hpp"
#include "support/amx_heads.hpp"

#define BEARING_TILE_CODE
#include "attention/amx/amx_block-inl.hpp"

// Functions of one number that the block kernel works out on vectors.

namespace bearing::attend::amx {
namespace {

using test::tiles::infinity;

template <int pieces>
void expect_powers_of_two(double bound) {
  double worst = 0;
  for (double x = -125; x <= 1; x += 0x1p-10) {
    const float p = power_of_two<PlainLanes, pieces>(PlainLanes::all(static_cast<float>(x))).lane[0];
    worst = std::max(worst, std::abs(p / std::exp2(x) - 1));
  }
  EXPECT_LE(worst, bound);
  for (const float x : {-126.001f, -151.0f, -1e4f, -1e30f, -infinity}) {
    const float p = power_of_two<PlainLanes, pieces>(PlainLanes::all(x)).lane[0];
    EXPECT_EQ(p, 0) << x;
  }
  const float p = power_of_two<PlainLanes, pieces>(PlainLanes::all(std::nanf(""))).lane[0];
  EXPECT_TRUE(std::isnan(p));
}

TEST(AmxTest, PowersOfTwoAreWithinTheirBound) {
  // The polynomials' 7.5e-5 and 8.3e-8; and float's rounding of three sums and of three coefficients, each at most
  // 2^-24 of about 1. The longer one has two smaller terms more.
  expect_powers_of_two<1>(7.5e-5 + 6 * 0x1p-24);
  expect_powers_of_two<float_pieces>(8.3e-8 + 7 * 0x1p-24);
}

TEST(AmxTest, TanhIsWithinFourUnits) {
  for (double x = 0x1p-30; x < 100; x *= 1.003) {
    for (const double sign : {-1.0, 1.0}) {
      const auto z = static_cast<float>(sign * x);
      const double want = std::tanh(static_cast<double>(z));
      ASSERT_NEAR(tanh<PlainLanes>(PlainLanes::all(z)).lane[0], want, 4 * 0x1p-24 * std::abs(want)) << z;
    }
  }
  EXPECT_EQ(tanh<PlainLanes>(PlainLanes::all(0)).lane[0], 0);
  EXPECT_EQ(tanh<PlainLanes>(PlainLanes::all(-infinity)).lane[0], -1);
  const auto none = tanh<PlainLanes>(PlainLanes::all(std::nanf("")));
  EXPECT_TRUE(std::isnan(none.lane[0]));
}

TEST(AmxTest, LogitsInLog2StayWhatTheyAre) {
  constexpr float most = std::numeric_limits<float>::max();
  EXPECT_EQ(in_log2(1), std::numbers::log2e_v<float>);
  EXPECT_EQ(in_log2(-most), -most);
  EXPECT_EQ(in_log2(most), most);
  EXPECT_EQ(in_log2(-infinity), -infinity);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(in_log2(std::bit_cast<float>(0xFFFFFFFFu))), 0x7FC00000u);
}

}  // namespace
}  // namespace bearing::attend::amx
