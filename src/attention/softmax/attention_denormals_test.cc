#include <gtest/gtest.h>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/forgetting.hpp>
#include <cmath>

#include "support/attention.hpp"
#include "support/environment.hpp"
#include "support/targets.hpp"

// No denormal number comes up where inputs are of ordinary size: an addition of one costs 150 cycles on some machines,
// and ALiBi's far keys have weights of every size.

namespace bearing {
namespace {

/// Slopes from steep to so flat that the first keys of a row are just out of reach.
const std::vector<double> slopes = {0.5, 0x1p-3, 0x1p-4, 0x1p-5};

AttentionCase long_case(Index q_len, Index k_len) {
  AttentionCase c{.heads = 4, .kv_heads = 2, .q_len = q_len, .k_len = k_len, .dim = 64, .value_dim = 64};
  c.options.mask = Mask::causal;
  c.q_first = k_len - q_len;
  return c;
}

template <class A>
AlibiBias<A> alibi() {
  Alibi spec;
  spec.slopes = slopes;
  return AlibiBias<A>(spec);
}

TEST(Denormals, AreSeenByTheTest) {
  volatile float least = std::numeric_limits<float>::min(), third = 1.0f / 3, got = 0;
  EXPECT_TRUE(test::meets_denormals([&] { got = least * third; }));
  EXPECT_FALSE(test::meets_denormals([&] { got = third * third; }));
}

TEST(Denormals, NeverComeUpInAttention) {
  const AttentionData<float> data(long_case(512, 4096));
  const auto bias = alibi<float>();
  EXPECT_FALSE(test::meets_denormals([&] { (void)data.forward(with(bias)); }));
}

TEST(Denormals, NeverComeUpInAttentionOnAnyTarget) {
  const AttentionData<float> data(long_case(64, 2048));
  const AttentionData<double> in_double(long_case(64, 4096));
  const auto bias = alibi<float>();
  Alibi steep;  // doubles' weights reach further
  steep.slopes = {4, 2, 1, 0.5};
  const AlibiBias<double> bias_in_double(steep);
  test::on_every_target([&] {
    EXPECT_FALSE(test::meets_denormals([&] { (void)data.backward(with(bias)); }));
    EXPECT_FALSE(test::meets_denormals([&] { (void)in_double.backward(with(bias_in_double)); }));
  });
}

TEST(Denormals, NeverComeUpInBackward) {
  AttentionCase c = long_case(512, 4096);
  c.kv_heads = 4;  // heads of their own: the slopes' gradients too
  const AttentionData<float> data(c);
  std::vector<float> values(slopes.begin(), slopes.end()), grads(values.size());
  const AlibiBias<float> bias(Param<float, 1>{dense<const float>(values.data(), 4), dense(grads.data(), 4)});
  EXPECT_FALSE(test::meets_denormals([&] { (void)data.backward(with(bias)); }));
  for (const float grad : grads) EXPECT_NE(grad, 0);
}

TEST(Denormals, NeverComeUpWithForgettingGates) {
  AttentionCase c = long_case(512, 4096);
  c.kv_heads = 4;
  const AttentionData<float> data(c);
  // Gates that forget a token at once, and that keep it for thousands.
  std::vector<float> gates(static_cast<std::size_t>(c.heads * c.k_len)), grads(gates.size());
  test::Random random(4);
  for (float& gate : gates) gate = -static_cast<float>(std::exp(random.uniform(-9, 1)));
  const ForgettingBias<float> bias(
      Param<float, 3>{dense<const float>(gates.data(), 1, c.heads, c.k_len), dense(grads.data(), 1, c.heads, c.k_len)},
      c.k_len - c.q_len);
  EXPECT_FALSE(test::meets_denormals([&] { (void)data.forward(with(bias)); }));
  EXPECT_FALSE(test::meets_denormals([&] { (void)data.backward(with(bias)); }));
  for (Index h = 0; h < c.heads; ++h) EXPECT_NE(grads[static_cast<std::size_t>((h + 1) * c.k_len - 1)], 0);
}

TEST(Denormals, NeverComeUpInDecodeSteps) {
  for (const Index q_len : {1, 3}) {
    const AttentionData<float> data(long_case(q_len, 4096));
    const AttentionData<Bfloat16> narrow(long_case(q_len, 4096));
    const auto bias = alibi<float>();
    EXPECT_FALSE(test::meets_denormals([&] { (void)data.forward(with(bias)); })) << q_len;
    EXPECT_FALSE(test::meets_denormals([&] { (void)narrow.forward(with(bias)); })) << q_len;
  }
}

TEST(Denormals, NeverComeUpInMerges) {
  // The shares of two results take every value from 2^-150 to 1, row by row, whichever comes first.
  const Index rows = 1200;
  std::vector<float> part(static_cast<std::size_t>(2 * rows)), part_lse(static_cast<std::size_t>(rows));
  std::vector<float> out(part.size()), lse(part_lse.size());
  test::Random random(3);
  for (float& x : part) x = static_cast<float>(random.uniform(-0.25, 0.25));
  for (float& x : out) x = static_cast<float>(random.uniform(-0.25, 0.25));
  for (Index i = 0; i < rows; ++i) part_lse[static_cast<std::size_t>(i)] = static_cast<float>(i - rows / 2) / 6;
  EXPECT_FALSE(test::meets_denormals([&] {
    merge<float>(bhtd<const float>(part.data(), 1, 1, rows, 2), dense<const float>(part_lse.data(), 1, 1, rows),
                 bhtd(out.data(), 1, 1, rows, 2), dense(lse.data(), 1, 1, rows));
  }));
}

}  // namespace
}  // namespace bearing
