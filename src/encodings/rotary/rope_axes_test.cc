#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/encodings/rope.hpp>
#include <bearing/error.hpp>
#include <cmath>
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

/// Each pair's cos and sin at the coordinate that turns it.
void expect_phases(const Rope& rope, const std::vector<double>& at, const std::vector<double>& cos,
                   const std::vector<double>& sin) {
  const RopeFrequencies f = resolve(rope);
  for (std::size_t i = 0; i < cos.size(); ++i) {
    const double angle = at[static_cast<std::size_t>(f.axis[i])] * f.inv_freq[i];
    // The models' angles, below 8, their cos and sin are float32.
    EXPECT_NEAR(std::cos(angle), cos[i], 8 * 0x1p-24) << "pair " << i;
    EXPECT_NEAR(std::sin(angle), sin[i], 8 * 0x1p-24) << "pair " << i;
  }
}

// transformers 5.24.0, EsmFold2RotaryEmbedding with heads of 24, two pairs for each of x, y and z of base 16 and three
// for the group of base 4,096, at (1.5, −2.25, 0.75) in group 3. The last three pairs are still.
TEST(RopeAxes, OfEsmFold2HaveBasesOfTheirOwnAndStillPairs) {
  RopeAxes axes = RopeAxes::axial({2, 2, 2, 3});
  axes.bases = {16, 16, 16, 4096};
  axes.still = 3;
  expect_phases({.head_dim = 24, .pairing = Pairing::half, .axes = axes}, {1.5, -2.25, 0.75, 3},
                {0.070737198, 0.9305076, -0.628173649, 0.845924497, 0.731688857, 0.982473314, -0.989992499, 0.982473314,
                 0.999931335, 1.0, 1.0, 1.0},
                {0.997494996, 0.366272539, -0.778073192, -0.533302665, 0.681638777, 0.186403304, 0.141120002,
                 0.186403275, 0.0117184799, 0.0, 0.0, 0.0});
  const PairAxes map = pair_axes(axes, 24);
  EXPECT_EQ(map.denominator, (Indices{4, 4, 4, 4, 4, 4, 6, 6, 6, 0, 0, 0}));
  EXPECT_EQ(map.axis, (Indices{0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3}));
}

// diffusers 0.42.1, CosmosRotaryPosEmbed with heads of 24 and rope_scale (2, 1, 3), frame 2, row 3, column 4.
TEST(RopeAxes, OfCosmosAreStretchedByNtkEachByItsFactor) {
  RopeAxes axes = RopeAxes::axial({4, 4, 4});
  axes.ntk_factors = {2, 1, 3};
  const Rope rope{.head_dim = 24, .pairing = Pairing::half, .axes = axes};
  expect_phases(rope, {2, 3, 4},
                {-0.416146845, 0.987427235, 0.999920607, 0.999999523, -0.989992499, 0.955336511, 0.999550045,
                 0.99999553, -0.653643608, 0.961785913, 0.999815106, 0.999999106},
                {0.909297407, 0.158074275, 0.0125988768, 0.000999999931, 0.141120002, 0.295520216, 0.0299954992,
                 0.0029999956, -0.756802499, 0.273802578, 0.0192288086, 0.00133333297});
  Rope scaled{.head_dim = 24, .pairing = Pairing::half, .scaling = NtkScaling{.factor = 3}};
  scaled.axes = RopeAxes::axial({4, 4, 4});
  const std::vector<double> own = resolve(rope).inv_freq, all = resolve(scaled).inv_freq;
  EXPECT_TRUE(std::equal(own.begin() + 8, own.end(), all.begin() + 8));
}

TEST(RopeAxes, NumbersOfTheirOwnMustFitTheAxes) {
  const auto refused = [](const RopeAxes& axes) -> std::string {
    try {
      pair_axes(axes, 8);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  RopeAxes axes = RopeAxes::axial({2, 2});
  axes.bases = {10};
  EXPECT_EQ(refused(axes), "[pair_axes] bases: must have one entry per axis, 2, got 1");
  axes.bases = {10, 0};
  EXPECT_EQ(refused(axes), "[pair_axes] bases: must be finite and above 0, got 0");
  axes.bases = {}, axes.ntk_factors = {1, -1};
  EXPECT_EQ(refused(axes), "[pair_axes] ntk_factors: must be finite and above 0, got -1");
  axes.ntk_factors = {1, 2}, axes.pairs = {3, 1};
  EXPECT_EQ(
      refused(axes),
      "[pair_axes] ntk_factors: must be 1 for an axis whose run has one pair (r/(r-2) divides by zero), got 2 for "
      "axis 1");
  axes.ntk_factors = {2, 1};
  EXPECT_EQ(refused(axes), "");
  axes.still = 4;
  EXPECT_EQ(refused(axes), "[pair_axes] still: must be from 0 to one less than the 4 pairs, got 4");
  axes.still = 1;
  EXPECT_EQ(refused(axes), "[pair_axes] pairs: must add up to rotary_dim / 2 - 1 still = 3, got [3, 1]");
  axes = RopeAxes::interleaved({2, 2});
  axes.halves = RopeAxes::Halves::axis;
  EXPECT_EQ(refused(axes),
            "[pair_axes] halves: must be of the head unless each axis' pairs lie together, got axis in another order");
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
