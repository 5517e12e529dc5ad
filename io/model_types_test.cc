#include <gtest/gtest.h>

#include <algorithm>
#include <bearing/catalog.hpp>
#include <bearing/io.hpp>

namespace bearing {
namespace {

TEST(ModelTypes, AreThoseThatTheReaderReadsSo) {
  const auto has = [](const char* encoding, const char* type) {
    const std::vector<std::string> types = model_types_of(encoding);
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  EXPECT_TRUE(has("rope", "llama"));
  EXPECT_FALSE(has("rope", "gpt_oss"));
  EXPECT_TRUE(has("rope_yarn", "gpt_oss"));
  for (const char* tower : {"pixtral", "qwen2_vl_vision", "dinov3_vit", "gemma4_vision"}) {
    EXPECT_TRUE(has("rope_axial", tower)) << tower;
    EXPECT_FALSE(has("rope", tower)) << tower;
  }
  EXPECT_TRUE(has("rope", "qwen2_vl_text")) << "three axes, which are one in text";
  EXPECT_TRUE(has("alibi", "bloom") || has("alibi_shifted", "bloom"));
  EXPECT_TRUE(has("t5", "t5"));
  EXPECT_TRUE(has("t5_causal", "t5"));
  EXPECT_TRUE(has("learned", "gpt2"));
  EXPECT_TRUE(has("swin_v2", "swinv2"));
  EXPECT_TRUE(has("nope", "mamba"));
  EXPECT_FALSE(has("nope", "gpt2"));
  EXPECT_FALSE(has("nope", "smollm3"));
  EXPECT_FALSE(has("t5", "phi4_multimodal_audio")) << "its code does something else";
  EXPECT_FALSE(has("transformer_xl", "gemma4_audio"));
  EXPECT_TRUE(has("fourier", "perceiver"));
  EXPECT_TRUE(has("sinusoidal_2d", "detr"));
  EXPECT_TRUE(model_types_of("no encoding").empty());
}

TEST(ModelTypes, AreReadAgainWithTheSameAnswer) {
  std::size_t seen = 0;
  for (const Description& one : inspect::catalog()) {
    const std::vector<std::string> types = model_types_of(one.name);
    seen += types.size();
    for (const std::string& type : types)
      EXPECT_NO_THROW(parse_hf_config("{\"model_type\": \"" + type + "\"}")) << type;
  }
  EXPECT_GT(seen, 150u);
}

}  // namespace
}  // namespace bearing
