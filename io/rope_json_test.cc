#include <gtest/gtest.h>
#include <bearing/io.hpp>

#include <cmath>
#include <limits>

namespace bearing {
namespace {

bool same(const Rope& a, const Rope& b) {
  return a.head_dim == b.head_dim && a.rotary_dim == b.rotary_dim && a.base == b.base &&
         Pairing{a.pairing} == Pairing{b.pairing} && a.scaling == b.scaling && a.part == b.part && a.axes == b.axes &&
         a.attention_factor == b.attention_factor && a.log_factors == b.log_factors;
}

Rope spec(RopeScaling scaling) {
  Rope rope{.head_dim = 8, .base = 500'000, .pairing = Pairing::half};
  rope.scaling = std::move(scaling);
  return rope;
}

std::string error_of(const std::string& json) {
  try {
    parse_rope(json);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(RopeJson, EveryScalingReadsBackAsItWas) {
  // No member has its default value, and several have no short decimal form.
  const double third = 1.0 / 3;
  const RopeScaling scalings[] = {
      NoScaling{},
      LinearScaling{third},
      NtkScaling{1e-5},
      DynamicNtkScaling{2.5, 4096},
      AlphaScaling{1000},
      NtkByPartsScaling{4, 2048, 0.7, 1.3, 2.1, 15.9},
      YarnScaling{4, 32768, 31, 1.5, false, 1.1, 0.707, 0.8, 0.07},
      YarnScaling{4, 32768, 31, 1.5, true, {}, {}, 0.8, 0.07},
      DeepseekYarnScaling{40, 4096, 31, 1.5, 0.707, 0.708, {}},
      DeepseekYarnScaling{40, 4096, 31, 1.5, 0.707, 0.708, 1.1},
      LongRopeScaling{{1, 1.0199999809265137, third, 4}, {2, 3, 4, 64.83999633789062}, 4096, 32, 1.19, 1.2, 1.3},
      LongRopeScaling{{1, 2, 3, 4}, {5, 6, 7, 8}, 4096, 32, {}, {}, 1.3},
      Llama3Scaling{32, 1.5, 4.5, 8191},
      ProportionalScaling{0.25, 8},
      ExplicitFrequencies{{1, 0.1, 0, 5e-324}},
      FrequencyDivisors{{1, 1.7976931348623157e+299, 3, 4}},
  };
  bool seen[std::variant_size_v<RopeScaling>] = {};
  for (const RopeScaling& scaling : scalings) {
    seen[scaling.index()] = true;
    const std::string json = to_json(spec(scaling));
    EXPECT_TRUE(same(parse_rope(json), spec(scaling))) << json;
    EXPECT_EQ(to_json(parse_rope(json)), json);
  }
  for (std::size_t kind = 0; kind < std::size(seen); ++kind) EXPECT_TRUE(seen[kind]) << kind;
}

TEST(RopeJson, EveryPartAndAxisOrderReadsBackAsItWas) {
  for (RotaryPart part : {RotaryPart::first(), RotaryPart::last(), RotaryPart::window(3)}) {
    RopeAxes own = RopeAxes::axial({1, 2});
    own.bases = {20, 1e4}, own.ntk_factors = {1, 2.5}, own.still = 1;
    for (const RopeAxes& axes :
         {RopeAxes{}, own, RopeAxes::blocks({2, 2}), RopeAxes::sections({1, 2, 1}), RopeAxes::interleaved({2, 1, 1}),
          RopeAxes::axial({2, 2}), RopeAxes::strided({2, 2}), RopeAxes::listed({1, 2, 1, 0})}) {
      Rope rope{.head_dim = 16, .rotary_dim = 8, .pairing = Pairing::interleaved, .part = part, .axes = axes};
      EXPECT_TRUE(same(parse_rope(to_json(rope)), rope)) << to_json(rope);
    }
  }
}

TEST(RopeJson, LearnedFactorsReadBackAsTheyWereAndAreNotWrittenWhereThereAreNone) {
  Rope rope = spec(LinearScaling{4});
  EXPECT_EQ(to_json(rope).find("log_factors"), std::string::npos);
  rope.log_factors = {1.0 / 3, -0.1, 0, 5e-324};
  EXPECT_TRUE(same(parse_rope(to_json(rope)), rope)) << to_json(rope);
}

TEST(RopeJson, WhatAxesDoNotHaveIsNotWritten) {
  Rope rope{.head_dim = 8, .pairing = Pairing::half, .axes = RopeAxes::axial({2, 2})};
  EXPECT_NE(to_json(rope).find(R"("axes": {"pairs": [2, 2], "order": "contiguous", "frequencies": "restarted"})"),
            std::string::npos)
      << to_json(rope);
  rope.axes = RopeAxes::blocks({2, 2});
  EXPECT_NE(to_json(rope).find(R"("frequencies": "restarted", "halves": "axis"})"), std::string::npos);
}

TEST(RopeJson, AnAttentionFactorReadsBackAsItWas) {
  Rope rope = spec(LinearScaling{4});
  rope.attention_factor = 1.0 / 3;
  EXPECT_TRUE(same(parse_rope(to_json(rope)), rope)) << to_json(rope);
  EXPECT_NE(error_of(R"({"head_dim": 8, "pairing": "half", "attention_factor": 0})"), "no error");
}

TEST(RopeJson, TheTextIsWhatTheGuideShows) {
  EXPECT_EQ(to_json(Rope{.head_dim = 128, .base = 500'000, .pairing = Pairing::half, .scaling = Llama3Scaling{}}),
            R"({"head_dim": 128, "pairing": "half", "base": 500000, "scaling": {"type": "llama3", "factor": 8, )"
            R"("low_freq_factor": 1, "high_freq_factor": 4, "trained_length": 8192}})");
  EXPECT_EQ(
      to_json(Rope{.head_dim = 192, .rotary_dim = 64, .pairing = Pairing::interleaved, .part = RotaryPart::last()}),
      R"({"head_dim": 192, "rotary_dim": 64, "pairing": "interleaved", "base": 10000, "part": "last"})");
}

TEST(RopeJson, HeadDimAndPairingAreEnough) {
  const Rope rope = parse_rope(R"({"head_dim": 64, "pairing": "interleaved"})");
  EXPECT_TRUE(same(rope, Rope{.head_dim = 64, .pairing = Pairing::interleaved}));
  EXPECT_EQ(parse_rope(R"({"head_dim": 64, "pairing": "half", "base": 1e6})").base, 1e6);
  EXPECT_EQ(parse_rope(R"({"head_dim": 64, "pairing": "half", "scaling": {"type": "yarn", "factor": 4}})").scaling,
            (RopeScaling{YarnScaling{.factor = 4}}));
}

TEST(RopeJson, MistakesAreNamed) {
  const std::pair<const char*, const char*> mistakes[] = {
      {R"([])", "rope: must be an object, got an array of 0"},
      {R"({"head_dim": 64})", "rope: /pairing: must be there (\"interleaved\" or \"half\"), got nothing"},
      {R"({"pairing": "half"})", "rope: /head_dim: must be there (a whole number from 2 to 65536), got nothing"},
      {R"({"head_dim": 64, "pairing": "neox"})", "/pairing: must be \"interleaved\" or \"half\", got \"neox\""},
      {R"({"head_dim": 64, "pairing": true})", "/pairing: must be a string, got true"},
      {R"({"head_dim": 1, "pairing": "half"})", "/head_dim: must be a whole number from 2 to 65536, got 1"},
      {R"({"head_dim": 64, "rotary_dim": 66, "pairing": "half"})", "/rotary_dim: must be a whole number from 0 to 64"},
      {R"({"head_dim": 64, "rotary_dim": 31, "pairing": "half"})", "/rotary_dim: must be even, got 31"},
      {R"({"head_dim": 64, "pairing": "half", "base": 0})", "/base: must be a number above 0, got 0"},
      {R"({"head_dim": 64, "pairing": "half", "base": NaN})", "/base: must be a number above 0, got nan"},
      {R"({"head_dim": 64, "pairing": "half", "theta": 1})",
       "/theta: must be one of: head_dim, rotary_dim, base, pairing"},
      {R"({"head_dim": 64, "pairing": "half", "base": 5, "base": 6})", "/base: the key is there more than once"},
      {R"({"head_dim": 64, "pairing": "half", "scaling": {}})", "/scaling/type: must be there"},
      {R"({"head_dim": 64, "pairing": "half", "scaling": "llama3"})", "/scaling: must be an object"},
      {R"({"head_dim": 64, "pairing": "half", "scaling": {"type": "x"}})",
       "/scaling/type: must be one of default, linear, ntk, dynamic, alpha, ntk-by-parts, yarn, deepseek-yarn"},
      {R"({"head_dim": 64, "pairing": "half", "scaling": {"type": "linear", "factr": 2}})",
       "/scaling/factr: must be one of: type, factor"},
      {R"({"head_dim": 64, "pairing": "half", "scaling": {"type": "yarn", "truncate": 1}})",
       "/scaling/truncate: must be true or false, got 1"},
      {R"({"head_dim": 64, "pairing": "half", "scaling": {"type": "explicit", "inv_freq": [1, "2"]}})",
       "/scaling/inv_freq/1: must be a number"},
      {R"({"head_dim": 64, "pairing": "half", "part": "middle"})", "/part: must be \"first\" or \"last\""},
      {R"({"head_dim": 64, "pairing": "half", "part": 3})", "/part: must be \"first\", \"last\" or"},
      {R"({"head_dim": 64, "pairing": "half", "part": {}})", "/part/begin: must be there"},
      {R"({"head_dim": 64, "pairing": "half", "part": {"begin": 2, "end": 4}})", "/part/end: must be one of: begin"},
      {R"({"head_dim": 64, "pairing": "half", "axes": {"pairs": [1.5]}})", "/axes/pairs/0: must be a whole number"},
      {R"({"head_dim": 64, "pairing": "half", "axes": {"order": "mixed"}})", "/axes/order: must be \"contiguous\""},
      {R"({"head_dim": 64, "pairing": "half", "axes": {"axis": 1}})", "/axes/axis: must be one of: pairs, order"},
      {R"({"head_dim": 64, "pairing": "half",})", "rope:1:36: must be JSON"},
  };
  for (const auto& [json, text] : mistakes) EXPECT_NE(error_of(json).find(text), std::string::npos) << error_of(json);
}

TEST(RopeJson, WhatIsNotANumberIsNotWritten) {
  Rope rope{.head_dim = 8, .base = std::numeric_limits<double>::infinity(), .pairing = Pairing::half};
  EXPECT_THROW(to_json(rope), RangeError);
  rope.base = 10'000;
  rope.scaling = ExplicitFrequencies{{1, std::nan(""), 1, 1}};
  EXPECT_THROW(to_json(rope), RangeError);
}

}  // namespace
}  // namespace bearing
