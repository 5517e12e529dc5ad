#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/encodings/rope.hpp>
#include <cfloat>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "encodings/rotary/rope_formulas.hpp"
#include "support/golden.hpp"
#include "support/ulp.hpp"

// The frequencies of real models, from files computed by Hugging Face transformers 4.57.1, and the bands and ranges
// that the scalings' papers and configs lead to. rope_scaling_oracle_test.cc compares every formula with MPFR.

namespace bearing {
namespace {

using test::golden;
using test::numbers;

struct Model {
  std::string file;
  Rope rope;
  Index seq_len = 0;
};

Rope half(Index head_dim, double base, RopeScaling scaling = {}) {
  return {.head_dim = head_dim, .base = base, .pairing = Pairing::half, .scaling = std::move(scaling)};
}

/// The models whose numbers lie in tests/golden/hf_rope, with the factors of LongRoPE read from there.
std::vector<Model> models() {
  Rope gpt_neox = half(96, 10'000), glm = half(128, 10'000), gpt_j = half(256, 10'000);
  gpt_neox.rotary_dim = 24;
  glm.rotary_dim = 64;
  gpt_j.rotary_dim = 64;
  const YarnScaling qwen{.factor = 4, .trained_length = 32'768};
  const YarnScaling gpt_oss{.factor = 32, .trained_length = 4096, .truncate = false};
  const DeepseekYarnScaling deepseek{.factor = 40, .trained_length = 4096, .mscale = 1, .mscale_all_dim = 1};
  const rapidjson::Document phi_file = golden("hf_rope/phi_3_5_mini__seq4096.json");
  const rapidjson::Value& phi_factors = phi_file["config"]["rope_scaling"];
  const Rope phi = half(96, 10'000,
                        LongRopeScaling{.short_factor = numbers(phi_factors["short_factor"]),
                                        .long_factor = numbers(phi_factors["long_factor"]),
                                        .trained_length = 4096,
                                        .factor = 32});
  return {
      {"codellama_7b", half(128, 1'000'000)},
      {"deepseek_v3", half(64, 10'000, deepseek)},
      {"gemma3_4b_global", half(256, 1'000'000, LinearScaling{.factor = 8})},
      {"gemma3_4b_local", half(256, 10'000)},
      {"glm4_9b", glm},
      {"gpt_j_6b", gpt_j},
      {"gpt_neox_20b", gpt_neox},
      {"gpt_oss_20b", half(64, 150'000, gpt_oss)},
      {"llama2_7b", half(128, 10'000)},
      {"llama2_7b_dynamic2__seq8192", half(128, 10'000, DynamicNtkScaling{.factor = 2, .trained_length = 4096}), 8192},
      {"llama3_1_8b", half(128, 500'000, Llama3Scaling{})},
      {"phi_3_5_mini__seq4096", phi, 4096},
      {"phi_3_5_mini__seq4097", phi, 4097},
      {"qwen2_5_7b_yarn4", half(128, 1'000'000, qwen)},
  };
}

// The files' doubles carry their own rounding: the exponent (2^-54) times ln b < 14, and some ten operations of 2^-53,
// together 2^-48; where YaRN's ramp is not truncated its error is multiplied by s = 32 in the blend.
constexpr double file_error = 0x1p-43;

TEST(RopeScaling, RealModelsHaveTheFrequenciesOfTheirFiles) {
  for (const Model& model : models()) {
    SCOPED_TRACE(model.file);
    const rapidjson::Document file = golden("hf_rope/" + model.file + ".json");
    const RopeFrequencies ours = resolve(model.rope, model.seq_len);
    const std::vector<double> theirs = numbers(file["inv_freq_f64"]);
    ASSERT_EQ(ours.inv_freq.size(), theirs.size());
    EXPECT_EQ(ours.rotary_dim, file["rotary_dim"].GetInt64());
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      EXPECT_NEAR(ours.inv_freq[i], theirs[i], file_error * theirs[i]) << "pair " << i;
    }
    const double attention_factor = file["attention_factor_f64"].GetDouble();
    EXPECT_NEAR(ours.attention_factor, attention_factor, 4 * DBL_EPSILON * attention_factor);
  }
}

// The order of operations is theirs; what differs is pow alone, ours rounded to nearest, theirs the 1 ulp of a
// vectorised library. An error of 1 ulp in the power moves the reciprocal, and what is made of it, by up to 1 ulp.
TEST(RopeScaling, Float32FrequenciesAreTheFilesToOneUlp) {
  Index pairs = 0, same = 0;
  for (const Model& model : models()) {
    SCOPED_TRACE(model.file);
    const rapidjson::Document file = golden("hf_rope/" + model.file + ".json");
    const RopeFrequencies ours = resolve(model.rope, model.seq_len, Angles::as_float32);
    const std::vector<double> theirs = numbers(file["inv_freq"]);
    ASSERT_EQ(ours.inv_freq.size(), theirs.size());
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      const double rounded = static_cast<double>(static_cast<float>(theirs[i]));  // the files write few digits
      EXPECT_EQ(ours.inv_freq[i], static_cast<double>(static_cast<float>(ours.inv_freq[i])));
      EXPECT_EQ(ours.inv_freq_rest[i], 0);
      EXPECT_LE(std::abs(ours.inv_freq[i] - rounded) / test::ulp<float>(rounded), 1) << "pair " << i;
      ++pairs;
      same += ours.inv_freq[i] == rounded;
    }
  }
  EXPECT_EQ(pairs, 812);
  EXPECT_EQ(same, 803);  // the other nine are powers that theirs rounds to the farther float
}

struct Bands {
  Index kept = 0, blended = 0, scaled = 0;
  bool operator==(const Bands&) const = default;
};

Bands bands(const Rope& rope, Index seq_len = 0) {
  Bands count;
  for (PairChange change : resolve(rope, seq_len).change) {
    ++(change == PairChange::kept ? count.kept : change == PairChange::scaled ? count.scaled : count.blended);
  }
  return count;
}

TEST(RopeScaling, BandsAreTheModels) {
  EXPECT_EQ(bands(half(128, 500'000, Llama3Scaling{})), (Bands{29, 6, 29}));
  // Pairs up to the ramp's low end (20, 23, 8.09, 10) keep their frequency, those from its high end (46, 40, 17.4, 23).
  EXPECT_EQ(bands(half(128, 1e4, YarnScaling{.factor = 16, .trained_length = 4096})), (Bands{21, 25, 18}));
  EXPECT_EQ(bands(half(128, 1e6, YarnScaling{.factor = 4, .trained_length = 32'768})), (Bands{24, 16, 24}));
  EXPECT_EQ(bands(half(64, 150'000, YarnScaling{.factor = 32, .trained_length = 4096, .truncate = false})),
            (Bands{9, 9, 14}));
  EXPECT_EQ(bands(half(64, 1e4, DeepseekYarnScaling{.factor = 40, .trained_length = 4096})), (Bands{11, 12, 9}));
  EXPECT_EQ(bands(half(64, 1e4)), (Bands{32, 0, 0}));
  EXPECT_EQ(bands(half(64, 1e4, LinearScaling{.factor = 4})), (Bands{0, 0, 32}));
  EXPECT_EQ(bands(half(64, 1e4, NtkScaling{.factor = 4})), (Bands{1, 30, 1}));
  EXPECT_EQ(bands(half(64, 1e4, AlphaScaling{.alpha = 1000})), (Bands{1, 30, 1}));
  EXPECT_EQ(bands(half(64, 1e4, DynamicNtkScaling{.factor = 4, .trained_length = 100}), 100), (Bands{32, 0, 0}));
  EXPECT_EQ(bands(half(64, 1e4, DynamicNtkScaling{.factor = 4, .trained_length = 100}), 101), (Bands{1, 30, 1}));
  EXPECT_EQ(bands(half(8, 1e4, FrequencyDivisors{{1, 2, 1, 4}})), (Bands{2, 0, 2}));
  EXPECT_EQ(bands(half(8, 1e4, ExplicitFrequencies{{1, 2, 1, 4}})), (Bands{4, 0, 0}));
  EXPECT_EQ(bands(half(64, 1e4, ProportionalScaling{.fraction = 0.25})), (Bands{8, 0, 24}));
}

TEST(RopeScaling, AFactorOfOneChangesNothing) {
  const RopeFrequencies plain = resolve(half(64, 1e4));
  for (const RopeScaling& scaling :
       {RopeScaling(LinearScaling{}), RopeScaling(NtkScaling{}), RopeScaling(DynamicNtkScaling{.trained_length = 9}),
        RopeScaling(AlphaScaling{}), RopeScaling(Llama3Scaling{.factor = 1}), RopeScaling(ProportionalScaling{}),
        RopeScaling(YarnScaling{.trained_length = 2048}), RopeScaling(DeepseekYarnScaling{.trained_length = 2048}),
        RopeScaling(NtkByPartsScaling{.trained_length = 2048})}) {
    SCOPED_TRACE(scaling_name(scaling));
    const RopeFrequencies scaled = resolve(half(64, 1e4, scaling));
    EXPECT_EQ(scaled.inv_freq, plain.inv_freq);
    EXPECT_EQ(scaled.change, plain.change);
    EXPECT_EQ(scaled.attention_factor, 1);
    EXPECT_EQ(scaled.softmax_scale_factor, 1);
  }
}

TEST(RopeScaling, YarnsRampEndsAreTheModels) {
  struct Case {
    double base;
    Index r, trained_length;
    double low, high;
  };
  // The published ranges have two decimals.
  for (const Case& c : {Case{1e4, 128, 4096, 20.94, 45.03}, Case{1e6, 128, 32'768, 23.60, 39.65},
                        Case{150'000, 64, 4096, 8.09, 17.40}, Case{1e4, 64, 4096, 10.47, 22.51}}) {
    const detail::Base<detail::Wide> base(c.base);
    const auto index = [&](double turns) {
      return detail::index_of_turns(base, c.r, c.trained_length, turns).to_double();
    };
    EXPECT_NEAR(index(32), c.low, 0.005);
    EXPECT_NEAR(index(1), c.high, 0.005);
  }
}

TEST(RopeScaling, YarnWithEqualEndsStepsFromKeptToScaled) {
  // L < 2π: no pair completes a turn, both ends are clamped to 0, and pair 0 lies on the step.
  const RopeFrequencies stepped = resolve(half(8, 10, YarnScaling{.factor = 4, .trained_length = 6}));
  const RopeFrequencies plain = resolve(half(8, 10));
  EXPECT_EQ(stepped.inv_freq[0], plain.inv_freq[0]);
  for (std::size_t i : {1U, 2U, 3U}) EXPECT_EQ(stepped.inv_freq[i], plain.inv_freq[i] / 4);
  EXPECT_EQ(bands(half(8, 10, YarnScaling{.factor = 4, .trained_length = 6})), (Bands{1, 0, 3}));
}

TEST(RopeScaling, Llama3WithEqualFactorsHasNoBlend) {  // Llama 4 Scout: 16, 1, 1
  const Rope rope = half(128, 500'000, Llama3Scaling{.factor = 16, .low_freq_factor = 1, .high_freq_factor = 1});
  for (Angles angles : {Angles::exact, Angles::as_float32}) {
    const RopeFrequencies f = resolve(rope, 0, angles);
    EXPECT_EQ(std::count(f.change.begin(), f.change.end(), PairChange::blended), 0);
    for (double theta : f.inv_freq) EXPECT_TRUE(std::isfinite(theta));
  }
  // λ = L/factor to the bit, where the blend would be 0/0: base 1, all wavelengths float32's 2π.
  const double turns = 1000 / static_cast<double>(6.28318531F);
  const Llama3Scaling on_the_edge{
      .factor = 2, .low_freq_factor = turns, .high_freq_factor = turns, .trained_length = 1000};
  EXPECT_EQ(resolve(half(4, 1, on_the_edge), 0, Angles::as_float32).inv_freq, (std::vector<double>{1, 1}));
  // With base 1 every wavelength is 2π = 6.28.
  EXPECT_EQ(
      bands(half(4, 1, Llama3Scaling{.factor = 2, .low_freq_factor = 1, .high_freq_factor = 1, .trained_length = 6})),
      (Bands{0, 0, 2}));
  EXPECT_EQ(
      bands(half(4, 1, Llama3Scaling{.factor = 2, .low_freq_factor = 1, .high_freq_factor = 1, .trained_length = 7})),
      (Bands{2, 0, 0}));
}

double attention_factor(RopeScaling scaling, Index seq_len = 0) {
  return resolve(half(4, 1e4, std::move(scaling)), seq_len).attention_factor;
}

TEST(RopeScaling, YarnsAttentionFactorFollowsWhatIsGiven) {
  const YarnScaling yarn{.factor = 40, .trained_length = 4096};
  const double m1 = 0.1 * std::log(40) + 1, m_half = 0.05 * std::log(40) + 1;
  constexpr double ulps = 4 * DBL_EPSILON;  // of the expressions above and below
  const auto with = [&](auto change) {
    YarnScaling y = yarn;
    change(y);
    return attention_factor(y);
  };
  EXPECT_NEAR(attention_factor(yarn), m1, ulps);
  EXPECT_NEAR(with([](auto& y) { y.mscale = 0.707; }), m1, ulps) << "one mscale alone counts for nothing";
  EXPECT_NEAR(with([](auto& y) { y.mscale_all_dim = 0.5; }), m1, ulps);
  EXPECT_NEAR(with([](auto& y) { y.mscale = 1, y.mscale_all_dim = 0; }), m1, ulps) << "0 is as good as none";
  EXPECT_NEAR(with([](auto& y) { y.mscale = 1, y.mscale_all_dim = 0.5; }), m1 / m_half, ulps);
  EXPECT_EQ(with([](auto& y) { y.mscale = 1, y.mscale_all_dim = 1; }), 1);
  EXPECT_EQ(with([](auto& y) { y.mscale = 1, y.mscale_all_dim = 0.5, y.attention_factor = 1.5; }), 1.5);
  EXPECT_NEAR(with([](auto& y) { y.mscale_slope = 0.07; }), 0.07 * std::log(40) + 1, ulps);
  EXPECT_EQ(with([](auto& y) { y.factor = 0.5; }), 1) << "nothing is stretched";
  EXPECT_EQ(resolve(half(4, 1e4, yarn)).softmax_scale_factor, 1);
}

TEST(RopeScaling, DeepseeksFactorsAreARatioAndASquare) {
  const DeepseekYarnScaling v3{.factor = 40, .trained_length = 4096, .mscale = 1, .mscale_all_dim = 1};
  EXPECT_EQ(attention_factor(v3), 1);
  // The softmax scale of DeepSeek-V3 is multiplied by (0.1 ln 40 + 1)² = 1.873854207093.
  EXPECT_NEAR(resolve(half(64, 1e4, v3)).softmax_scale_factor, 1.873854207093, 5e-13);
  const DeepseekYarnScaling defaults{.factor = 40, .trained_length = 4096};  // mscale 1, mscale_all_dim 0
  EXPECT_NEAR(attention_factor(defaults), 0.1 * std::log(40) + 1, 4 * DBL_EPSILON);
  EXPECT_EQ(resolve(half(64, 1e4, defaults)).softmax_scale_factor, 1);
  DeepseekYarnScaling given = v3;
  given.attention_factor = 1.5;
  EXPECT_EQ(attention_factor(given), 1.5);
  EXPECT_EQ(resolve(half(64, 1e4, given)).softmax_scale_factor, resolve(half(64, 1e4, v3)).softmax_scale_factor);
}

TEST(RopeScaling, LongRopeSwitchesPastTheTrainedLength) {
  LongRopeScaling longrope{.short_factor = {1, 2}, .long_factor = {4, 8}, .trained_length = 4096, .factor = 32};
  const Rope rope = half(4, 1e4, longrope);
  EXPECT_EQ(resolve(rope).inv_freq, (std::vector<double>{1, 0.005})) << "as loaded";
  EXPECT_EQ(resolve(rope, 4096).inv_freq, (std::vector<double>{1, 0.005}));
  EXPECT_EQ(resolve(rope, 4097).inv_freq, (std::vector<double>{0.25, 0.00125}));
  EXPECT_EQ(resolve(rope).change, (std::vector<PairChange>{PairChange::kept, PairChange::scaled}));

  const double from_lengths = std::sqrt(1 + std::log(32) / std::log(4096));
  EXPECT_NEAR(attention_factor(longrope, 9), from_lengths, 4 * DBL_EPSILON);
  longrope.long_mscale = 1.25;
  EXPECT_EQ(attention_factor(longrope, 4097), 1.25);
  EXPECT_NEAR(attention_factor(longrope, 4096), from_lengths, 4 * DBL_EPSILON) << "the short list has none";
  longrope.short_mscale = 1.125;
  EXPECT_EQ(attention_factor(longrope, 4096), 1.125);
  longrope.attention_factor = 1.5;
  EXPECT_EQ(attention_factor(longrope, 4097), 1.5);
  longrope = {.short_factor = {1, 2}, .long_factor = {4, 8}, .trained_length = 1, .factor = 1};
  EXPECT_EQ(attention_factor(longrope), 1) << "ln L is not asked for";
}

TEST(RopeScaling, DynamicNtkGrowsWithTheSequenceOnly) {
  const Rope rope = half(64, 1e4, DynamicNtkScaling{.factor = 2, .trained_length = 1000});
  EXPECT_EQ(resolve(rope, 0).inv_freq, resolve(half(64, 1e4)).inv_freq);
  EXPECT_EQ(resolve(rope, 10).inv_freq, resolve(half(64, 1e4)).inv_freq);
  // At ℓ = 2L the effective factor is 2·2 − 1 = 3.
  EXPECT_EQ(resolve(rope, 2000).inv_freq, resolve(half(64, 1e4, NtkScaling{.factor = 3})).inv_freq);
  EXPECT_EQ(resolve(half(64, 1e4, AlphaScaling{.alpha = 3}), 5).inv_freq, resolve(rope, 2000).inv_freq);
}

TEST(RopeScaling, ProportionalKeepsTheHighestFrequenciesOfTheWholeHead) {
  const RopeFrequencies f = resolve(half(16, 1e4, ProportionalScaling{.fraction = 0.3, .factor = 2}));
  const RopeFrequencies plain = resolve(half(16, 1e4));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(f.inv_freq[i], i < 2 ? plain.inv_freq[i] / 2 : 0);  // ⌊0.3·8⌋ = 2
  EXPECT_EQ(resolve(half(16, 1e4, ProportionalScaling{.fraction = 0})).inv_freq, std::vector<double>(8, 0.0));
}

TEST(RopeScaling, FrequenciesFallAndScalingNeverRaisesThem) {
  for (const Model& model : models()) {
    SCOPED_TRACE(model.file);
    Rope plain = model.rope;
    plain.scaling = NoScaling{};
    const std::vector<double> scaled = resolve(model.rope, model.seq_len).inv_freq, unscaled = resolve(plain).inv_freq;
    for (std::size_t i = 0; i < scaled.size(); ++i) {
      EXPECT_LE(scaled[i], unscaled[i]);
      if (i > 0) {
        EXPECT_LT(scaled[i], scaled[i - 1]);
      }
    }
  }
}

TEST(RopeScaling, ExplicitFrequenciesAreTakenAsTheyAre) {
  const std::vector<double> theta{1, 0.1};
  const RopeFrequencies given = resolve(half(4, -1, ExplicitFrequencies{theta}));  // the base is not looked at
  EXPECT_EQ(given.inv_freq, theta);
  EXPECT_EQ(given.inv_freq_rest, (std::vector<double>{0, 0}));
  const RopeFrequencies viewed = resolve_explicit(half(4, 1e4), dense(theta.data(), 2), 1.25);
  EXPECT_EQ(viewed.quarter_turns, given.quarter_turns);
  EXPECT_EQ(viewed.attention_factor, 1.25);
  // 2/π as three doubles: the whole of what one radian per token is in quarter turns.
  EXPECT_EQ(given.quarter_turns[0], 0x1.45f306dc9c883p-1);
  EXPECT_EQ(given.quarter_turns[2], -0x1.6b01ec5417056p-55);
  EXPECT_EQ(given.quarter_turns[4], -0x1.6447e493ad4cep-109);
  const double odd[] = {-0.5, 0};
  EXPECT_EQ(resolve_explicit(half(4, 1e4), dense(odd, 2)).inv_freq, (std::vector<double>{-0.5, 0}));
  const double reversed[] = {0.25, 9, 1};
  EXPECT_EQ(resolve_explicit(half(4, 1e4), View<const double, 1>{reversed + 2, {2}, {-2}}).inv_freq,
            (std::vector<double>{1, 0.25}));
  const RopeFrequencies rounded = resolve(half(4, 1e4, ExplicitFrequencies{theta}), 0, Angles::as_float32);
  EXPECT_EQ(rounded.inv_freq[1], static_cast<double>(0.1F));
}

TEST(RopeScaling, ABaseOfOneTurnsAllPairsAlike) {
  EXPECT_EQ(resolve(half(8, 1)).inv_freq, std::vector<double>(4, 1.0));
}

TEST(RopeScaling, LongestHeadsResolve) {
  const RopeFrequencies f = resolve(half(65'536, 1e4));
  EXPECT_EQ(f.pairs(), 32'768);
  EXPECT_EQ(f.inv_freq[16'384], 0.01);
}

TEST(RopeScaling, NamesAndTrainedLengthsAreTheFiles) {
  const std::pair<RopeScaling, const char*> named[] = {
      {NoScaling{}, "default"},
      {LinearScaling{}, "linear"},
      {NtkScaling{}, "ntk"},
      {DynamicNtkScaling{.trained_length = 7}, "dynamic"},
      {AlphaScaling{}, "alpha"},
      {NtkByPartsScaling{.trained_length = 7}, "ntk-by-parts"},
      {YarnScaling{.trained_length = 7}, "yarn"},
      {DeepseekYarnScaling{.trained_length = 7}, "deepseek-yarn"},
      {LongRopeScaling{.short_factor = {}, .long_factor = {}, .trained_length = 7}, "longrope"},
      {Llama3Scaling{.trained_length = 7}, "llama3"},
      {ProportionalScaling{}, "proportional"},
      {ExplicitFrequencies{}, "explicit"},
      {FrequencyDivisors{}, "divisors"},
  };
  ASSERT_EQ(std::size(named), std::variant_size_v<RopeScaling>);
  Index with_length = 0;
  for (const auto& [scaling, name] : named) {
    EXPECT_STREQ(scaling_name(scaling), name);
    EXPECT_TRUE(trained_length(scaling) == 7 || trained_length(scaling) == 0) << name;
    with_length += trained_length(scaling) == 7;
  }
  EXPECT_EQ(with_length, 6);
}

TEST(RopeScaling, OnlyDynamicNtkAndLongRopeDependOnTheLength) {
  EXPECT_FALSE(depends_on_length(NoScaling{}));
  EXPECT_FALSE(depends_on_length(YarnScaling{}));
  EXPECT_TRUE(depends_on_length(DynamicNtkScaling{}));
  EXPECT_TRUE(depends_on_length(LongRopeScaling{}));
}

}  // namespace
}  // namespace bearing
