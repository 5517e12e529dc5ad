#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "hf_config_cases.hpp"
#include "hf_reader.hpp"
#include "hf_towers.hpp"

// Composites and their towers; python/tests/models/test_towers.py holds the numbers to the models' own modules.

namespace bearing {
namespace {

using test::described;
using test::error_of;
using test::warns;

const std::string small_llama =
    R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
        "max_position_embeddings": 128})";

Model llava(const std::string& vision) {
  return parse_hf_config(R"({"model_type": "llava", "text_config": )" + small_llama + R"(, "vision_config": )" +
                         vision + "}");
}

TEST(HfTowers, StandBesideTheLanguageModel) {
  const Model model = llava(R"({"model_type": "clip_vision_model", "image_size": 336, "patch_size": 14,
      "hidden_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 16})");
  EXPECT_EQ(model.part, "");
  EXPECT_EQ(described(model), "2 full_attention half 10000 16/16 default");
  ASSERT_EQ(model.towers.size(), 1u);
  EXPECT_EQ(model.towers[0].part, "vision tower");
  EXPECT_EQ(described(model.towers[0]), "input learned 577x1024 | 3 full_attention none");
  EXPECT_EQ(model.towers[0].heads, 16);
}

TEST(HfTowers, AreTheCompositesOwnIfTheirWordIsNoModels) {
  for (const char* word : {"\"qwen2_vl\"", "null"}) {
    const Model model = parse_hf_config(std::string(R"({"model_type": "qwen2_vl", "hidden_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 128,
        "vision_config": {"model_type": )") +
                                        word + R"(, "embed_dim": 64, "num_heads": 4, "depth": 2}})");
    ASSERT_EQ(model.towers.size(), 1u);
    EXPECT_EQ(model.towers[0].model_type, "qwen2_vl_vision");
    EXPECT_EQ(described(model.towers[0]), "2 full_attention half 10000 16/16 default axes 2");
    EXPECT_EQ(model.towers[0].layers[0].positions, "row and column of the patch, from 0");
  }
}

TEST(HfTowers, SayWhatLayersWithWindowsSee) {
  const auto read = [](const std::string& more) {
    return parse_hf_config(R"({"model_type": "qwen2_5_vl", "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 128, "vision_config": {
        "model_type": "qwen2_5_vl", "hidden_size": 64, "num_heads": 4, "depth": 9)" +
                           more + "}}");
  };
  const std::string usual = "in 8 of 9 layers a patch sees those of its own window of the image alone, ";
  const Model given = read(R"(, "fullatt_block_indexes": [2], "window_size": 56)");
  EXPECT_TRUE(warns(given, "/vision_config/window_size",
                    usual + "56 pixels each way, which is no run of tokens; the whole image is seen by layer 2"));
  const Model left_out = read("");
  EXPECT_TRUE(warns(left_out, "/vision_config/window_size", usual + "112 pixels each way"));
  EXPECT_TRUE(warns(left_out, "/vision_config/window_size", "seen by layer 7"));
  EXPECT_TRUE(warns(left_out, "/vision_config/fullatt_block_indexes", "[7, 15, 23, 31] is the default of"));
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(given.towers.at(0).layers[i].type, i == 2 ? "full_attention" : "window_attention");
    EXPECT_EQ(left_out.towers.at(0).layers[i].type, i == 7 ? "full_attention" : "window_attention");
  }
  const Model all = read(R"(, "fullatt_block_indexes": [0, 1, 2, 3, 4, 5, 6, 7, 8], "window_size": 56)");
  EXPECT_FALSE(warns(all, "/vision_config/window_size", "window"));
}

TEST(HfTowers, ThatAreNotReadDoNotHideTheLanguageModel) {
  const Model unknown = llava(R"({"model_type": "my_vit", "rope_theta": 100})");
  EXPECT_EQ(described(unknown), "2 full_attention half 10000 16/16 default");
  EXPECT_EQ(described(unknown.towers.at(0)), "1 full_attention unknown");
  EXPECT_TRUE(warns(unknown, "/vision_config", "the vision tower is not read: the model_type \"my_vit\" is not known"));
  const Model wrong = llava(R"({"model_type": "clip_vision_model", "image_size": 8, "patch_size": 16})");
  EXPECT_EQ(wrong.layers.size(), 2u);
  EXPECT_TRUE(warns(wrong, "/vision_config", "must divide image_size into 1 to 65536 patches each way"));
}

TEST(HfTowers, WithoutALanguageModelTheFirstPartIsTheMainOne) {
  const Model clip = parse_hf_config(R"({"model_type": "clip", "text_config": {}, "vision_config": {}})");
  EXPECT_EQ(clip.model_type, "clip_text_model");
  EXPECT_EQ(described(clip), "input learned 77x512 | 1 full_attention none");
  EXPECT_EQ(clip.towers.at(0).model_type, "clip_vision_model");
  const Model sam = parse_hf_config(R"({"model_type": "sam", "vision_config": {"num_hidden_layers": 3,
      "global_attn_indexes": [2]}, "prompt_encoder_config": {}})");
  EXPECT_EQ(sam.part, "vision tower");
  EXPECT_EQ(described(sam), "input learned 4096x768 | 2 window_attention sam | 1 full_attention sam");
  EXPECT_EQ(std::get<Sam>(sam.layers[0].encoding), (Sam{14, 14}));
  EXPECT_EQ(std::get<Sam>(sam.layers[2].encoding), (Sam{64, 64}));
  EXPECT_EQ(sam.towers.at(0).part, "prompt encoder");
  const Model both = parse_hf_config(R"({"model_type": "vision-encoder-decoder", "encoder": {"model_type": "vit"},
      "decoder": {"model_type": "gpt2", "n_layer": 2}})");
  EXPECT_EQ(both.part, "decoder");
  EXPECT_EQ(described(both), "input learned 1024x768 | 2 full_attention none");
  EXPECT_EQ(both.towers.at(0).model_type, "vit");
}

TEST(HfTowers, PartsOfPartsHaveBothNames) {
  const Model model = parse_hf_config(R"({"model_type": "deepseek_ocr2", "text_config": )" + small_llama + R"(,
      "vision_config": {"sam_config": {}, "encoder_config": {"model_type": "clip_vision_model"}}})");
  ASSERT_EQ(model.towers.size(), 2u);
  EXPECT_EQ(model.towers[0].part, "vision tower");
  EXPECT_EQ(model.towers[0].model_type, "deepseek_ocr2_sam_vision_model");
  EXPECT_EQ(model.towers[1].part, "vision tower, encoder");
}

TEST(HfTowers, AllPartsTogetherHaveNoMoreLayersThanOne) {
  const std::string many = R"({"model_type": "clip_vision_model", "num_hidden_layers": 4000})";
  const std::string text = R"({"model_type": "llava", "text_config": )" + small_llama + R"(, "vision_config": )" +
                           many + R"(, "audio_config": )" + many + "}";
  EXPECT_NE(error_of(text).find("/audio_config: must not bring the layers of all parts above 4096, got 8002"),
            std::string::npos)
      << error_of(text);
}

struct AxialCase {
  const char* model_type;
  const char* text;
  RopeAxes::Order order;
  RopeAxes::Frequencies frequencies;
};

TEST(HfTowers, TurnByEveryLayout) {
  using Order = RopeAxes::Order;
  using Frequencies = RopeAxes::Frequencies;
  const AxialCase cases[] = {
      {"qwen3_vl_vision", "half 10000 48/48 default axes 2", Order::contiguous, Frequencies::restarted},
      {"inkling2_vision", "interleaved 10000 48/48 default axes 2", Order::contiguous, Frequencies::restarted},
      {"kimi_k25_vision", "half 10000 48/48 default axes 2", Order::interleaved, Frequencies::restarted},
      {"pixtral", "half 10000 48/48 default axes 2", Order::contiguous, Frequencies::strided},
      {"dinov3_vit", "half 100 48/48 default axes 2", Order::contiguous, Frequencies::restarted},
  };
  for (const AxialCase& one : cases) {
    const Model model = parse_hf_config(std::string(R"({"model_type": ")") + one.model_type + R"(", "hidden_size": 96,
        "num_attention_heads": 2, "num_hidden_layers": 1})");
    EXPECT_EQ(test::spec_text(model.layers[0].encoding), one.text) << one.model_type;
    const RopeAxes& axes = test::first_rope(model).axes;
    EXPECT_EQ(axes.order, one.order) << one.model_type;
    EXPECT_EQ(axes.frequencies, one.frequencies) << one.model_type;
    EXPECT_EQ(axes.pairs, (std::vector<Index>{12, 12})) << one.model_type;
  }
}

TEST(HfTowers, SayTheImagesThatTheyAreTrainedOn) {
  const auto layer = [](const std::string& members) { return parse_hf_config("{" + members + "}").layers[0]; };
  EXPECT_EQ(layer(R"("model_type": "dinov3_vit")").grid, (GridSize{14, 14}));
  EXPECT_EQ(layer(R"("model_type": "mlcd_vision_model", "image_size": 448)").grid, (GridSize{32, 32}));
  EXPECT_EQ(layer(R"("model_type": "sapiens2", "image_size": [1024, 768])").grid, (GridSize{64, 48}));
  EXPECT_EQ(layer(R"("model_type": "qwen2_vl_vision", "image_size": 336)").grid, GridSize{}) << "images of any size";
  EXPECT_NEAR(layer(R"("model_type": "eomt_dinov3")").span, 6.283185307179586, 1e-15);
  EXPECT_EQ(layer(R"("model_type": "pixtral")").span, 0);
  EXPECT_NE(layer(R"("model_type": "pixtral")").positions.find("image_size is the largest side"), std::string::npos);
}

TEST(HfTowers, SizesOfImagesThatTheFileLacksAreSaidToBeDefaults) {
  const auto of_image = [](const std::string& members) {
    std::string all;
    for (const ConfigWarning& one : parse_hf_config("{" + members + "}").warnings) {
      if (one.pointer == "/image_size" || one.pointer == "/patch_size") all += one.pointer + ": " + one.text + '\n';
    }
    return all;
  };
  EXPECT_EQ(of_image(R"("model_type": "pixtral")"),
            "/image_size: not in the file; 1024 is the default of pixtral\n"
            "/patch_size: not in the file; 16 is the default of pixtral\n");
  EXPECT_EQ(of_image(R"("model_type": "dinov3_vit", "patch_size": 8)"),
            "/image_size: not in the file; 224 is the default of dinov3_vit\n");
  EXPECT_EQ(of_image(R"("model_type": "dinov3_vit", "image_size": 224, "patch_size": 8)"), "");
  EXPECT_EQ(of_image(R"("model_type": "qwen2_vl_vision")"), "") << "images of any size";
}

TEST(HfTowers, AreReadThoughTheirImagesHaveNoWholePatch) {
  const Model model = parse_hf_config(R"({"model_type": "pixtral", "image_size": 8, "patch_size": 16})");
  EXPECT_EQ(model.layers.size(), 24u);
  EXPECT_EQ(model.layers[0].grid, GridSize{});
  EXPECT_TRUE(std::any_of(model.warnings.begin(), model.warnings.end(), [](const ConfigWarning& one) {
    return one.pointer == "/image_size" &&
           one.text == "how many patches the images of training had is not told: image_size over patch_size is 0 x 0";
  }));
}

TEST(HfTowers, ThreeAxesLeaveTheRestOfTheHead) {
  const Model model = parse_hf_config(R"({"model_type": "minimax_m3_vl_vision", "hidden_size": 160,
      "num_attention_heads": 2, "num_hidden_layers": 1})");
  EXPECT_EQ(test::spec_text(model.layers[0].encoding), "half 10000 78/80 default axes 3");
}

TEST(HfTowers, Gemma4PairsHalvesInsideTheBlockOfEachAxis) {
  const Layer layer = parse_hf_config(R"({"model_type": "gemma4_vision", "head_dim": 16})").layers[0];
  EXPECT_EQ(std::get<Rope>(layer.encoding).axes, RopeAxes::blocks({4, 4}));
  EXPECT_EQ(resolve(std::get<Rope>(layer.encoding)).blocks, (std::vector<Index>{4, 4}));
  EXPECT_TRUE(layer.also.empty());
  EXPECT_EQ(layer.positions, "column and row of the patch, from 0");
}

TEST(HfTowers, RefuseScalingsThatTheirCodeDoesNotKnow) {
  EXPECT_NE(error_of(R"({"model_type": "pixtral", "rope_parameters": {"rope_type": "yarn", "factor": 4}})")
                .find("/rope_parameters/rope_type: must be axial or default, got \"yarn\""),
            std::string::npos);
  EXPECT_NE(error_of(R"({"model_type": "pixtral", "rope_parameters": {"partial_rotary_factor": 0.5}})")
                .find("/rope_parameters/partial_rotary_factor: must be 1"),
            std::string::npos);
  EXPECT_NE(
      error_of(R"({"model_type": "pixtral", "head_dim": 18})").find("heads of a multiple of 4 dimensions, got 18"),
      std::string::npos);
}

TEST(HfTowers, LayersThatSeeWindowsAreNamed) {
  const Model model =
      parse_hf_config(R"({"model_type": "qwen2_5_vl_vision", "depth": 4, "fullatt_block_indexes": [3]})");
  EXPECT_EQ(model.layers[0].type, "window_attention");
  EXPECT_EQ(model.layers[3].type, "full_attention");
  const Model conv = parse_hf_config(R"({"model_type": "lfm3_vl_vision", "num_hidden_layers": 2,
      "layer_types": ["conv", "full_attention"]})");
  EXPECT_EQ(described(conv), "1 conv none | 1 full_attention half 1000000 64/64 default axes 2");
}

TEST(HfTowers, ScoresOfSpeechAndDocuments) {
  const Model wavlm = parse_hf_config(R"({"model_type": "wavlm", "num_hidden_layers": 1})");
  EXPECT_EQ(std::get<GatedT5>(wavlm.layers[0].encoding).buckets, 320);
  EXPECT_EQ(encoding_name(wavlm.inputs.at(0).encoding), "convolution");
  const Model vits = parse_hf_config(R"({"model_type": "vits", "num_hidden_layers": 1})");
  EXPECT_EQ(std::get<Shaw>(vits.layers[0].encoding), (Shaw{4, ShawOutside::zero}));
  const Model document = parse_hf_config(R"({"model_type": "layoutlmv3", "num_hidden_layers": 1, "hidden_size": 64,
      "num_attention_heads": 1})");
  const Layer& layer = document.layers[0];
  ASSERT_EQ(layer.also.size(), 2u);
  EXPECT_EQ(std::get<T5Axis>(layer.encoding).max_distance, 128);
  EXPECT_EQ(Index{std::get<T5Axis>(layer.also[1]).axis}, 2);
  EXPECT_EQ(std::get<T5Axis>(layer.also[1]).scale, 1.0 / 8);
  EXPECT_EQ(document.inputs.size(), 6u);
  EXPECT_EQ(std::get<T5Axis>(parse_hf_config(R"({"model_type": "layoutlmv2"})").layers[0].encoding).scale, 1);
}

// In the order of their tables, after the names in each model's code.
TEST(HfTowers, InputsOfOnePartHaveLabels) {
  const auto labels = [](const char* type) {
    std::string text;
    for (const ModelInput& input : parse_hf_config(std::string("{\"model_type\": \"") + type + "\"}").inputs) {
      text += (text.empty() ? "" : " ") + input.label;
    }
    return text;
  };
  EXPECT_EQ(labels("layoutlm"), "text x y height width");
  EXPECT_EQ(labels("layoutlmv2"), "text x y height width");
  EXPECT_EQ(labels("layoutlmv3"), "text image x y height width");
  EXPECT_EQ(labels("lilt"), "text left upper right lower height width box");
  EXPECT_EQ(labels("udop"), "left upper right lower");
  EXPECT_EQ(labels("pix2struct_vision_model"), "row column");
  EXPECT_EQ(labels("bert"), "");
  EXPECT_EQ(labels("whisper"), "");  // their parts tell them apart
}

TEST(HfTowers, NoTwoInputsOfAPartHaveOneLabel) {
  for (const std::string_view type : hf::model_types()) {
    Model model;
    try {
      model = parse_hf_config("{\"model_type\": \"" + std::string(type) + "\"}");
    } catch (const ConfigError&) {
      continue;  // of sizes that such a file must have
    }
    std::set<std::pair<std::string, std::string>> seen;
    for (const ModelInput& input : model.inputs) {
      EXPECT_TRUE(seen.emplace(input.part, input.label).second) << type << ": " << input.part << '.' << input.label;
    }
  }
}

TEST(HfTowers, WhatIsNamedSaysWhy) {
  const Model model = parse_hf_config(R"({"model_type": "hubert", "num_hidden_layers": 2})");
  EXPECT_EQ(described(model), "2 full_attention convolution");
  EXPECT_NE(std::get<OtherEncoding>(model.layers[0].encoding).why.find("convolution over neighbouring frames"),
            std::string::npos);
  EXPECT_EQ(described(parse_hf_config(R"({"model_type": "resnet"})")), "1 full_attention none");
}

TEST(HfTowers, EveryPartOfACompositeIsAKnownTypeOrSaidToBeUnknown) {
  for (const hf::CompositePart& part : hf::composite_parts("qwen2_5_vl")) EXPECT_TRUE(hf::known_type(part.model_type));
  EXPECT_TRUE(hf::composite_parts("llama").empty());
}

TEST(HfTowers, PartsOfPartsThatSpeakAreRead) {
  const Model model = parse_hf_config(R"({"model_type": "qwen3_omni_moe",
      "thinker_config": {"text_config": {"head_dim": 128}},
      "talker_config": {"text_config": {"head_dim": 128}, "code_predictor_config": {}},
      "code2wav_config": {"num_hidden_layers": 2}})");
  std::string read;
  for (const Model& tower : model.towers) read += tower.part + ": " + described(tower) + "\n";
  EXPECT_EQ(read,
            "talker: 20 full_attention half 10000 128/128 default axes 3\n"
            "talker, code predictor: 5 full_attention half 10000 128/128 default\n"
            "code2wav: 2 sliding_attention@72 half 10000 64/64 default\n");
}

TEST(HfTowers, GraniteSpeechWidthHoldsEveryHead) {
  try {
    parse_hf_config(R"({"model_type": "granite_speech_encoder", "hidden_dim": 4, "num_heads": 8})");
    ADD_FAILURE() << "no error";
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find("/hidden_dim: must be at least the number of heads, 8, got 4"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace bearing
