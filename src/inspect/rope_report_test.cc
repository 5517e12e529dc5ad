#include <bearing/rope_report.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>
#include <limits>
#include <numbers>

namespace bearing {
namespace {

Rope llama2() { return {.head_dim = 128, .base = 10'000, .pairing = Pairing::half}; }

Rope llama31() { return {.head_dim = 128, .base = 500'000, .pairing = Pairing::half, .scaling = Llama3Scaling{}}; }

bool any_contains(const std::vector<std::string>& texts, const std::string& piece) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return text.find(piece) != std::string::npos; });
}

TEST(RopeReport, AWavelengthIsOneTurn) {
  const Rope rope{.head_dim = 6, .pairing = Pairing::half, .scaling = ExplicitFrequencies{{1, 0, -0.1}}};
  const std::vector<double> tokens = wavelengths(resolve(rope));
  ASSERT_EQ(tokens.size(), 3u);
  EXPECT_DOUBLE_EQ(tokens[0], 2 * std::numbers::pi);
  EXPECT_EQ(tokens[1], std::numeric_limits<double>::infinity());
  EXPECT_DOUBLE_EQ(tokens[2], 20 * std::numbers::pi);
}

TEST(RopeReport, RunsOfPairsFollowTheBoundsOfLlama3) {
  // Kept below 8192/4 tokens, scaled above 8192/1: with base 500,000 and 128 dimensions pair 28 has 1,956 tokens, pair
  // 29 has 2,401, pair 34 has 6,695 and pair 35 has 8,219.
  const std::vector<PairRun> runs = pair_runs(resolve(llama31()));
  EXPECT_EQ(runs, (std::vector<PairRun>{
                      {PairChange::kept, 0, 28}, {PairChange::blended, 29, 34}, {PairChange::scaled, 35, 63}}));
}

TEST(RopeReport, AnUnscaledHeadIsOneRun) {
  EXPECT_EQ(pair_runs(resolve(llama2())), (std::vector<PairRun>{{PairChange::kept, 0, 63}}));
}

TEST(RopeReport, UnfinishedPairsHaveWavelengthsAboveTheLength) {
  // λ_i = 2π·10000^(i/64) > 4096 from i = 64·log(4096/2π)/log(10000) = 45.03.
  const RopeFrequencies frequencies = resolve(llama2());
  const std::vector<Index> pairs = unfinished_pairs(frequencies, 4096);
  ASSERT_EQ(pairs.size(), 18u);
  EXPECT_EQ(pairs.front(), 46);
  EXPECT_EQ(pairs.back(), 63);
  EXPECT_TRUE(unfinished_pairs(frequencies, 100'000).empty());
}

TEST(RopeReport, APairThatNeverTurnsIsNotUnfinished) {
  const Rope rope{.head_dim = 4, .pairing = Pairing::half, .scaling = ExplicitFrequencies{{1, 0}}};
  EXPECT_TRUE(unfinished_pairs(resolve(rope), 100).empty());
}

TEST(RopeReport, TheFloat32ErrorOfTwoFrequenciesIsTheirRounding) {
  // θ = 1 is exact at every whole position. θ = 0.1 is 0.1f + 1.49e-9 off, and the product 999·0.1f near 100 is
  // rounded to 2^-17 = 7.6e-6: at most 999·1.5e-9 + 3.8e-6 = 5.4e-6, and over 1,000 products no less than 3.5e-6.
  const Rope rope{.head_dim = 4, .pairing = Pairing::half, .scaling = ExplicitFrequencies{{1, 0.1}}};
  const AngleError worst = float32_angle_error(rope, 1'000);
  EXPECT_EQ(worst.pair, 1);
  EXPECT_GT(worst.radians, 3.5e-6);
  EXPECT_LT(worst.radians, 5.4e-6);
}

TEST(RopeReport, TheFloat32ErrorGrowsWithTheLength) {
  // Half an ulp of an angle p plus p·2^-25 for the frequency: from 4,096 to 131,072 about 32 times as much.
  const double at_4k = float32_angle_error(llama2(), 4'096).radians;
  const double at_128k = float32_angle_error(llama2(), 131'072).radians;
  EXPECT_LT(at_4k, 4'096 * 0x1p-23);
  EXPECT_LT(at_128k, 131'072 * 0x1p-23);
  EXPECT_GT(at_128k, 0x1p-9);
  EXPECT_GT(at_128k, 16 * at_4k);
}

TEST(RopeReport, ALengthOutsideThePositionsIsRefused) {
  EXPECT_THROW(float32_angle_error(llama2(), 0), RangeError);
  EXPECT_THROW(float32_angle_error(llama2(), max_position + 1), RangeError);
}

TEST(RopeReport, AShortModelWithFastPairsGivesNoWarning) {
  const Rope rope{.head_dim = 4, .pairing = Pairing::half, .scaling = ExplicitFrequencies{{1, 0.1}}};
  EXPECT_TRUE(rope_warnings(rope, {.trained = 512, .longest = 512}).empty());
  EXPECT_TRUE(rope_warnings(rope, {}).empty());
}

TEST(RopeReport, WarningsNameThePairsAndTheLength) {
  const std::vector<std::string> warnings = rope_warnings(llama2(), {.trained = 4'096, .longest = 1'048'576});
  EXPECT_EQ(warnings.size(), 2u);
  EXPECT_TRUE(any_contains(warnings, "pairs 46 to 63 (18 of 64) turn less than once within the trained 4,096 tokens"));
  EXPECT_TRUE(any_contains(warnings, "angles computed in float32 are off by up to 0.0"));
}

TEST(RopeReport, TurnsInTrainingAreThoseBeforeScaling) {
  // Base 500,000: pair 34 needs 6,695 tokens, pair 35 needs 8,219 of 8,192. The scaling divides 35 to 63 by 8.
  const std::string said =
      "pairs 35 to 63 (29 of 64) turn less than once within the trained 8,192 tokens before scaling: as scaled, "
      "sequences longer than 65,536 tokens reach angles that training at that length never showed";
  EXPECT_EQ(rope_warnings(llama31(), {.trained = 8'192, .longest = 131'072}), std::vector<std::string>{said});
}

TEST(RopeReport, ThePairThatAScalingDividesLeastReachesNewAnglesFirst) {
  // Pairs of 6.28, 62.8, 628 and 6,283 tokens; the last two complete no turn in 100.
  Rope rope{.head_dim = 8, .pairing = Pairing::half, .scaling = FrequencyDivisors{{1, 1, 3, 5}}};
  EXPECT_TRUE(any_contains(rope_warnings(rope, {.trained = 100}), "as scaled, sequences longer than 300 tokens"));
  rope.scaling = ProportionalScaling{.fraction = 0.75, .factor = 2};  // the last pair never turns
  EXPECT_TRUE(any_contains(rope_warnings(rope, {.trained = 100}),
                           "pair 2 (1 of 4) turns less than once within the trained 100 tokens before scaling: as "
                           "scaled, sequences longer than 200 tokens"));
  rope.scaling = ProportionalScaling{.fraction = 0.75};
  EXPECT_TRUE(any_contains(rope_warnings(rope, {.trained = 100}), "trained 100 tokens: longer sequences reach"));
}

TEST(RopeReport, FrequenciesOfALengthAreNotSpokenOfAtAnother) {
  const Rope rope{
      .head_dim = 8,
      .pairing = Pairing::half,
      .scaling = LongRopeScaling{.short_factor = {1, 1, 1, 2}, .long_factor = {1, 2, 4, 8}, .trained_length = 100}};
  const std::string pairs = "pairs 2 to 3 (2 of 4) turn less than once within the trained 100 tokens before scaling: ";
  EXPECT_TRUE(any_contains(rope_warnings(rope, {.trained = 100}), pairs + "a longer sequence has other frequencies"));
  EXPECT_TRUE(any_contains(rope_warnings(rope, {.trained = 100, .seq_len = 800}),
                           pairs + "as scaled, sequences longer than 400 tokens reach angles"));
}

TEST(RopeReport, AContextThatModelsHaveTodayIsNotWarnedOfForFloat32) {
  EXPECT_EQ(rope_warnings(llama2(), {.longest = 131'072}).size(), 0u);
}

TEST(RopeReport, OnePairIsSpokenOfInTheSingular) {
  const Rope rope{.head_dim = 4, .pairing = Pairing::half, .scaling = ExplicitFrequencies{{1, 0.01}}};
  EXPECT_TRUE(any_contains(rope_warnings(rope, {.trained = 512}), "pair 1 (1 of 2) turns less than once"));
}

TEST(RopeReport, DynamicFrequenciesWarnAboutCachedKeys) {
  Rope rope = llama2();
  rope.scaling = DynamicNtkScaling{.factor = 2, .trained_length = 4'096};
  EXPECT_TRUE(any_contains(rope_warnings(rope, {}), "(dynamic; these are for 4,096 tokens)"));
  EXPECT_TRUE(any_contains(rope_warnings(rope, {.seq_len = 8'192}), "(dynamic; these are for 8,192 tokens)"));
}

TEST(RopeReport, ASoftmaxFactorThatAttentionMustApplyIsSaid) {
  // DeepSeek-V2: factor 40, mscale_all_dim 0.707: (0.0707·ln 40 + 1)² = 1.5896…
  const Rope rope{
      .head_dim = 64,
      .pairing = Pairing::interleaved,
      .scaling = DeepseekYarnScaling{.factor = 40, .trained_length = 4'096, .mscale = 0.707, .mscale_all_dim = 0.707}};
  EXPECT_TRUE(any_contains(rope_warnings(rope, {}), "attention must multiply its softmax scale by 1.58"));
}

}  // namespace
}  // namespace bearing
