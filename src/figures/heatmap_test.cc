#include <gtest/gtest.h>
#include <bearing/attention.hpp>
#include <bearing/encodings/dense_bias.hpp>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>
#include <cmath>
#include <vector>

namespace bearing::inspect {
namespace {

Subject subject(const char* name) { return {name, *find(name)}; }
Figure heatmap_of(const std::vector<const char*>& names, const FigureOptions& options = {}) {
  std::vector<Subject> subjects;
  for (const char* name : names) subjects.push_back(subject(name));
  return figure("heatmap", subjects, options);
}

TEST(Heatmap, OfAnInputEncodingIsItsTable) {
  const Figure drawn = heatmap_of({"sinusoidal"});
  ASSERT_EQ(drawn.panels.size(), 1u);
  const Cells& cells = *drawn.panels[0].cells;
  ASSERT_EQ(cells.rows, 128);
  ASSERT_EQ(cells.cols, 256);
  const Specimen specimen = make(*find("sinusoidal"), {.heads = 1, .dim = 256, .length = 128});
  EXPECT_EQ(cells.values, specimen.inputs(specimen.tokens(128)).values);
  EXPECT_EQ(cells.map, ColourMap::diverging);
  EXPECT_EQ(cells.low, -cells.high);
  EXPECT_GT(drawn.panels[0].y.first, drawn.panels[0].y.last);  // position 0 is on top
}

TEST(Heatmap, OfARotationTurnsAQueryOfOnes) {
  const Figure drawn = heatmap_of({"xpos"}, {.dim = 8, .length = 20});
  const Specimen specimen = make(*find("xpos"), {.heads = 1, .dim = 8, .length = 20});
  Array ones(1, 20, 8);
  std::fill(ones.values.begin(), ones.values.end(), 1.0);
  EXPECT_EQ(drawn.panels[0].cells->values, specimen.turn(Side::query, specimen.tokens(20), ones).values);
}

TEST(Heatmap, ThinsLongTables) {
  const Figure drawn = heatmap_of({"sinusoidal"}, {.dim = 4, .length = 2500});
  const Cells& cells = *drawn.panels[0].cells;
  ASSERT_EQ(cells.rows, 834);
  EXPECT_EQ(cells.y_step, 3);
  EXPECT_EQ(drawn.panels[0].y.title, "position (token, every 3rd)");
  const Specimen specimen = make(*find("sinusoidal"), {.heads = 1, .dim = 4, .length = 2500});
  EXPECT_EQ(cells(833, 0), specimen.inputs(specimen.tokens(1, 2499))(0, 0, 0));
}

TEST(Heatmap, OfABiasIsWhatItAddsForSomeHeads) {
  const Figure drawn = heatmap_of({"alibi"}, {.length = 9});
  ASSERT_EQ(drawn.panels.size(), 4u);
  const Specimen specimen = make(*find("alibi"), {.heads = 8, .dim = 64, .length = 9});
  const Array zeros(8, 9, 64);
  const Array bias = specimen.scores(specimen.tokens(9), specimen.tokens(9), zeros, zeros);
  const std::vector<Index> heads{0, 2, 4, 7};
  for (std::size_t n = 0; n < 4; ++n) {
    const Cells& cells = *drawn.panels[n].cells;
    for (Index i = 0; i < 9; ++i) {
      for (Index j = 0; j < 9; ++j) EXPECT_EQ(cells(i, j), bias(heads[n], i, j));
    }
    EXPECT_EQ(cells.map, ColourMap::sequential);  // no number is above 0
    EXPECT_EQ(cells.low, drawn.panels[0].cells->low);
  }
}

TEST(Heatmap, HidesLaterKeysWhereAskedOrMeant) {
  for (const Figure& drawn : {heatmap_of({"alibi"}, {.length = 9, .head = 3, .causal = true}),
                              heatmap_of({"t5_causal"}, {.length = 9, .head = 3})}) {
    ASSERT_EQ(drawn.panels.size(), 1u);
    for (Index i = 0; i < 9; ++i) {
      for (Index j = 0; j < 9; ++j) EXPECT_EQ(std::isnan((*drawn.panels[0].cells)(i, j)), j > i);
    }
  }
  const Figure all = heatmap_of({"t5_causal"}, {.length = 9, .causal = false});
  EXPECT_FALSE(std::isnan((*all.panels[0].cells)(0, 8)));
}

TEST(Heatmap, OfAPatternIsWhatAttentionMakesOfTheLogits) {
  constexpr Index n = 10;
  const Figure logits = heatmap_of({"t5_causal"}, {.length = n, .what = "logits", .head = 2, .causal = false});
  const Figure drawn = heatmap_of({"t5_causal"}, {.length = n, .what = "pattern", .head = 2});
  EXPECT_EQ(drawn.panels[0].cells->title, "attention weight (1 % are larger)");
  const std::vector<double> zeros(n, 0.0);
  std::vector<double> unit(n * n), weights(n * n);  // values that tell keys apart
  for (std::size_t j = 0; j < n; ++j) unit[j * n + j] = 1;
  const DenseBias<double> bias({dense<const double>(logits.panels[0].cells->values.data(), 1, 1, n, n)});
  const auto nothing = bhtd<const double>(zeros.data(), 1, 1, n, 1);
  attention<double>({.q = nothing, .k = nothing, .v = bhtd<const double>(unit.data(), 1, 1, n, n)},
                    bhtd(weights.data(), 1, 1, n, n), {}, with(bias), {.mask = Mask::causal});
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j <= i; ++j) {
      EXPECT_NEAR((*drawn.panels[0].cells)(i, j), weights[static_cast<std::size_t>(i * n + j)], 1e-12);
    }
  }
}

TEST(Heatmap, OfLogitsIsTheContentsProductAndTheBias) {
  const FigureOptions options{.length = 10, .what = "logits", .head = 1};
  const Figure with_bias = heatmap_of({"alibi"}, options), without = heatmap_of({"nope"}, options);
  const Figure bias = heatmap_of({"alibi"}, {.length = 10, .head = 1});
  for (Index i = 0; i < 10; ++i) {
    for (Index j = 0; j <= i; ++j) {
      EXPECT_NEAR((*with_bias.panels[0].cells)(i, j), (*without.panels[0].cells)(i, j) + (*bias.panels[0].cells)(i, j),
                  1e-12);
    }
  }
}

TEST(Heatmap, OfDifferentSitesIsAPatternOnOneScale) {
  const Figure drawn = heatmap_of({"rope", "alibi", "sinusoidal"}, {.length = 12});
  ASSERT_EQ(drawn.panels.size(), 3u);
  for (const Panel& panel : drawn.panels) {
    EXPECT_EQ(panel.cells->low, 0);
    EXPECT_EQ(panel.cells->high, drawn.panels[0].cells->high);
    for (Index i = 0; i < 12; ++i) {
      double sum = 0;
      for (Index j = 0; j < 12; ++j) sum += (*panel.cells)(i, j);
      EXPECT_NEAR(sum, 1, 1e-12);
    }
  }
}

TEST(Heatmap, RefusesWhatThereIsNot) {
  EXPECT_THROW((void)heatmap_of({"alibi"}, {.what = "rows"}), RangeError);
  EXPECT_THROW((void)heatmap_of({"rope"}, {.what = "scores"}), RangeError);
  EXPECT_THROW((void)heatmap_of({"rope"}, {.what = "portrait"}), RangeError);
  EXPECT_THROW((void)heatmap_of({"alibi"}, {.heads = 4, .head = 4}), RangeError);
  EXPECT_THROW((void)heatmap_of({"alibi"}, {.length = 1025}), RangeError);
  EXPECT_THROW((void)heatmap_of({"alibi"}, {.heads = 64, .length = 1024}), RangeError);
  EXPECT_THROW((void)heatmap_of({"sinusoidal_2d"}, {.length = 1100}), RangeError);
  try {
    (void)heatmap_of({"rope"}, {.what = "scores"});
  } catch (const RangeError& error) {
    EXPECT_STREQ(error.what(),
                 "[figure] rope: must add to scores, or be asked for logits, got one that acts on query/key");
  }
}

}  // namespace
}  // namespace bearing::inspect
