#include <gtest/gtest.h>
#include <bearing/io.hpp>
#include <bearing/picture_positions.hpp>

#include <cmath>

#include "hf_config_cases.hpp"
#include "support/golden.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

// A diffusion transformer's config and its tokens' positions, together, against the angles of diffusers' own code:
// tests/golden/diffusers/make.py.

namespace bearing {
namespace {

using namespace test;

VideoGrid grid_of(const rapidjson::Value& value) {
  return {value[0].GetInt64(), value[1].GetInt64(), value[2].GetInt64()};
}

PictureRequest request_of(const rapidjson::Value& value) {
  PictureRequest request{.grid = grid_of(value["grid"])};
  if (value.HasMember("text")) request.text = value["text"].GetInt64();
  if (value.HasMember("fps")) request.fps = value["fps"].GetDouble();
  if (value.HasMember("trained_height")) request.trained_height = value["trained_height"].GetInt64();
  if (value.HasMember("trained_width")) request.trained_width = value["trained_width"].GetInt64();
  if (value.HasMember("references")) {
    for (const auto& reference : value["references"].GetArray()) request.references.push_back(grid_of(reference));
  }
  return request;
}

Model model_of(const rapidjson::Value& config, const std::string& name) {
  rapidjson::StringBuffer text;
  rapidjson::Writer<rapidjson::StringBuffer> writer(text);
  config.Accept(writer);
  return parse_hf_config({text.GetString(), text.GetSize()}, name);
}

/// Angles of every token and pair of the model's first rope, at [axes, tokens].
void expect_angles(const Model& model, const rapidjson::Value& golden, const Positions& at, Index tokens) {
  const RopeFrequencies numbers = resolve(first_rope(model));
  ASSERT_EQ(tokens, golden["tokens"].GetInt64());
  ASSERT_EQ(at.axes(), numbers.axes);
  ASSERT_EQ(numbers.pairs(), golden["pairs"].GetInt64());
  const std::vector<double> cos = test::numbers(golden["cos"]), sin = test::numbers(golden["sin"]);
  for (Index token = 0; token < tokens; ++token) {
    for (Index pair = 0; pair < numbers.pairs(); ++pair) {
      const auto p = static_cast<std::size_t>(pair);
      const double place = at.real(numbers.axis[p], 0, token);
      const double angle = place * numbers.inv_freq[p];
      // diffusers works in float32: position, frequency and product are rounded, and LTX's coordinate, which is at
      // most 4, is a difference; then cos and sin.
      const double bound = 0x1p-24 * (4 * std::abs(angle) + 8 * numbers.inv_freq[p] + 2);
      const auto i = static_cast<std::size_t>(token * numbers.pairs() + pair);
      EXPECT_NEAR(std::cos(angle), cos[i], bound) << "token " << token << " pair " << pair;
      EXPECT_NEAR(std::sin(angle), sin[i], bound) << "token " << token << " pair " << pair;
    }
  }
}

class GoldenPictures : public testing::TestWithParam<std::string> {};

TEST_P(GoldenPictures, HaveTheAnglesOfDiffusers) {
  const rapidjson::Document golden = test::golden("diffusers/" + GetParam() + ".json");
  const Model model = model_of(golden["config"], GetParam());
  const PicturePositions at = picture_positions(model.model_type, request_of(golden["request"]));
  if (golden.HasMember("positions")) {
    const std::vector<double> expected = test::numbers(golden["positions"]);
    ASSERT_EQ(at.values.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(at.values[i], expected[i], 0x1p-20 * std::abs(expected[i])) << i;
    }
    return;
  }
  expect_angles(model, golden, at.positions(), at.tokens);
}

// A class whose positions a call scales has none of its own here.
TEST(GoldenRope, OfKandinskyIsThatOfDiffusers) {
  const rapidjson::Document golden = test::golden("diffusers/kandinsky5.json");
  const Model model = model_of(golden["config"], "kandinsky5");
  EXPECT_EQ(model.heads, 2);
  EXPECT_EQ(model.head_dim, 16);
  std::vector<double> at;
  for (const auto& axis : golden["request"]["at"].GetArray()) {
    for (const auto& place : axis.GetArray()) at.push_back(place.GetDouble());
  }
  expect_angles(model, golden, Positions(dense<const double>(at.data(), 3, 1, 12)), 12);
}

// Halves of a head turn together in CogView 4, those of each axis' third in Allegro, neighbours in the others.
TEST(GoldenRope, PairsAreThoseOfTheClass) {
  const auto rope_of = [](const std::string& name) {
    return first_rope(model_of(test::golden("diffusers/" + name + ".json")["config"], name));
  };
  EXPECT_EQ(rope_of("cogview4").pairing, Pairing::half);
  EXPECT_EQ(rope_of("allegro").pairing, Pairing::half);
  EXPECT_EQ(resolve(rope_of("allegro")).blocks, (std::vector<Index>{3, 3, 3}));
  for (const std::string name : {"chroma", "lumina2", "hidream_32", "hunyuan_dit_wide", "kandinsky5"}) {
    EXPECT_EQ(rope_of(name).pairing, Pairing::interleaved) << name;
  }
  EXPECT_EQ(rope_of("hidream_32").head_dim, 32);
  EXPECT_EQ(rope_of("hidream_32").rotary_dim, 16);
}

// The whole table of a square, which SD3 cuts to the picture.
TEST(GoldenTables, AreSinusoidsAtThePlacesOfDiffusers) {
  for (const std::string name : {"sd3", "pixart"}) {
    const rapidjson::Document golden = test::golden("diffusers/" + name + ".json");
    const Model model = model_of(golden["config"], name);
    ASSERT_EQ(model.inputs.size(), 1u);
    const Sinusoidal2d spec = std::get<Sinusoidal2d>(model.inputs[0].encoding);
    EXPECT_TRUE(std::holds_alternative<NoPosition>(model.layers[0].encoding));
    const Index side = golden["request"]["rows"][0].GetInt64(), patches = side * side;
    std::vector<double> at = grid_positions({.height = side, .width = side});
    for (double& place : at) place *= golden["request"]["times"].GetDouble();
    std::vector<double> rows(static_cast<std::size_t>(patches * spec.dim));
    fill<double>(Sinusoidal2dInputs<double>(spec), dense<const double>(at.data(), 2, 1, patches),
                 dense(rows.data(), patches, spec.dim));
    const std::vector<double> expected = test::numbers(golden["table"]);
    ASSERT_EQ(rows.size(), expected.size());
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(rows[i], expected[i], 0x1p-20) << name << ' ' << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenPictures,
                         testing::Values("flux", "flux2", "z_image", "hunyuan_video", "wan", "cogvideox_wide",
                                         "cogvideox_tall", "cogvideox_square", "cogvideox_1_5", "qwen_image", "ltx",
                                         "mochi", "cosmos", "chroma", "bria", "ovis_image", "longcat_image", "lumina2",
                                         "hunyuan_video_1_5", "hunyuan_image", "hunyuan_dit_wide", "hunyuan_dit_square",
                                         "wan_vace", "wan_animate", "skyreels_v2", "chrono_edit_2", "chrono_edit_3",
                                         "consisid", "cogview4", "qwen_image_21", "hidream_16", "hidream_32",
                                         "allegro"),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace bearing
