#include <gtest/gtest.h>
#include <atomic>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/linear_attention.hpp>
#include <bearing/reference/linear_attention.hpp>
#include <cmath>
#include <limits>
#include <numbers>

#include "support/environment.hpp"
#include "support/linear_cases.hpp"
#include "support/own_terms.hpp"
#include "support/targets.hpp"
#include "support/terms.hpp"
#include "support/workers.hpp"

namespace bearing {
namespace {

using test::Layout;
using test::LinearCase;
using test::LinearData;

constexpr double pi = std::numbers::pi;

// ---- The formula

/// One query at position m and one key at n, both 0 in all features, so that φ is 1: the weight is the mean of
/// cos((m − n)θ) over the pairs.
double weight_of_one_key(double m, double n) {
  const RopeTable<double> table(Rope{.head_dim = 4, .base = 100, .pairing = Pairing::interleaved}, 8);
  const RotaryRows<double> rope(table);
  const std::vector<double> zeros(4), value{1};
  std::vector<double> out(1);
  linear_attention<double>(
      {bhtd(zeros.data(), 1, 1, 1, 4), bhtd(zeros.data(), 1, 1, 1, 4), bhtd(value.data(), 1, 1, 1, 1),
       Positions(dense<const double>(&m, 1)), Positions(dense<const double>(&n, 1))},
      bhtd(out.data(), 1, 1, 1, 1), {}, with(rope), {.mask = Mask::none});
  return out[0];
}

TEST(LinearAttention, NumeratorIsRotatedAndDenominatorIsNot) {
  // θ = 1 and 100^(-1/2) = 0.1. Four products of numbers below 1, rounded to 2^-53 each.
  EXPECT_NEAR(weight_of_one_key(0, 0), 1, 0x1p-50);
  EXPECT_NEAR(weight_of_one_key(2, 0), (std::cos(2.0) + std::cos(0.2)) / 2, 0x1p-50);
  EXPECT_NEAR(weight_of_one_key(2, 7), (std::cos(5.0) + std::cos(0.5)) / 2, 0x1p-50);
  // No sum to 1, and negative here: half a turn of one pair, four tenths of the other's quarter.
  EXPECT_NEAR(weight_of_one_key(10 * pi + pi, 0), (std::cos(11 * pi) + std::cos(1.1 * pi)) / 2, 0x1p-46);
  EXPECT_LT(weight_of_one_key(11 * pi, 0), -0.9);
}

TEST(LinearAttention, WithoutEncodingsWeightsSumToOne) {
  for (const Mask mask : {Mask::none, Mask::causal}) {
    LinearCase c{.q_len = 130, .k_len = 130, .mask = mask};
    LinearData<double> data(c);
    data.set_values(1);
    for (const double o : data.forward({})) EXPECT_NEAR(o, 1, 0x1p-44);  // 130 and 6 sums, rounded to 2^-53 each
  }
}

TEST(LinearAttention, FeatureMapsAreWhatTheySay) {
  // One key with one feature and a query of 1, whose φ is 2 or 1: without normaliser o = φ(q) φ(k) v.
  const auto product = [](FeatureMap map, double k) {
    const double q = 1, v = 1;
    double out = 0;
    linear_attention<double>({bhtd(&q, 1, 1, 1, 1), bhtd(&k, 1, 1, 1, 1), bhtd(&v, 1, 1, 1, 1)}, bhtd(&out, 1, 1, 1, 1),
                             {}, {}, {.mask = Mask::none, .feature_map = map, .normaliser = Normaliser::none});
    return out;
  };
  test::on_every_target([&] {
    for (const double k : {-700.0, -20.0, -1.0, -0.1, -1e-9, 0.0, 1e-9, 0.5, 3.0, 1e6}) {
      // An exponential to an ulp or two.
      EXPECT_NEAR(product(FeatureMap::elu_plus_one, k), 2 * (k > 0 ? k + 1 : std::exp(k)),
                  2 * 0x1p-51 * (k > 0 ? k + 1 : std::exp(k)));
      EXPECT_EQ(product(FeatureMap::relu, k), std::max(k, 0.0));
      EXPECT_EQ(product(FeatureMap::identity, k), k);
    }
  });
}

// ---- Agreement with the reference

TEST(LinearAttention, AgreesWithTheReferenceAtBlocksEdges) {
  for (const LinearCase& c : test::linear_cases()) {
    SCOPED_TRACE(test::describe(c));
    test::expect_linear_attention<double>(c);
    test::expect_linear_attention<float>(c);
  }
}

TEST(LinearAttention, SixteenBitTypesRoundResultsOnce) {
  for (const LinearCase& c : test::linear_cases()) {
    if (c.batch == 1) continue;
    SCOPED_TRACE(test::describe(c));
    test::expect_linear_attention<Bfloat16>(c);
    test::expect_linear_attention<Float16>(c);
  }
}

TEST(LinearAttention, AgreesOnEveryTarget) {
  const LinearCase c{.batch = 2,
                     .heads = 4,
                     .kv_heads = 2,
                     .q_len = 70,
                     .k_len = 135,
                     .dim = 10,
                     .value_dim = 37,
                     .mask = Mask::causal,
                     .q_first = 60,
                     .rope = true};
  test::on_every_target([&] {
    test::expect_linear_attention<double>(c);
    test::expect_linear_attention<float>(c);
    test::expect_linear_attention<Bfloat16>(c);
    test::expect_linear_attention<Float16>(c);
  });
}

TEST(LinearAttention, TakesAnyStrides) {
  for (const Layout layout : test::writable_layouts) {
    LinearCase c{.batch = 2,
                 .heads = 4,
                 .kv_heads = 2,
                 .q_len = 66,
                 .k_len = 66,
                 .dim = 6,
                 .value_dim = 5,
                 .mask = Mask::causal,
                 .rope = true};
    SCOPED_TRACE(test::name(layout));
    c.inputs = layout;
    test::expect_linear_attention<float>(c);
    c.inputs = Layout::bhtd;
    c.outputs = layout;
    test::expect_linear_attention<float>(c);
    test::expect_linear_attention<Float16>(c);
  }
  LinearCase shared{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 66, .k_len = 66, .mask = Mask::causal};
  shared.inputs = Layout::one_head;
  test::expect_linear_attention<double>(shared);
}

TEST(LinearAttention, FloatKeepsFiveDigitsOver32768Keys) {
  LinearCase c{.batch = 1,
               .heads = 1,
               .kv_heads = 1,
               .q_len = 32'768,
               .k_len = 32'768,
               .dim = 64,
               .value_dim = 64,
               .mask = Mask::causal,
               .rope = true};
  LinearData<float> f32(c);
  LinearData<double> f64(c, f32);
  const std::vector<double> truth = f64.forward(f64.terms()), got = f32.forward(f32.terms());
  double largest = 0, error = 0;
  for (std::size_t x = 0; x < truth.size(); ++x) {
    largest = std::max(largest, std::abs(truth[x]));
    error = std::max(error, std::abs(truth[x] - got[x]));
  }
  EXPECT_LE(error, 1e-5 * largest);
}

TEST(LinearAttention, RowsDimMayDifferFromDim) {
  LinearCase c{
      .batch = 2, .heads = 2, .kv_heads = 2, .q_len = 70, .k_len = 70, .dim = 5, .value_dim = 3, .mask = Mask::causal};
  test::Twice twice{test::Strengths(2)};
  for (double& strength : twice.c.value) strength *= 0x1p-6;
  LinearData<double> data(c);
  const std::vector<double> truth = data.reference(with(twice)), got = data.forward(with(twice));
  for (std::size_t x = 0; x < truth.size(); ++x) EXPECT_NEAR(got[x], truth[x], 1e-12);
}

// ---- Executors

TEST(LinearAttention, HasTheSameBitsForAnyExecutor) {
  for (const Index kv_heads : {1, 2}) {
    const LinearCase c{.batch = 1,
                       .heads = 2,
                       .kv_heads = kv_heads,
                       .q_len = 140,
                       .k_len = 140,
                       .dim = 6,
                       .value_dim = 200,
                       .mask = Mask::causal,
                       .rope = true};
    LinearData<float> alone(c);
    const std::vector<float> once = alone.all_bits({});
    for (const Index count : {1, 2, 3, 7, 16}) {
      test::Workers workers(count);
      LinearData<float> data(c);
      EXPECT_TRUE(test::same_bits(once, data.all_bits(workers))) << count << " workers";
      LinearData<float> reversed(c);
      EXPECT_TRUE(test::same_bits(once, reversed.all_bits(test::backwards(count)))) << count << " backwards";
    }
  }
}

/// Counts rows; turns nothing.
struct Counting {
  using Arithmetic = double;
  mutable std::atomic<Index> turned{0}, back{0};
  void turn(const RowTile& tile, const double* x, double* y) const {
    turned += tile.rows;
    std::copy_n(x, tile.rows * tile.dim, y);
  }
  void turn_grads(const RowTile& tile, const double*, const double* d_y, double* d_x, double*) const {
    back += tile.rows;
    std::copy_n(d_y, tile.rows * tile.dim, d_x);
  }
};

TEST(LinearAttention, LooksAtEachRowOnceAndTwiceBackwards) {
  // What is done for a row within its block is bounded by the block; so time is linear if blocks are not made again.
  for (const Mask mask : {Mask::none, Mask::causal, Mask::causal_bottom_right}) {
    for (const Index time : {64, 1000}) {
      LinearCase c{
          .heads = 1, .kv_heads = 1, .q_len = time, .k_len = time + 10, .dim = 2, .value_dim = 2, .mask = mask};
      c.q_first = 10;
      LinearData<double> data(c);
      Counting forward, backward;
      data.forward(with(forward));
      EXPECT_EQ(forward.turned, 2 * time + 10);
      data.backward(with(backward));
      EXPECT_EQ(backward.turned, 2 * (2 * time + 10));
      EXPECT_EQ(backward.back, 2 * time + 10);
    }
  }
}

// ---- Edges

TEST(LinearAttention, NothingToDoIsDone) {
  for (const std::array<Index, 7>& n : std::vector<std::array<Index, 7>>{{0, 2, 1, 3, 3, 4, 2},
                                                                         {1, 0, 0, 3, 3, 4, 2},
                                                                         {1, 2, 1, 0, 3, 4, 2},
                                                                         {1, 2, 1, 3, 0, 4, 2},
                                                                         {1, 2, 1, 3, 3, 4, 0},
                                                                         {1, 2, 1, 3, 3, 0, 2},
                                                                         {1, 0, 2, 3, 3, 4, 2}}) {
    const LinearCase c{.batch = n[0],
                       .heads = n[1],
                       .kv_heads = n[2],
                       .q_len = n[3],
                       .k_len = n[4],
                       .dim = n[5],
                       .value_dim = n[6],
                       .mask = Mask::causal};
    LinearData<float> data(c);
    const std::vector<double> out = data.forward({});
    data.backward({});
    if (c.k_len == 0 || c.dim == 0) {
      for (const double o : out) EXPECT_EQ(o, 0);
    }
  }
}

// The product of the other extents alone does not fit 64 bits.
TEST(LinearAttention, EmptyTensorsMayBeOfAnyOtherExtents) {
  constexpr Index many = Index{1} << 32;
  float number = 7;
  const View<float, 4> none{&number, {many, many, 0, 4}, {0, 0, 0, 1}};
  const LinearAttentionInputs<float> in{none, none, none};
  linear_attention<float>(in, none, {}, {}, {.mask = Mask::causal});
  linear_attention_backward<float>(in, none, {}, {none, none, none}, {}, {.mask = Mask::causal});
  EXPECT_EQ(number, 7);
}

TEST(LinearAttention, WhatHasNoFeaturesNeedsNoMemory) {
  // Null, with strides of any size: no reference to null, and no step from it, as the sanitizer would see.
  constexpr Index time = 70;
  for (const auto& [dim, value_dim] : {std::pair<Index, Index>{0, 4}, {4, 0}, {0, 0}}) {
    std::vector<float> memory(time * 8, 0.5f), written(4 * memory.size(), 7);
    const auto rows = [&](float* data, Index features) {
      return View<float, 4>{features == 0 ? nullptr : data, {1, 1, time, features}, {time * 8, time * 8, 8, 1}};
    };
    const LinearAttentionInputs<float> in{rows(memory.data(), dim), rows(memory.data(), dim),
                                          rows(memory.data(), value_dim)};
    float *const out = written.data(), *const d_q = out + memory.size(), *const d_v = d_q + 2 * memory.size();
    linear_attention<float>(in, rows(out, value_dim), {}, {}, {.mask = Mask::causal});
    linear_attention_backward<float>(in, rows(memory.data(), value_dim), {},
                                     {rows(d_q, dim), rows(d_q + memory.size(), dim), rows(d_v, value_dim)}, {},
                                     {.mask = Mask::causal});
    EXPECT_EQ(out[0], value_dim == 0 ? 7 : 0);  // no features, no product, no denominator
    EXPECT_EQ(d_q[0], dim == 0 ? 7 : 0);
    EXPECT_EQ(d_v[0], value_dim == 0 ? 7 : 0);
  }
}

TEST(LinearAttention, RowsThatSeeNoKeyAreZeroAndHaveNoGradient) {
  LinearCase c{
      .heads = 1, .kv_heads = 1, .q_len = 4, .k_len = 6, .dim = 4, .value_dim = 3, .mask = Mask::causal, .k_first = 2};
  LinearData<double> data(c);
  const std::vector<double> out = data.forward({});
  data.backward({});
  const std::vector<double> d_q = data.d_q.doubles();
  for (std::size_t x = 0; x < 2 * 3; ++x) EXPECT_EQ(out[x], 0);
  for (std::size_t x = 0; x < 2 * 4; ++x) EXPECT_EQ(d_q[x], 0);
  for (std::size_t x = 2 * 3; x < out.size(); ++x) EXPECT_NE(out[x], 0);
}

TEST(LinearAttention, UnderflownDenominatorsGiveZeroUnlessEpsilonIsThere) {
  const std::vector<float> q(4, -200.0f), k(8, 0.5f), v(4, 3.0f), d_out(2, 1.0f);
  std::vector<float> out(2, 7.0f), d_q(4, 7.0f), d_k(8, 7.0f);
  const LinearAttentionInputs<float> in{bhtd(q.data(), 1, 1, 1, 4), bhtd(k.data(), 1, 1, 2, 4),
                                        bhtd(v.data(), 1, 1, 2, 2)};
  for (const double epsilon : {0.0, 1e-6}) {
    const LinearAttentionOptions options{.mask = Mask::none, .epsilon = epsilon};
    linear_attention<float>(in, bhtd(out.data(), 1, 1, 1, 2), {}, {}, options);
    LinearAttentionGrads<float> grads{bhtd(d_q.data(), 1, 1, 1, 4), bhtd(d_k.data(), 1, 1, 2, 4), {}};
    linear_attention_backward<float>(in, bhtd(d_out.data(), 1, 1, 1, 2), {}, grads, {}, options);
    for (const float o : out) EXPECT_EQ(o, 0);
    for (const float d : d_q) EXPECT_EQ(d, 0);
    for (const float d : d_k) EXPECT_EQ(d, 0);
  }
}

TEST(LinearAttention, DenominatorsBelowTheNormalRangeGiveZeroAndNoNaN) {
  // Products of e^-44 each: some are denormal, and 1 over their sum would be infinite.
  const std::vector<float> q(4, -44.0f), k(8, -44.0f), v(4, 3.0f), d_out(2, 1.0f);
  std::vector<float> out(2, 7.0f), d_q(4, 7.0f), d_k(8, 7.0f), d_v(4, 7.0f);
  const LinearAttentionInputs<float> in{bhtd(q.data(), 1, 1, 1, 4), bhtd(k.data(), 1, 1, 2, 4),
                                        bhtd(v.data(), 1, 1, 2, 2)};
  const LinearAttentionOptions options{.mask = Mask::none};
  linear_attention<float>(in, bhtd(out.data(), 1, 1, 1, 2), {}, {}, options);
  linear_attention_backward<float>(
      in, bhtd(d_out.data(), 1, 1, 1, 2), {},
      {bhtd(d_q.data(), 1, 1, 1, 4), bhtd(d_k.data(), 1, 1, 2, 4), bhtd(d_v.data(), 1, 1, 2, 2)}, {}, options);
  for (const auto* numbers : {&out, &d_q, &d_k, &d_v}) {
    for (const float x : *numbers) EXPECT_EQ(x, 0);
  }
}

TEST(LinearAttention, NoDenormalNumberComesUp) {
  // Features from e^-30 on: their products, and these times values and gradients, are far above the normal range's end.
  for (const Mask mask : {Mask::none, Mask::causal}) {
    LinearCase c{.q_len = 4096, .k_len = 4096, .dim = 64, .value_dim = 64, .mask = mask};
    LinearData<float> data(c);
    test::Random random(7);
    for (auto* x : {&data.q, &data.k}) {
      x->for_each([&](Index b, Index h, Index t, Index d) {
        x->view()(b, h, t, d) = static_cast<float>(random.uniform(-30, 2));
      });
    }
    EXPECT_FALSE(test::meets_denormals([&] { (void)data.forward({}); }));
    EXPECT_FALSE(test::meets_denormals([&] { data.backward({}); }));
  }
  // Nor in a feature, whatever it is of: here the only factor that is not 1.
  const std::vector<float> one(4000, 1.0f);
  const float zero = 0;
  std::vector<float> k;
  for (int i = 0; i < 4000; ++i) k.push_back(2 - 0.03125f * static_cast<float>(i));
  float out = 0;
  test::on_every_target([&] {
    EXPECT_FALSE(test::meets_denormals([&] {
      linear_attention<float>(
          {bhtd(&zero, 1, 1, 1, 1), bhtd<const float>(k.data(), 1, 1, 4000, 1), bhtd(one.data(), 1, 1, 4000, 1)},
          bhtd(&out, 1, 1, 1, 1), {}, {}, {.mask = Mask::none});
    }));
    EXPECT_NEAR(out, 1, 1e-6);
  });
}

TEST(LinearAttention, NotANumberStaysInItsRow) {
  LinearCase c{.heads = 1, .kv_heads = 1, .q_len = 5, .k_len = 5, .dim = 4, .value_dim = 3, .mask = Mask::causal};
  for (const FeatureMap map : {FeatureMap::elu_plus_one, FeatureMap::relu}) {
    c.map = map;
    c.epsilon = 1;
    LinearData<double> data(c);
    data.q.view()(0, 0, 2, 1) = std::numeric_limits<double>::quiet_NaN();
    const std::vector<double> out = data.forward({});
    for (std::size_t x = 0; x < out.size(); ++x) EXPECT_EQ(std::isnan(out[x]), x / 3 == 2) << x;
  }
}

TEST(LinearAttention, ACausalMaskGoesByAllAxesOfPositions) {
  const Index at[2][6] = {{0, 1, 1, 1, 1, 3}, {0, 1, 2, 4, 5, 3}};  // a picture of four patches between two words
  LinearCase c{.q_len = 6, .k_len = 6, .mask = Mask::causal};
  LinearData<double> data(c);
  LinearAttentionInputs<double> in = data.inputs();
  in.q_positions = in.k_positions = Positions(dense(&at[0][0], Index{2}, 1, 6));
  const auto results = [&](Mask mask) {
    c.mask = mask;
    linear_attention<double>(in, data.out.view(), {}, {}, c.options());
    linear_attention_backward<double>(in, data.d_out.read(), {}, data.grads(), {}, c.options());
    return std::vector{data.out.doubles(), data.d_q.doubles(), data.d_k.doubles(), data.d_v.doubles()};
  };
  EXPECT_EQ(results(Mask::causal), results(Mask::causal_top_left));
  const std::vector<double> out = data.out.doubles();
  reference::linear_attention(in, data.out.view(), {}, {}, {.mask = Mask::causal});
  const std::vector<double> wanted = data.out.doubles();
  for (std::size_t x = 0; x < out.size(); ++x) EXPECT_NEAR(out[x], wanted[x], 1e-12);
}

}  // namespace
}  // namespace bearing
