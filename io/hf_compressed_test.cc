#include <gtest/gtest.h>

#include <bearing/io.hpp>

#include "hf_config_cases.hpp"

// DeepSeek-V4: a base for layers that slide, another for those with compressed keys, values that turn.

namespace bearing {
namespace {

using namespace test;

std::string file(const std::string& keys) {
  return R"({"model_type": "deepseek_v4", "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32, )" +
         keys + "}";
}
std::string told(const std::string& keys) { return described(parse_hf_config(file(keys))); }

const std::string yarn =
    R"("rope_scaling": {"type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
                        "original_max_position_embeddings": 65536}, "max_position_embeddings": 1048576)";

TEST(HfCompressed, EachKindOfLayerTurnsByItsOwnBase) {
  const std::string keys = R"("num_hidden_layers": 4, "compress_ratios": [0, 4, 128, 4, 0], "qk_rope_head_dim": 8,
      "rope_theta": 5000, "compress_rope_theta": 40000, )" +
                           yarn;
  EXPECT_EQ(told(keys),
            "1 sliding_attention@128 interleaved 5000 8/32 default last | "
            "2 compressed_sparse_attention interleaved 40000 8/32 yarn last | "
            "1 heavily_compressed_attention interleaved 40000 8/32 yarn last");
  const Model model = parse_hf_config(file(keys));
  for (const Layer& layer : model.layers) {
    const Rope& rope = std::get<Rope>(layer.encoding);
    ASSERT_TRUE(layer.values.has_value());
    EXPECT_EQ(*layer.values, rope);
    EXPECT_EQ(resolve(rope).attention_factor, 1);
  }
  EXPECT_EQ(model.layers[0].positions, "");
  EXPECT_EQ(model.layers[1].positions, "its index; compressed key i stands at 4 i, beside a window of 128");
  EXPECT_EQ(model.layers[2].positions, "its index; compressed key i stands at 128 i, beside a window of 128");
  EXPECT_TRUE(warns(model, "/index_head_dim", "neighbours in pairs"));
}

TEST(HfCompressed, WhatTheFileDoesNotSayIsTheClass) {
  // Two heavily compressed layers, then these and sparse ones in turn; an eighth of the head turns.
  EXPECT_EQ(told(R"("num_hidden_layers": 5)"),
            "4 heavily_compressed_attention interleaved 160000 4/32 default last | "
            "1 compressed_sparse_attention interleaved 160000 4/32 default last");
  const Model model = parse_hf_config(R"({"model_type": "deepseek_v4"})");
  EXPECT_EQ(model.layers.size(), 43U);
  EXPECT_EQ(std::get<Rope>(model.layers[0].encoding).head_dim, 512);
  EXPECT_EQ(std::get<Rope>(model.layers[0].encoding).rotary_dim, 64);
  EXPECT_EQ(told(R"("num_hidden_layers": 1, "layer_types": ["sliding_attention"], "partial_rotary_factor": 0.5)"),
            "1 sliding_attention@128 interleaved 10000 16/32 default last");
}

TEST(HfCompressed, RatesMayBeTheFiles) {
  const std::string types = R"("num_hidden_layers": 2,
      "layer_types": ["compressed_sparse_attention", "heavily_compressed_attention"], )";
  const auto positions = [&](const std::string& keys, std::size_t layer) {
    return parse_hf_config(file(types + keys)).layers[layer].positions;
  };
  const std::string rates =
      R"("sliding_window": null, "compress_rates": {"compressed_sparse_attention": 2, "heavily_compressed_attention": 8})";
  EXPECT_EQ(positions(rates, 0), "its index; compressed key i stands at 2 i");
  EXPECT_EQ(positions(rates, 1), "its index; compressed key i stands at 8 i");
  EXPECT_EQ(positions(rates + R"(, "compress_rate_hca": 16)", 1), "its index; compressed key i stands at 16 i");
}

TEST(HfCompressed, NewerFilesHaveADictionaryForEachBase) {
  const std::string keys = R"("num_hidden_layers": 2, "layer_types": ["sliding_attention",
      "heavily_compressed_attention"], "rope_theta": 7, "compress_rope_theta": 8, "rope_parameters":
      {"main": {"rope_type": "default", "rope_theta": 5000, "partial_rotary_factor": 0.25},
       "compress": {"rope_type": "yarn", "rope_theta": 40000, "partial_rotary_factor": 0.25, "factor": 4,
                    "original_max_position_embeddings": 1024, "attention_factor": 1.5}}, "max_position_embeddings": 4096)";
  EXPECT_EQ(told(keys),
            "1 sliding_attention@128 interleaved 5000 8/32 default last | "
            "1 heavily_compressed_attention interleaved 40000 8/32 yarn last");
  const Model model = parse_hf_config(file(keys));
  EXPECT_EQ(resolve(std::get<Rope>(model.layers[1].encoding)).attention_factor, 1.5);
}

TEST(HfCompressed, ABaseThatIsSaidTwiceAlikeIsNoWarning) {
  const std::string both = R"("num_hidden_layers": 2, "layer_types": ["sliding_attention",
      "heavily_compressed_attention"], "rope_theta": 5000, "compress_rope_theta": 40000, "rope_parameters":
      {"main": {"rope_type": "default", "rope_theta": 5000, "partial_rotary_factor": 0.25},
       "compress": {"rope_type": "default", "rope_theta": 40000, "partial_rotary_factor": 0.25}})";
  EXPECT_TRUE(parse_hf_config(file(both)).warnings.empty());
}

TEST(HfCompressed, WhatItsCodeDoesNotKnowIsRefused) {
  const auto error = [](const std::string& keys) { return error_of(file("\"num_hidden_layers\": 2, " + keys)); };
  EXPECT_NE(error(R"("compress_ratios": [0, 8])").find("/compress_ratios/1: must be 0, 4 or 128"), std::string::npos)
      << error(R"("compress_ratios": [0, 8])");
  EXPECT_NE(error(R"("compress_ratios": [0])").find("at least 2 numbers, one per layer"), std::string::npos);
  EXPECT_NE(error(R"("layer_types": ["full_attention", "sliding_attention"])").find("/layer_types"), std::string::npos);
  EXPECT_NE(error(R"("compress_rope_theta": 1)").find("/compress_rope_theta"), std::string::npos);
  EXPECT_NE(error(R"("qk_rope_head_dim": 64)").find("/qk_rope_head_dim"), std::string::npos);
}

}  // namespace
}  // namespace bearing
