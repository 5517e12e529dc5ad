#include <gtest/gtest.h>

#include "hf_config_cases.hpp"

// Windows and chunks of encoders; python/tests/models/test_windows.py holds them to the models' own masks.

namespace bearing {
namespace {

using test::described;
using test::error_of;
using test::warns;

Model read(const std::string& keys) { return parse_hf_config("{\"model_type\": " + keys + "}"); }

TEST(HfWindows, NemotronsFramesSeeTheirChunkAndSomeBeforeIt) {
  const std::string type = R"("nemotron_asr_streaming_encoder", "num_hidden_layers": 2)";
  const Model model = read(type + R"(, "sliding_window": 9, "default_num_lookahead_tokens": 3)");
  EXPECT_EQ(described(model), "2 chunked_attention@4+3 transformer_xl 0");
  EXPECT_EQ(model.layers[0].chunks_before, 2);
  EXPECT_TRUE(warns(model, "/default_num_lookahead_tokens", "own chunk of 4 frames and the 2 before it"));
  EXPECT_EQ(described(read(type)), "2 chunked_attention@14+13 transformer_xl 0");
  EXPECT_EQ(read(type).layers[0].chunks_before, 5);
  EXPECT_EQ(described(read(R"("parakeet_encoder", "num_hidden_layers": 2)")), "2 full_attention transformer_xl 0");
}

TEST(HfWindows, MoonshineStreamingHasAPairForEachLayerAndATableForFrames) {
  const std::string file = R"("moonshine_streaming", "num_attention_heads": 4, "head_dim": 40, "num_hidden_layers": 1,
      "max_position_embeddings": 90, "encoder_config": {"hidden_size": 24, "num_hidden_layers": 2)";
  const Model model = read(file + R"(, "sliding_windows": [[4, 2], [5, 0]]})");
  EXPECT_EQ(described(model.inputs.at(0)), "cross-attention input learned 90x24");
  EXPECT_NE(model.inputs[0].positions.find("encoder's frame"), std::string::npos);
  EXPECT_EQ(described(model.towers.at(0)), "1 sliding_attention@4+1 none | 1 sliding_attention@5 none");
  EXPECT_TRUE(warns(model, "/encoder_config/sliding_windows", "none without one"));
  const std::string encoder = R"("moonshine_streaming_encoder")";
  EXPECT_EQ(described(read(encoder)), "4 sliding_attention@16+3 none | 2 sliding_attention@16 none");
  for (const char* wrong : {"7", "[[4, 2]]", "[[4, 2], [4]]", "[[0, 2], [4, 2]]", "[[4, -1], [4, 2]]", "[[4, 2], 4]"}) {
    EXPECT_NE(error_of("{\"model_type\": " + encoder + R"(, "num_hidden_layers": 2, "sliding_windows": )" + wrong + "}")
                  .find("/sliding_windows: must be a list for each layer of two whole numbers"),
              std::string::npos)
        << wrong;
  }
}

TEST(HfWindows, LongformerSeesHalfOfItsNumberOnEachSide) {
  const Model model = read(R"("longformer", "num_hidden_layers": 2, "attention_window": [8, 4])");
  EXPECT_EQ(described(model),
            "input learned 510x768 offset 2 padding 1 | 1 local_attention@5+4 none | 1 local_attention@3+2 none");
  EXPECT_TRUE(warns(model, "/attention_window", "global_attention_mask see all others"));
  const Model led = read(R"("led", "encoder_layers": 1, "decoder_layers": 1, "attention_window": 6)");
  EXPECT_EQ(led.layers[0].window_after, 3);
  EXPECT_EQ(led.layers[1].window, 0);
  EXPECT_EQ(read(R"("longformer")").layers[11].window, 257);
  const auto refused = [](const std::string& window) {
    return error_of(R"({"model_type": "longformer", "num_hidden_layers": 2, "attention_window": )" + window + "}");
  };
  EXPECT_NE(refused("7").find("must be even, half of it for each side, got 7"), std::string::npos);
  EXPECT_NE(refused("[8]").find("must be a whole number, or 2, one per layer"), std::string::npos);
}

TEST(HfWindows, BigBirdsBlocksAreDrawn) {
  const Model model = read(R"("big_bird", "num_hidden_layers": 1)");
  EXPECT_EQ(model.layers[0].type, "block_sparse_attention");
  EXPECT_TRUE(warns(model, "/attention_type", "of blocks of 64 tokens a query sees its own"));
  EXPECT_EQ(read(R"("big_bird", "attention_type": "original_full")").layers[0].type, "full_attention");
  const Model both = read(R"("bigbird_pegasus", "encoder_layers": 1, "decoder_layers": 1)");
  EXPECT_EQ(both.layers[0].type, "block_sparse_attention");
  EXPECT_EQ(both.layers[1].type, "full_attention");
}

TEST(HfWindows, QwensSoundIsCutIntoChunks) {
  const Model second = read(R"("qwen2_5_omni_audio_encoder", "n_window": 20, "encoder_layers": 2)");
  EXPECT_EQ(described(second), "input sinusoidal 1280 tensor2tensor | 2 chunked_attention@20+19 none");
  EXPECT_EQ(second.inputs[0].positions, "index of the frame in its own chunk of 20 frames");
  EXPECT_TRUE(warns(second, "/n_window", "positions on the input begin again every 20 frames"));
  for (const char* type : {"qwen3_omni_moe_audio_encoder", "qwen3_asr_encoder"}) {
    const Model third = read('"' + std::string(type) + R"(", "encoder_layers": 2, "max_position_embeddings": 13)");
    EXPECT_EQ(third.layers[0].window, 104) << type;
    EXPECT_EQ(third.inputs[0].positions, "index of the frame in its own chunk of 13 frames") << type;
    EXPECT_EQ(third.context_length, 0) << type;
    EXPECT_EQ(third.trained_length, 0) << type;
  }
  EXPECT_NE(error_of(R"({"model_type": "qwen3_asr_encoder", "n_window_infer": 99})")
                .find("/n_window_infer: must be at least 2 n_window = 100, got 99"),
            std::string::npos);
}

TEST(HfWindows, ForecastsCountOnFromWhatCameBefore) {
  const auto first = [](const std::string& keys) {
    const Model model = read(keys);
    EXPECT_EQ(model.inputs.at(0).first_position, 0);
    return model.inputs.at(1).first_position;
  };
  EXPECT_EQ(first(R"("time_series_transformer", "context_length": 24, "prediction_length": 5)"), 24);
  EXPECT_EQ(first(R"("informer", "prediction_length": 5)"), 5);
  EXPECT_EQ(first(R"("autoformer", "context_length": 24)"), 14);
  EXPECT_EQ(first(R"("autoformer", "context_length": 24, "label_length": 4)"), 20);
  EXPECT_TRUE(warns(read(R"("informer")"), "/context_length", "the decoder's first position is it, and 0 is shown"));
  EXPECT_NE(error_of(R"({"model_type": "autoformer", "context_length": 4})").find("/label_length"), std::string::npos);
}

}  // namespace
}  // namespace bearing
