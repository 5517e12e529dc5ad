#include <gtest/gtest.h>
#include <bearing/encodings/rope.hpp>

#include "support/golden.hpp"
#include "support/guarded.hpp"

// Rotations that others have computed: models' own code and the ONNX operator.

namespace bearing {
namespace {

using test::Guarded;
using test::Layout;

/// A model's own rotation: q, k, their gradients.
struct GoldenModel {
  rapidjson::Document json;
  Rope rope;
  std::vector<Index> position_values;
  Index axes = 1, batch = 0, time = 0;

  explicit GoldenModel(const std::string& file)
      : json(test::golden("apply_rope/" + file)), rope{.pairing = Pairing::half} {
    const std::string layout = json["layout"].GetString();
    if (layout == "interleaved") rope.pairing = Pairing::interleaved;
    rope.head_dim = json["head_dim"].GetInt64();
    rope.rotary_dim = json["rotary_dim"].GetInt64();
    rope.base = json["rope_theta"].GetDouble();
    if (json.HasMember("mrope_section")) {
      const auto sections = test::integers(json["mrope_section"]);
      rope.axes = layout.find("interleaved") != std::string::npos ? RopeAxes::interleaved(sections)
                                                                  : RopeAxes::sections(sections);
      axes = 3;
    }
    position_values = test::integers(json["positions"]);
    const auto& nested = json["positions"];
    batch = static_cast<Index>(axes == 3 ? nested[0].Size() : nested.Size());
    time = static_cast<Index>(position_values.size()) / axes / batch;
  }
  Positions positions() const { return dense(position_values.data(), axes, batch, time); }

  /// The tensor in the file's order of axes, as (batch, heads, time, dim).
  template <class T>
  Guarded<T> tensor(const char* name) const {
    const auto golden = test::tensor(json[name]);
    const auto& s = golden.shape;
    const bool time_first = std::string(json["axes"].GetString()) == "bshd";
    const auto view = time_first ? bthd(golden.data.data(), s[0], s[1], s[2], s[3])
                                 : bhtd(golden.data.data(), s[0], s[1], s[2], s[3]);
    Guarded<T> tensor(view.shape, Layout::bhtd);
    tensor.copy(view);
    return tensor;
  }
};

constexpr const char* golden_models[] = {"llama_half_b_d16.json", "gptj_interleaved_b_d32_r16.json",
                                         "gpt_neox_half_partial_b_d64_r16.json", "qwen2_vl_mrope_d16_s2_3_3.json",
                                         "qwen3_vl_interleaved_mrope_d16_s4_2_2.json"};

TEST(RopeGolden, ModelsOwnRotationsAndGradientsComeOut) {
  for (const char* file : golden_models) {
    SCOPED_TRACE(file);
    const GoldenModel model(file);
    const RopeTable<double> table(model.rope, 128);
    for (const std::string which : {"q", "k"}) {
      auto x = model.tensor<double>(which.c_str());
      const auto expected = model.tensor<double>(("expected_" + which).c_str());
      rotate(table, x.view(), model.positions());
      auto d = model.tensor<double>(("grad_out_" + which).c_str());
      const auto expected_d = model.tensor<double>(("expected_grad_" + which).c_str());
      rotate_backward(table, d.view(), model.positions());
      x.for_each([&](Index b, Index h, Index t, Index i) {
        // Values below 3, written with 17 digits: 1e-12 of the row's maximum.
        EXPECT_NEAR(x.view()(b, h, t, i), expected.view()(b, h, t, i), 2e-12) << which;
        EXPECT_NEAR(d.view()(b, h, t, i), expected_d.view()(b, h, t, i), 1e-10) << which;
      });
    }
  }
}

// Hugging Face's float32 result, from the same roundings: frequencies, angle, cos and products in float32. Its cos may
// differ from the right one by an ulp, so each element may by two of the pair's norm (at most 3).
TEST(RopeGolden, AsFloat32ReproducesHuggingFacesFloat32) {
  for (const char* file : golden_models) {
    SCOPED_TRACE(file);
    const GoldenModel model(file);
    const RopeTable<float> table(model.rope, 128, {.angles = Angles::as_float32});
    for (const std::string which : {"q", "k"}) {
      auto x = model.tensor<float>(which.c_str());
      const auto theirs = model.tensor<float>(("hf_float32_" + which).c_str());
      rotate(table, x.view(), model.positions());
      x.for_each([&](Index b, Index h, Index t, Index i) {
        EXPECT_NEAR(x.view()(b, h, t, i), theirs.view()(b, h, t, i), 2 * test::ulp<float>(3)) << which;
      });
    }
  }
}

TEST(RopeGolden, OnnxRotaryEmbeddingComesOutOfGivenTables) {
  for (const char* file : {"3d_interleaved0_rdim0_posids.json", "3d_interleaved1_rdim4_nopos.json",
                           "4d_interleaved0_rdim4_posids.json", "4d_interleaved1_rdim0_nopos.json"}) {
    SCOPED_TRACE(file);
    const auto json = test::golden(std::string("onnx_rotary/") + file);
    const auto& attributes = json["attributes"];
    const auto input = test::tensor(json["input"]), wanted = test::tensor(json["expected"]);
    const auto cos = test::tensor(json["cos_cache"]), sin = test::tensor(json["sin_cache"]);
    const bool flat = input.shape.size() == 3;  // [batch, time, heads·head_dim]
    const Index heads = flat ? attributes["num_heads"].GetInt64() : input.shape[1];
    const Index batch = input.shape[0], time = flat ? input.shape[1] : input.shape[2];
    const Index head_dim = flat ? input.shape[2] / heads : input.shape[3];
    const Rope rope{.head_dim = head_dim,
                    .rotary_dim = attributes["rotary_embedding_dim"].GetInt64(),
                    .pairing = attributes["interleaved"].GetInt() == 1 ? Pairing::interleaved : Pairing::half};
    const Index pairs = cos.shape.back();
    std::vector<double> y = input.data;
    const auto view =
        flat ? bthd(y.data(), batch, time, heads, head_dim) : bhtd(y.data(), batch, heads, time, head_dim);
    if (json["position_ids"].IsNull()) {  // cos and sin [batch, time, pairs]: a table per sequence
      for (Index b = 0; b < batch; ++b) {
        const auto rows = [&](const std::vector<double>& cache) {
          return dense<const double>(cache.data() + b * time * pairs, time, pairs);
        };
        const auto table = RopeTable<double>::from_cos_sin(rope, rows(cos.data), rows(sin.data));
        View<double, 4> sequence = view;
        sequence.data += b * view.stride[0];
        sequence.shape[0] = 1;
        rotate(table, sequence, {});
      }
    } else {
      const auto ids = test::tensor(json["position_ids"]);
      const std::vector<Index> at(ids.data.begin(), ids.data.end());
      const auto table = RopeTable<double>::from_cos_sin(rope, dense(cos.data.data(), cos.shape[0], pairs),
                                                         dense(sin.data.data(), sin.shape[0], pairs));
      rotate(table, view, dense(at.data(), batch, time));
    }
    for (std::size_t n = 0; n < y.size(); ++n) EXPECT_NEAR(y[n], wanted.data[n], 1e-12 * 4) << n;
    EXPECT_NE(y, input.data);
  }
}

}  // namespace
}  // namespace bearing
