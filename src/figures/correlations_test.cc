#include <gtest/gtest.h>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>
#include <cmath>
#include <numeric>

#include "support/errors.hpp"

namespace bearing::inspect {
namespace {

using test::expect_error;

std::vector<Subject> only(const char* name) { return {{name, *find(name)}}; }

TEST(Correlations, AreThoseOfTheGivenWeights) {
  Normal normal(7);
  const Array words = normal.array(1, 6, 8), w_q = normal.array(1, 8, 4), w_k = normal.array(1, 8, 4);
  const Figure drawn = figure("correlations", only("sinusoidal"), {.words = words, .w_q = w_q, .w_k = w_k});
  const Specimen specimen = make(*find("sinusoidal"), {.heads = 1, .dim = 8, .length = 6});
  const Array positions = specimen.inputs(specimen.tokens(6));
  const Correlations all = correlations(words.head(0), positions.head(0), w_q.head(0), w_k.head(0));
  ASSERT_EQ(drawn.panels.size(), 4u);
  EXPECT_EQ(drawn.panels[0].cells->values, all.word_word.values);
  EXPECT_EQ(drawn.panels[1].cells->values, all.word_position.values);
  EXPECT_EQ(drawn.panels[2].cells->values, all.position_word.values);
  EXPECT_EQ(drawn.panels[3].cells->values, all.position_position.values);
  EXPECT_EQ(drawn.panels[3].title.rfind("position to position (rms ", 0), 0u);
  for (const Panel& panel : drawn.panels) EXPECT_EQ(panel.cells->low, -panel.cells->high);
}

TEST(Correlations, AreDrawnFromTheSeed) {
  const auto drawn = [](std::uint64_t seed) {
    return figure("correlations", only("learned"), {.length = 8, .seed = seed}).panels[0].cells->values;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

TEST(Correlations, DrawWordsApartFromPositions) {
  const Figure drawn = figure("correlations", only("learned"));
  const auto product = [&](std::size_t a, std::size_t b) {
    const std::vector<double>&x = drawn.panels[a].cells->values, &y = drawn.panels[b].cells->values;
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  EXPECT_LT(std::abs(product(0, 3)), 0.3 * std::sqrt(product(0, 0) * product(3, 3)));  // 4,096 numbers: 0.02 by chance
}

TEST(Correlations, RefuseShapesThatDoNotFit) {
  const Array words(1, 6, 8), wide(1, 9, 4), fits(1, 8, 4);
  expect_error<ShapeError>([&] { (void)figure("correlations", only("sinusoidal"), {.words = words, .w_q = fits}); },
                           "[figure] w_k: must be given with the other one");
  expect_error<ShapeError>(
      [&] { (void)figure("correlations", only("sinusoidal"), {.words = words, .w_q = wide, .w_k = fits}); },
      "[figure] w_q: must have shape [1, 8, head_dim], got [1, 9, 4]");
  EXPECT_THROW((void)figure("correlations", only("sinusoidal"), {.length = 7, .words = words}), ShapeError);
  EXPECT_THROW((void)figure("correlations", only("rope")), RangeError);
}

}  // namespace
}  // namespace bearing::inspect
