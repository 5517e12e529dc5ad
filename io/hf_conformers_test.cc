#include <gtest/gtest.h>

#include "hf_config_cases.hpp"

// Conformers; python/tests/test_load_projected.py holds the numbers to the models' own layers.

namespace bearing {
namespace {

using test::described;
using test::error_of;
using test::warns;

TEST(HfConformers, HaveThePositionsThatTheirFilesName) {
  const auto read = [](const std::string& keys) {
    return parse_hf_config(R"({"num_hidden_layers": 2, "model_type": )" + keys + "}");
  };
  const Model relative = read(R"("wav2vec2-conformer")");
  EXPECT_EQ(described(relative), "2 full_attention transformer_xl 0");
  EXPECT_EQ(std::get<TransformerXL>(relative.layers[0].encoding).direction, TransformerXLDirection::bidirectional);
  EXPECT_TRUE(warns(relative, "/model_type", "columns of linear_pos are in that order, until load() sorts them"));
  EXPECT_EQ(described(read(R"("wav2vec2-conformer", "position_embeddings_type": null)")), "2 full_attention none");
  const std::string key = R"(, "position_embeddings_type": "relative_key", "left_max_position_embeddings": 5)";
  EXPECT_EQ(described(read(R"("wav2vec2-bert")" + key)), "2 full_attention wav2vec2_bert_relative 5 8");
  EXPECT_EQ(described(read(R"("wav2vec2-bert", "position_embeddings_type": "relative")")),
            "2 full_attention transformer_xl 0");
  const Model rotary = read(R"("wav2vec2-conformer", "position_embeddings_type": "rotary")");
  EXPECT_EQ(described(rotary), "2 full_attention rope");
  EXPECT_TRUE(warns(rotary, "/position_embeddings_type", "rows turn before they are projected"));
  EXPECT_NE(error_of(R"({"model_type": "wav2vec2-conformer", "position_embeddings_type": "alibi"})")
                .find("must be relative, relative_key, rotary or null, got \"alibi\""),
            std::string::npos);
}

TEST(HfConformers, SeamlessHasFiveParts) {
  const std::string sizes = R"(, "hidden_size": 8, "encoder_attention_heads": 2, "speech_encoder_layers": 2,
      "encoder_layers": 1, "decoder_layers": 1, "t2u_encoder_layers": 1, "t2u_decoder_layers": 1})";
  EXPECT_EQ(described(parse_hf_config(R"({"model_type": "seamless_m4t")" + sizes)),
            "encoder input sinusoidal 8 tensor2tensor padding 0 from 1 | decoder input sinusoidal 8 tensor2tensor "
            "padding 0 from 1 | unit decoder input sinusoidal 8 tensor2tensor padding 1 from 2 | 2 speech encoder "
            "full_attention transformer_xl 0 | 1 encoder full_attention none | 1 decoder full_attention none | 1 unit "
            "encoder full_attention none | 1 unit decoder full_attention none");
  const Model second =
      parse_hf_config(R"({"model_type": "seamless_m4t_v2", "speech_encoder_left_chunk_num": 2)" + sizes);
  EXPECT_EQ(described(second.layers.empty() ? LayerGroup{} : layer_groups(second)[0]),
            "2 speech encoder chunked_attention@20000+19999 wav2vec2_bert_relative 64 8");
  EXPECT_TRUE(warns(second, "/speech_encoder_left_chunk_num", "a frame also sees the 2 chunks before its own"));
  EXPECT_EQ(second.layers[0].chunks_before, 2);
  EXPECT_EQ(lengths_of(second, second.layers[0]).chunks_before, 2);
  EXPECT_EQ(std::get<OtherEncoding>(second.inputs.at(2).encoding).name, "sinusoidal");
  EXPECT_EQ(second.heads, 2);
  EXPECT_EQ(second.head_dim, 4);
}

}  // namespace
}  // namespace bearing
