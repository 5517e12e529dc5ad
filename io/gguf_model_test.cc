#include <gtest/gtest.h>

#include <bearing/error.hpp>
#include <bearing/gguf.hpp>
#include <cmath>

#include "hf_config_cases.hpp"

// A whole model's rotary part, written and read.

namespace bearing {
namespace {

Model corpus_model(const std::string& name) { return read_hf_config((test::corpus / "valid" / name).string()); }

std::string refusal(const Model& model, const std::string& architecture = "") {
  try {
    gguf_model(model, architecture);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(GgufModel, IsReadBackLayerByLayer) {
  int written = 0;
  for (const auto& row : test::table(test::corpus / "valid.tsv")) {
    const Model model = corpus_model(row[0]);
    if (!refusal(model).empty()) continue;
    const GgufModel gguf = gguf_model(model);
    const Model back = parse_gguf(gguf_bytes(gguf));
    ASSERT_EQ(back.layers.size(), model.layers.size()) << row[0];
    ++written;
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const Index window = model.layers[i].window;  // as long as the context it hides nothing
      EXPECT_EQ(back.layers[i].window, window < model.context_length ? window : 0) << row[0] << " layer " << i;
      const auto* wanted = std::get_if<Rope>(&model.layers[i].encoding);
      const auto* got = std::get_if<Rope>(&back.layers[i].encoding);
      ASSERT_EQ(wanted == nullptr, got == nullptr) << row[0] << " layer " << i;
      if (wanted == nullptr) continue;
      const RopeFrequencies a = resolve(*wanted), b = resolve(*got);
      ASSERT_EQ(a.inv_freq.size(), b.inv_freq.size());
      for (std::size_t pair = 0; pair < a.inv_freq.size(); ++pair) {
        EXPECT_NEAR(b.inv_freq[pair], a.inv_freq[pair], std::ldexp(a.inv_freq[pair], -22) + 1e-29) << row[0];
      }
      EXPECT_NEAR(a.softmax_scale_factor, b.softmax_scale_factor, 1e-6) << row[0];
    }
  }
  EXPECT_GE(written, 10);
}

TEST(GgufModel, HasWindowsThatLookBothWays) {
  const Model model = parse_hf_config(R"({"model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": 512,
      "sliding_window_pattern": 6, "use_bidirectional_attention": true})");
  const GgufModel written = gguf_model(model, "gemma-embedding");
  const Model back = parse_gguf(gguf_bytes(written));
  EXPECT_EQ(back.layers[0].window, 257);
  EXPECT_EQ(back.layers[0].window_after, 256);
  EXPECT_EQ(back.layers[5].window, 0);
  EXPECT_NE(refusal(model).find("a window of 257 where its code has"), std::string::npos) << refusal(model);
}

TEST(GgufModel, OfLlamaTurnsNeighboursAndSaysSo) {
  const Model model = corpus_model("llama3_1_8b.json");
  const GgufModel written = gguf_model(model);
  EXPECT_EQ(written.architecture, "llama");
  ASSERT_EQ(written.warnings.size(), 1U);
  EXPECT_NE(written.warnings[0].text.find("must be reordered"), std::string::npos);
  const Model back = parse_gguf(gguf_bytes(written));
  EXPECT_EQ(Pairing{std::get<Rope>(back.layers[0].encoding).pairing}, Pairing::interleaved);
  EXPECT_EQ(back.heads, 32);
  EXPECT_EQ(back.kv_heads, 8);
}

TEST(GgufModel, OfLatentAttentionHasTheHeadsWidthAndOneKeyHead) {
  for (const std::string name : {"deepseek_v2_lite.json", "deepseek_v3.json"}) {
    const Model model = corpus_model(name);
    ASSERT_EQ(refusal(model), "") << name;
    const GgufModel written = gguf_model(model);
    EXPECT_EQ(written.architecture, "deepseek2");
    const std::string text = to_text(written.part);
    EXPECT_NE(text.find("deepseek2.attention.key_length_mla u32 192\n"), std::string::npos) << text;
    EXPECT_NE(text.find("deepseek2.attention.head_count_kv u32 1\n"), std::string::npos) << text;
    const Rope read = std::get<Rope>(parse_gguf(gguf_bytes(written)).layers[0].encoding);
    EXPECT_EQ(read.head_dim, 192);
    EXPECT_EQ(read.rotary_dim, 64);
    EXPECT_EQ(read.part, RotaryPart::last());
  }
}

TEST(GgufModel, RefusesWhatLlamaCppComputesInAnotherWay) {
  const Model llama = corpus_model("llama3_1_8b.json");
  EXPECT_NE(refusal(llama, "gguf").find("architecture: must be one that llama.cpp has, got \"gguf\""),
            std::string::npos);
  EXPECT_NE(refusal(llama, "bloom").find("must be one that turns queries and keys in one way"), std::string::npos);
  Model other = llama;
  other.model_type = "none_such";
  EXPECT_NE(refusal(other).find("must be of a model_type whose architecture in llama.cpp is known, got \"none_such\""),
            std::string::npos);
  other = llama;
  other.layers[7].encoding = NoPosition{};
  EXPECT_NE(refusal(other).find("got layer 7: none where its code has rope"), std::string::npos) << refusal(other);
  other = llama;
  std::get<Rope>(other.layers[9].encoding).base = 123'456;
  EXPECT_NE(refusal(other).find("got layer 9: a frequency of "), std::string::npos) << refusal(other);
  other = llama;
  other.layers[3].window = 64;
  EXPECT_NE(refusal(other).find("got layer 3: a window of 64"), std::string::npos) << refusal(other);
  other = llama;
  other.regions = ModelRegions{.chunks = {.chunk_size = 64, .local_size = 8}};
  EXPECT_NE(refusal(other).find("got regions of one softmax"), std::string::npos);
  EXPECT_NE(refusal(corpus_model("gpt2.json"), "llama").find("got an input with learned"), std::string::npos);
}

TEST(GgufModel, ErrorsNameTheFileUnlessAnArchitectureIsGiven) {
  Model model = corpus_model("gptj_6b.json");
  EXPECT_EQ(refusal(model), model.file +
                                ": must be of a model_type whose code in llama.cpp turns queries and keys in "
                                "one way, got \"gptj\"");
  EXPECT_EQ(refusal(model, "gptj"),
            "[gguf_model] architecture: must be one that turns queries and keys in one way, got \"gptj\"");
  model = read_hf_config((test::source / "examples/models/gpt-oss-20b.json").string());
  EXPECT_EQ(refusal(model).rfind(model.file + ": llama.cpp's code for gpt-oss ", 0), 0U) << refusal(model);
}

TEST(GgufModel, AWindowAsLongAsTheContextHidesNothing) {
  Model model = read_hf_config((test::source / "examples/models/phi-3.5-mini.json").string());
  ASSERT_GE(model.layers[0].window, model.context_length);
  EXPECT_EQ(refusal(model), "");
  for (Layer& layer : model.layers) layer.window = 4096;
  EXPECT_NE(refusal(model).find("layer 0: a window of 4096 where its code has 0"), std::string::npos);
}

TEST(GgufModel, KnowsArchitecturesByModelType) {
  EXPECT_EQ(gguf_architecture_of("mistral"), "llama");
  EXPECT_EQ(gguf_architecture_of("qwen3"), "qwen3");
  EXPECT_EQ(gguf_architecture_of("none_such"), "");
}

}  // namespace
}  // namespace bearing
