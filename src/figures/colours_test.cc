#include <gtest/gtest.h>
#include <bearing/figures.hpp>
#include <cmath>

namespace bearing::inspect {
namespace {

/// The luminance of sRGB (WCAG 2.1).
double luminance(const Colour& colour) {
  const auto linear = [](int part) {
    const double x = part / 255.0;
    return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(colour.red) + 0.7152 * linear(colour.green) + 0.0722 * linear(colour.blue);
}

void expect_seen_on_white_and_black(const Colour& colour) {
  const double l = luminance(colour);
  EXPECT_GE(1.05 / (l + 0.05), 3) << colour.red << ' ' << colour.green << ' ' << colour.blue;
  EXPECT_GE((l + 0.05) / 0.05, 3) << colour.red << ' ' << colour.green << ' ' << colour.blue;
}

TEST(Colours, OfLinesAreSeenOnWhiteAndOnBlack) {
  for (const Colour& colour : palette()) expect_seen_on_white_and_black(colour);
  for (int i = 0; i <= 20; ++i) expect_seen_on_white_and_black(family_colour(i / 20.0));
}

TEST(Colours, OfNumbersGrowLighter) {
  for (const auto& map : {sequential_colour, diverging_colour, family_colour}) {
    for (int i = 0; i < 64; ++i) EXPECT_LT(luminance(map(i / 64.0)), luminance(map((i + 1) / 64.0))) << i;
  }
}

TEST(Colours, ZeroIsTheMiddleOfADivergingMap) {
  const Cells cells{.map = ColourMap::diverging, .low = -2, .high = 2};
  EXPECT_EQ(colour_of(cells, 0), diverging_colour(0.5));
  EXPECT_EQ(colour_of(cells, 5), diverging_colour(1));
  const Colour middle = colour_of(cells, 0);
  EXPECT_LE(std::abs(middle.red - middle.blue), 8);
}

}  // namespace
}  // namespace bearing::inspect
