#include <gtest/gtest.h>

#include <bearing/io.hpp>

#include <algorithm>
#include <cmath>

#include "hf_config_cases.hpp"

namespace bearing {
namespace {

using namespace test;

TEST(HfNewerFamilies, TurnNeighboursWhereTheirCodeDoes) {
  EXPECT_EQ(told_of("openai_privacy_filter", R"("head_dim": 16, "sliding_window": 8)"),
            "8 sliding_attention@9+8 interleaved 150000 16/16 yarn");
  EXPECT_EQ(told_of("blt_local_decoder"), "8 full_attention interleaved 500000 16/16 default");
  EXPECT_EQ(told_of("pe_audio_encoder"), "8 full_attention interleaved 20000 16/16 default");
  EXPECT_EQ(told_of("moonshine_streaming", R"("head_dim": 40)"),
            "cross-attention input learned 4096x320 | 8 full_attention interleaved 10000 32/40 default");
}

TEST(HfNewerFamilies, OfLatentAttentionTurnTheirLastDimensions) {
  const std::string sizes = R"("qk_rope_head_dim": 8, "qk_nope_head_dim": 16)";
  EXPECT_EQ(told_of("axk1", sizes), "8 full_attention interleaved 10000 8/24 default last");
  EXPECT_EQ(told_of("axk1", sizes + R"(, "rope_interleave": false)"), "8 full_attention half 10000 8/24 default last");
  EXPECT_EQ(told_of("axk2", sizes), "8 indexed_attention interleaved 10000 8/24 default last");
  EXPECT_EQ(told_of("hy_v4", sizes), "8 indexed_attention half 10000 8/24 default last");
  EXPECT_EQ(told_of("sarvam_mla", sizes + R"(, "head_dim": 520)"),
            "8 full_attention interleaved 10000 8/24 default last");
  EXPECT_EQ(told_of("bailing_hybrid", sizes + R"(, "layer_group_size": 4)"),
            "6 linear_attention none | 2 full_attention interleaved 6000000 8/24 default last");
}

TEST(HfNewerFamilies, LatentAttentionTurnsByThreeAxesInHy4Vl) {
  const std::string sizes = R"("num_hidden_layers": 1, "qk_rope_head_dim": 64, "qk_nope_head_dim": 16)";
  const auto axes = [&](const std::string& keys) {
    return std::get<Rope>(small("hy_v4_vl_text", sizes + keys).layers[0].encoding).axes;
  };
  EXPECT_EQ(axes(""), RopeAxes::interleaved({12, 10, 10}));
  EXPECT_EQ(axes(R"(, "rope_parameters": {"rope_type": "default", "mrope_section": [16, 8, 8]})"),
            RopeAxes::interleaved({16, 8, 8}));
}

TEST(HfNewerFamilies, DoryCountsAttentionAndFeedForwardAsLayers) {
  const std::string bases = R"("rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 70000},
      "sliding_attention": {"rope_type": "default", "rope_theta": 500}}, )";
  const std::string four =
      "3 sliding_attention@1024 half 500 256/256 default | "
      "1 full_attention half 70000 256/256 default";
  const auto layers = [](const std::string& list) { return R"("head_dim": 256, "layer_types": [)" + list + "]"; };
  const std::string sliding = R"("sliding_attention", "mlp", )";
  EXPECT_EQ(told_of("dory", bases + layers(sliding + sliding + sliding + R"("full_attention", "mlp")")), four);
  EXPECT_EQ(told_of("dory", R"("num_hidden_layers": 4, )" + bases + R"("head_dim": 256)"), four);
  EXPECT_EQ(told_of("dory", R"("num_hidden_layers": 4, "head_dim": 256)"),
            "3 sliding_attention@1024 half 10000 256/256 default | 1 full_attention half 10000000 256/256 default");
  const std::string by_turns = "/layer_types: must be a type of attention and mlp by turns";
  for (const char* last : {R"("full_attention", "full_attention")", R"("mlp", "full_attention")"}) {
    EXPECT_NE(refusal(R"("model_type": "dory", "num_hidden_layers": 8, )" + layers(sliding + sliding + sliding + last))
                  .find(by_turns),
              std::string::npos);
  }
}

std::pair<Index, Index> window_of(const std::string& type, const std::string& keys) {
  const Model model = small(type, keys);
  const auto at = std::find_if(model.layers.begin(), model.layers.end(), [](const Layer& l) { return l.window > 0; });
  return {at->window, at->window_after};
}

TEST(HfNewerFamilies, ARampThatIsNotRoundedIsReadByTheirCodeBesideLayerTypesAlone) {
  const std::string yarn =
      R"("rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 128, "rope_theta": 300)";
  const std::string sliding = R"("sliding_attention": {"rope_type": "default", "rope_theta": 200})";
  const auto warned = [&](const std::string& type, const std::string& parameters) {
    return warns(small(type, R"("max_position_embeddings": 512, "rope_parameters": {)" + parameters + "}"),
                 "/rope_parameters/full_attention/truncate", "reads it only beside the dictionaries of layer types");
  };
  EXPECT_TRUE(warned("gemma3_text", sliding + R"(, "full_attention": {"truncate": false, )" + yarn + "}"));
  EXPECT_FALSE(warned("gemma3_text", sliding + R"(, "full_attention": {"truncate": true, )" + yarn + "}"));
  EXPECT_FALSE(warned("llama", R"("truncate": false, )" + yarn));
}

TEST(HfWindows, AreThoseOfTheMasksOfTheirCode) {
  using Window = std::pair<Index, Index>;
  const std::string nine = R"("sliding_window": 9)";
  EXPECT_EQ(window_of("gemma2", nine), Window(9, 0));
  for (const char* type : {"embedding_gemma2_text", "neomme", "openai_privacy_filter", "ultrabert"}) {
    EXPECT_EQ(window_of(type, nine), Window(10, 9)) << type;
  }
  for (const char* number : {"128", "129"}) {
    EXPECT_EQ(window_of("modernbert", std::string(R"("local_attention": )") + number), Window(65, 64));
    EXPECT_EQ(window_of("modernbert-decoder", std::string(R"("local_attention": )") + number), Window(64, 0));
  }
  EXPECT_EQ(window_of("t5gemma2_text", nine), Window(5, 4));
  EXPECT_EQ(window_of("t5gemma2_text", R"("sliding_window": 8)"), Window(4, 4));
  EXPECT_EQ(window_of("gemma3_text", nine + R"(, "use_bidirectional_attention": true)"), Window(5, 4));
  EXPECT_EQ(window_of("gemma3_text", nine + R"(, "use_bidirectional_attention": false)"), Window(9, 0));
  EXPECT_EQ(window_of("gemma4_text", nine + R"(, "use_bidirectional_attention": "all")"), Window(6, 5));
  EXPECT_EQ(window_of("gemma4_text", nine + R"(, "use_bidirectional_attention": "vision")"), Window(9, 0));
}

TEST(HfWindows, OfLongT5LookBothWays) {
  const Model model = parse_hf_config(R"({"model_type": "longt5", "num_layers": 1, "local_radius": 31})");
  EXPECT_EQ(model.layers[0].window, 32);
  EXPECT_EQ(model.layers[0].window_after, 31);
}

TEST(HfWindows, OfT5GemmaLookBothWaysInTheEncoderAlone) {
  const std::string part = R"({"sliding_window": 9, "num_hidden_layers": 2})";
  const Model model =
      parse_hf_config(R"({"model_type": "t5gemma", "encoder": )" + part + R"(, "decoder": )" + part + "}");
  ASSERT_EQ(model.towers.size(), 1u);
  EXPECT_EQ(model.towers[0].part, "encoder");
  EXPECT_EQ(model.layers[0].window, 9);
  EXPECT_EQ(model.layers[0].window_after, 0);
  EXPECT_EQ(model.towers[0].layers[0].window, 10);
  EXPECT_EQ(model.towers[0].layers[0].window_after, 9);
}

TEST(HfNewerFamilies, LaraTurnsInItsSlidingLayersAlone) {
  EXPECT_EQ(told_of("lara_mini", R"("num_hidden_layers": 5, "head_dim": 16)"),
            "2 linear_attention none | 2 sliding_attention@512 half 10000 16/16 default | 1 full_attention none");
}

TEST(HfNewerFamilies, SlidingLayersOfDots3HaveHeadsAndABaseOfTheirOwn) {
  EXPECT_EQ(told_of("dots3_note_text", R"("qk_rope_head_dim": 64, "qk_nope_head_dim": 128)"),
            "3 indexed_attention interleaved 80000000 64/192 default last | "
            "5 sliding_attention@512 interleaved 50000 64/256 default last");
  EXPECT_EQ(told_of("dots3_note_text", R"("num_hidden_layers": 3, "swa_rope_theta": 700, "swa_head_dim": 64,
                                      "swa_qk_nope_head_dim": 32)"),
            "2 indexed_attention interleaved 80000000 64/192 default last | "
            "1 sliding_attention@512 interleaved 700 32/64 default last");
  EXPECT_EQ(told_of("dots3_note_text", R"("num_hidden_layers": 3, "per_layer_config":
                                      {"2": {"qk_nope_head_dim": 16, "qk_rope_head_dim": 8}})"),
            "2 indexed_attention interleaved 80000000 64/192 default last | "
            "1 sliding_attention@512 interleaved 50000 8/24 default last");
}

TEST(HfNewerFamilies, LayersOfBeamWithoutARotationGrowBySize) {
  const Model model = small("beam", R"("head_dim": 16, "sliding_window": 4)");
  EXPECT_EQ(described(model), "6 sliding_attention@4 half 10000 16/16 default | 2 full_attention none");
  EXPECT_EQ(turning(model), (std::vector<Index>{0, 1, 2, 3, 4, 6}));
  for (const Layer& layer : model.layers) {
    EXPECT_EQ(layer.temperature.has_value(), std::holds_alternative<NoPosition>(layer.encoding));
  }
  EXPECT_EQ(model.layers[5].temperature, PositionTemperature::beam());
  // A dictionary for these layers turns them, and then nothing multiplies their queries.
  const Model turned = small("beam", R"("head_dim": 16, "rope_parameters":
      {"sliding_attention": {"rope_theta": 10}, "full_attention": {"rope_theta": 20}})");
  EXPECT_EQ(turning(turned).size(), 8u);
  EXPECT_FALSE(turned.layers[5].temperature);
}

TEST(HfNewerFamilies, MistralLarge4LearnsItsTemperatureInEveryLayer) {
  const Model model = small("mistral_large4_text", R"("qk_rope_head_dim": 8, "qk_nope_head_dim": 8)");
  EXPECT_EQ(described(model),
            "6 indexed_attention interleaved 10000 8/16 deepseek-yarn last | 2 indexed_attention none");
  EXPECT_EQ(turning(model), (std::vector<Index>{0, 1, 2, 4, 5, 6}));
  for (const Layer& layer : model.layers) EXPECT_EQ(layer.temperature, PositionTemperature::mistral_large4());
  EXPECT_EQ(resolve(std::get<Rope>(model.layers[0].encoding)).attention_factor, 1);
  EXPECT_TRUE(warns(model, "/model_type", "lerope.alpha"));
}

TEST(HfNewerFamilies, SomeTurnTheirSlidingLayersAlone) {
  EXPECT_EQ(turning(small("flint")), (std::vector<Index>{2, 3, 4, 6}));
  EXPECT_EQ(turning(small("kolibri1")), (std::vector<Index>{0, 1, 2, 3, 5, 6, 7}));
}

TEST(HfNewerFamilies, ABasePerLayerCountsAndZeroIsNone) {
  const std::string list = R"("sliding_window": 4, "layer_rope_theta": [500, 0, 500, 700, 0, 0, 700, 500])";
  const Model granite = small("granite_swa", list);
  EXPECT_EQ(turning(granite), (std::vector<Index>{0, 2, 3, 6, 7}));
  EXPECT_EQ(std::get<Rope>(granite.layers[3].encoding).base, 700);
  EXPECT_EQ(std::get<Rope>(granite.layers[7].encoding).base, 500);
  EXPECT_EQ(turning(small("granitemoe_swa")).size(), 8u);
  EXPECT_NE(error_of(R"({"model_type": "granite_swa", "num_hidden_layers": 2, "layer_rope_theta": [500]})")
                .find("/layer_rope_theta: must be 2 numbers, one per layer"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"model_type": "granite_swa", "num_hidden_layers": 1, "layer_rope_theta": [0.5]})")
                .find("/layer_rope_theta"),
            std::string::npos);
}

TEST(HfNewerFamilies, MuseReadsTheZerosOfItsListAlone) {
  EXPECT_EQ(turning(small("muse_spark_text")), (std::vector<Index>{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(turning(small("muse_spark_text", R"("num_hidden_layers": 6)")), (std::vector<Index>{0, 2, 3, 4}));
  const Model model =
      small("muse_glimmer_text", R"("layer_rope_theta": [0, 7000, 7000, 7000, 7000, 7000, 7000, 7000])");
  EXPECT_EQ(turning(model).size(), 7u);
  EXPECT_EQ(first_rope(model).base, 10000);
  EXPECT_TRUE(warns(model, "/layer_rope_theta", "7000 is ignored"));
}

TEST(HfNewerFamilies, StepHasListsForItsLayerTypes) {
  const std::string keys =
      R"("num_hidden_layers": 4, "head_dim": 16, "sliding_window": 4, "num_nextn_predict_layers": 1,
      "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention", "full_attention"],
      "rope_theta": [5000000, 10000, 10000, 5000000, 5000000], "partial_rotary_factors": [0.5, 1, 1, 0.5, 0.5],
      "rope_scaling": {"rope_type": "llama3", "factor": 2, "low_freq_factor": 1, "high_freq_factor": 32,
                       "original_max_position_embeddings": 131072})";
  EXPECT_EQ(told_of("step3p5", keys),
            "2 full_attention half 5000000 8/16 llama3 | 2 sliding_attention@4 half 10000 16/16 default");
  const std::string uneven = R"({"model_type": "step3p5", "num_hidden_layers": 2, "rope_theta": [500, 600]})";
  EXPECT_NE(error_of(uneven).find("/rope_theta/1: must be what the first layer of its type"), std::string::npos);
}

TEST(HfNewerFamilies, MolmoScalesTheLayersOfItsList) {
  EXPECT_EQ(told_of("molmo2_text", R"("head_dim": 16, "rope_scaling_layers": [1, 3],
      "rope_scaling": {"rope_type": "linear", "factor": 2})"),
            "6 full_attention half 10000 16/16 default | 2 full_attention half 10000 16/16 linear");
}

TEST(HfNewerFamilies, ParametersPerLayerTypeAreTheClassOwnWhereTheFileHasNone) {
  EXPECT_EQ(told_of("mimo_v2_flash", R"("head_dim": 192)"),
            "2 full_attention half 5000000 64/192 default | 6 sliding_attention@129 half 10000 64/192 default");
  EXPECT_EQ(told_of("lfm3", R"("num_hidden_layers": 5)"),
            "3 conv none | 1 full_attention half 1000000 16/16 proportional | "
            "1 sliding_attention@256 half 10000 16/16 default");
  EXPECT_EQ(told_of("laguna", R"("head_dim": 16)"), "8 full_attention half 500000 8/16 default");
  EXPECT_EQ(told_of("zaya", R"("head_dim": 16)"), "8 hybrid half 5000000 8/16 default");
  EXPECT_EQ(told_of("ultrabert", R"("num_hidden_layers": 3)"),
            "2 sliding_attention@129+128 half 10000 16/16 default | 1 full_attention half 2560000 16/16 default");
  EXPECT_EQ(told_of("embedding_gemma2_text", R"("num_hidden_layers": 2, "head_dim": 16)"),
            "1 sliding_attention@513+512 half 10000 16/16 default | 1 full_attention half 1000000 512/512 default");
}

TEST(HfNewerFamilies, PairsOfNeommeTurnByRowAndColumnInTurn) {
  const Model model = small("neomme", R"("num_hidden_layers": 3)");
  EXPECT_EQ(described(model),
            "1 sliding_attention@257+256 half 10000 16/16 default axes 8 | "
            "1 sliding_attention@1025+1024 half 10000 16/16 default axes 8 | "
            "1 full_attention half 1000000 4/16 default axes 2");
  EXPECT_EQ(first_rope(model).axes, RopeAxes::listed({0, 1, 0, 1, 0, 1, 0, 1}));
}

TEST(HfNewerFamilies, HybridModelsTurnTheirAttentionAlone) {
  EXPECT_EQ(told_of("bamba", R"("attn_layer_indices": [2, 5])"),
            "6 linear_attention none | 2 full_attention half 10000 8/16 default");
  EXPECT_EQ(told_of("recurrent_gemma", R"("attention_window_size": 9)"),
            "6 linear_attention none | 2 sliding_attention@9 half 10000 8/16 default");
  EXPECT_EQ(told_of("recurrent_gemma", R"("block_types": ["attention", "recurrent"])"),
            "4 sliding_attention@2048 half 10000 8/16 default | 4 linear_attention none");
  EXPECT_TRUE(turning(small("zamba2")).empty());
  EXPECT_EQ(turning(small("zamba2", R"("use_mem_rope": true, "attention_head_dim": 32)")), (std::vector<Index>{6}));
  EXPECT_EQ(turning(small("olmo_hybrid")), (std::vector<Index>{3, 7}));
  EXPECT_TRUE(turning(small("olmo_hybrid", R"("rope_theta": null)")).empty());
  EXPECT_TRUE(turning(small("glm5_next_text", R"("qk_rope_head_dim": 0, "head_dim": 0)")).empty());
  EXPECT_TRUE(turning(small("moshi_depth")).empty());
}

TEST(HfRelativeLogits, InklingsLayersHaveTheirExtentsClipsAndTemperatures) {
  const Model first = parse_hf_config(R"({"model_type": "inkling_text", "num_hidden_layers": 12, "rel_extent": 700,
      "sliding_window_size": 300, "log_scaling_n_floor": 128000, "log_scaling_alpha": 0.2})");
  ASSERT_EQ(first.layers.size(), 12u);
  const PositionTemperature grown = PositionTemperature::inkling(128'000, 0.2);
  for (std::size_t i = 0; i < 12; ++i) {
    const bool full = i % 6 == 5;
    const Layer& layer = first.layers[i];
    EXPECT_EQ(std::get<RelativeLogits>(layer.encoding),
              full ? (RelativeLogits{.extent = 700, .temperature = grown}) : RelativeLogits{.extent = 300});
    EXPECT_EQ(layer.window, full ? 0 : 300);
    EXPECT_EQ(layer.temperature, full ? std::optional(grown) : std::nullopt);
  }
  EXPECT_EQ(first.heads, 64);
  EXPECT_EQ(first.context_length, 131'072);

  const Model second = parse_hf_config(R"({"model_type": "inkling2_text", "num_hidden_layers": 2,
      "layer_types": ["hybrid", "hybrid_sliding"], "rel_l2_clip_threshold": 7})");
  EXPECT_EQ(std::get<RelativeLogits>(second.layers[0].encoding),
            (RelativeLogits{.clip = 7, .temperature = PositionTemperature::inkling(128'000)}));
  EXPECT_EQ(std::get<RelativeLogits>(second.layers[1].encoding), (RelativeLogits{.extent = 1024, .clip = 7}));
  EXPECT_EQ(second.layers[1].window, 1024);
}

TEST(HfRelativeLogits, InklingsLocalLayersMayBeListedAndTheTemperatureMissing) {
  const Model model = parse_hf_config(R"({"model_type": "inkling_text", "num_hidden_layers": 3,
      "local_layer_ids": [1], "log_scaling_n_floor": null})");
  EXPECT_EQ(model.layers[0].window, 0);
  EXPECT_EQ(model.layers[1].window, 512);
  EXPECT_EQ(std::get<RelativeLogits>(model.layers[0].encoding), RelativeLogits{});
  EXPECT_EQ(model.layers[0].temperature, std::nullopt);
  EXPECT_NE(error_of(R"({"model_type": "inkling_text", "num_hidden_layers": 1, "layer_types": ["full_attention"]})")
                .find("/layer_types: must be a list of hybrid and hybrid_sliding"),
            std::string::npos);
}

TEST(HfRelativeLogits, TheLoopOfInkling2IsItsOwnSize) {
  const Model model = parse_hf_config(R"({"model_type": "inkling2_loop", "text_config": {}})");
  ASSERT_EQ(model.layers.size(), 24u);
  EXPECT_EQ(std::get<RelativeLogits>(model.layers[5].encoding).extent, 1024);
  EXPECT_EQ(model.layers[5].temperature, PositionTemperature::inkling(8192, 0.1));
  EXPECT_EQ(model.layers[4].temperature, std::nullopt);
}

TEST(HfTwoAngles, HunyuanVLsSectionsAndVJepa2AreRead) {
  const std::string hunyuan = R"({"model_type": "hunyuan_vl_text", "num_hidden_layers": 1, "num_attention_heads": 2,
      "head_dim": 16, "rope_parameters": {"rope_type": "dynamic", "alpha": 1000, "rope_theta": 10000, )";
  const Rope rope{.head_dim = 16, .rotary_dim = 16, .pairing = Pairing::half, .scaling = AlphaScaling{1000}};
  for (const char* key : {"mrope_section", "xdrope_section"}) {
    const Model model = parse_hf_config(hunyuan + "\"" + key + "\": [2, 2, 3, 1]}}");
    EXPECT_EQ(std::get<ElementwiseRope>(model.layers[0].encoding), ElementwiseRope::hunyuan(rope, {2, 2, 3, 1}));
  }
  EXPECT_NE(error_of(hunyuan + R"("mrope_section": [2, 2]}})").find("must be numbers that add up to half"),
            std::string::npos);

  const Model video =
      parse_hf_config(R"({"model_type": "vjepa2", "num_hidden_layers": 2, "pred_num_hidden_layers": 1})");
  ASSERT_EQ(video.layers.size(), 3u);
  EXPECT_EQ(std::get<ElementwiseRope>(video.layers[1].encoding), ElementwiseRope::vjepa2(64));
  EXPECT_EQ(std::get<ElementwiseRope>(video.layers[2].encoding), ElementwiseRope::vjepa2(32));
  EXPECT_EQ(video.layers[0].part, "encoder");
  EXPECT_EQ(video.layers[2].part, "predictor");
  EXPECT_EQ(video.head_dim, 64);
}

TEST(HfNamed, RotationsThatNoSpecSaysAreNamedWithWhatTheyAre) {
  const std::pair<const char*, const char*> models[] = {{"clvp_encoder", "queries, keys and values alike"},
                                                        {"qwen2_5_omni_dit", "in the first head alone"}};
  for (const auto& [type, why] : models) {
    const Model model = parse_hf_config(std::string("{\"model_type\": \"") + type + R"(", "rope_theta": 10000})");
    EXPECT_EQ(encoding_name(model.layers[0].encoding), "rope");
    EXPECT_FALSE(std::holds_alternative<Rope>(model.layers[0].encoding)) << type;
    EXPECT_TRUE(warns(model, "/model_type", why)) << type;
  }
  const Model music = parse_hf_config(R"({"model_type": "musicflamingo"})");
  ASSERT_EQ(music.inputs.size(), 1u);
  EXPECT_EQ(encoding_name(music.inputs[0].encoding), "rope");
  EXPECT_TRUE(warns(music, "/model_type", "rows of sound turn"));
  EXPECT_TRUE(parse_hf_config(R"({"model_type": "audioflamingo3"})").inputs.empty());
}

// Heads of 4096 / 96 dimensions: 42, of which int(42 / 2) = 21 would turn. Glm4MoeRotaryEmbedding makes
// 10000^(-2i/21) for 11 pairs of them.
TEST(HfSizes, HeadsThatGlm4MoeRoundsAreReadAsItsCodeRoundsThem) {
  const std::string sizes = R"("hidden_size": 4096, "num_attention_heads": 96, "num_hidden_layers": 1)";
  const Model model = parse_hf_config("{\"model_type\": \"glm4_moe\", " + sizes + "}");
  EXPECT_EQ(model.head_dim, 42);
  const RopeFrequencies numbers = resolve(first_rope(model));
  EXPECT_EQ(numbers.rotary_dim, 22);
  ASSERT_EQ(numbers.inv_freq.size(), 11u);
  for (std::size_t i = 0; i < 11; ++i) {
    const double theta = std::pow(10'000, -2 * static_cast<double>(i) / 21);
    EXPECT_NEAR(numbers.inv_freq[i], theta, 1e-14 * theta);
  }
  EXPECT_TRUE(warns(model, "/hidden_size", "rounds a head down to 42"));
  EXPECT_TRUE(warns(model, "/head_dim", "21 dimensions"));
  EXPECT_EQ(first_rope(parse_hf_config("{\"model_type\": \"glm4_moe\", \"head_dim\": 128, " + sizes + "}")).base,
            10'000);
  // Where its code fails, or is another's, nothing is rounded.
  for (const char* type : {"glm4v_moe_text", "qwen3_omni_moe_text", "llama"}) {
    const std::string error = refusal(std::string("\"model_type\": \"") + type + "\", " + sizes);
    EXPECT_NE(error.find("/hidden_size: must be a multiple of the number of heads, 96"), std::string::npos) << error;
  }
}

TEST(HfNotRead, AKeyThatIsNotHonouredRefusesAnUnknownModel) {
  const std::pair<const char*, const char*> keys[] = {{"compress_rope_theta", "160000"},
                                                      {"layer_rope_theta", "[0, 1e4]"},
                                                      {"partial_rotary_factors", "[0.5, 1]"},
                                                      {"rope_theta", "[1e4, 1e6]"},
                                                      {"no_rope_layers", "[1, 0]"},
                                                      {"swa_rope_theta", "1e4"},
                                                      {"rope_scaling_layers", "[1]"},
                                                      {"rel_extent", "1024"},
                                                      {"local_rope_theta", "1e4"},
                                                      {"rope_local_base_freq", "1e4"},
                                                      {"use_logn_attn", "true"},
                                                      {"use_dynamic_ntk", "true"},
                                                      {"rotary_interleaved", "true"},
                                                      {"attn_temperature_tuning", "true"},
                                                      {"rope_interleave", "true"},
                                                      {"mla_use_nope", "true"},
                                                      {"position_embedding_type", "\"x\""},
                                                      {"log_scaling_alpha", "0.1"},
                                                      {"compress_ratios", "[0, 4]"},
                                                      {"swa_head_dim", "64"},
                                                      {"global_head_dim", "64"},
                                                      {"no_rope_layer_interval", "4"},
                                                      {"rotary_value", "true"}};
  const std::string common = R"("model_type": "newmodel2030", "head_dim": 16, "num_hidden_layers": 2)";
  for (const auto& [key, value] : keys) {
    const std::string rope = std::string(key) == "rope_theta" ? "" : R"(, "rope_theta": 10000)";
    const std::string error = refusal(common + rope + ", \"" + key + "\": " + value);
    EXPECT_NE(error.find(std::string("c.json: /") + key), std::string::npos) << key << ": " << error;
  }
  for (const std::string dictionary : {R"({"rope_type": "axial", "rope_theta": 100})",
                                       R"({"main": {"rope_theta": 100}, "compress": {"rope_theta": 200}})"}) {
    const std::string error = refusal(common + ", \"rope_parameters\": " + dictionary);
    EXPECT_NE(error.find("c.json: /rope_parameters/"), std::string::npos) << error;
  }
  EXPECT_NE(refusal(R"("model_type": "roformer", "rotary_value": true)").find("c.json: /rotary_value: must be false"),
            std::string::npos);
  EXPECT_EQ(refusal(common + R"(, "rope_theta": 10000, "use_logn_attn": false, "layer_rope_theta": null)"), "no error");
}

TEST(HfNotRead, AKeyThatAKnownModelDoesNotReadGetsAWarning) {
  EXPECT_TRUE(warns(parse_hf_config(llama(R"("swa_rope_theta": 500)")), "/swa_rope_theta", "is not read"));
  EXPECT_TRUE(parse_hf_config(llama(R"("rope_theta": 10000)")).warnings.empty());
}

TEST(HfNotRead, AnUnknownModelOfLatentAttentionIsReadAsSuchWithAWarning) {
  const std::string file = R"({"model_type": "newmodel2030", "num_attention_heads": 4, "num_hidden_layers": 2,
      "rope_theta": 10000, "qk_rope_head_dim": 8)";
  const Model model = parse_hf_config(file + R"(, "qk_nope_head_dim": 16})");
  EXPECT_EQ(described(model), "2 full_attention interleaved 10000 8/24 default last");
  EXPECT_TRUE(warns(model, "/model_type", "read as latent attention"));
  EXPECT_EQ(described(parse_hf_config(file + R"(, "qk_nope_head_dim": 16, "rope_interleave": false})")),
            "2 full_attention half 10000 8/24 default last");
  EXPECT_NE(error_of(file + "}").find("/qk_nope_head_dim"), std::string::npos);
}

TEST(HfPerLayer, WhatIsNotReadForSingleLayersIsRefused) {
  for (const char* key : {"rope_theta", "partial_rotary_factor"}) {
    const std::string error = error_of(llama(std::string(R"("per_layer_config": {"1": {")") + key + "\": 0.5}}"));
    EXPECT_NE(error.find(std::string("/per_layer_config/1/") + key), std::string::npos) << error;
  }
  const Model model = small("neomme", R"("num_hidden_layers": 1, "per_layer_config": {"0": {"sliding_window": 77}})");
  EXPECT_EQ(model.layers[0].window, 78);
  EXPECT_EQ(model.layers[0].window_after, 77);
}

}  // namespace
}  // namespace bearing
