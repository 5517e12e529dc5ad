#include <gtest/gtest.h>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>
#include <cmath>

#include "support/errors.hpp"

namespace bearing::inspect {
namespace {

using test::expect_error;

const std::vector<Subject>& both() {
  static const std::vector<Subject> all{{"sinusoidal", *find("sinusoidal")}, {"rope", *find("rope")}};
  return all;
}

TEST(Walk, IsTheVectorWithTheRowAddedOrTurned) {
  const Figure drawn = figure("walk", both(), {.dim = 2, .length = 20});
  ASSERT_EQ(drawn.panels.size(), 2u);
  const Specimen input = make(*find("sinusoidal"), {.heads = 1, .dim = 2, .length = 20});
  const Specimen rotation = make(*find("rope"), {.heads = 1, .dim = 2, .length = 20});
  const Array rows = input.inputs(input.tokens(20));
  Array ones(1, 20, 2);
  std::fill(ones.values.begin(), ones.values.end(), 1.0);
  const Array turned = rotation.turn(Side::key, rotation.tokens(20), ones);
  for (Index p = 0; p < 20; ++p) {
    const auto i = static_cast<std::size_t>(p);
    EXPECT_EQ(drawn.panels[0].series[0].x[i], 1 + rows(0, p, 0));
    EXPECT_EQ(drawn.panels[0].series[0].y[i], 1 + rows(0, p, 1));
    EXPECT_EQ(drawn.panels[1].series[0].x[i], turned(0, p, 0));
    EXPECT_EQ(drawn.panels[1].series[0].y[i], turned(0, p, 1));
  }
}

TEST(Walk, HasOneScaleAndSaysWhatItMeasured) {
  const Figure drawn = figure("walk", both(), {.dim = 2});
  for (const Panel& panel : drawn.panels) {
    EXPECT_TRUE(panel.round);
    EXPECT_EQ(panel.x.first, drawn.panels[0].x.first);
    EXPECT_EQ(panel.y.last, drawn.panels[0].y.last);
    for (std::size_t i = 0; i < panel.series[0].x.size(); ++i) {
      EXPECT_GT(panel.series[0].x[i], panel.x.first);
      EXPECT_LT(panel.series[0].y[i], panel.y.last);
    }
  }
  // The first pair turns by one radian a token in both: their steps bend alike, and only lengths differ.
  EXPECT_NE(drawn.text.find("rope: its length stays 1.414, a step bends by 57.3 degrees"), std::string::npos)
      << drawn.text;
  EXPECT_NE(drawn.text.find("sinusoidal: its length goes from 0.42"), std::string::npos) << drawn.text;
}

TEST(Walk, TakesAPair) {
  const Figure slow = figure("walk", both(), {.dim = 8, .length = 4, .dims = {2}});
  const Series& path = slow.panels[1].series[0];
  EXPECT_NEAR(std::atan2(path.y[1], path.x[1]) - std::atan2(1, 1), 0.01, 1e-12);  // 10000^(-2·2/8)
  EXPECT_EQ(slow.panels[1].x.title, "dimension 2");
  expect_error<RangeError>(
      [] {
        (void)figure("walk", both(), {.dim = 8, .dims = {0, 1}});
      },
      "[figure] dims: walk takes one pair, got 2");
  expect_error<RangeError>([] { (void)figure("walk", both(), {.dim = 8, .dims = {4}}); },
                           "[figure] dims: must be pairs from 0 to 3, got 4");
  const std::vector<Subject> bias{{"t5", *find("t5")}};
  EXPECT_THROW((void)figure("walk", bias), RangeError);
}

}  // namespace
}  // namespace bearing::inspect
