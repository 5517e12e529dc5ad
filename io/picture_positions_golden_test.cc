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
  const RopeFrequencies numbers = resolve(first_rope(model));
  ASSERT_EQ(at.tokens, golden["tokens"].GetInt64());
  ASSERT_EQ(at.axes, numbers.axes);
  ASSERT_EQ(numbers.pairs(), golden["pairs"].GetInt64());
  const std::vector<double> cos = test::numbers(golden["cos"]), sin = test::numbers(golden["sin"]);
  for (Index token = 0; token < at.tokens; ++token) {
    for (Index pair = 0; pair < numbers.pairs(); ++pair) {
      const auto p = static_cast<std::size_t>(pair);
      const double place = at.positions().real(numbers.axis[p], 0, token);
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

INSTANTIATE_TEST_SUITE_P(All, GoldenPictures,
                         testing::Values("flux", "flux2", "z_image", "hunyuan_video", "wan", "cogvideox_wide",
                                         "cogvideox_tall", "cogvideox_square", "cogvideox_1_5", "qwen_image", "ltx",
                                         "mochi", "cosmos"),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace bearing
