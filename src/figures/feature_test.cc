#include <gtest/gtest.h>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>
#include <bearing/reference/linear_attention.hpp>
#include <cmath>

namespace bearing::inspect {
namespace {

/// φ(x) by the reference of linear attention: one key x of value 1, and a query whose feature is 1.
double reference_feature(FeatureMap map, double x) {
  const double query = map == FeatureMap::elu_plus_one ? 0 : 1, one = 1;
  double out = 0;
  reference::linear_attention({dense(&query, 1, 1, 1, 1), dense(&x, 1, 1, 1, 1), dense(&one, 1, 1, 1, 1)},
                              dense(&out, 1, 1, 1, 1), {}, {},
                              {.mask = Mask::none, .feature_map = map, .normaliser = Normaliser::none});
  return out;
}

TEST(FeatureFigure, IsWhatLinearAttentionComputes) {
  const Figure drawn = figure("feature", {});
  ASSERT_EQ(drawn.panels.size(), 2u);
  const std::vector<FeatureMap> maps{FeatureMap::elu_plus_one, FeatureMap::relu, FeatureMap::identity};
  ASSERT_EQ(drawn.panels[0].series.size(), maps.size());
  for (std::size_t n = 0; n < maps.size(); ++n) {
    const Series &value = drawn.panels[0].series[n], &slope = drawn.panels[1].series[n];
    ASSERT_GT(value.x.size(), 100u);
    EXPECT_EQ(value.label, slope.label);
    for (std::size_t i = 0; i < value.x.size(); ++i) {
      const double x = value.x[i], h = 1e-5;
      EXPECT_NEAR(value.y[i], reference_feature(maps[n], x), 1e-14);
      if (x == 0) continue;  // a kink
      const double around = (reference_feature(maps[n], x + h) - reference_feature(maps[n], x - h)) / (2 * h);
      EXPECT_NEAR(slope.y[i], around, 1e-9) << x;
    }
  }
}

TEST(FeatureFigure, TakesNoEncodingAndNoOption) {
  const std::vector<Subject> one{{"rope", *find("rope")}};
  EXPECT_THROW((void)figure("feature", one), ShapeError);
  try {
    (void)figure("feature", {}, {.dim = 8});
    FAIL();
  } catch (const RangeError& error) {
    EXPECT_STREQ(error.what(), "[figure] dim: feature takes no options");
  }
}

}  // namespace
}  // namespace bearing::inspect
