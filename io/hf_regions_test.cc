#include <gtest/gtest.h>

#include <bearing/io.hpp>
#include <cmath>

#include "hf_config_cases.hpp"

// dual_chunk_attention_config; what it refuses is in the corpus of malformed files.

namespace bearing {
namespace {

TEST(HfRegions, OfQwenAreDualChunks) {
  const Model model = read_hf_config((test::corpus / "valid/qwen2_5_7b_1m.json").string());
  ASSERT_TRUE(model.regions.has_value());
  EXPECT_EQ(model.regions->chunks, (DualChunk{.chunk_size = 262'144, .local_size = 8'192}));
  EXPECT_EQ(model.trained_length, 262'144);
  EXPECT_EQ(model.context_length, 1'010'000);
  // No distance that is turned is longer than a chunk.
  EXPECT_EQ(lengths_of(model, model.layers[0]).longest, 262'144);
  for (const ConfigWarning& warning : model.warnings) EXPECT_EQ(warning.pointer.find("dual_chunk"), std::string::npos);
}

TEST(HfRegions, SharpenTheSoftmaxPastTheOriginalLength) {
  ModelRegions regions{.chunks = {.chunk_size = 64, .local_size = 8}, .original_length = 100};
  EXPECT_EQ(regions.softmax_factor(7), 1);
  EXPECT_EQ(regions.softmax_factor(100), 1);
  EXPECT_DOUBLE_EQ(regions.softmax_factor(1'000), 1 + 0.1 * std::log(10.0));
  regions.original_length = 0;
  EXPECT_EQ(regions.softmax_factor(1'000), 1);
}

TEST(HfRegions, AreNotThereWithoutTheirKey) {
  const std::string file = R"({"model_type": "qwen2", "num_hidden_layers": 2, "dual_chunk_attention_config": null})";
  EXPECT_FALSE(parse_hf_config(file).regions.has_value());
}

}  // namespace
}  // namespace bearing
