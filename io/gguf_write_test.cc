#include <bearing/gguf.hpp>

#include <gtest/gtest.h>

#include <bearing/error.hpp>

#include "gguf_cases.hpp"

namespace bearing {
namespace {

using gguf_test::File;

std::string error_of(const Rope& rope, const std::string& architecture) {
  try {
    gguf_rope(rope, architecture);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// Written into a file and read from it: the same frequencies and factors, in float32's precision.
void expect_same(const Rope& rope, const std::string& architecture) {
  const std::string file =
      File::of(architecture, 1).u32("attention.sliding_window", 0).add(gguf_rope(rope, architecture)).bytes();
  const Rope read = std::get<Rope>(parse_gguf(file).layers[0].encoding);
  for (const Index length : {Index{0}, Index{1} << 20}) {
    const RopeFrequencies a = resolve(rope, length), b = resolve(read, length);
    ASSERT_EQ(a.head_dim, b.head_dim) << architecture;
    ASSERT_EQ(a.rotary_dim, b.rotary_dim) << architecture;
    EXPECT_EQ(a.begin, b.begin) << architecture;
    EXPECT_EQ(Pairing{a.pairing}, Pairing{b.pairing}) << architecture;
    EXPECT_EQ(a.axis, b.axis) << architecture;
    for (std::size_t i = 0; i < a.inv_freq.size(); ++i) {
      // A divisor is rounded to 24 bits, a base's power of at most 1 too; 1e30 stands for a pair that does not turn.
      EXPECT_NEAR(a.inv_freq[i], b.inv_freq[i], a.inv_freq[i] * 0x1p-22 + 1e-25) << architecture << ' ' << i;
    }
    EXPECT_NEAR(a.attention_factor, b.attention_factor, 0x1p-21) << architecture;
    EXPECT_NEAR(a.softmax_scale_factor, b.softmax_scale_factor, 0x1p-20) << architecture;
  }
}

Rope neighbours(RopeScaling scaling = {}) {
  return {.head_dim = 64, .base = 500'000, .pairing = Pairing::interleaved, .scaling = std::move(scaling)};
}
Rope halves(RopeScaling scaling = {}) {
  return {.head_dim = 64, .base = 1e6, .pairing = Pairing::half, .scaling = std::move(scaling)};
}

TEST(GgufWrite, WhatIsWrittenReadsBack) {
  expect_same(neighbours(), "llama");
  expect_same(halves(LinearScaling{4}), "qwen2");
  expect_same(halves(NtkScaling{4}), "qwen2");
  expect_same(halves(AlphaScaling{1000}), "hunyuan_vl");
  expect_same(halves(AlphaScaling{1000}), "qwen2");
  expect_same(halves(YarnScaling{.factor = 4, .trained_length = 32'768}), "qwen2");
  expect_same(halves(YarnScaling{.factor = 4, .trained_length = 32'768, .attention_factor = 0.7}), "qwen2");
  expect_same(neighbours(YarnScaling{
                  .factor = 16, .trained_length = 16'384, .beta_fast = 4, .mscale = 1.0, .mscale_all_dim = 1.0}),
              "mistral3");
  expect_same(neighbours(Llama3Scaling{}), "llama");
  expect_same(neighbours(NtkByPartsScaling{.factor = 4, .trained_length = 4096}), "llama");
  expect_same(neighbours(FrequencyDivisors{std::vector<double>(32, 3)}), "llama");
  expect_same(halves(ProportionalScaling{.fraction = 0.25}), "exaone");
  LongRopeScaling longrope;
  longrope.short_factor = std::vector<double>(32, 1.5);
  longrope.long_factor = std::vector<double>(32, 8);
  longrope.trained_length = 4096;
  longrope.factor = 32;
  expect_same(halves(longrope), "phi3");
  Rope part = halves();
  part.rotary_dim = 32;
  part.attention_factor = 1.5;
  expect_same(part, "gptneox");
  Rope axes = halves();
  axes.axes = RopeAxes::sections({8, 12, 12});
  expect_same(axes, "qwen2vl");
  expect_same(axes, "glm4");
  axes.axes = RopeAxes::interleaved({11, 11, 10});
  expect_same(axes, "qwen3vl");
  Rope latent =
      neighbours(DeepseekYarnScaling{.factor = 40, .trained_length = 4096, .mscale = 0.707, .mscale_all_dim = 0.707});
  latent.head_dim = 192;
  latent.rotary_dim = 64;
  latent.part = RotaryPart::last();
  expect_same(latent, "deepseek2");
}

TEST(GgufWrite, WhatTheCodeCannotDoIsRefusedByName) {
  EXPECT_NE(error_of(halves(), "llama").find("turns neighbours (interleaved): permute the weights"), std::string::npos);
  EXPECT_NE(error_of(neighbours(), "qwen2").find("turns halves: permute"), std::string::npos);
  EXPECT_NE(error_of(halves(DynamicNtkScaling{.factor = 2, .trained_length = 4096}), "qwen2").find("dynamic NTK"),
            std::string::npos);
  EXPECT_NE(error_of(halves(Llama3Scaling{}), "qwen2").find("does not read rope_freqs.weight"), std::string::npos);
  EXPECT_NE(error_of(halves(), "bloom").find("must be one that turns"), std::string::npos);
  EXPECT_NE(error_of(halves(), "none such").find("must be known, got \"none such\""), std::string::npos);
  Rope last = halves();
  last.rotary_dim = 32;
  last.part = RotaryPart::last();
  EXPECT_NE(error_of(last, "qwen2").find("turns the first dimensions"), std::string::npos);
  Rope axes = halves();
  axes.axes = RopeAxes::sections({8, 12, 12});
  EXPECT_NE(error_of(axes, "qwen2").find("turns all pairs by one position"), std::string::npos);
  EXPECT_NE(error_of(axes, "qwen3vl").find("to three axes in turn"), std::string::npos);
  EXPECT_NE(
      error_of(halves(YarnScaling{.factor = 4, .trained_length = 9, .truncate = false}), "gpt-oss").find("truncate"),
      std::string::npos);
  EXPECT_NE(
      error_of(halves(YarnScaling{.factor = 4, .trained_length = 9, .beta_fast = 8}), "qwen2").find("beta_fast 32"),
      std::string::npos);
}

TEST(GgufWrite, TheTextNamesKeysTypesAndValues) {
  Rope rope = halves();
  rope.axes = RopeAxes::sections({8, 12, 12});
  EXPECT_EQ(to_text(gguf_rope(rope, "qwen2vl")),
            "qwen2vl.attention.key_length u32 64\n"
            "qwen2vl.rope.dimension_count u32 64\n"
            "qwen2vl.rope.dimension_sections i32[4] 8, 12, 12, 0\n"
            "qwen2vl.rope.scaling.type string none\n"
            "qwen2vl.rope.freq_base f32 1000000\n");
}

}  // namespace
}  // namespace bearing
