#include <bearing/encodings/gated_t5.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/gated_t5.hpp>

#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Score;
using test::ScoreCase;

constexpr T5Direction both = T5Direction::bidirectional;

TEST(GatedT5, AgreesWithItsReference) {
  for (const GatedT5& spec : {GatedT5{.direction = both}, GatedT5{8, 20, T5Direction::causal}}) {
    for (const bool one_batch : {false, true}) {
      for (const ScoreCase& c : test::score_cases(3, 0)) {
        Params params(Params::Shapes{{spec.buckets, 3}, {one_batch ? 1 : c.batch, 3, c.q_len}});
        const auto make = [spec]<class A>(Params& p) {
          return GatedT5Bias<A>(spec, p.param<A, 2>(0), p.param<A, 3>(1));
        };
        const auto reference = [spec](const Params& p, const Score& s) {
          return reference::gated_t5(spec, p.value<2>(0), p.value<3>(1), s.b, s.h, s.i, s.m, s.n);
        };
        test::expect_reference_scores(make, params, {c}, reference);
        test::expect_gradients(make, params, {c}, reference);
        test::expect_float_gradients(make, params, {c});
        test::expect_same_bits_for_any_executor(make, params, {c});
      }
    }
  }
}

struct Layer {
  rapidjson::Document golden = test::golden("t5/wavlm_gated.json");
  Index batch = 2, heads = 2, dim = 4, time = 9;
  std::vector<double> table = get("table"), weight = get("weight"), bias = get("bias"), constant = get("constant"),
                      x = get("x");
  std::vector<double> d_table = like(table), d_weight = like(weight), d_bias = like(bias), d_constant = like(constant),
                      d_x = like(x);

  std::vector<double> get(const char* name) const { return test::tensor(golden[name]).data; }
  static std::vector<double> like(const std::vector<double>& of) { return std::vector<double>(of.size()); }
  WavlmGate<double> gate() {
    return {{dense<const double>(weight.data(), 8, dim), dense(d_weight.data(), 8, dim)},
            {dense<const double>(bias.data(), 8), dense(d_bias.data(), 8)},
            {dense<const double>(constant.data(), heads), dense(d_constant.data(), heads)}};
  }
  View<const double, 4> rows() const { return bthd(x.data(), batch, time, heads, dim); }
};

// A gate is 1 + some dozen products of numbers up to 4, a gradient the sum of some hundred: 2^-53 · 2^7 · 2^4.
constexpr double tolerance = 0x1p-42;

TEST(GatedT5, BiasAndGradientsAreWavLMs) {
  Layer layer;
  std::vector<double> gate(2 * 2 * 9), d_gate(gate.size()), s(2 * 2 * 9 * 9);
  const auto gates = dense(gate.data(), layer.batch, layer.heads, layer.time);
  wavlm_gate<double>(layer.gate(), layer.rows(), gates);
  const GatedT5Bias<double> bias({layer.golden["buckets"].GetInt64(), layer.golden["max_distance"].GetInt64(), both},
                                 {dense<const double>(layer.table.data(), 12, 2), dense(layer.d_table.data(), 12, 2)},
                                 {gates, dense(d_gate.data(), layer.batch, layer.heads, layer.time)});
  add_scores(with(bias), {}, bhtd(s.data(), 2, 2, 9, 9));
  const auto expect_near = [&](const std::vector<double>& own, const char* name) {
    const std::vector<double> truth = layer.get(name);
    ASSERT_EQ(own.size(), truth.size()) << name;
    for (std::size_t i = 0; i < own.size(); ++i) EXPECT_NEAR(own[i], truth[i], tolerance) << name << ' ' << i;
  };
  expect_near(s, "scores");
  const std::vector<double> d_s = layer.get("d_scores");
  add_scores_backward(with(bias), {}, bhtd<const double>(d_s.data(), 2, 2, 9, 9));
  wavlm_gate_backward<double>(layer.gate(), layer.rows(), dense<const double>(d_gate.data(), 2, 2, 9),
                              bthd(layer.d_x.data(), 2, 9, 2, 4));
  expect_near(layer.d_table, "d_table");
  expect_near(layer.d_weight, "d_weight");
  expect_near(layer.d_bias, "d_bias");
  expect_near(layer.d_constant, "d_constant");
  expect_near(layer.d_x, "d_x");
}

TEST(WavlmGate, AgreesWithItsReference) {
  Layer layer;
  std::vector<double> gate(2 * 2 * 9);
  wavlm_gate<double>(layer.gate(), layer.rows(), dense(gate.data(), 2, 2, 9));
  const auto at = dense<const double>(gate.data(), 2, 2, 9);
  const WavlmGate<double> by = layer.gate();
  const std::vector<float> weight(layer.weight.begin(), layer.weight.end()), bias(layer.bias.begin(), layer.bias.end()),
      constant(layer.constant.begin(), layer.constant.end()), x(layer.x.begin(), layer.x.end());
  std::vector<float> gate32(gate.size());
  wavlm_gate<float>({{dense(weight.data(), 8, 4)}, {dense(bias.data(), 8)}, {dense(constant.data(), 2)}},
                    bthd(x.data(), 2, 9, 2, 4), dense(gate32.data(), 2, 2, 9));
  for (Index b = 0; b < 2; ++b) {
    for (Index h = 0; h < 2; ++h) {
      for (Index t = 0; t < 9; ++t) {
        const View<const double, 1> token{&layer.rows()(b, h, t, 0), {4}, {1}};
        const double truth = reference::wavlm_gate(by.weight.value, by.bias.value, by.constant.value, h, token);
        EXPECT_NEAR(at(b, h, t), truth, 0x1p-47);
        // Inputs rounded to 2^-24 go through a dozen products with numbers up to 4.
        EXPECT_NEAR(static_cast<double>(gate32[static_cast<std::size_t>((b * 2 + h) * 9 + t)]), truth, 0x1p-18);
      }
    }
  }
}

TEST(WavlmGate, GradientsThatAreNotWantedAreNotComputedAndOthersAreAddedTo) {
  Layer layer;
  const std::vector<double> d_gate(2 * 2 * 9, 1.0);
  WavlmGate<double> by = layer.gate();
  by.bias.grad = {}, by.constant.grad = {};
  const auto call = [&] {
    wavlm_gate_backward<double>(by, layer.rows(), dense(d_gate.data(), 2, 2, 9), View<double, 4>{});
  };
  call();
  const std::vector<double> once = layer.d_weight;
  call();
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(layer.d_weight[i], 2 * once[i]);
  EXPECT_NE(once, Layer::like(once));
  EXPECT_EQ(layer.d_bias, Layer::like(layer.d_bias));
  EXPECT_EQ(layer.d_x, Layer::like(layer.d_x));
}

TEST(GatedT5, WrongCallsSayWhatMustHold) {
  std::vector<double> table(12 * 2), gate(2 * 4), s(2 * 4 * 4, 7.0);
  const GatedT5Bias<double> bias({12, 7, both}, {dense<const double>(table.data(), 12, 2)},
                                 {dense<const double>(gate.data(), 1, 2, 4)});
  const auto call = [&](Index batch, Index heads, Index q_len) {
    add_scores(with(bias), {}, bhtd(s.data(), batch, heads, q_len, 2));
  };
  expect_error<ShapeError>([&] { call(1, 3, 4); },
                           "[add_scores] GatedT5.table: must be [buckets, heads] = [12, 3], got shape [12, 2]");
  expect_error<ShapeError>([&] { call(1, 2, 3); },
                           "[add_scores] GatedT5.gate: must be [batch or 1, heads, q_len] = [1, 2, 3], got shape "
                           "[1, 2, 4]");
  const std::vector<double> real{0, 0.5, 1, 2};
  expect_error<RangeError>(
      [&] {
        add_scores(with(bias), {Positions(dense(real.data(), 4)), {}}, bhtd(s.data(), 1, 2, 4, 4));
      },
      "[add_scores] q_positions: must be whole numbers for GatedT5, got 0.5 for token 1 of sequence 0");
  EXPECT_EQ(s, std::vector<double>(s.size(), 7.0));
  expect_error<RangeError>(
      [&] {
        GatedT5Bias<double>({12, 2, both}, {dense<const double>(table.data(), 12, 2)},
                            {dense<const double>(gate.data(), 1, 2, 4)});
      },
      "[T5] max_distance: must be more than the 3 distances that have a bucket each, and at most 2^31, got 2");
}

TEST(WavlmGate, WrongCallsSayWhatMustHold) {
  Layer layer;
  std::vector<double> gate(2 * 2 * 9, 7.0);
  WavlmGate<double> by = layer.gate();
  expect_error<ShapeError>([&] { wavlm_gate<double>(by, layer.rows(), dense(gate.data(), 2, 2, 8)); },
                           "[wavlm_gate] gate: must be [batch, heads, time] = [2, 2, 9], got [2, 2, 8]");
  by.weight.value.shape[0] = 7;
  expect_error<ShapeError>([&] { wavlm_gate<double>(by, layer.rows(), dense(gate.data(), 2, 2, 9)); },
                           "[wavlm_gate] weight: must be [8, head_dim] = [8, 4], got shape [7, 4]");
  by = layer.gate();
  by.constant.value.data = nullptr;
  expect_error<ShapeError>([&] { wavlm_gate<double>(by, layer.rows(), dense(gate.data(), 2, 2, 9)); },
                           "[wavlm_gate] constant: must be [heads] = [2], got nothing");
  EXPECT_EQ(gate, std::vector<double>(gate.size(), 7.0));
  by = layer.gate();
  const auto d_x = bthd(layer.d_x.data(), 2, 9, 2, 4);
  by.bias.grad.data = layer.d_x.data();
  expect_error<ShapeError>(
      [&] { wavlm_gate_backward<double>(by, layer.rows(), dense<const double>(gate.data(), 2, 2, 9), d_x); },
      "[wavlm_gate_backward] d_x: must share no memory with bias.grad, got tensors that overlap");
  EXPECT_EQ(layer.d_x, Layer::like(layer.d_x));
}

}  // namespace
}  // namespace bearing
