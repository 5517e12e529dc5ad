#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>
#include <vector>

namespace bearing::inspect {
namespace {

Figure decay_of(const std::vector<const char*>& names, const FigureOptions& options = {}) {
  std::vector<Subject> subjects;
  for (const char* name : names) subjects.push_back({name, *find(name)});
  return figure("decay", subjects, options);
}

TEST(DecayFigure, HasALineForEachHeadOfABiasAndTheirMean) {
  for (const char* name : {"alibi", "t5"}) {  // T5 tells keys before the query from those after it
    const Figure drawn = decay_of({name}, {.heads = 4, .length = 50});
    ASSERT_EQ(drawn.panels.size(), 1u);
    const Panel& panel = drawn.panels[0];
    ASSERT_EQ(panel.series.size(), 5u);
    EXPECT_TRUE(panel.bands.empty());  // contents do not count
    const Array means = mean_scores(make(*find(name), {.heads = 4, .length = 50}), 1);
    for (Index k = 0; k < 50; ++k) {
      const auto at = static_cast<std::size_t>(k);
      double sum = 0;
      for (Index h = 0; h < 4; ++h) {
        const Series& line = panel.series[static_cast<std::size_t>(h)];
        EXPECT_NEAR(line.y[at], means(0, h, k), 1e-12);
        EXPECT_EQ(line.shade, static_cast<double>(h) / 3);
        sum += means(0, h, k);
      }
      EXPECT_NEAR(panel.series[4].y[at], sum / 4, 1e-12);
    }
    EXPECT_EQ(panel.series[0].label, "head 0");
    EXPECT_EQ(panel.series[1].label, "");
    EXPECT_EQ(panel.series[3].label, "head 3");
  }
}

TEST(DecayFigure, DrawsSomeOfManyHeadsOrTheOneAskedFor) {
  EXPECT_EQ(decay_of({"alibi"}, {.heads = 32, .length = 8}).panels[0].series.size(), 9u);
  const Figure one = decay_of({"alibi"}, {.heads = 32, .length = 8, .head = 31});
  ASSERT_EQ(one.panels[0].series.size(), 1u);
  EXPECT_EQ(one.panels[0].series[0].label, "head 31");
}

TEST(DecayFigure, HeadsThatAreTheSameAreOneLine) {
  const Panel panel = decay_of({"rope"}, {.length = 40}).panels[0];
  ASSERT_EQ(panel.series.size(), 2u);
  EXPECT_EQ(panel.series[0].label, "every head, alike contents");
  const Array means = mean_scores(make(*find("rope"), {.heads = 8, .length = 40}), 3);
  for (Index k = 0; k < 40; ++k) EXPECT_NEAR(panel.series[0].y[static_cast<std::size_t>(k)], means(0, 2, k), 1e-9);
}

TEST(DecayFigure, NineInTenScoresOfRandomContentsLieInTheBand) {
  const Panel panel = decay_of({"rope"}, {.dim = 16, .length = 12}).panels[0];
  ASSERT_EQ(panel.bands.size(), 1u);
  const Band& band = panel.bands[0];
  Specimen specimen = make(*find("rope"), {.heads = 8, .dim = 16, .length = 12});
  std::vector<Index> inside(12);
  constexpr Index draws = 200;
  for (Index draw = 0; draw < draws; ++draw) {
    specimen.options.seed = 5000 + static_cast<std::uint64_t>(draw);
    const Array scores = mean_scores(specimen, 1, Contents::independent);
    for (Index h = 0; h < 8; ++h) {
      for (std::size_t k = 0; k < 12; ++k) {
        const double score = scores(0, h, static_cast<Index>(k));
        inside[k] += score >= band.low[k] && score <= band.high[k] ? 1 : 0;
      }
    }
  }
  // 256 scores make a quantile of 5 % with a deviation of √(0.05·0.95/256) = 1.4 %; both ends together 1.9 %, and 1600
  // scores add 0.8 %: six deviations of 2.1 % on either side.
  for (std::size_t k = 0; k < 12; ++k) {
    EXPECT_NEAR(static_cast<double>(inside[k]) / (8 * draws), 0.9, 0.126) << k;
    EXPECT_LT(band.low[k], panel.series.back().y[k]);
    EXPECT_LT(panel.series.back().y[k], band.high[k]);
  }
}

TEST(DecayFigure, SharesItsScaleAndNamesWhatHasNothingToShow) {
  const Figure drawn = decay_of({"rope", "alibi"}, {.length = 30});
  EXPECT_EQ(drawn.panels[0].y.first, drawn.panels[1].y.first);
  try {
    (void)decay_of({"rope", "nope"});
    FAIL();
  } catch (const RangeError& error) {
    EXPECT_STREQ(error.what(),
                 "[figure] nope: must act on the input, on query and key or on scores, got one that acts on none");
  }
}

}  // namespace
}  // namespace bearing::inspect
