#include <gtest/gtest.h>
#include <bearing/linear_attention.hpp>
#include <bearing/reference/linear_attention.hpp>
#include <vector>

#include "support/linear_cases.hpp"

namespace bearing {
namespace {

using test::LinearCase;
using test::LinearData;

TEST(LinearAttentionState, ContinuingEqualsOneCall) {
  const LinearCase c{.batch = 2,
                     .heads = 4,
                     .kv_heads = 2,
                     .q_len = 200,
                     .k_len = 200,
                     .dim = 6,
                     .value_dim = 40,
                     .mask = Mask::causal,
                     .rope = true};
  for (const std::vector<Index>& cuts : std::vector<std::vector<Index>>{
           {0, 200}, {0, 1, 64, 65, 129, 200}, {0, 63, 64, 128, 200}, {0, 0, 100, 100, 200}}) {
    test::expect_continuation<double>(c, cuts);
    test::expect_continuation<float>(c, cuts);
    test::expect_continuation<Bfloat16>(c, cuts);
  }
  std::vector<Index> every;
  for (Index t = 0; t <= 40; ++t) every.push_back(t);
  every.push_back(200);
  test::expect_continuation<double>(c, every);
}

TEST(LinearAttentionState, CutsAtWholeBlocksKeepTheBits) {
  const LinearCase c{.heads = 2,
                     .kv_heads = 1,
                     .q_len = 200,
                     .k_len = 200,
                     .dim = 6,
                     .value_dim = 5,
                     .mask = Mask::causal,
                     .rope = true};
  LinearData<float> whole(c), cut(c);
  const std::vector<double> once = whole.forward(whole.terms());
  EXPECT_EQ(once, cut.forward_in_pieces({0, 64, 192, 200}));
  EXPECT_EQ(whole.forward_in_pieces({0, 200}), once);
}

TEST(LinearAttentionState, HoldsTheSumsOfAllKeys) {
  const LinearCase c{
      .heads = 2, .kv_heads = 2, .q_len = 3, .k_len = 100, .dim = 4, .value_dim = 3, .mask = Mask::causal};
  LinearData<double> data(c);
  std::vector<double> s(2 * 4 * 3, 1.0), z(2 * 4, 2.0), s_truth = s, z_truth = z;
  const auto state = [](std::vector<double>& to_s, std::vector<double>& to_z) {
    return LinearState<double>{bhtd(to_s.data(), 1, 2, 4, 3), dense(to_z.data(), 1, 2, 4)};
  };
  linear_attention<double>(data.inputs(), data.out.view(), state(s, z), {}, c.options());
  reference::linear_attention(data.inputs(), data.out.view(), state(s_truth, z_truth), {}, c.options());
  for (std::size_t x = 0; x < s.size(); ++x) EXPECT_NEAR(s[x], s_truth[x], 0x1p-44 * 100);  // sums of 100 below 6
  for (std::size_t x = 0; x < z.size(); ++x) EXPECT_NEAR(z[x], z_truth[x], 0x1p-44 * 100);
  EXPECT_GT(z[0], 2);
}

TEST(LinearAttentionState, GradientsFlowThroughChunks) {
  const LinearCase c{.batch = 2,
                     .heads = 4,
                     .kv_heads = 2,
                     .q_len = 150,
                     .k_len = 150,
                     .dim = 6,
                     .value_dim = 5,
                     .mask = Mask::causal,
                     .rope = true};
  test::expect_chunked_gradients(c, {0, 1, 64, 65, 150});
  test::expect_chunked_gradients(c, {0, 70, 150});
}

}  // namespace
}  // namespace bearing
