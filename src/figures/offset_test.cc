#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/encodings/sinusoidal.hpp>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>
#include <cmath>

#include "support/errors.hpp"

namespace bearing::inspect {
namespace {

using test::expect_error;

std::vector<Subject> only(const char* name) { return {{name, *find(name)}}; }

double largest(const Series& series) { return *std::max_element(series.y.begin(), series.y.end()); }

TEST(Offset, OfSinusoidsIsTheClosedFormOfEachPair) {
  const Figure drawn = figure("offset", only("sinusoidal"), {.dim = 8, .offset = 3});
  const Cells& map = *drawn.panels[0].cells;
  const std::vector<double> rates =
      sinusoidal_frequencies(*find("sinusoidal")->spec({.heads = 1, .dim = 8}).as<Sinusoidal>());
  for (Index i = 0; i < 8; ++i) {
    for (Index j = 0; j < 8; ++j) {
      const std::array<double, 4> m = pair_shift_map(rates[static_cast<std::size_t>(i / 2)], 3);
      const double wanted = i / 2 == j / 2 ? m[static_cast<std::size_t>(2 * (i % 2) + j % 2)] : 0;
      EXPECT_NEAR(map(i, j), wanted, 1e-9) << i << ", " << j;  // fitted: the slowest pair turns by half a radian
    }
  }
  EXPECT_LT(largest(drawn.panels[1].series[0]), 1e-12);
  EXPECT_EQ(drawn.panels[1].series[0].y.size(), 509u);
}

TEST(Offset, OfARotationIsTheRotationOfTheOffset) {
  const Figure drawn = figure("offset", only("rope"), {.dim = 8});
  const Cells& map = *drawn.panels[0].cells;
  const Specimen rope = make(*find("rope"), {.heads = 1, .dim = 8, .length = 512});
  for (Index d = 0; d < 8; ++d) {
    Array unit(1, 1, 8);
    unit(0, 0, d) = 1;
    const Array turned = rope.turn(Side::key, rope.tokens(1, 5), unit);
    for (Index i = 0; i < 8; ++i) EXPECT_EQ(map(i, d), turned(0, 0, i));
  }
  EXPECT_LT(largest(drawn.panels[1].series[0]), 1e-13);
}

TEST(Offset, HasNoMatrixForAllPositionsOfALearnedTable) {
  const Figure drawn = figure("offset", only("learned"));
  EXPECT_GT(largest(drawn.panels[1].series[0]), 0.5 * drawn.panels[1].guides[0].at);
  EXPECT_NE(drawn.text.find("the best single matrix is off"), std::string::npos);
}

TEST(Offset, OfAnImageIsThatOfARow) {
  const Figure drawn = figure("offset", only("sinusoidal_2d"));
  EXPECT_EQ(drawn.panels[1].title, "sinusoidal_2d: one M for a row");
  EXPECT_EQ(drawn.panels[1].x.title, "p along the first row (patches)");
  EXPECT_NE(drawn.text.find(" patches of the first row"), std::string::npos) << drawn.text;
}

TEST(Offset, RefusesWhatIsNoOffsetAndWhatHasNoRows) {
  expect_error<RangeError>([] { (void)figure("offset", only("rope"), {.length = 8, .offset = 8}); },
                           "[figure] offset: must be from 1 to 7, got 8");
  expect_error<RangeError>([] { (void)figure("offset", only("sinusoidal"), {.dim = 4096}); },
                           "[figure] dim: must be at most 1024 for offset, got 4096");
  EXPECT_THROW((void)figure("offset", only("alibi")), RangeError);
}

}  // namespace
}  // namespace bearing::inspect
