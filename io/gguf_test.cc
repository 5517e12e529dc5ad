#include <bearing/gguf.hpp>

#include <gtest/gtest.h>

#include <bearing/error.hpp>
#include <cmath>
#include <fstream>

#include "gguf_architectures.hpp"
#include "gguf_cases.hpp"
#include "hf_config_cases.hpp"

namespace bearing {
namespace {

using gguf_test::File;

Model read(const File& file) { return parse_gguf(file.bytes()); }

const Rope& rope(const Model& model, std::size_t layer = 0) { return std::get<Rope>(model.layers.at(layer).encoding); }

bool turns(const Model& model, std::size_t layer) {
  return std::holds_alternative<Rope>(model.layers.at(layer).encoding);
}

/// "1101": which layers have a rotary encoding.
std::string turning(const Model& model) {
  std::string out;
  for (std::size_t i = 0; i < model.layers.size(); ++i) out += turns(model, i) ? '1' : '0';
  return out;
}

std::string sliding(const Model& model) {
  std::string out;
  for (const Layer& layer : model.layers) out += layer.window > 0 ? '1' : '0';
  return out;
}

bool warns(const Model& model, const std::string& pointer, const std::string& text) {
  for (const ConfigWarning& warning : model.warnings) {
    if (warning.pointer == pointer && warning.text.find(text) != std::string::npos) return true;
  }
  return false;
}

File llama() { return File::of("llama").f32("rope.freq_base", 1e6F); }

TEST(Gguf, EveryValidFileGivesTheGroupsItsTableStates) {
  const auto folder = test::source / "tests/corpus/gguf";
  const auto rows = test::table(folder / "valid.tsv");
  EXPECT_GE(rows.size(), 20U);
  std::set<std::string> named;
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 3U) << row[0];
    named.insert(row[0]);
    EXPECT_EQ(test::described(read_gguf(folder / "valid" / row[0])), row[1]) << row[0];
  }
  EXPECT_EQ(named, test::files_in(folder / "valid"));
}

TEST(Gguf, LlamaTurnsNeighbours) {
  const Model model = read(llama());
  EXPECT_EQ(model.model_type, "llama");
  EXPECT_EQ(model.layers.size(), 4U);
  EXPECT_EQ(model.heads, 8);
  EXPECT_EQ(model.kv_heads, 2);
  EXPECT_EQ(model.context_length, 4096);
  EXPECT_EQ(model.trained_length, 4096);
  EXPECT_EQ(rope(model), (Rope{.head_dim = 64, .rotary_dim = 64, .base = 1e6, .pairing = Pairing::interleaved}));
  EXPECT_EQ(model.layers.front().base_from, "rope.freq_base");
  EXPECT_TRUE(warns(model, "general.architecture", "converters reorder"));
}

TEST(Gguf, EveryArchitectureIsReadOrRefusedByName) {
  int read_ones = 0, refused = 0;
  for (const gguf::Architecture& row : gguf::architectures()) {
    const std::string name(row.name);
    File file = File::of(name, 32);
    file.u32("rope.dimension_count", 32).u32("attention.sliding_window", 1024).u32("context_length", 4096);
    file.u32("attention.relative_buckets_count", 32).f32("rope.freq_base_swa", 1e4F);
    file.list("attention.sliding_window_pattern", std::vector<std::int64_t>(32, 1));
    file.list("attention.compress_ratios", std::vector<std::int64_t>(32, 4));
    file.f32("attention.compress_rope_freq_base", 160'000).list("rope.dimension_sections", {8, 4, 4, 0});
    if (name == "step35") file.u32("rope.dimension_count_swa", 32);
    try {
      const Model model = read(file);
      EXPECT_EQ(model.layers.size() % 32, 0U) << name;
      ++read_ones;
    } catch (const ConfigError& error) {
      EXPECT_EQ(row.turn, gguf::Turn::refused) << name << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos);
      ++refused;
    }
  }
  EXPECT_EQ(read_ones, 150);
  EXPECT_EQ(refused, 3);
}

TEST(Gguf, NumbersAreThoseThatWereRounded) {
  EXPECT_EQ(rope(read(llama().f32("rope.freq_base", 10000.1F))).base, 10000.1);
  EXPECT_EQ(std::get<LinearScaling>(rope(read(llama().f32("rope.scaling.factor", 2.3F))).scaling).factor, 2.3);
}

TEST(Gguf, LinearIsTheScalingOfAFileThatSaysNone) {
  const Model model = read(llama().f32("rope.scaling.factor", 4));
  EXPECT_EQ(rope(model).scaling, RopeScaling(LinearScaling{4}));
  EXPECT_EQ(model.trained_length, 0);
  EXPECT_TRUE(warns(model, "llama.rope.scaling.type", "llama.cpp takes linear"));
  EXPECT_EQ(rope(read(llama().f32("rope.scale_linear", 4))).scaling, RopeScaling(LinearScaling{4}));
  EXPECT_EQ(rope(read(llama().f32("rope.scaling.factor", 0))).scaling, RopeScaling(NoScaling{}));
  const Model none = read(llama().word("rope.scaling.type", "none").f32("rope.scaling.factor", 4));
  EXPECT_EQ(rope(none).scaling, RopeScaling(NoScaling{}));
  EXPECT_TRUE(warns(none, "llama.rope.scaling.type", "is not used"));
}

File yarn(File file, float factor) {
  file.f32("rope.freq_base", 1e6F).word("rope.scaling.type", "yarn").f32("rope.scaling.factor", factor);
  return file.u32("rope.scaling.original_context_length", 32'768);
}

TEST(Gguf, YarnHasItsUsualAttentionFactor) {
  const Model model = read(yarn(File::of("qwen2"), 4));
  EXPECT_EQ(rope(model).scaling, RopeScaling(YarnScaling{.factor = 4, .trained_length = 32'768}));
  EXPECT_EQ(rope(model).pairing, Pairing::half);
  EXPECT_EQ(model.trained_length, 32'768);
  EXPECT_NEAR(resolve(rope(model)).attention_factor, 0.1 * std::log(4) + 1, 1e-15);
  const Model times = read(yarn(File::of("qwen2"), 4).f32("rope.scaling.attn_factor", 0.5F));
  EXPECT_NEAR(resolve(rope(times)).attention_factor, 0.5 * (0.1 * std::log(4) + 1), 1e-15);
}

TEST(Gguf, KeysOfARampThatAreNotReadAreNamed) {
  const Model model = read(yarn(File::of("qwen2"), 4).f32("rope.scaling.yarn_beta_fast", 64));
  EXPECT_EQ(std::get<YarnScaling>(rope(model).scaling).beta_fast, 32);
  EXPECT_TRUE(warns(model, "qwen2.rope.scaling.yarn_beta_fast", "64 is not used"));
  const Model mistral = read(yarn(File::of("mistral3"), 4).f32("rope.scaling.yarn_beta_fast", 4));
  EXPECT_EQ(std::get<YarnScaling>(rope(mistral).scaling).beta_fast, 4);
}

TEST(Gguf, AModelsFileIsReadByItsFirstBytes) {
  const auto corpus = test::source / "tests/corpus";
  const std::string file = (corpus / "gguf/valid/llama3.gguf").string();
  EXPECT_EQ(rope(read_model_file(file)), rope(read_gguf(file)));
  const std::string config = (test::corpus / "valid/llama3_1_8b.json").string();
  EXPECT_EQ(rope(read_model_file(config)), rope(read_hf_config(config)));
  try {
    read_hf_config(file);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.what(), file + ": must be a config.json, got a GGUF file, which read_gguf() reads");
  }
}

TEST(Gguf, AWindowThatTheCodeDoesNotReadIsSaid) {
  const std::string_view key = "attention.sliding_window";
  for (const std::string name : {"llama", "qwen2", "qwen3"}) {
    const std::string full = name + '.' + std::string(key);
    const File file = File::of(name).f32("rope.freq_base", 1e6F);
    const Model model = read(File(file).u32(key, 1024));
    EXPECT_TRUE(warns(model, full, "not used: llama.cpp's code for " + name + " attends without a window"));
    EXPECT_EQ(model.layers[0].window, 0);
    EXPECT_TRUE(warns(read(File(file).list(key, {512, 1024})), full, "not used"));
    EXPECT_FALSE(warns(read(File(file).u32(key, 0)), full, ""));
    EXPECT_FALSE(warns(read(File(file).u32(key, 4096)), full, "")) << "hides nothing in a context of 4096";
  }
  EXPECT_FALSE(warns(read(File::of("gemma2").u32(key, 1024)), "gemma2.attention.sliding_window", ""));
  File four = File::of("exaone4", 4).u32(key, 1024);
  EXPECT_TRUE(warns(read(four), "exaone4.attention.sliding_window", "without a window"));
  File fixed = File::of("smallthinker").u32(key, 1024).u32("context_length", 8192);
  EXPECT_TRUE(warns(read(fixed), "smallthinker.attention.sliding_window", "takes 4096"));
}

TEST(Gguf, DeepseekScalesScoresByTheSquareOfItsMagnitude) {
  File file = yarn(File::of("deepseek2"), 40);
  file.u32("attention.key_length", 576).u32("attention.key_length_mla", 192).u32("rope.dimension_count", 64);
  const Model model = read(file.f32("rope.scaling.yarn_log_multiplier", 0.1F));
  EXPECT_EQ(rope(model).head_dim, 192);
  EXPECT_EQ(rope(model).part, RotaryPart::last());
  EXPECT_EQ(rope(read(File(file).without("attention.key_length"))).head_dim, 192) << "that of the compressed keys";
  const double m = 0.1 * std::log(40) + 1;
  EXPECT_NEAR(resolve(rope(model)).softmax_scale_factor, m * m, 1e-12);
  EXPECT_NEAR(resolve(rope(model)).attention_factor, 1, 1e-12);

  const Model lite = read(file.f32("rope.scaling.yarn_log_multiplier", 0.0707F));
  EXPECT_EQ(std::get<DeepseekYarnScaling>(rope(lite).scaling).mscale_all_dim, 0.707);
  EXPECT_NEAR(resolve(rope(lite)).attention_factor, 1, 1e-12);

  // llama.cpp multiplies scores by the square of m(1), and cos and sin by m(1), if the key is missing.
  const RopeFrequencies without = resolve(rope(read(file.without("rope.scaling.yarn_log_multiplier"))));
  EXPECT_NEAR(without.attention_factor, m, 1e-12);
  EXPECT_NEAR(without.softmax_scale_factor, m * m, 1e-12);
}

TEST(Gguf, OneKeyHasTwoMeaningsAndAWarning) {
  const auto multiplied = [](const char* architecture, float by) {
    File file = yarn(File::of(architecture), 40);
    return read(file.u32("rope.dimension_count", 64).f32("rope.scaling.yarn_log_multiplier", by));
  };
  const std::string key = ".rope.scaling.yarn_log_multiplier";
  EXPECT_TRUE(warns(multiplied("deepseek2", 1), "deepseek2" + key, "as files of mistral3 do"));
  EXPECT_FALSE(warns(multiplied("deepseek2", 0.1F), "deepseek2" + key, ""));
  EXPECT_TRUE(warns(multiplied("mistral3", 0.1F), "mistral3" + key, "as files of deepseek2 do"));
  EXPECT_FALSE(warns(multiplied("mistral3", 1), "mistral3" + key, ""));
  EXPECT_NEAR(resolve(rope(multiplied("mistral3", 1))).attention_factor, 1, 1e-12);
}

TEST(Gguf, RopeFreqsDivideFrequencies) {
  std::vector<float> divisors(32, 1);
  divisors[31] = 8;
  const Model model = read(llama().tensor("rope_freqs.weight", divisors));
  EXPECT_EQ(std::get<FrequencyDivisors>(rope(model).scaling).divisors.back(), 8);
  EXPECT_EQ(rope(read(llama().tensor("rope_freqs.weight", std::vector<float>(32, 1)))).scaling,
            RopeScaling(NoScaling{}));
}

TEST(Gguf, AMissingScalingOfLlama3IsSuspected) {
  File file = llama().f32("rope.freq_base", 500'000).u32("context_length", 131'072);
  EXPECT_TRUE(warns(read(file), "rope_freqs.weight", "those of Llama 3.1"));
  EXPECT_FALSE(warns(read(file.tensor("rope_freqs.weight", std::vector<float>(32, 8))), "rope_freqs.weight", ""));
  EXPECT_TRUE(warns(read(File::of("llama")), "llama.rope.freq_base", "takes 10000"));
}

TEST(Gguf, GemmaFoursPairsThatDoNotTurnAreAFraction) {
  File file = File::of("gemma4", 6).f32("rope.freq_base", 1e6F).u32("attention.key_length", 512);
  file.u32("attention.key_length_swa", 256).u32("rope.dimension_count", 512).u32("rope.dimension_count_swa", 256);
  file.u32("attention.sliding_window", 512).f32("rope.freq_base_swa", 1e4F);
  file.list("attention.sliding_window_pattern", {1, 1, 1, 1, 1, 0}, GgufType::boolean);
  std::vector<float> divisors(256, 1e30F);
  std::fill(divisors.begin(), divisors.begin() + 64, 1.0F);
  const Model model = read(file.tensor("rope_freqs.weight", divisors));
  EXPECT_EQ(sliding(model), "111110");
  EXPECT_EQ(rope(model, 5).scaling, RopeScaling(ProportionalScaling{.fraction = 0.25}));
  EXPECT_EQ(rope(model, 5).head_dim, 512);
  EXPECT_EQ(rope(model, 0), (Rope{.head_dim = 256, .rotary_dim = 256, .base = 1e4, .pairing = Pairing::half}));
}

TEST(Gguf, StepTurnsHalfOfItsFullLayersAndPadsItsTensor) {
  File file = File::of("step35", 4).u32("attention.sliding_window", 512).f32("rope.freq_base", 5e6F);
  file.list("attention.sliding_window_pattern", {0, 1, 1, 1});
  std::vector<float> divisors(32, 1);
  divisors[15] = 2;
  const Model model = read(file.tensor("rope_freqs.weight", divisors));
  EXPECT_EQ(rope(model, 0).rotary_dim, 32);
  EXPECT_EQ(std::get<FrequencyDivisors>(rope(model, 0).scaling).divisors.size(), 16U);
  EXPECT_EQ(rope(model, 1), (Rope{.head_dim = 64, .rotary_dim = 64, .base = 1e4, .pairing = Pairing::half}));
}

TEST(Gguf, PhisFactorsAreLongRope) {
  File file = File::of("phi3").f32("rope.freq_base", 1e4F).u32("context_length", 131'072);
  file.u32("rope.scaling.original_context_length", 4096).f32("rope.scaling.attn_factor", 1.19F);
  file.tensor("rope_factors_long.weight", std::vector<float>(32, 4));
  const Model model = read(file.tensor("rope_factors_short.weight", std::vector<float>(32, 1)));
  const auto& scaling = std::get<LongRopeScaling>(rope(model).scaling);
  EXPECT_EQ(scaling.attention_factor, 1.19);
  EXPECT_EQ(scaling.trained_length, 4096);
  EXPECT_EQ(scaling.long_factor, std::vector<double>(32, 4));
}

TEST(Gguf, SlidingLayersHaveTheirBaseAndScaling) {
  File gemma = File::of("gemma3", 12).f32("rope.freq_base", 1e6F).f32("rope.scaling.factor", 8);
  const Model model = read(gemma.word("rope.scaling.type", "linear").u32("attention.sliding_window", 1024));
  EXPECT_EQ(sliding(model), "111110111110");
  EXPECT_EQ(rope(model, 0), (Rope{.head_dim = 64, .rotary_dim = 64, .base = 1e4, .pairing = Pairing::half}));
  EXPECT_EQ(rope(model, 5).base, 1e6);
  EXPECT_EQ(rope(model, 5).scaling, RopeScaling(LinearScaling{8}));
  EXPECT_EQ(sliding(read(gemma.u32("attention.sliding_window", 0))), "000000000000");

  const Model oss = read(yarn(File::of("gpt-oss", 4), 32).u32("attention.sliding_window", 128));
  EXPECT_EQ(sliding(oss), "1010");
  EXPECT_EQ(rope(oss, 0), rope(oss, 1));

  const Model olmo = read(yarn(File::of("olmo2", 4), 8).u32("attention.sliding_window", 4096));
  EXPECT_EQ(rope(olmo, 0).scaling, RopeScaling(NoScaling{}));
  EXPECT_EQ(rope(olmo, 0).attention_factor, 1);
  EXPECT_TRUE(std::holds_alternative<YarnScaling>(rope(olmo, 3).scaling));
  File draft = File::of("dflash", 4).u32("attention.sliding_window", 128).f32("rope.freq_base", 1e6F);
  draft.list("attention.sliding_window_pattern", {1, 1, 1, 0}).f32("rope.freq_base_swa", 1e4F);
  EXPECT_EQ(rope(read(draft), 0).base, 1e6);
  draft.tensor("rope_freqs.weight", std::vector<float>(32, 2));
  EXPECT_TRUE(std::holds_alternative<FrequencyDivisors>(rope(read(draft), 0).scaling));
  EXPECT_EQ(rope(read(draft.list("rope.dimension_sections", {32, 0, 0, 0})), 0).scaling, RopeScaling(NoScaling{}));
  EXPECT_EQ(sliding(read(File::of("modern-bert", 6).u32("attention.sliding_window", 128))), "011011");
  for (const char* architecture : {"modern-bert", "gemma-embedding"}) {
    const Model both = read(File::of(architecture, 6).u32("attention.sliding_window", 128));
    EXPECT_EQ(both.layers[1].window, 65) << architecture;
    EXPECT_EQ(both.layers[1].window_after, 64) << architecture;
  }
  EXPECT_EQ(sliding(read(File::of("gemma2", 4))), "1010");
  EXPECT_EQ(sliding(read(File::of("phi3", 4).u32("attention.sliding_window", 128))), "0000");
  EXPECT_EQ(sliding(read(
                File::of("gemma3", 4).u32("attention.sliding_window", 9).u32("attention.sliding_window_pattern", 2))),
            "1010");
}

TEST(Gguf, CodeLeavesLayersOut) {
  const auto window = [](const char* architecture, std::uint32_t layers) {
    return read(File::of(architecture, layers).u32("attention.sliding_window", 512));
  };
  EXPECT_EQ(turning(window("cohere2", 8)), "11101110");
  EXPECT_EQ(turning(window("exaone-moe", 4)), "1110");
  EXPECT_EQ(turning(read(File::of("exaone4", 8))), "11111111");
  EXPECT_EQ(turning(window("exaone4", 64)).substr(0, 8), "11101110");
  EXPECT_EQ(turning(read(File::of("smollm3", 8))), "11101110");
  EXPECT_EQ(turning(read(File::of("smallthinker", 8))), "11111111");
  EXPECT_EQ(turning(window("smallthinker", 8)), "01110111");
  EXPECT_EQ(turning(window("smallthinker", 4)), "1111");
  EXPECT_EQ(turning(window("afmoe", 8)), "11101110");
  EXPECT_EQ(turning(window("muse-glimmer", 4)), "1110");
  File moe = File::of("cohere2moe", 8).u32("attention.sliding_window", 512).u32("leading_dense_block_count", 1);
  EXPECT_EQ(turning(read(moe)), "11110111");
  File swa = File::of("granite_swa", 4).u32("attention.sliding_window", 512);
  swa.list("attention.sliding_window_pattern", {1, 1, 1, 0}).list("attention.rope_pattern", {1, 0, 1, 0});
  EXPECT_EQ(turning(read(swa)), "1010");
}

TEST(Gguf, LlamaFourHasChunksAndATemperature) {
  const Model model = read(File::of("llama4", 8).f32("rope.freq_base", 5e5F));
  EXPECT_EQ(turning(model), "11101110");
  EXPECT_EQ(model.layers[0].type, "chunked_attention");
  EXPECT_EQ(model.layers[0].window, 8192);
  EXPECT_FALSE(model.layers[0].temperature);
  EXPECT_EQ(model.layers[3].temperature, PositionTemperature::llama4());
  EXPECT_EQ(turning(read(File::of("llama4", 8).u32("attention.sliding_window", 0))), "11111111");
}

TEST(Gguf, MistralHasATemperature) {
  const Model model = read(yarn(File::of("mistral3"), 16).f32("attention.temperature_scale", 0.1F));
  EXPECT_EQ(model.layers[0].temperature, PositionTemperature::ministral3(32'768, 0.1));
}

TEST(Gguf, GranitesSwitchIsWhetherItTurns) {
  EXPECT_EQ(turning(read(File::of("granite"))), "1111");
  EXPECT_EQ(turning(read(File::of("granite").flag("rope.scaling.finetuned", true))), "1111");
  const Model off = read(File::of("granite").flag("rope.scaling.finetuned", false));
  EXPECT_EQ(turning(off), "0000");
  EXPECT_TRUE(warns(off, "granite.rope.scaling.finetuned", "does not turn"));
  EXPECT_EQ(turning(read(llama().flag("rope.scaling.finetuned", false))), "1111");
}

TEST(Gguf, RecurrentLayersHaveNoPositions) {
  const Model hybrid = read(File::of("granitehybrid", 4).list("attention.head_count_kv", {0, 0, 4, 0}));
  EXPECT_EQ(turning(hybrid), "0010");
  EXPECT_EQ(hybrid.layers[0].type, "recurrent");
  EXPECT_EQ(hybrid.kv_heads, 4);
  EXPECT_EQ(turning(read(File::of("qwen3next", 8))), "00010001");
  EXPECT_EQ(turning(read(File::of("minimax-01", 8))), "00000001");
  EXPECT_EQ(turning(read(File::of("qwen3next", 4).list("attention.recurrent_layers", {0, 1, 1, 0}))), "1001");
}

TEST(Gguf, LayersWithoutKeyHeadsAreWhatTheFileMakesOfThem) {
  const auto types = [](const File& file) {
    std::string text;
    for (const Layer& layer : read(file).layers) text += (text.empty() ? "" : " ") + layer.type;
    return text;
  };
  const std::vector<std::int64_t> one_of_four{0, 0, 4, 0};
  EXPECT_EQ(types(File::of("jamba").list("attention.head_count_kv", one_of_four)),
            "recurrent recurrent full_attention recurrent");
  EXPECT_EQ(types(File::of("nemotron_h").list("attention.head_count_kv", one_of_four)),
            "recurrent recurrent full_attention recurrent");
  File mixed = File::of("nemotron_h").list("attention.head_count_kv", one_of_four);
  EXPECT_EQ(types(mixed.list("feed_forward_length", {0, 64, 0, 64})), "recurrent mlp full_attention mlp");
  File experts = File::of("nemotron_h_moe").list("attention.head_count_kv", one_of_four).u32("expert_count", 8);
  EXPECT_EQ(types(experts.list("feed_forward_length", {0, 64, 0, 64})), "recurrent moe full_attention moe");
  const Model model = read(experts);
  EXPECT_FALSE(model.layers[0].attends());
  EXPECT_FALSE(model.layers[1].attends());
  EXPECT_TRUE(model.layers[2].attends());
  EXPECT_FALSE(read(File::of("deci").list("attention.head_count", {8, 0, 8, 8})).layers[1].attends());
}

TEST(Gguf, AlibiIsGivenOrInTheCode) {
  const Model bloom = read(File::of("bloom"));
  EXPECT_EQ(std::get<Alibi>(bloom.layers[0].encoding), Alibi::published(8));
  const Model mpt = read(File::of("mpt").f32("attention.max_alibi_bias", 16));
  EXPECT_EQ(std::get<Alibi>(mpt.layers[0].encoding), Alibi::published(8, 16));
  EXPECT_EQ(std::get<Alibi>(read(File::of("baichuan", 40)).layers[0].encoding), Alibi::published(8));
  EXPECT_EQ(turning(read(File::of("baichuan", 32))), std::string(32, '1'));
}

TEST(Gguf, T5HasBucketsInBothParts) {
  const Model model = read(File::of("t5", 2).u32("attention.relative_buckets_count", 32).u32("decoder_block_count", 3));
  ASSERT_EQ(model.layers.size(), 5U);
  EXPECT_EQ(model.layers[1].part, "encoder");
  EXPECT_EQ(std::get<T5>(model.layers[1].encoding), (T5{.direction = T5Direction::bidirectional}));
  EXPECT_EQ(std::get<T5>(model.layers[2].encoding), (T5{.direction = T5Direction::causal}));
}

TEST(Gguf, TablesStandInTheInput) {
  const Model model =
      read(File::of("bert").tensor("position_embd.weight", {512, 4096}, 14, std::string(512 / 256 * 210 * 4096, '\0')));
  ASSERT_EQ(model.inputs.size(), 1U);
  EXPECT_EQ(std::get<Learned>(model.inputs[0].encoding), (Learned{.length = 4096, .dim = 512}));
  EXPECT_EQ(turning(model), "0000");
  EXPECT_TRUE(read(File::of("mpt")).inputs.empty());
  EXPECT_EQ(model.task, "");
  EXPECT_EQ(read(File::of("bert").flag("attention.causal", false)).task, "understand");
}

TEST(Gguf, SectionsDealPairsOutToAxes) {
  const auto sections = [](const char* architecture, std::vector<std::int64_t> of) {
    return read(File::of(architecture).list("rope.dimension_sections", of));
  };
  EXPECT_EQ(rope(sections("qwen2vl", {8, 12, 12, 0})).axes, RopeAxes::sections({8, 12, 12}));
  EXPECT_EQ(rope(sections("hunyuan_vl", {8, 8, 8, 8})).axes, RopeAxes::sections({8, 8, 8, 8}));
  EXPECT_EQ(rope(sections("qwen2vl", {4, 4, 8, 0})).axes.order, RopeAxes::Order::listed);
  const Model three = sections("qwen3vl", {11, 11, 10, 0});
  EXPECT_EQ(rope(three).axes, RopeAxes::interleaved({11, 11, 10}));
  EXPECT_FALSE(warns(three, "qwen3vl.rope.dimension_sections", ""));
  EXPECT_TRUE(warns(sections("qwen3vl", {14, 9, 9, 0}), "qwen3vl.rope.dimension_sections", "by a fourth position"));
  EXPECT_EQ(rope(sections("glm4", {8, 12, 12, 0})).pairing, Pairing::half);
  EXPECT_EQ(rope(read(File::of("glm4"))).pairing, Pairing::interleaved);
  EXPECT_TRUE(warns(sections("ernie4_5", {8, 12, 12, 0}), "ernie4_5.rope.dimension_sections", "not used"));
}

TEST(Gguf, LayersOfCompressedKeysHaveTheirOwnBase) {
  File file = yarn(File::of("deepseek4", 3), 16).u32("attention.sliding_window", 128).u32("rope.dimension_count", 32);
  file.list("attention.compress_ratios", {0, 4, 128}).f32("attention.compress_rope_freq_base", 160'000);
  const Model model = read(file);
  EXPECT_EQ(rope(model, 0).base, 1e6);
  EXPECT_EQ(rope(model, 0).scaling, RopeScaling(NoScaling{}));
  EXPECT_EQ(rope(model, 1).base, 160'000);
  EXPECT_EQ(resolve(rope(model, 1)).attention_factor, 1);
  EXPECT_EQ(rope(model, 1).part, RotaryPart::last());
  EXPECT_TRUE(warns(model, "general.architecture", "values turn"));
}

TEST(Gguf, HunyuansAlphaRaisesTheBase) {
  EXPECT_EQ(rope(read(File::of("hunyuan_vl").f32("rope.scaling.alpha", 1000))).scaling,
            RopeScaling(AlphaScaling{1000}));
}

TEST(Gguf, BlocksThatPredictFurtherTokensAreNotLayers) {
  const Model model = read(File::of("glm4moe", 5).u32("nextn_predict_layers", 1));
  EXPECT_EQ(model.layers.size(), 4U);
  EXPECT_TRUE(warns(model, "glm4moe.nextn_predict_layers", "predict further tokens"));
}

}  // namespace
}  // namespace bearing
