#include <gtest/gtest.h>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>
#include <bearing/rope_report.hpp>
#include <cmath>

#include "support/errors.hpp"

namespace bearing::inspect {
namespace {

using test::expect_error;

std::vector<Subject> only(const char* name) { return {{name, *find(name)}}; }

/// The series that are hands.
std::vector<Series> hands_of(const Panel& panel) {
  std::vector<Series> hands;
  for (const Series& series : panel.series) {
    if (series.stroke == Stroke::hands) hands.push_back(series);
  }
  return hands;
}
double angle(const Series& hand) { return std::atan2(hand.y[0], hand.x[0]); }

TEST(Hands, StandAtThePositionTimesTheFrequency) {
  const Figure drawn = figure("hands", only("rope"), {.dim = 4, .positions = {0, 3, 7}});
  ASSERT_EQ(drawn.panels.size(), 2u);
  const Rope rope = *find("rope")->spec({.heads = 1, .dim = 4, .length = 8}).as<Rope>();
  const std::vector<double> theta = resolve(rope).inv_freq;
  const double positions[] = {0, 3, 7};
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const std::vector<Series> hands = hands_of(drawn.panels[pair]);
    ASSERT_EQ(hands.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(hands[i].x[0], std::cos(positions[i] * theta[pair]), 1e-14);
      EXPECT_NEAR(hands[i].y[0], std::sin(positions[i] * theta[pair]), 1e-14);
    }
  }
}

TEST(Hands, OfSinusoidsAreTheirRows) {
  const Figure drawn = figure("hands", only("sinusoidal"), {.dim = 4, .positions = {2}});
  const Specimen specimen = make(*find("sinusoidal"), {.heads = 1, .dim = 4, .length = 3});
  const Array rows = specimen.inputs(specimen.tokens(3));
  const std::vector<Series> hands = hands_of(drawn.panels[1]);
  EXPECT_EQ(hands[0].x[0], rows(0, 2, 3));  // the cosine
  EXPECT_EQ(hands[0].y[0], rows(0, 2, 2));
}

TEST(Hands, KeepTheirAnglesWhereTheSentenceMoves) {
  const Figure drawn = figure("hands", only("rope"), {.dim = 2, .what = "Python is love", .offset = 2});
  ASSERT_EQ(drawn.panels.size(), 2u);
  const std::vector<Series> here = hands_of(drawn.panels[0]), there = hands_of(drawn.panels[1]);
  EXPECT_EQ(drawn.panels[0].notes[2].text, "love");
  EXPECT_EQ(drawn.panels[1].x.title, "rope, positions 2, 3, 4");
  EXPECT_NEAR(std::remainder((angle(here[2]) - angle(here[0])) - (angle(there[2]) - angle(there[0])), 2 * M_PI), 0,
              1e-14);
  EXPECT_GT(std::abs(angle(there[0]) - angle(here[0])), 1);
  EXPECT_NE(drawn.text.find("positions 2 and 4: 114.6 degrees apart"), std::string::npos) << drawn.text;
}

TEST(Hands, OfAPairStandBelowEachOther) {
  EXPECT_EQ(figure("hands", only("rope"), {.dim = 6, .offset = 1}).columns, 3);
  EXPECT_EQ(figure("hands", only("rope"), {.dim = 8}).columns, 2);  // four dials of one row
}

TEST(Hands, OfManyPairsSayWhichAreShown) {
  const std::string text = figure("hands", only("rope"), {.dim = 16}).text;
  EXPECT_NE(text.find("one dial for each of some pairs of dimensions (rope: pairs 0, 2, 4, 7 of 8)."), text.npos)
      << text;
  EXPECT_NE(figure("hands", only("rope"), {.dim = 8, .dims = {3}}).text.find("(rope: pair 3 of 4)."), text.npos);
  EXPECT_EQ(figure("hands", only("rope"), {.dim = 8}).text.find("some"), text.npos);
}

TEST(Hands, ThatLieOnEachOtherHaveOneText) {
  const Panel slow = figure("hands", only("rope"), {.dim = 8, .dims = {3}}).panels[0];
  ASSERT_EQ(slow.notes.size(), 1u);
  EXPECT_EQ(slow.notes[0].text, "0 … 3");
}

TEST(Hands, RefuseWordsThatAreNotOneForEachPosition) {
  expect_error<RangeError>(
      [] {
        (void)figure("hands", only("rope"), {.what = "two words", .positions = {1, 2, 3}});
      },
      "[figure] what: must be a word for each of the 3 positions, got 2");
  EXPECT_THROW((void)figure("hands", only("rope"), {.positions = {-1}}), RangeError);
  EXPECT_THROW((void)figure("hands", only("rope"), {.dim = 4, .dims = {2}}), RangeError);
  EXPECT_THROW((void)figure("hands", only("alibi")), RangeError);
}

}  // namespace
}  // namespace bearing::inspect
