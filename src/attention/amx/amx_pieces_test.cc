#include <gtest/gtest.h>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/t5.hpp>

#include "support/amx_cases.hpp"
#include "support/attention.hpp"
#include "support/hidden.hpp"

// attention() and attention_backward() of float and half as they are on a machine with matrix tiles, in pieces of
// bfloat16; here they are plain loops. The bounds are those of the float kernels.

namespace bearing {
namespace {

namespace amx = attend::amx;
using test::Forced;
using test::tiles_case;

/// Both ways; and the tiles did run, for other sums have other roundings.
template <class T>
void expect_pieces(const AttentionCase& c, const TermList<float>& terms = {}, const TermList<double>& exact = {}) {
  const AttentionData<T> data(c);
  const auto truth = test::attention_truth(data.problem(true), exact);
  const Forced forced(&amx::emulated);
  if constexpr (!std::is_same_v<T, float>) test::expect_attention<T>(data, truth, terms);
  test::expect_attention<T, float>(data, truth, terms);
  test::expect_attention_gradients<T, float>(data, truth, terms);
  const auto on_tiles = data.template forward<float>(terms);
  const Forced none(nullptr);
  EXPECT_FALSE(test::same_bits(data.template forward<float>(terms).out, on_tiles.out)) << test::describe(c);
}

void expect_pieces(const AttentionCase& c) {
  expect_pieces<float>(c);
  expect_pieces<Float16>(c);
}

TEST(AmxPieces, LengthsAroundTilesSlabsAndBlocks) {
  for (const Index k_len : {7, 31, 65, 300}) expect_pieces(tiles_case(33, k_len));
  for (const Index q_len : {32, 97}) expect_pieces(tiles_case(q_len, 70));
  AttentionCase wide = tiles_case(40, 150);
  wide.heads = wide.kv_heads = 1, wide.dim = 96, wide.value_dim = 32;
  expect_pieces<float>(wide);
}

TEST(AmxPieces, MasksWindowsAndPadding) {
  test::each_tiles_mask(40, [](const AttentionCase& c) { expect_pieces<float>(c); });
}

TEST(AmxPieces, SharedHeadsLayoutsScaleAndSinks) {
  test::each_tiles_layout([](const AttentionCase& c) { expect_pieces<float>(c); });
}

TEST(AmxPieces, BiasesByDistance) {
  const Alibi alibi{{0.25, 0.5}};
  const AlibiBias<double> alibi64(alibi);
  const AlibiBias<float> alibi32(alibi);
  for (const Mask mask : {Mask::none, Mask::causal}) {
    AttentionCase c = tiles_case(70, 150);
    c.options.mask = mask, c.q_first = 80;
    expect_pieces<float>(c, with(alibi32), with(alibi64));
  }
}

TEST(AmxPieces, TurnedRowsAreNotRounded) {
  AttentionCase c = tiles_case(40, 150);
  c.options.mask = Mask::causal, c.q_first = 110;
  const test::TilesRope rope;
  expect_pieces<float>(c, with(rope.rows()), with(rope.exact()));
  expect_pieces<Float16>(c, with(rope.rows()), with(rope.exact()));
}

TEST(AmxPieces, WhatLiesWhereNobodyLooksDoesNotMatter) {
  const test::Hiding hiding(1, 2, 70, 150);
  const Forced forced(&amx::emulated);
  hiding.each(tiles_case(70, 150), test::Serves::any, [&](const char* way, const AttentionCase& c) {
    const auto clean = AttentionData<float>(c).backward({});
    for (const float number : test::garbage<float>()) {
      AttentionData<float> data(c);
      ASSERT_GT(test::poison(data, number), 0);
      EXPECT_TRUE(data.backward({}).same_bits_as(clean)) << "hidden by " << way << ", where " << number << " lies";
    }
  });
}

TEST(AmxPieces, LargeNumbersStayNumbers) {
  // One key is so large that all queries look at it, or away from it; one value is the largest number that there is.
  test::Random random(5);
  std::vector<float> q(40 * 32), k(70 * 32), v(70 * 32), out(q.size()), wanted(q.size());
  for (auto* numbers : {&q, &k, &v}) {
    for (float& x : *numbers) x = static_cast<float>(random.uniform(-1, 1));
  }
  for (Index d = 0; d < 32; ++d) k[static_cast<std::size_t>(20 * 32 + d)] *= 1e30f;
  v[20 * 32 + 3] = std::numeric_limits<float>::max();
  const auto run = [&](const amx::Kernels* kernels, std::vector<float>& to) {
    const Forced forced(kernels);
    const auto rows = [](const std::vector<float>& x, Index n) { return bhtd(x.data(), 1, 1, n, 32); };
    attention<float>({rows(q, 40), rows(k, 70), rows(v, 70)}, bhtd(to.data(), 1, 1, 40, 32), {}, {},
                     {.mask = Mask::none});
  };
  run(nullptr, wanted);
  run(&amx::emulated, out);
  Index alone = 0;
  for (std::size_t x = 0; x < out.size(); ++x) {
    ASSERT_NEAR(out[x] / std::max(1.0f, wanted[x]), wanted[x] / std::max(1.0f, wanted[x]), 2e-6) << x;
    alone += wanted[x] == std::numeric_limits<float>::max() ? 1 : 0;
  }
  EXPECT_GT(alone, 5);
}

TEST(AmxPieces, AnyExecutorGivesTheSameBits) {
  AttentionCase c = tiles_case(330, 330);  // more than a block of queries
  c.options.mask = Mask::causal;
  const Alibi alibi{{0.25, 0.5}};
  const AlibiBias<float> bias(alibi);
  const AttentionData<float> data(c);
  const Forced forced(&amx::emulated);
  const auto alone = data.backward(with(bias));
  test::Workers threads(3);
  EXPECT_TRUE(data.backward(with(bias), threads).same_bits_as(alone));
  EXPECT_TRUE(data.backward(with(bias), test::backwards(7)).same_bits_as(alone));
}

}  // namespace
}  // namespace bearing
