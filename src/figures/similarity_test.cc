#include <gtest/gtest.h>
#include <bearing/encodings/rope.hpp>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>
#include <cmath>
#include <vector>

namespace bearing::inspect {
namespace {

Figure similarity_of(const std::vector<const char*>& names, const FigureOptions& options = {}) {
  std::vector<Subject> subjects;
  for (const char* name : names) subjects.push_back({name, *find(name)});
  return figure("similarity", subjects, options);
}

/// Of rope's example: Σ cos(kθ).
std::vector<double> rope_products(Index length) {
  const Record spec = find("rope")->spec({.heads = 8, .dim = 64, .length = length});
  return rotation_similarity(resolve(*spec.as<Rope>()), length);
}

TEST(Similarity, OfARotationIsTheSumOfCosines) {
  const Figure drawn = similarity_of({"rope"}, {.length = 100});
  ASSERT_EQ(drawn.panels.size(), 2u);
  const std::vector<double> expected = rope_products(100);
  const Cells& cells = *drawn.panels[0].cells;
  for (Index i = 0; i < 100; ++i) {
    for (Index j = 0; j < 100; ++j) EXPECT_NEAR(cells(i, j), expected[static_cast<std::size_t>(std::abs(i - j))], 1e-9);
  }
  const Series& curve = drawn.panels[1].series.back();
  ASSERT_EQ(curve.y.size(), 100u);
  for (std::size_t k = 0; k < 100; ++k) EXPECT_NEAR(curve.y[k], expected[k], 1e-9);
  EXPECT_EQ(drawn.panels[1].series.front().y, decay(curve.y).envelope);
}

TEST(Similarity, OfAnInputEncodingIsTheProductOfItsRows) {
  const Figure drawn = similarity_of({"learned"}, {.dim = 6, .length = 30});
  const Specimen specimen = make(*find("learned"), {.heads = 8, .dim = 6, .length = 30});
  const Array rows = specimen.inputs(specimen.tokens(30));
  EXPECT_EQ(drawn.panels[0].cells->values, products(rows.head(0), rows.head(0)).values);
}

TEST(Similarity, OfABiasIsTheBias) {
  const Figure drawn = similarity_of({"t5"}, {.length = 20, .head = 5, .causal = true});
  const Specimen specimen = make(*find("t5"), {.heads = 8, .dim = 64, .length = 20});
  const Array zeros(8, 20, 64);
  const Array bias = specimen.scores(specimen.tokens(20), specimen.tokens(20), zeros, zeros);
  for (Index i = 0; i < 20; ++i) {
    for (Index j = 0; j <= i; ++j) EXPECT_EQ((*drawn.panels[0].cells)(i, j), bias(5, i, j));
    EXPECT_TRUE(i == 19 || std::isnan((*drawn.panels[0].cells)(i, 19)));
  }
  for (Index k = 0; k < 20; ++k)
    EXPECT_EQ(drawn.panels[1].series.back().y[static_cast<std::size_t>(k)], bias(5, 19, 19 - k));
}

TEST(Similarity, OfManyPositionsTakesEverySo) {
  const Figure drawn = similarity_of({"rope"}, {.length = 4096});
  const Cells& cells = *drawn.panels[0].cells;
  ASSERT_EQ(cells.rows, 1024);
  EXPECT_EQ(cells.x_step, 4);
  EXPECT_EQ(drawn.panels[0].x.title, "key (token, every 4th)");
  const std::vector<double> expected = rope_products(4096);
  EXPECT_NEAR(cells(1023, 0), expected[4092], 1e-8);
  EXPECT_NEAR(cells(3, 4), expected[4], 1e-8);
  EXPECT_EQ(drawn.panels[1].series.back().y.size(), 4096u);
  EXPECT_THROW((void)similarity_of({"dense_bias"}, {.length = 1025}), RangeError);
}

TEST(Similarity, OfSeveralHasOneScaleForProductsAndOneForScores) {
  const Figure drawn = similarity_of({"rope", "alibi", "sinusoidal"}, {.length = 64});
  ASSERT_EQ(drawn.panels.size(), 6u);
  EXPECT_EQ(drawn.panels[2].title, "alibi, head 0 of 8");
  EXPECT_EQ(drawn.panels[0].cells->high, drawn.panels[4].cells->high);
  EXPECT_EQ(drawn.panels[1].y.last, drawn.panels[5].y.last);
  EXPECT_NE(drawn.panels[0].cells->high, drawn.panels[2].cells->high);
  EXPECT_THROW((void)similarity_of({"nope"}), RangeError);
}

TEST(Similarity, NamesTheHeadWhereHeadsDiffer) {
  const Figure alibi = similarity_of({"alibi"}, {.heads = 4, .length = 16, .head = 3});
  EXPECT_EQ(alibi.panels[0].title, "alibi, head 3 of 4");
  EXPECT_EQ(alibi.panels[1].title, "alibi, head 3 of 4, over distance");
  EXPECT_EQ(alibi.text.substr(0, 20), "alibi, head 3 of 4: ");
  EXPECT_EQ(similarity_of({"rope_mixed"}, {.length = 16}).panels[0].title, "rope_mixed, head 0 of 8");
  EXPECT_EQ(similarity_of({"alibi"}, {.heads = 1, .length = 16}).panels[0].title, "alibi");
  for (const char* same : {"rope", "sinusoidal", "learned"}) {
    EXPECT_EQ(similarity_of({same}, {.length = 16}).panels[0].title, same);
  }
}

}  // namespace
}  // namespace bearing::inspect
