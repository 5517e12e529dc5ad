#include <gtest/gtest.h>
#include <bit>
#include <cstdint>

#include "attention/amx/amx_emulated.hpp"

// A product of tiles in plain loops, as the instruction has it, to the bit.

namespace bearing::attend::amx {
namespace {

void set(TileRegister& tile, int row, int lane, float low, float high) {
  tile.lanes[row][lane] =
      static_cast<std::uint32_t>(Bfloat16(low).bits) | static_cast<std::uint32_t>(Bfloat16(high).bits) << 16;
}
float got(const TileRegister& tile, int row, int lane) { return std::bit_cast<float>(tile.lanes[row][lane]); }

TEST(AmxTest, TilesMultiplyAsTheInstructionDoes) {
  TileRegister a, b, c;
  set(a, 3, 0, 2, 3);
  set(b, 0, 5, 5, 7);
  set(a, 3, 15, -1, 4);
  set(b, 15, 5, 8, 0.5f);
  c.lanes[3][5] = std::bit_cast<std::uint32_t>(100.0f);
  multiply_tiles(c, a, b);
  EXPECT_EQ(got(c, 3, 5), 100 + 2 * 5 + 3 * 7 - 8 + 2);
  EXPECT_EQ(got(c, 3, 4), 0);
  EXPECT_EQ(got(c, 4, 5), 0);
}

TEST(AmxTest, TilesSumEvenAndOddFeaturesApart) {
  // Even: 2^24, then 1, which is half a unit and rounds to even: 2^24. Odd: 1 + 1. Together 2^24 + 2; then c = 1 is
  // half a unit again, and rounds up to the even 2^24 + 4. One chain, or one that starts with c, would end elsewhere.
  TileRegister a, b, c;
  set(a, 0, 0, 0x1p12f, 1);
  set(b, 0, 0, 0x1p12f, 1);
  set(a, 0, 1, 1, 1);
  set(b, 1, 0, 1, 1);
  c.lanes[0][0] = std::bit_cast<std::uint32_t>(1.0f);
  multiply_tiles(c, a, b);
  EXPECT_EQ(got(c, 0, 0), 0x1p24f + 4);
}

TEST(AmxTest, TilesTakeAndGiveDenormalNumbersAsZero) {
  TileRegister a, b, c;
  set(a, 0, 0, 0x1p-127f, 0);  // comes in as 0
  set(b, 0, 0, 0x1p100f, 0);
  set(a, 1, 0, 0x1p-64f, 0);  // the product 2^-127 goes out as 0, and the next one finds nothing to add to
  set(b, 0, 1, 0x1p-63f, 0);
  set(a, 1, 1, 0x1p-63f, 0);
  set(b, 1, 1, 0x1p-63f, 0);
  c.lanes[2][2] = 1;  // the least denormal number in c
  multiply_tiles(c, a, b);
  EXPECT_EQ(c.lanes[0][0], 0u);
  EXPECT_EQ(got(c, 1, 1), 0x1p-126f);
  EXPECT_EQ(c.lanes[2][2], 0u);
}

}  // namespace
}  // namespace bearing::attend::amx
