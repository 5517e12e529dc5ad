#include <gtest/gtest.h>
#include <bearing/io.hpp>
#include <bearing/picture_positions.hpp>

#include <cmath>
#include <numbers>

#include "hf_config_cases.hpp"

namespace bearing {
namespace {

using namespace test;

const fs::path dialects = source / "tests/corpus/dialects";

Model valid(const std::string& name) { return read_hf_config(dialects / "valid" / name); }

TEST(Dialects, EveryValidFileGivesTheGroupsItsTableStates) {
  std::set<std::string> named;
  for (const auto& row : table(dialects / "valid.tsv")) {
    ASSERT_EQ(row.size(), 3u) << row[0];
    named.insert(row[0]);
    const Model model = valid(row[0]);
    EXPECT_EQ(described(model), row[1]) << row[0];
    for (const LayerGroup& group : layer_groups(model)) {
      const auto* rope = std::get_if<Rope>(&group.layer.encoding);
      if (rope == nullptr) continue;
      EXPECT_NO_THROW(resolve(*rope)) << row[0];
    }
  }
  EXPECT_GE(named.size(), 20u);
  EXPECT_EQ(named, files_in(dialects / "valid"));
}

TEST(Dialects, EveryMalformedFileIsRefusedWithTheTextItsTableStates) {
  EXPECT_GE(expect_refused_as_stated(dialects).size(), 30u);
}

TEST(Dialects, MistralsYarnLeavesCosAndSinWhereItSaysSo) {
  const Model model = valid("ministral3.json");
  const auto& yarn = std::get<YarnScaling>(first_rope(model).scaling);
  EXPECT_EQ(yarn.factor, 16);
  EXPECT_EQ(yarn.trained_length, 16'384);
  EXPECT_EQ(resolve(first_rope(model)).attention_factor, 1);
  ASSERT_TRUE(model.layers[0].temperature.has_value());
  EXPECT_EQ(*model.layers[0].temperature, PositionTemperature::ministral3(16'384, 0.1));
  EXPECT_EQ(model.context_length, 262'144);
  EXPECT_EQ(model.trained_length, 16'384);
  ASSERT_EQ(model.towers.size(), 1u);
  EXPECT_EQ(described(model.towers[0]), "24 full_attention interleaved 10000 64/64 default axes 2");
  const Model scaled = parse_hf_config(
      R"({"dim": 64, "n_layers": 1, "n_heads": 2, "hidden_dim": 8, "rope_theta": 10000, "yarn": {"factor": 4, "original_max_position_embeddings": 128}})");
  EXPECT_NEAR(resolve(first_rope(scaled)).attention_factor, 0.1 * std::log(4.0) + 1, 1e-15);
}

TEST(Dialects, MistralsLatentAttentionLeavesTheSoftmaxScaleWhereItSaysSo) {
  const Model model = valid("mistral_latent.json");
  const RopeFrequencies numbers = resolve(first_rope(model));
  EXPECT_EQ(numbers.attention_factor, 1);
  EXPECT_EQ(numbers.softmax_scale_factor, 1);
  EXPECT_TRUE(warns(model, "/yarn/apply_scale", "llama.cpp multiplies it"));
}

TEST(Dialects, MissingBasesAreSaid) {
  EXPECT_TRUE(warns(valid("mistral_7b_v01.json"), "/rope_theta", "10000 is used, as Mistral 7B v0.1 was trained"));
  EXPECT_TRUE(warns(valid("llama2_7b.json"), "/rope_theta", "10000 is used, as in Llama 1 and 2"));
  EXPECT_TRUE(valid("mistral_nemo.json").warnings.empty());
  const Model none = parse_hf_config(R"({"dim": 64, "n_layers": 1, "n_heads": 2, "hidden_dim": 8})");
  EXPECT_EQ(first_rope(none).base, 1'000'000);
}

TEST(Dialects, MetasScalingIsThatOfItsCode) {
  EXPECT_TRUE(std::get<Llama3Scaling>(first_rope(valid("llama3_1_8b.json")).scaling) == Llama3Scaling{});
  EXPECT_TRUE(warns(valid("llama3_1_8b.json"), "/use_scaled_rope", "Llama 3.2 1B and 3B say 32"));
  const Model fourth = valid("llama4_scout.json");
  EXPECT_EQ(std::get<Llama3Scaling>(first_rope(fourth).scaling).factor, 16);
  EXPECT_EQ(std::get<Llama3Scaling>(first_rope(fourth).scaling).high_freq_factor, 1);
  EXPECT_FALSE(fourth.layers[0].temperature.has_value());
  ASSERT_TRUE(fourth.layers[3].temperature.has_value());
  EXPECT_EQ(*fourth.layers[3].temperature, PositionTemperature::llama4());
  // With both factors 1 a pair keeps its frequency, or gets a sixteenth of it: nothing is between.
  for (const PairChange change : resolve(first_rope(fourth)).change) EXPECT_NE(change, PairChange::blended);
}

TEST(Dialects, LtxTurnsAllHeadsAsOneWithOneRunOfFrequencies) {
  const RopeFrequencies numbers = resolve(first_rope(valid("ltx.json")));
  EXPECT_EQ(numbers.begin, 2);
  EXPECT_EQ(numbers.axis[0], 0);
  EXPECT_EQ(numbers.axis[1], 1);
  EXPECT_EQ(numbers.axis[5], 2);
  EXPECT_EQ(numbers.inv_freq[0], numbers.inv_freq[2]);
  EXPECT_NEAR(numbers.inv_freq[0] * 4, std::numbers::pi / 2, 1e-15);
  EXPECT_NEAR(numbers.inv_freq[1022] * 4, std::numbers::pi / 2 * 10'000, 1e-8);
}

TEST(Dialects, CosmosStretchesFramesAlone) {
  const Rope rope = first_rope(valid("cosmos.json"));
  EXPECT_EQ(rope.axes.ntk_factors, (std::vector<double>{2, 1, 1}));
  EXPECT_EQ(rope.axes.pairs, (std::vector<Index>{22, 21, 21}));
  const RopeFrequencies numbers = resolve(rope);
  // base * s^(d / (d - 2)), d = 44 dimensions of frames
  EXPECT_NEAR(numbers.inv_freq[1], std::pow(10'000 * std::pow(2, 44.0 / 42), -1.0 / 22), 1e-14);
  EXPECT_NEAR(numbers.inv_freq[23], std::pow(10'000, -1.0 / 21), 1e-14);
}

std::vector<double> token(const PicturePositions& at, Index which) {
  std::vector<double> place;
  for (Index axis = 0; axis < at.axes; ++axis) {
    place.push_back(at.values[static_cast<std::size_t>(axis * at.tokens + which)]);
  }
  return place;
}

using At = std::vector<double>;

TEST(PicturePositions, QwenImageCountsFromTheMiddle) {
  const auto at = picture_positions("QwenImageTransformer2DModel", {.grid = {1, 4, 5}, .text = 2});
  ASSERT_EQ(at.tokens, 22);
  EXPECT_EQ(token(at, 0), (At{2, 2, 2}));
  EXPECT_EQ(token(at, 1), (At{3, 3, 3}));
  EXPECT_EQ(token(at, 2), (At{0, -2, -3}));
  EXPECT_EQ(token(at, 21), (At{0, 1, 1}));
  EXPECT_EQ(at.positions().axes(), 3);
  EXPECT_EQ(at.positions().real(1, 0, 21), 1);
}

TEST(PicturePositions, PartsStandInTheOrderOfTheModelsAttention) {
  const auto flux =
      picture_positions("FluxTransformer2DModel", {.grid = {1, 2, 2}, .text = 3, .references = {{1, 1, 2}}});
  EXPECT_EQ(flux.tokens, 9);
  EXPECT_EQ(flux.text_begin, 0);
  EXPECT_EQ(token(flux, 6), (At{0, 1, 1}));
  EXPECT_EQ(token(flux, 8), (At{1, 0, 1}));
  const auto flux2 = picture_positions("Flux2Transformer2DModel",
                                       {.grid = {1, 1, 2}, .text = 2, .references = {{1, 1, 1}, {1, 1, 1}}});
  EXPECT_EQ(token(flux2, 1), (At{0, 0, 0, 1}));
  EXPECT_EQ(token(flux2, 3), (At{0, 0, 1, 0}));
  EXPECT_EQ(token(flux2, 5), (At{20, 0, 0, 0}));
  const auto z = picture_positions("ZImageTransformer2DModel", {.grid = {1, 2, 3}, .text = 33});
  EXPECT_EQ(z.tokens, 32 + 64);
  EXPECT_EQ(z.text_begin, 32);
  EXPECT_EQ(token(z, 5), (At{65, 1, 2}));
  EXPECT_EQ(token(z, 6), (At{0, 0, 0}));
  EXPECT_EQ(token(z, 95), (At{64, 0, 0}));
  const auto hunyuan = picture_positions("HunyuanVideoTransformer3DModel", {.grid = {2, 1, 2}, .text = 3});
  EXPECT_EQ(hunyuan.text_begin, 4);
  EXPECT_EQ(token(hunyuan, 3), (At{1, 0, 1}));
  EXPECT_EQ(token(hunyuan, 6), (At{0, 0, 0}));
}

TEST(PicturePositions, RealCoordinates) {
  const auto cosmos = picture_positions("CosmosTransformer3DModel", {.grid = {3, 1, 1}, .fps = 30});
  EXPECT_DOUBLE_EQ(token(cosmos, 2)[0], 2 * 24.0 / 30);
  const auto ltx = picture_positions("LTXVideoTransformer3DModel", {.grid = {2, 1, 2}});
  EXPECT_DOUBLE_EQ(token(ltx, 3)[0], 4 * (2 * (8.0 / 25) / 20 - 1));
  EXPECT_DOUBLE_EQ(token(ltx, 3)[1], -4);
  EXPECT_DOUBLE_EQ(token(ltx, 3)[2], 4 * (2 * 32.0 / 2048 - 1));
  const auto mochi = picture_positions("MochiTransformer3DModel", {.grid = {1, 2, 2}});
  EXPECT_DOUBLE_EQ(token(mochi, 3)[1], 96 * 0.5);
  // 30 x 45 patches of training; 30 x 30 fill its height, in its middle: columns 7.5, which Python rounds to 8
  const auto video = picture_positions("CogVideoXTransformer3DModel",
                                       {.grid = {1, 30, 30}, .trained_height = 30, .trained_width = 45});
  EXPECT_EQ(token(video, 0), (At{0, 0, 8}));
  EXPECT_NEAR(token(video, 29)[2], (8 + 30) * 29.0 / 30, 1e-12);
}

TEST(PicturePositions, WhatAFamilyHasNoPlaceForIsRefused) {
  const auto error = [](std::string_view model, const PictureRequest& request) -> std::string {
    try {
      picture_positions(model, request);
    } catch (const std::exception& refused) {
      return refused.what();
    }
    return "";
  };
  EXPECT_NE(error("AutoencoderKL", {.grid = {1, 1, 1}}).find("must be one of FluxTransformer2DModel"),
            std::string::npos);
  EXPECT_NE(error("WanTransformer3DModel", {.grid = {1, 1, 1}, .text = 1}).find("another attention, got 1"),
            std::string::npos);
  EXPECT_NE(error("WanTransformer3DModel", {.grid = {1, 0, 1}}).find("grid.height: must be from 1"), std::string::npos);
  EXPECT_NE(error("FluxTransformer2DModel", {.grid = {2, 1, 1}}).find("grid.frames: must be from 1 to 1, got 2"),
            std::string::npos);
  EXPECT_NE(error("WanTransformer3DModel", {.grid = {1, 1 << 20, 1 << 20}}).find("tokens, got more"),
            std::string::npos);
  EXPECT_NE(error("ZImageTransformer2DModel", {.grid = {1, 1, 1}, .references = {{1, 1, 1}}}).find("must be empty"),
            std::string::npos);
  EXPECT_NE(error("CosmosTransformer3DModel", {.grid = {1, 1, 1}, .fps = std::nan("")}).find("fps"), std::string::npos);
  EXPECT_NE(error("LTXVideoTransformer3DModel", {.grid = {1, 1, 1}, .step = {0, 1, 1}}).find("step"),
            std::string::npos);
  EXPECT_EQ(picture_models().size(), 27u);
}

TEST(Dialects, EveryReadDiffusionModelHasPositions) {
  std::set<std::string> read;
  for (const std::string& name : files_in(dialects / "valid")) {
    const std::string type = valid(name).model_type;
    if (type.ends_with("DModel")) read.insert(type);
  }
  for (const std::string of_a_call :
       {"HunyuanVideoFramepackTransformer3DModel", "Kandinsky5Transformer3DModel", "SD3Transformer2DModel",
        "PixArtTransformer2DModel", "AuraFlowTransformer2DModel"}) {
    EXPECT_EQ(read.erase(of_a_call), 1u) << of_a_call << ": its places depend on what no request says";
  }
  const auto models = picture_models();
  EXPECT_EQ(read, std::set<std::string>(models.begin(), models.end()));
}

TEST(Dialects, TimmsKeyHeadsAreRead) {
  const auto of = [](const std::string& kv_heads) {
    return parse_hf_config(R"({"architecture": "eva", "model_args": {"use_rot_pos_emb": true, "depth": 2,
                               "num_heads": 12, "num_kv_heads": )" +
                           kv_heads + "}}");
  };
  EXPECT_EQ(of("6").kv_heads, 6);
  EXPECT_EQ(of("null").kv_heads, 12);
  EXPECT_EQ(of("[4, 4]").kv_heads, 4);
  EXPECT_FALSE(warns(of("[4, 4]"), "/model_args/num_kv_heads", "layers"));
  const Model differing = of("[12, 6]");
  EXPECT_EQ(differing.kv_heads, 12);
  EXPECT_TRUE(warns(differing, "/model_args/num_kv_heads", "layers have different numbers of key and value heads"));
}

TEST(Dialects, MlxsWordForNeighboursCounts) {
  const Model model = valid("mlx_traditional.json");
  EXPECT_TRUE(warns(model, "/rope_traditional", "true: neighbours turn, as in MLX's code"));
  const Model half = parse_hf_config(llama(R"("rope_theta": 10000, "rope_traditional": false)"));
  EXPECT_TRUE(half.warnings.empty());
}

}  // namespace
}  // namespace bearing
