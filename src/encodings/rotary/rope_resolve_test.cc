#include <gtest/gtest.h>
#include <bearing/encodings/angle_rows.hpp>
#include <bearing/encodings/rope.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

// What resolve() takes from the geometry, and every spec that it refuses, with the text.

namespace bearing {
namespace {

// transformers 5.24.0, MistralLarge4TextRotaryEmbedding: YaRN's float32 frequencies and what its forward() turns by.
TEST(RopeResolve, LearnedFactorsMultiplyScaledFrequencies) {
  Rope rope{.head_dim = 16,
            .pairing = Pairing::interleaved,
            .scaling = YarnScaling{.factor = 4, .trained_length = 64, .attention_factor = 1.0}};
  const std::vector<double> scaled = resolve(rope).inv_freq;
  rope.log_factors = {0.1, -0.2, 0.05, 0, 0.3, -0.01, 0.02, -0.4};
  const std::vector<double> wanted{1.10517097,    0.194179043,    0.0525635518,   0.00790569466,
                                   0.00337464712, 0.000782703166, 0.000255050341, 5.2993455e-05};
  const RopeFrequencies f = resolve(rope), f32 = resolve(rope, 0, Angles::as_float32);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(f.inv_freq[i], wanted[i], 0x1p-22 * wanted[i]) << i;  // a few roundings to float32
    EXPECT_NEAR(f.inv_freq[i], scaled[i] * std::exp(rope.log_factors[i]), 0x1p-51 * wanted[i]) << i;
    EXPECT_NEAR(f32.inv_freq[i], wanted[i], 0x1p-23 * wanted[i]) << i;  // exp() of PyTorch may be an ulp off
  }
  EXPECT_EQ(f.change[1], PairChange::blended);
  EXPECT_EQ(f.inv_freq[3], scaled[3]);
}

TEST(RopeResolve, LearnedFactorsAreOnePerPairAndNearOne) {
  Rope rope{.head_dim = 4, .pairing = Pairing::half, .log_factors = {0}};
  const auto refused = [&]() -> std::string {
    try {
      resolve(rope);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused(), "[resolve] log_factors: must have one entry per pair, 2, got 1");
  rope.log_factors = {0, NAN};
  EXPECT_EQ(refused(), "[resolve] log_factors[1]: must be from -512 to 512, got nan");
  rope.log_factors = {20, 0};
  EXPECT_EQ(refused().rfind("[resolve] inv_freq[0]: must be at most 2^13 radians per token, got 4851651", 0), 0U);
  rope.scaling = ExplicitFrequencies{{0.5, 0.25}};
  rope.log_factors = {std::log(2), 0};
  EXPECT_NEAR(resolve(rope).inv_freq[0], 1, 1e-15);
  EXPECT_EQ(resolve(rope).inv_freq[1], 0.25);
}

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

Rope scaled(RopeScaling scaling, Index head_dim = 8) {
  return {.head_dim = head_dim, .pairing = Pairing::half, .scaling = std::move(scaling)};
}

Rope with_base(double base, RopeScaling scaling = {}) {
  Rope rope = scaled(std::move(scaling));
  rope.base = base;
  return rope;
}

Rope geometry(Index head_dim, Index rotary_dim, RotaryPart part = {}) {
  return {.head_dim = head_dim, .rotary_dim = rotary_dim, .pairing = Pairing::half, .part = part};
}

TEST(RopeResolve, TakesTheGeometryOver) {
  const RopeFrequencies whole = resolve(geometry(8, 0));
  EXPECT_EQ(whole.head_dim, 8);
  EXPECT_EQ(whole.rotary_dim, 8);
  EXPECT_EQ(whole.pairs(), 4);
  EXPECT_EQ(whole.begin, 0);
  EXPECT_EQ(whole.axes, 1);
  EXPECT_EQ(whole.pairing, Pairing::half);
  EXPECT_EQ(whole.angles, Angles::exact);
  EXPECT_EQ(whole.quarter_turns.size(), 12U);
  EXPECT_EQ(resolve(geometry(8, 4, RotaryPart::last())).begin, 4);
  EXPECT_EQ(resolve(geometry(8, 4, RotaryPart::window(2))).begin, 2);
  EXPECT_EQ(resolve(geometry(7, 4)).pairs(), 2);  // an odd head may turn in part
  EXPECT_EQ(resolve(geometry(8, 0), 0, Angles::as_float32).angles, Angles::as_float32);
  // The exponents are over the turned part: 10000^(−2/4).
  EXPECT_EQ(resolve(geometry(8, 4)).inv_freq[1], 0.01);
}

struct Wrong {
  Rope rope;
  std::string text;
  Index seq_len = 0;
  Angles angles = Angles::exact;
};

template <class Error>
void expect_refused(const std::vector<Wrong>& cases) {
  for (const Wrong& wrong : cases) {
    try {
      resolve(wrong.rope, wrong.seq_len, wrong.angles);
      ADD_FAILURE() << "accepted, but " << wrong.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "[resolve] " + wrong.text);
    }
  }
}

TEST(RopeResolve, TwoWaysToSayThatTheWholeHeadTurnsAreEqual) {
  EXPECT_EQ(geometry(8, 0), geometry(8, 8));
  EXPECT_EQ(geometry(8, 4), geometry(8, 4));
  EXPECT_NE(geometry(8, 0), geometry(8, 4));
  EXPECT_NE(geometry(8, 4), geometry(4, 4));
  EXPECT_NE(geometry(8, 4), geometry(8, 4, RotaryPart::last()));
  // A member's other value is another spec.
  const auto differs = [](auto change) {
    Rope rope = geometry(8, 8);
    change(rope);
    EXPECT_NE(rope, geometry(8, 0));
  };
  differs([](Rope& rope) { rope.base = 100; });
  differs([](Rope& rope) { rope.pairing = Pairing::interleaved; });
  differs([](Rope& rope) { rope.scaling = LinearScaling{2}; });
  differs([](Rope& rope) { rope.axes = RopeAxes::axial({2, 2}); });
  differs([](Rope& rope) { rope.attention_factor = 2; });
  differs([](Rope& rope) { rope.log_factors = {0, 0, 0, 1}; });
  const GivenAngles angles{.head_dim = 8, .pairing = Pairing::half};
  EXPECT_EQ(angles, (GivenAngles{.head_dim = 8, .rotary_dim = 8, .pairing = Pairing::half}));
  EXPECT_NE(angles, (GivenAngles{.head_dim = 8, .rotary_dim = 4, .pairing = Pairing::half}));
  EXPECT_NE(angles, (GivenAngles{.head_dim = 8, .pairing = Pairing::interleaved}));
  EXPECT_NE(angles, (GivenAngles{.head_dim = 8, .pairing = Pairing::half, .part = RotaryPart::last()}));
}

TEST(RopeResolve, RefusesGeometryThatContradictsItself) {
  Rope pairing = geometry(8, 0);
  pairing.pairing = static_cast<Pairing>(7);
  expect_refused<ShapeError>({
      {geometry(0, 0), "head_dim: must be from 2 to 65536, got 0"},
      {geometry(-8, 0), "head_dim: must be from 2 to 65536, got -8"},
      {geometry(65'538, 0), "head_dim: must be from 2 to 65536, got 65538"},
      {geometry(128, 130), "rotary_dim: must be even and from 2 to head_dim = 128, got 130"},
      {geometry(128, 3), "rotary_dim: must be even and from 2 to head_dim = 128, got 3"},
      {geometry(128, -2), "rotary_dim: must be even and from 2 to head_dim = 128, got -2"},
      {geometry(127, 0), "head_dim: must be even where all of it turns, got 127"},
      {geometry(127, 127), "rotary_dim: must be even and from 2 to head_dim = 127, got 127"},
      {geometry(8, 4, RotaryPart::window(5)), "part.begin: must be from 0 to head_dim - rotary_dim = 4, got 5"},
      {geometry(8, 4, RotaryPart::window(-1)), "part.begin: must be from 0 to head_dim - rotary_dim = 4, got -1"},
      {geometry(8, 4, {RotaryPart::Where::last, 1}), "part.begin: must be 0 unless the part is a window, got 1"},
      {pairing, "pairing: must be interleaved or half, got 7"},
  });
}

TEST(RopeResolve, RefusesListsOfAnotherLength) {
  const std::vector<double> four(4, 1), three(3, 1);
  expect_refused<ShapeError>({
      {scaled(ExplicitFrequencies{three}), "inv_freq: must have one entry per pair, 4, got 3"},
      {scaled(FrequencyDivisors{{}}), "divisors: must have one entry per pair, 4, got 0"},
      {scaled(LongRopeScaling{.short_factor = three, .long_factor = four, .trained_length = 9}),
       "short_factor: must have one entry per pair, 4, got 3"},
      {scaled(LongRopeScaling{.short_factor = four, .long_factor = three, .trained_length = 9}),
       "long_factor: must have one entry per pair, 4, got 3"},
  });
}

TEST(RopeResolve, RefusesScalingsThatTheHeadCannotHave) {
  Rope partial = scaled(ProportionalScaling{.fraction = 0.5});
  partial.rotary_dim = 4;
  Rope short_run = scaled(AlphaScaling{.alpha = 2});
  short_run.axes = RopeAxes::axial({3, 1});
  const std::string at_least_four = "rotary_dim: must be at least 4 for each run of frequencies under ";
  expect_refused<ShapeError>({
      {scaled(NtkScaling{2}, 2), at_least_four + "ntk (r/(r-2) divides by zero), got 2"},
      {scaled(DynamicNtkScaling{2, 9}, 2), at_least_four + "dynamic (r/(r-2) divides by zero), got 2"},
      {scaled(NtkByPartsScaling{2, 9}, 2), at_least_four + "ntk-by-parts (r/(r-2) divides by zero), got 2"},
      {short_run, at_least_four + "alpha (r/(r-2) divides by zero), got 2"},
      {partial, "rotary_dim: must be head_dim = 8 under proportional (its fraction says how much turns), got 4"},
  });
}

TEST(RopeResolve, RefusesBasesAndLengthsThatCannotBe) {
  const std::string ramp = " (its ramp divides by ln base), got ";
  expect_refused<RangeError>({
      {with_base(0), "base: must be finite and above 0, got 0"},
      {with_base(-1), "base: must be finite and above 0, got -1"},
      {with_base(nan), "base: must be finite and above 0, got nan"},
      {with_base(infinity), "base: must be finite and above 0, got inf"},
      {with_base(1, YarnScaling{2, 9}), "base: must be greater than 1 for yarn" + ramp + "1"},
      {with_base(0.5, DeepseekYarnScaling{2, 9}), "base: must be greater than 1 for deepseek-yarn" + ramp + "0.5"},
      {with_base(1, NtkByPartsScaling{2, 9}), "base: must be greater than 1 for ntk-by-parts" + ramp + "1"},
      {with_base(1e39), "base: must be a finite float32 for Angles::as_float32, got 1e+39", 0, Angles::as_float32},
      {scaled({}), "seq_len: must be from 0 to 2^31, got -1", -1},
      {scaled({}), "seq_len: must be from 0 to 2^31, got 2147483649", 2'147'483'649},
      {scaled(DynamicNtkScaling{2, 0}), "trained_length: must be from 1 to 2^31, got 0"},
      {scaled(YarnScaling{2, -5}), "trained_length: must be from 1 to 2^31, got -5"},
      {scaled(DeepseekYarnScaling{2, 0}), "trained_length: must be from 1 to 2^31, got 0"},
      {scaled(NtkByPartsScaling{2, 0}), "trained_length: must be from 1 to 2^31, got 0"},
      {scaled(Llama3Scaling{.trained_length = 2'147'483'649}),
       "trained_length: must be from 1 to 2^31, got 2147483649"},
  });
}

TEST(RopeResolve, RefusesFactorsThatCannotBe) {
  const auto yarn = [](auto change) {
    YarnScaling y{.factor = 4, .trained_length = 4096};
    change(y);
    return scaled(y);
  };
  const std::string positive = ": must be finite and above 0, got ";
  expect_refused<RangeError>({
      {scaled(LinearScaling{nan}), "factor" + positive + "nan"},
      {scaled(LinearScaling{0}), "factor" + positive + "0"},
      {scaled(NtkScaling{-2}), "factor" + positive + "-2"},
      {scaled(DynamicNtkScaling{infinity, 9}), "factor" + positive + "inf"},
      {scaled(AlphaScaling{0}), "alpha" + positive + "0"},
      {scaled(NtkByPartsScaling{0, 9}), "factor" + positive + "0"},
      {scaled(NtkByPartsScaling{.factor = 2, .trained_length = 9, .gamma_slow = 17}),
       "gamma_fast: must be at least gamma_slow = 17, got 16"},
      {yarn([](auto& y) { y.factor = 0; }), "factor" + positive + "0"},
      {yarn([](auto& y) { y.beta_fast = 0; }), "beta_fast" + positive + "0"},
      {yarn([](auto& y) { y.beta_slow = nan; }), "beta_slow" + positive + "nan"},
      {yarn([](auto& y) { y.beta_fast = 0.5; }), "beta_fast: must be at least beta_slow = 1, got 0.5"},
      {yarn([](auto& y) { y.attention_factor = 0; }), "attention_factor" + positive + "0"},
      {yarn([](auto& y) { y.mscale = nan; }), "mscale: must be finite, got nan"},
      {yarn([](auto& y) { y.mscale_all_dim = infinity; }), "mscale_all_dim: must be finite, got inf"},
      {yarn([](auto& y) { y.mscale_slope = nan; }), "mscale_slope: must be finite, got nan"},
      {scaled(DeepseekYarnScaling{.factor = 0, .trained_length = 9}), "factor" + positive + "0"},
      {scaled(DeepseekYarnScaling{.factor = 2, .trained_length = 9, .mscale = nan}), "mscale: must be finite, got nan"},
      {scaled(DeepseekYarnScaling{.factor = 2, .trained_length = 9, .attention_factor = 0}),
       "attention_factor" + positive + "0"},
      {scaled(Llama3Scaling{.factor = -8}), "factor" + positive + "-8"},
      {scaled(Llama3Scaling{.low_freq_factor = 0}), "low_freq_factor" + positive + "0"},
      {scaled(Llama3Scaling{.low_freq_factor = 5}), "high_freq_factor: must be at least low_freq_factor = 5, got 4"},
      {scaled(ProportionalScaling{.fraction = 1.5}), "fraction: must be from 0 to 1, got 1.5"},
      {scaled(ProportionalScaling{.fraction = nan}), "fraction: must be from 0 to 1, got nan"},
      {scaled(ProportionalScaling{.factor = 0}), "factor" + positive + "0"},
      {scaled(FrequencyDivisors{{1, 2, 0, 4}}), "divisors[2]" + positive + "0"},
  });
}

TEST(RopeResolve, RefusesLongRopeNumbersThatCannotBe) {
  const auto longrope = [](auto change) {
    LongRopeScaling l{.short_factor = {1, 1, 1, 1}, .long_factor = {1, 2, 3, 4}, .trained_length = 9, .factor = 2};
    change(l);
    return scaled(l);
  };
  const std::string positive = ": must be finite and above 0, got ";
  expect_refused<RangeError>({
      {longrope([](auto& l) { l.short_factor[3] = -1; }), "short_factor[3]" + positive + "-1"},
      {longrope([](auto& l) { l.long_factor[0] = nan; }), "long_factor[0]" + positive + "nan"},
      {longrope([](auto& l) { l.factor = 0; }), "factor" + positive + "0"},
      {longrope([](auto& l) { l.trained_length = 0; }), "trained_length: must be from 1 to 2^31, got 0"},
      {longrope([](auto& l) { l.trained_length = 1; }),
       "trained_length: must be at least 2 for longrope (its attention factor divides by ln L), got 1"},
      {longrope([](auto& l) { l.attention_factor = -1; }), "attention_factor" + positive + "-1"},
      {longrope([](auto& l) { l.short_mscale = 0; }), "short_mscale" + positive + "0"},
      {longrope([](auto& l) { l.long_mscale = infinity; }), "long_mscale" + positive + "inf"},
  });
}

TEST(RopeResolve, RefusesNumbersThatComeOutImpossible) {
  expect_refused<RangeError>({
      // (1 − 0.1·20·ln 4) / (0.1·ln 4 + 1)
      {scaled(YarnScaling{.factor = 4, .trained_length = 9, .mscale = -20, .mscale_all_dim = 1}),
       "attention_factor: must be finite and above 0, got -1.5567740179742198"},
      {scaled(ExplicitFrequencies{{1, 1234567, 1, 1}}),
       "inv_freq[1]: must be at most 2^13 radians per token, got 1234567"},
      {scaled(ExplicitFrequencies{{1, -1234567, 1, 1}}),
       "inv_freq[1]: must be at most 2^13 radians per token, got -1234567"},
      {scaled(ExplicitFrequencies{{1, nan, 1, 1}}), "inv_freq[1]: must be finite, got nan"},
      {scaled(ExplicitFrequencies{{infinity, 1, 1, 1}}), "inv_freq[0]: must be finite, got inf", 0, Angles::as_float32},
      {scaled(ExplicitFrequencies{{1, 1e-300, 1, 1}}),
       "inv_freq[1]: must be 0 or at least 2^-800 radians per token, got 1e-300"},
      {scaled(LinearScaling{0x1p-21}), "inv_freq[0]: must be at most 2^13 radians per token, got 2097152"},
      {with_base(0x1p-160), "inv_freq[1]: must be at most 2^13 radians per token, got 1099511627776"},
      {scaled(NtkScaling{1e308}, 4), "inv_freq[1]: must be 0 or at least 2^-800 radians per token, got 1e-310"},
  });
}

TEST(RopeResolve, AcceptsTheLargestAndSmallestFrequencies) {
  const std::vector<double> edges{0x1p13, -0x1p13, 0x1p-800, 0};
  EXPECT_EQ(resolve(scaled(ExplicitFrequencies{edges})).inv_freq, edges);
}

TEST(RopeResolve, AnAttentionFactorStandsBesideAnyScaling) {
  for (const RopeScaling& scaling :
       {RopeScaling{NoScaling{}}, RopeScaling{LinearScaling{2}}, RopeScaling{YarnScaling{4, 64}}}) {
    Rope rope = scaled(scaling);
    for (const Angles angles : {Angles::exact, Angles::as_float32}) {
      rope.attention_factor = 1;
      const RopeFrequencies plain = resolve(rope, 0, angles);
      rope.attention_factor = 1.25;
      const RopeFrequencies times = resolve(rope, 0, angles);
      EXPECT_EQ(times.attention_factor, 1.25 * plain.attention_factor);
      EXPECT_EQ(times.quarter_turns, plain.quarter_turns);
    }
  }
  Rope rope = scaled({}, 4);
  rope.attention_factor = 1.5;
  const double theta[] = {1, 0.5};
  EXPECT_EQ(resolve_explicit(rope, dense(theta, 2), 2).attention_factor, 3);
  rope.attention_factor = 0;
  try {
    resolve(rope);
    FAIL() << "accepted";
  } catch (const RangeError& error) {
    EXPECT_STREQ(error.what(), "[resolve] attention_factor: must be finite and above 0, got 0");
  }
}

TEST(RopeResolve, ExplicitViewsAreCheckedToo) {
  const Rope rope = scaled({}, 4);
  const double theta[] = {1, 0.5, nan};
  const auto text = [&](View<const double, 1> view, double attention_factor = 1) -> std::string {
    try {
      resolve_explicit(rope, view, attention_factor);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(text(dense(theta, 2)), "accepted");
  EXPECT_EQ(text(dense(theta, 3)), "[resolve_explicit] inv_freq: must have one entry per pair, 2, got 3");
  EXPECT_EQ(text({}), "[resolve_explicit] inv_freq: must have one entry per pair, 2, got 0");
  EXPECT_EQ(text(dense(theta + 1, 2)), "[resolve_explicit] inv_freq[1]: must be finite, got nan");
  EXPECT_EQ(text(dense(theta, 2), 0), "[resolve_explicit] attention_factor: must be finite and above 0, got 0");
}

}  // namespace
}  // namespace bearing
