#include <gtest/gtest.h>
#include <bearing/encodings/rope_mixed.hpp>
#include <bearing/linear_attention.hpp>
#include <cmath>

#include "support/linear_cases.hpp"
#include "support/own_terms.hpp"
#include "support/targets.hpp"
#include "support/terms.hpp"

// The gradients of linear attention: central differences, the reference, every type, stride and instruction set.

namespace bearing {
namespace {

using test::Layout;
using test::LinearCase;
using test::LinearData;
using test::Params;

TEST(LinearAttentionBackward, GivesCentralDifferencesOfTheReference) {
  for (const Mask mask : {Mask::none, Mask::causal, Mask::causal_top_left, Mask::causal_bottom_right}) {
    for (const FeatureMap map : {FeatureMap::elu_plus_one, FeatureMap::relu, FeatureMap::identity}) {
      LinearCase c{.batch = 2,
                   .heads = 4,
                   .kv_heads = 2,
                   .q_len = 5,
                   .k_len = 7,
                   .dim = 4,
                   .value_dim = 3,
                   .mask = mask,
                   .q_first = 2,
                   .map = map,
                   .rope = true};
      if (map == FeatureMap::relu) c.epsilon = 0.25;
      if (map == FeatureMap::identity) c.normaliser = Normaliser::none;
      SCOPED_TRACE(test::describe(c));
      test::expect_central_differences(c);
    }
  }
  LinearCase blocks{.heads = 2,
                    .kv_heads = 1,
                    .q_len = 66,
                    .k_len = 67,
                    .dim = 4,
                    .value_dim = 2,
                    .mask = Mask::causal,
                    .rope = true};
  test::expect_central_differences(blocks);
}

TEST(LinearAttentionBackward, AgreesWithTheReferenceAtBlocksEdges) {
  for (const LinearCase& c : test::linear_cases()) {
    SCOPED_TRACE(test::describe(c));
    test::expect_linear_gradients<double>(c);
    if (c.map != FeatureMap::relu) test::expect_linear_gradients<float>(c);  // whose slope jumps where rounding decides
  }
}

TEST(LinearAttentionBackward, AgreesOnEveryTarget) {
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
    test::expect_linear_gradients<double>(c);
    test::expect_linear_gradients<float>(c);
  });
}

TEST(LinearAttentionBackward, SixteenBitTypesAndStrides) {
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
    c.inputs = c.outputs = layout;
    test::expect_linear_gradients<double>(c);
    test::expect_linear_gradients<Bfloat16>(c);
    test::expect_linear_gradients<Float16>(c);
  }
}

TEST(LinearAttentionBackward, GradientOfValuesIsTheAdjoint) {
  // o is linear in v: ⟨o(v), w⟩ = ⟨v, d_v(w)⟩, two sums of some thousand products, which may cancel: 10^4 roundings of
  // the sizes of all of them.
  const LinearCase c{.batch = 2,
                     .heads = 4,
                     .kv_heads = 2,
                     .q_len = 129,
                     .k_len = 129,
                     .dim = 8,
                     .value_dim = 9,
                     .mask = Mask::causal,
                     .rope = true};
  LinearData<double> data(c);
  const std::vector<double> out = data.forward(data.terms());
  data.backward(data.terms());
  double forward = 0, backward = 0, size = 0;
  const std::vector<double> w = data.d_out.doubles(), v = data.v.doubles(), d_v = data.d_v.doubles();
  for (std::size_t x = 0; x < out.size(); ++x) forward += out[x] * w[x], size += std::abs(out[x] * w[x]);
  for (std::size_t x = 0; x < v.size(); ++x) backward += v[x] * d_v[x], size += std::abs(v[x] * d_v[x]);
  EXPECT_NEAR(forward, backward, 0x1p-53 * 10'000 * size);
}

TEST(LinearAttentionBackward, WhatIsLeftNullIsNotComputedAndChangesNothing) {
  const LinearCase c{.q_len = 70, .k_len = 70, .mask = Mask::causal, .rope = true};
  LinearData<double> all(c);
  all.backward(all.terms());
  for (int kept = 0; kept < 3; ++kept) {
    LinearData<double> one(c);
    LinearAttentionGrads<double> grads;
    if (kept == 0) grads.d_q = one.d_q.view();
    if (kept == 1) grads.d_k = one.d_k.view();
    if (kept == 2) grads.d_v = one.d_v.view();
    linear_attention_backward<double>(one.inputs(), one.d_out.read(), {}, grads, one.terms(), c.options());
    EXPECT_EQ(kept == 0, one.d_q.values() == all.d_q.values());
    EXPECT_EQ(kept == 1, one.d_k.values() == all.d_k.values());
    EXPECT_EQ(kept == 2, one.d_v.values() == all.d_v.values());
  }
}

TEST(LinearAttentionBackward, AddsParametersGradientsOfQueriesAndKeys) {
  // An encoding with a number per head that doubles the rows, then one that turns those by learned frequencies.
  LinearCase c{.batch = 2,
               .heads = 2,
               .kv_heads = 2,
               .q_len = 66,
               .k_len = 66,
               .dim = 4,
               .value_dim = 3,
               .mask = Mask::causal,
               .q_first = 1,
               .k_first = 1};
  c.epsilon = 0.5;
  test::Twice twice{test::Strengths(2)};
  for (double& strength : twice.c.value) strength *= 0x1p-6;  // it multiplies positions
  Params params(Params::Shapes{{1, 2, 4}}, -0.2, 0.2);
  const RopeMixedRows<double> mixed({.head_dim = 8, .axes = 1, .pairing = Pairing::half}, params.param<double, 3>(0));
  LinearData<double> data(c);
  data.backward(with(twice, mixed));
  const auto differences = [&](std::vector<double>& values, const std::vector<double>& grads) {
    for (std::size_t x = 0; x < values.size(); ++x) {
      const double slope = data.slope_of(values[x], with(twice, mixed));
      EXPECT_NEAR(grads[x], slope, 1e-8 + 1e-6 * std::abs(slope)) << x;
      EXPECT_NE(grads[x], 0);
    }
  };
  const std::vector<double> d_strengths = twice.c.grad, d_frequencies = params.grads(0);
  differences(twice.c.value, d_strengths);
  differences(params.values(0), d_frequencies);
  data.backward(with(twice, mixed));  // they are added: a few roundings of what is there
  EXPECT_NEAR(twice.c.grad[1], 2 * d_strengths[1], 0x1p-48 * std::abs(d_strengths[1]));
  EXPECT_NEAR(params.grads(0)[3], 2 * d_frequencies[3], 0x1p-48 * std::abs(d_frequencies[3]));
}

}  // namespace
}  // namespace bearing
