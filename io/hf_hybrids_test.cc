#include <gtest/gtest.h>

#include <bearing/io.hpp>

#include "hf_config_cases.hpp"

// Hybrid models; python/tests/models/test_layer_types.py holds them to the classes of transformers.

namespace bearing {
namespace {

using namespace test;

TEST(HfHybrids, JambaAndZambaAttendOnceInAPeriod) {
  EXPECT_EQ(told_of("jamba"), "7 linear_attention none | 1 full_attention none");
  const Model jamba = small("jamba", R"("attn_layer_period": 3, "attn_layer_offset": 1)");
  EXPECT_EQ(described(jamba), "5 linear_attention none | 3 full_attention none");
  for (const std::size_t i : {1u, 4u, 7u}) EXPECT_EQ(jamba.layers[i].type, "full_attention");
  EXPECT_FALSE(jamba.layers[0].attends());
  EXPECT_EQ(jamba.head_dim, 16);
  EXPECT_EQ(jamba.kv_heads, 2);
  EXPECT_NE(refusal(R"("model_type": "jamba", "attn_layer_period": 4)")
                .find("/attn_layer_offset: must be below attn_layer_period = 4, got 4"),
            std::string::npos);

  const Model zamba = small("zamba");
  EXPECT_EQ(described(zamba), "6 linear_attention none | 2 hybrid none");
  EXPECT_EQ(zamba.layers[2].type, "hybrid");
  EXPECT_EQ(zamba.layers[7].type, "hybrid");
  EXPECT_TRUE(zamba.layers[7].attends());
  EXPECT_EQ(zamba.head_dim, 32);  // its heads share twice the width
  EXPECT_EQ(small("zamba", R"("attn_layer_period": 2, "attn_layer_offset": 0)").layers[3].type, "hybrid");
  EXPECT_EQ(told_of("zamba", R"("num_hidden_layers": 2, "layers_block_type": ["mamba", "hybrid"])"),
            "1 linear_attention none | 1 hybrid none");
}

TEST(HfHybrids, NemotronHHasALayerForEachLetter) {
  const std::string letters = R"("num_hidden_layers": 5, "hybrid_override_pattern": "ME*-M")";
  EXPECT_EQ(told_of("nemotron_h", letters),
            "2 linear_attention none | 1 moe none | 1 full_attention none | 1 mlp none");
  const Model model = small("nemotron_h", letters);
  EXPECT_EQ(model.layers[3].type, "mlp");
  EXPECT_FALSE(model.layers[1].attends());
  EXPECT_TRUE(model.layers[2].attends());
  EXPECT_FALSE(model.layers[3].attends());
  EXPECT_FALSE(warns(model, "/num_hidden_layers", "is ignored"));

  const Model counted = small("nemotron_h", R"("num_hidden_layers": 8, "hybrid_override_pattern": "M*")");
  EXPECT_EQ(counted.layers.size(), 2u);
  EXPECT_TRUE(warns(counted, "/num_hidden_layers", "8 is ignored: the code of nemotron_h"));
  const Model listed = small("nemotron_h", R"("layers_block_type": ["mamba", "attention"],
      "hybrid_override_pattern": "ME")");
  EXPECT_EQ(described(listed), "1 linear_attention none | 1 full_attention none");
  EXPECT_TRUE(warns(listed, "/hybrid_override_pattern", "says otherwise than layers_block_type, which counts"));
  EXPECT_EQ(parse_hf_config(R"({"model_type": "nemotron_h"})").layers.size(), 4u);  // of its class
  for (const char* pattern : {"\"MX\"", "\"\"", "7"}) {
    const std::string error =
        refusal(R"("model_type": "nemotron_h", "hybrid_override_pattern": )" + std::string(pattern));
    EXPECT_NE(error.find("/hybrid_override_pattern: must be a string"), std::string::npos) << error;
  }
}

TEST(HfHybrids, KimiLinearNumbersItsLayersFromOne) {
  EXPECT_EQ(told_of("kimi_linear"), "7 linear_attention none | 1 full_attention none");
  const Model model = small("kimi_linear", R"("num_hidden_layers": 3, "mla_use_nope": true,
      "linear_attn_config": {"full_attn_layers": [3], "kda_layers": [1, 2]})");
  EXPECT_EQ(described(model), "2 linear_attention none | 1 full_attention none");
  EXPECT_EQ(model.layers[2].type, "full_attention");
  EXPECT_EQ(model.head_dim, 192);
  EXPECT_FALSE(warns(model, "/mla_use_nope", ""));
  const auto refused = [](const char* lists) {
    return refusal(R"("model_type": "kimi_linear", "num_hidden_layers": 3, "linear_attn_config": {)" +
                   std::string(lists) + "}");
  };
  EXPECT_NE(refused(R"("full_attn_layers": [3], "kda_layers": [1])")
                .find("/linear_attn_config/kda_layers: must be a list of all layers from 1 to 3"),
            std::string::npos);
  EXPECT_NE(refused(R"("full_attn_layers": [3], "kda_layers": [1, 2, 3])")
                .find("/linear_attn_config/kda_layers: must be a list of no layer that full_attn_layers names"),
            std::string::npos);
  EXPECT_NE(refused(R"("full_attn_layers": [0], "kda_layers": [1, 2, 3])").find("/linear_attn_config/full_attn_layers"),
            std::string::npos);
}

TEST(HfHybrids, IndicesOfLayersThatAttendMakeTheOthersConvolutions) {
  EXPECT_EQ(told_of("lfm2"), "8 full_attention half 1000000 16/16 default");
  EXPECT_EQ(told_of("lfm2", R"("full_attn_idxs": [2, 5, 99])"),
            "6 conv none | 2 full_attention half 1000000 16/16 default");
}

TEST(HfHybrids, GraniteHybridIsMambaUnlessItsFileSaysOtherwise) {
  EXPECT_EQ(told_of("granitemoehybrid", R"("position_embedding_type": "rope")"), "8 linear_attention none");
  const std::string types = R"("num_hidden_layers": 2, "layer_types": ["mamba", "attention"])";
  EXPECT_EQ(told_of("granitemoehybrid", types), "1 linear_attention none | 1 full_attention none");
  EXPECT_EQ(told_of("granitemoehybrid", types + R"(, "position_embedding_type": "rope")"),
            "1 linear_attention none | 1 full_attention half 10000 16/16 default");
}

TEST(HfHybrids, OfAnUnknownModelAnMlpIsNoAttention) {
  const Model model = parse_hf_config(R"({"model_type": "new", "rope_theta": 500, "head_dim": 8,
      "num_hidden_layers": 2, "layer_types": ["full_attention", "mlp"]})");
  EXPECT_EQ(turning(model), (std::vector<Index>{0}));
  EXPECT_FALSE(model.layers[1].attends());
  EXPECT_NE(error_of(llama(R"("layer_types": ["full_attention", "mlp"])")).find("/layer_types/1: must be"),
            std::string::npos);
}

}  // namespace
}  // namespace bearing
