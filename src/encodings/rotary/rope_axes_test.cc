#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/encodings/rope.hpp>
#include <bearing/error.hpp>
#include <string>
#include <vector>

namespace bearing {
namespace {

using Indices = std::vector<Index>;

TEST(RopeAxes, OneAxisTurnsEveryPair) {
  const PairAxes map = pair_axes({}, 8);
  EXPECT_EQ(map.axes, 1);
  EXPECT_EQ(map.axis, (Indices{0, 0, 0, 0}));
  EXPECT_EQ(map.numerator, (Indices{0, 1, 2, 3}));
  EXPECT_EQ(map.denominator, (Indices{8, 8, 8, 8}));
}

TEST(RopeAxes, SectionsRunOnOverTheHead) {
  const PairAxes map = pair_axes(RopeAxes::sections({1, 2, 3}), 12);
  EXPECT_EQ(map.axes, 3);
  EXPECT_EQ(map.axis, (Indices{0, 1, 1, 2, 2, 2}));
  EXPECT_EQ(map.numerator, (Indices{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(map.denominator, Indices(6, 12));
}

TEST(RopeAxes, InterleavedGivesEveryThirdPairToAnAxis) {
  EXPECT_EQ(pair_axes(RopeAxes::interleaved({4, 2, 2}), 16).axis, (Indices{0, 1, 2, 0, 1, 2, 0, 0}));
  EXPECT_EQ(pair_axes(RopeAxes::interleaved({11, 11, 10}), 64).axis[31], 1);  // Qwen3.5
  EXPECT_EQ(pair_axes(RopeAxes::interleaved({3, 3}), 12).axis, (Indices{0, 1, 0, 1, 0, 1}));
}

TEST(RopeAxes, LeftoverPairsOfQwen3VlTurnWithTime) {
  const PairAxes map = pair_axes(RopeAxes::interleaved({24, 20, 20}), 128);
  EXPECT_EQ(map.axes, 3);
  for (Index pair = 0; pair < 60; ++pair) EXPECT_EQ(map.axis[static_cast<std::size_t>(pair)], pair % 3);
  for (std::size_t pair : {60U, 61U, 62U, 63U})
    EXPECT_EQ(map.axis[pair], 0) << pair;  // ggml: 61 and 62 with a fourth axis
  for (Index axis : {0, 1, 2}) EXPECT_EQ(std::count(map.axis.begin(), map.axis.end(), axis), axis == 0 ? 24 : 20);
  EXPECT_EQ(map.numerator[62], 62);
}

TEST(RopeAxes, AxialStartsTheFrequenciesAfresh) {
  const PairAxes map = pair_axes(RopeAxes::axial({2, 3}), 10);
  EXPECT_EQ(map.axis, (Indices{0, 0, 1, 1, 1}));
  EXPECT_EQ(map.numerator, (Indices{0, 1, 0, 1, 2}));
  EXPECT_EQ(map.denominator, (Indices{4, 4, 6, 6, 6}));
}

TEST(RopeAxes, StridedDealsTheFrequenciesOut) {
  const PairAxes map = pair_axes(RopeAxes::strided({3, 3}), 12);
  EXPECT_EQ(map.axis, (Indices{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(map.numerator, (Indices{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(map.denominator, Indices(6, 12));
  EXPECT_EQ(pair_axes(RopeAxes::strided({3, 2}), 10).numerator, (Indices{0, 2, 4, 1, 3}));
}

TEST(RopeAxes, ListedTakesEachPairsAxis) {
  const PairAxes map = pair_axes(RopeAxes::listed({1, 2, 1, 2, 0, 0}), 12);
  EXPECT_EQ(map.axes, 3);
  EXPECT_EQ(map.axis, (Indices{1, 2, 1, 2, 0, 0}));
  EXPECT_EQ(map.numerator, (Indices{0, 1, 2, 3, 4, 5}));
}

TEST(RopeAxes, OrderAndFrequenciesCombineFreely) {
  RopeAxes axes = RopeAxes::interleaved({2, 2});
  axes.frequencies = RopeAxes::Frequencies::restarted;  // x and y alternate, each with the same frequencies
  const PairAxes map = pair_axes(axes, 8);
  EXPECT_EQ(map.axis, (Indices{0, 1, 0, 1}));
  EXPECT_EQ(map.numerator, (Indices{0, 0, 1, 1}));
  EXPECT_EQ(map.denominator, Indices(4, 4));
}

TEST(RopeAxes, FrequenciesFollowTheMap) {
  const auto frequencies = [](const RopeAxes& axes) {
    return resolve(Rope{.head_dim = 8, .base = 100, .pairing = Pairing::half, .axes = axes});
  };
  const std::vector<double> running = frequencies({}).inv_freq;
  EXPECT_EQ(frequencies(RopeAxes::sections({1, 3})).inv_freq, running);
  EXPECT_EQ(frequencies(RopeAxes::axial({2, 2})).inv_freq, (std::vector<double>{1, 0.1, 1, 0.1}));
  EXPECT_EQ(frequencies(RopeAxes::strided({2, 2})).inv_freq,
            (std::vector<double>{running[0], running[2], running[1], running[3]}));
  EXPECT_EQ(frequencies(RopeAxes::axial({2, 2})).axis, (Indices{0, 0, 1, 1}));
  EXPECT_EQ(frequencies(RopeAxes::sections({1, 1, 1, 1})).axes, 4);
}

TEST(RopeAxes, ScalingsStretchEachRunOfFrequencies) {
  Rope rope{.head_dim = 16, .base = 100, .pairing = Pairing::half, .scaling = NtkScaling{.factor = 4}};
  rope.axes = RopeAxes::axial({4, 4});
  const RopeFrequencies f = resolve(rope);
  for (std::size_t first : {0U, 4U}) {
    EXPECT_EQ(f.inv_freq[first], 1);
    EXPECT_EQ(f.change[first], PairChange::kept);
    EXPECT_EQ(f.change[first + 3], PairChange::scaled);
    EXPECT_EQ(f.inv_freq[first + 3], f.inv_freq[3]);
  }
}

TEST(RopeAxes, RefusesMapsThatDoNotFit) {
  struct Case {
    RopeAxes axes;
    Index rotary_dim;
    std::string text;
  };
  const Index huge = Index{1} << 62;
  const std::vector<Case> cases{
      {{}, 7, "rotary_dim: must be even and at least 2, got 7"},
      {{}, 0, "rotary_dim: must be even and at least 2, got 0"},
      {RopeAxes::sections({1, 2}), 8, "pairs: must add up to rotary_dim / 2 = 4, got [1, 2]"},
      {RopeAxes::sections({4, 4}), 8, "pairs: must add up to rotary_dim / 2 = 4, got [4, 4]"},
      {RopeAxes::sections({huge, huge, huge, huge}), 8,
       "pairs: must add up to rotary_dim / 2 = 4, got [4611686018427387904, 4611686018427387904, "
       "4611686018427387904, 4611686018427387904]"},
      {RopeAxes::sections({4, 0}), 8, "pairs: every axis must turn at least one pair, got 0 for axis 1"},
      {RopeAxes::sections({-1, 5}), 8, "pairs: every axis must turn at least one pair, got -1 for axis 0"},
      {RopeAxes::sections({1, 1, 1, 1, 1}), 10, "pairs: there may be at most 4 axes, got 5"},
      {RopeAxes::axial({}), 8, "pairs: must add up to rotary_dim / 2 = 4, got []"},
      {RopeAxes::interleaved({1, 3}), 8,
       "pairs: interleaved axes must end within the 4 pairs, got [1, 3], where axis 1 ends at pair 5"},
      {RopeAxes::strided({3, 1}), 8,
       "pairs: strided axes must stay within the 4 frequencies, got [3, 1], where axis 0 needs frequency 4"},
      {RopeAxes::listed({0, 1}), 8, "pairs: must list the axis of each of the 4 pairs, got 2 entries"},
      {RopeAxes::listed({0, 1, 2, 4}), 8, "pairs: an axis must be from 0 to 3, got 4"},
      {RopeAxes::listed({0, -1, 2, 3}), 8, "pairs: an axis must be from 0 to 3, got -1"},
      {RopeAxes::listed({0, 2, 2, 0}), 8, "pairs: every axis must turn at least one pair, got 0 for axis 1"},
  };
  for (const Case& wrong : cases) {
    try {
      pair_axes(wrong.axes, wrong.rotary_dim);
      FAIL() << wrong.text;
    } catch (const ShapeError& error) {
      EXPECT_EQ(error.what(), "[pair_axes] " + wrong.text);
    }
  }
}

}  // namespace
}  // namespace bearing
