#include <bearing/gguf.hpp>

#include <gtest/gtest.h>

#include <bearing/error.hpp>
#include <limits>

#include "gguf_cases.hpp"

namespace bearing {
namespace {

using gguf_test::File;

File llama() { return File::of("llama"); }
std::vector<float> ones(std::size_t n) { return std::vector<float>(n, 1); }

struct Case {
  std::string key;
  File file;
  const char* says;
};

void expect_refused(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    try {
      parse_gguf(one.file.bytes(), "x.gguf");
      ADD_FAILURE() << one.key << " was read, wanted: " << one.says;
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.find("x.gguf: " + one.key + ": "), 0U) << text;
      EXPECT_NE(text.find(one.says), std::string::npos) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }
}

TEST(GgufKeys, SizesThatCannotBeAreRefused) {
  expect_refused({
      {"general.architecture", llama().without("general.architecture"), "must be there"},
      {"general.architecture", llama().u32("general.architecture", 1), "must be a name of 1 to 256 bytes, got u32"},
      {"general.architecture", llama().word("general.architecture", ""), "must be a name of 1 to 256 bytes"},
      {"general.architecture", llama().word("general.architecture", std::string(300, 'x')), "1 to 256 bytes"},
      {"general.architecture", llama().word("general.architecture", "\xFFllama"), R"(must be UTF-8, got "\xffllama")"},
      {"general.architecture", File::of("llama99"), "must be one that is known, as its code decides"},
      {"general.architecture", File::of("clip"), "vision and audio towers are not read"},
      {"general.architecture", File::of("gptj"), "has no code for it"},
      {"llama.block_count", llama().without("block_count"), "must be there"},
      {"llama.block_count", llama().u32("block_count", 0), "got 0"},
      {"llama.block_count", llama().u32("block_count", 4'294'967'295U), "from 1 to 4096, got 4294967295"},
      {"llama.block_count", llama().f32("block_count", 4), "got f32"},
      {"llama.block_count", llama().pair("block_count", GgufType::i32, File::number(0xFFFFFFFF, 4)), "got -1"},
      {"llama.block_count", llama().pair("block_count", GgufType::u64, File::number(~0ULL, 8)),
       "got 18446744073709551615"},
      {"llama.block_count", llama().word("block_count", "4"), "got string"},
      {"llama.nextn_predict_layers", llama().u32("nextn_predict_layers", 4), "must be below block_count"},
      {"llama.context_length", llama().u32("context_length", 0), "got 0"},
      {"llama.attention.head_count", llama().without("attention.head_count"), "must be there"},
      {"llama.embedding_length",
       llama().without("attention.key_length").u32("attention.head_count", 1).u32("embedding_length", 4'000'000'000U),
       "must be at most 65536 for each of 1 heads, got 4000000000"},
      {"llama.attention.head_count", llama().list("attention.head_count", {8, 8}),
       "must be 4 numbers, one per layer, got 2"},
      {"llama.attention.head_count", llama().list("attention.head_count", {8, -1, 8, 8}), "got -1"},
      {"llama.attention.key_length", llama().list("attention.head_count", {0, 8, 8, 8}),
       "if the first layer has no heads"},
      {"llama.embedding_length", llama().without("embedding_length"), "must be there"},
      {"llama.rope.dimension_count", llama().u32("embedding_length", 4), "must be even"},
      {"llama.rope.dimension_count", llama().u32("rope.dimension_count", 63),
       "must be even, above 0 and at most the head's 64"},
      {"llama.rope.dimension_count", llama().u32("rope.dimension_count", 66),
       "at most the head's 64 dimensions, got 66"},
      {"deepseek2.rope.dimension_count", File::of("deepseek2"), "a part of the head turns"},
      {"gemma3.rope.dimension_count_swa", File::of("gemma3").u32("rope.dimension_count_swa", 32), "has one for all"},
      {"gemma3.attention.key_length_swa", File::of("gemma3").u32("attention.key_length_swa", 32), "has one for all"},
      {"baichuan.block_count", File::of("baichuan", 36), "must be 32 or 40"},
      {"nemotron_h.feed_forward_length", File::of("nemotron_h").list("feed_forward_length", {0, 64}),
       "must be 4 numbers, one per layer, got 2"},
      {"nemotron_h.feed_forward_length", File::of("nemotron_h").list("feed_forward_length", {0, -64, 0, 0}), "got -64"},
      {"dflash.hyper_connection.count", File::of("dflash").u32("hyper_connection.count", 4), "must be 0"},
  });
}

TEST(GgufKeys, NumbersThatCannotBeAreRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  expect_refused({
      {"llama.rope.freq_base", llama().f32("rope.freq_base", nan), "got nan"},
      {"llama.rope.freq_base", llama().f32("rope.freq_base", infinity), "got"},
      {"llama.rope.freq_base", llama().f32("rope.freq_base", 0), "must be a number above 1, at most 1e+100, got 0"},
      {"llama.rope.freq_base", llama().f32("rope.freq_base", 1), "must be a number above 1, at most 1e+100, got 1"},
      {"llama.rope.freq_base", llama().f32("rope.freq_base", -1e4F), "got -10000"},
      {"llama.rope.freq_base", llama().u32("rope.freq_base", 10'000), "of type f32, got u32"},
      {"llama.rope.scaling.type", llama().word("rope.scaling.type", "dynamic"),
       "must be none, linear, yarn or longrope"},
      {"llama.rope.scaling.type", llama().u32("rope.scaling.type", 1), "must be a string, got u32"},
      {"llama.rope.scaling.type", llama().word("rope.scaling.type", std::string(999, 'x')),
       "at most 256 bytes, got 999"},
      {"llama.rope.scaling.factor", llama().f32("rope.scaling.factor", nan), "got nan"},
      {"llama.rope.scaling.factor", llama().f32("rope.scaling.factor", -2), "got -2"},
      {"llama.rope.scaling.attn_factor", llama().f32("rope.scaling.attn_factor", 0), "got 0"},
      {"llama.rope.scaling.alpha", llama().f32("rope.scaling.alpha", 1000), "does not use it"},
      {"grok.rope.scaling.yarn_ext_factor", File::of("grok").f32("rope.scaling.yarn_ext_factor", 0.5F),
       "must be 0 or 1"},
      {"granite.rope.scaling.finetuned", File::of("granite").u32("rope.scaling.finetuned", 1),
       "must be true or false, got u32"},
      {"rope_freqs.weight", llama().tensor("rope_freqs.weight", ones(31)),
       "one dimension of 32 numbers, one per pair, got 31"},
      {"rope_freqs.weight", llama().tensor("rope_freqs.weight", ones(64)), "got 64"},
      {"rope_freqs.weight", llama().tensor("rope_freqs.weight", {2, 16}, 0, std::string(128, '\1')),
       "got 2 dimensions"},
      {"rope_freqs.weight", llama().tensor("rope_freqs.weight", std::vector<float>(32, nan)),
       "numbers above 0, got nan at 0"},
      {"rope_freqs.weight", llama().tensor("rope_freqs.weight", std::vector<float>(32, -1)),
       "numbers above 0, got -1 at 0"},
      {"rope_freqs.weight", llama().tensor("rope_freqs.weight", std::vector<float>(32, 0)),
       "numbers above 0, got 0 at 0"},
  });
  EXPECT_THROW(parse_gguf(llama().tensor("rope_freqs.weight", {32}, 1, std::string(64, '\1')).bytes()), ConfigError);
}

TEST(GgufKeys, WhatChangesPositionsAndIsNotKnownIsRefusedByName) {
  const auto phi = File::of("phi3").tensor("rope_factors_long.weight", ones(32));
  const auto longrope = llama().word("rope.scaling.type", "longrope");
  expect_refused({
      {"llama.rope.freq_base_per_layer", llama().f32("rope.freq_base_per_layer", 1),
       "must be a key that llama.cpp has"},
      {"llama.rope.scaling.low_freq_factor", llama().f32("rope.scaling.low_freq_factor", 1), "may change positions"},
      {"llama.attention.alibi_slopes", llama().f32("attention.alibi_slopes", 1), "may change positions"},
      {"llama.attention.max_alibi_bias", llama().f32("attention.max_alibi_bias", 8), "does not read it"},
      {"llama.attention.temperature_length", llama().u32("attention.temperature_length", 8192), "does not read it"},
      {"llama.attention.temperature_scale", llama().f32("attention.temperature_scale", 0.1F), "does not read it"},
      {"llama.attention.rope_pattern", llama().list("attention.rope_pattern", {1, 1, 1, 0}), "for granite_swa alone"},
      {"rope_freqs.weight", File::of("qwen2").tensor("rope_freqs.weight", ones(32)), "does not read it"},
      {"rope_factors_long.weight", llama().tensor("rope_factors_long.weight", ones(32)),
       "unless rope.scaling.type is longrope"},
      {"rope_factors_short.weight", phi, "must be there beside the other one"},
      {"rope_factors_long.weight", longrope, "must be there: rope.scaling.type is longrope"},
      {"qwen2vl.rope.dimension_sections", File::of("qwen2vl"), "must be there"},
      {"qwen2vl.rope.dimension_sections", File::of("qwen2vl").list("rope.dimension_sections", {0, 0, 0, 0}), "above 0"},
      {"qwen2vl.rope.dimension_sections", File::of("qwen2vl").list("rope.dimension_sections", {16, 0, 16, 0}),
       "no 0 before another"},
      {"qwen2vl.rope.dimension_sections", File::of("qwen2vl").list("rope.dimension_sections", {8, 8, 8, 4, 4}),
       "1 to 4 numbers"},
      {"qwen2vl.rope.dimension_sections", File::of("qwen2vl").list("rope.dimension_sections", {60, 60, 60, 0}),
       "add up to 32"},
      {"qwen3vl.rope.dimension_sections", File::of("qwen3vl").list("rope.dimension_sections", {8, 8, 8, 0}),
       "add up to 32"},
      {"gemma4.attention.sliding_window", File::of("gemma4"), "must be there"},
      {"gemma4.attention.sliding_window_pattern", File::of("gemma4").u32("attention.sliding_window", 8),
       "must be there: an array"},
      {"gemma4.attention.sliding_window_pattern",
       File::of("gemma4").u32("attention.sliding_window", 8).list("attention.sliding_window_pattern", {1, 1}),
       "for each of 4 layers, got 2"},
      {"gemma4.attention.sliding_window_pattern",
       File::of("gemma4").u32("attention.sliding_window", 8).list("attention.sliding_window_pattern", {1, 1, 2, 0}),
       "got 2"},
      {"t5.attention.relative_buckets_count", File::of("t5"), "must be there"},
      {"position_embd.weight", File::of("gpt2").tensor("position_embd.weight", {512, 8}, 24, std::string(4096, '\0')),
       "4096 rows of 512"},
      {"deepseek4.attention.compress_ratios",
       File::of("deepseek4").u32("rope.dimension_count", 32).u32("attention.sliding_window", 128), "must be there"},
      {"dots3note.rope.freq_base_swa",
       File::of("dots3note")
           .u32("rope.dimension_count", 32)
           .u32("attention.sliding_window", 128)
           .list("attention.sliding_window_pattern", {1, 1, 1, 0}),
       "must be there"},
      {"deepseek2.attention.temperature_length",
       File::of("deepseek2").u32("rope.dimension_count", 32).f32("attention.temperature_scale", 0.1F),
       "above 0 beside"},
  });
}

}  // namespace
}  // namespace bearing
