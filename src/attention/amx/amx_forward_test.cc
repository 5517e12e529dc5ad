#include "attention/amx/amx_forward.hpp"

#include <gtest/gtest.h>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/t5.hpp>

#include "support/amx_cases.hpp"
#include "support/attention.hpp"
#include "support/hidden.hpp"

// attention() of bfloat16 as it is on a machine with matrix tiles; here they are plain loops.

namespace bearing {
namespace {

namespace amx = attend::amx;
using test::Forced;
using test::tiles_case;

/// What the tiles cost. A weight is off by a factor 1 + ε at most: 2^-8 from rounding it to bfloat16, 7.5e-5 from its
/// polynomial, and what its logit is off by: float's roundings, below 1e-5 for these sizes, and with rows that were
/// turned, and so rounded again, 2^-8 of c·|q||k| in each of its factors. A mean of values in [−1, 1] is off by
/// ε/(1 − ε) then, as factors deviate from their mean by no more on the mean, beside 1e-5 for float's sums. The
/// logarithm of the weights' sum, which is of weights before they are rounded, is off by −ln(1 − η), η their ε without
/// 2^-8, and as much.
template <class O>
void expect_tiles(const AttentionData<Bfloat16>& data, const test::AttentionTruth& truth,
                  const TermList<float>& terms = {}, double turned_product = 0) {
  const double unrounded = 7.5e-5 + 1e-5 + std::expm1(0x1p-7 * turned_product), weight = 0x1p-8 + unrounded;
  const double bound = weight / (1 - weight) + 1e-5, lse_bound = 1e-5 - std::log1p(-unrounded);
  const Forced forced(&amx::emulated);
  const auto got = data.template forward<O>(terms);
  const std::string what = test::describe(data.the_case());
  ASSERT_EQ(got.out.size(), truth.out.size());
  for (std::size_t x = 0; x < truth.out.size(); ++x) {
    const double rounding = sizeof(O) == 2 ? 0.5 * test::ulp<O>(std::abs(truth.out[x]) + bound) : 0;
    ASSERT_NEAR(test::to_double(got.out[x]), truth.out[x], bound + rounding) << what << ", element " << x;
  }
  for (std::size_t x = 0; x < truth.lse.size(); ++x) {
    if (std::isinf(truth.lse[x])) {
      ASSERT_EQ(got.lse[x], truth.lse[x]);
    } else {
      ASSERT_NEAR(got.lse[x], truth.lse[x], lse_bound) << what << ", row " << x;
    }
  }
  const Forced none(nullptr);  // the tiles did run: the float kernels are not off by as much
  if (test::largest(truth.out) > 0) {
    EXPECT_FALSE(test::same_bits(data.template forward<float>(terms).lse, got.lse)) << what;
  }
}

void expect_tiles(const AttentionCase& c) {
  const AttentionData<Bfloat16> data(c);
  const auto truth = test::attention_truth(data.problem(false), {});
  expect_tiles<Bfloat16>(data, truth);
  expect_tiles<float>(data, truth);
}

TEST(AmxForward, LengthsAroundTilesAndBlocks) {
  for (const Index k_len : {1, 7, 31, 33, 63, 65, 127, 129, 300}) expect_tiles(tiles_case(33, k_len));
  for (const Index q_len : {32, 63, 200}) expect_tiles(tiles_case(q_len, 150));
  expect_tiles(tiles_case(40, 1100));
}

TEST(AmxForward, MasksWindowsAndPadding) {
  test::each_tiles_mask(70, [](const AttentionCase& c) { expect_tiles(c); });
}

TEST(AmxForward, SharedHeadsLayoutsScaleAndSinks) {
  test::each_tiles_layout([](const AttentionCase& c) { expect_tiles(c); });
}

TEST(AmxForward, BiasesByDistance) {
  const Alibi alibi{{0.25, 0.5}};
  const T5 t5{.direction = T5Direction::bidirectional};
  test::Params table(test::Params::Shapes{{32, 2}});
  for (const Mask mask : {Mask::none, Mask::causal}) {
    AttentionCase c = tiles_case(70, 150);
    c.options.mask = mask, c.q_first = 80;
    const AttentionData<Bfloat16> data(c);
    const AlibiBias<double> bias64(alibi);
    const AlibiBias<float> bias32(alibi);
    expect_tiles<Bfloat16>(data, test::attention_truth(data.problem(false), with(bias64)), with(bias32));
    const T5Bias<double> t5_64(t5, table.param<double, 2>(0));
    const T5Bias<float> t5_32(t5, table.param<float, 2>(0));
    expect_tiles<Bfloat16>(data, test::attention_truth(data.problem(false), with(bias64, t5_64)), with(bias32, t5_32));
  }
}

TEST(AmxForward, ABiasThatIsNoNumberMakesItsQueriesNone) {
  const T5 t5{.direction = T5Direction::bidirectional};
  std::vector<float> table(2 * static_cast<std::size_t>(t5.buckets));  // [buckets, heads]
  table[2 * 5 + 1] = std::bit_cast<float>(0xFFFFFFFFu);  // all bits, which no addition to them may turn into a number
  const T5Bias<float> bias(t5, {dense(table.data(), t5.buckets, 2)});
  AttentionCase c = tiles_case(40, 150);
  c.q_first = 80;
  const AttentionData<Bfloat16> data(c);
  const Forced forced(&amx::emulated);
  const auto out = data.forward<float>(with(bias)).out;
  // [heads, time, dim]
  for (std::size_t x = 0; x < out.size(); ++x) ASSERT_EQ(std::isnan(out[x]), x / (40 * 64) == 1) << x;
}

TEST(AmxForward, TurnedRowsAreRoundedOnce) {
  AttentionCase c = tiles_case(40, 150);
  c.options.mask = Mask::causal, c.q_first = 110;
  const test::TilesRope rope;
  const AttentionData<Bfloat16> data(c);
  // |q| and |k| are at most √32, c is 1/√32.
  expect_tiles<Bfloat16>(data, test::attention_truth(data.problem(false), with(rope.exact())), with(rope.rows()),
                         std::sqrt(32.0));
}

TEST(AmxForward, WhatLiesWhereNoKeyIsDoesNotMatter) {
  // Keys 0 … 39 are padding on the left, 120 … on the right: their rows hold NaN.
  const Index q_len = 35, k_len = 150, dim = 32;
  const Bfloat16 nan(std::numeric_limits<float>::quiet_NaN());
  test::Random random(3);
  std::vector<Bfloat16> q(q_len * dim), k(k_len * dim, nan), v(k_len * dim, nan), out(q_len * dim);
  for (Bfloat16& x : q) x = Bfloat16(static_cast<float>(random.uniform(-1, 1)));
  for (std::size_t x = 40 * dim; x < 120 * dim; ++x) {
    k[x] = Bfloat16(static_cast<float>(random.uniform(-1, 1)));
    v[x] = Bfloat16(1.0f);
  }
  const auto shown = std::make_unique<bool[]>(k_len);
  for (std::size_t j = 40; j < 120; ++j) shown[j] = true;
  AttentionOptions<float> options{.mask = Mask::none};
  options.key_mask = dense<const bool>(shown.get(), 1, k_len);
  const Forced forced(&amx::emulated);
  const auto rows = [&](const std::vector<Bfloat16>& x, Index n) { return bhtd(x.data(), 1, 1, n, dim); };
  attention<Bfloat16>({rows(q, q_len), rows(k, k_len), rows(v, k_len)}, bhtd(out.data(), 1, 1, q_len, dim), {}, {},
                      options);
  for (const Bfloat16 x : out) EXPECT_EQ(x, Bfloat16(1.0f));
}

TEST(AmxForward, NorWhatLiesWhereNobodyLooks) {
  const test::Hiding hiding(1, 2, 70, 150);
  const Forced forced(&amx::emulated);
  const test::TilesRope rope;
  for (const TermList<float>& terms : {TermList<float>{}, with(rope.rows())}) {
    hiding.each(tiles_case(70, 150), test::Serves::any, [&](const char* way, const AttentionCase& c) {
      const auto clean = AttentionData<Bfloat16>(c).forward<float>(terms);
      for (const Bfloat16 number : test::garbage<Bfloat16>()) {
        AttentionData<Bfloat16> data(c);
        ASSERT_GT(test::poison(data, number), 0);
        EXPECT_TRUE(test::same_bits(data.forward<float>(terms).out, clean.out))
            << "hidden by " << way << ", where " << test::to_double(number) << " lies";
      }
    });
  }
}

TEST(AmxForward, PagedKeysAreThoseOfOneRow) {
  const Index blocks = 5, block_size = 20, k_len = blocks * block_size, q_len = 32, dim = 32;
  const std::vector<Index> order = {3, 0, 4, 2, 1};
  test::Random random(9);
  std::vector<Bfloat16> q(q_len * dim), k(k_len * dim), v(k_len * dim), paged_k(k.size()), paged_v(k.size());
  for (auto* x : {&q, &k, &v}) {
    for (Bfloat16& number : *x) number = Bfloat16(static_cast<float>(random.uniform(-1, 1)));
  }
  for (std::size_t n = 0; n < 5; ++n) {
    const std::size_t size = block_size * dim;
    std::copy_n(&k[n * size], size, &paged_k[static_cast<std::size_t>(order[n]) * size]);
    std::copy_n(&v[n * size], size, &paged_v[static_cast<std::size_t>(order[n]) * size]);
  }
  std::vector<float> whole(q.size()), paged(q.size());
  const Index length = k_len - 3;
  AttentionOptions<float> options{.mask = Mask::none};
  options.k_lengths = dense(&length, 1);
  const Forced forced(&amx::emulated);
  const auto queries = bhtd<const Bfloat16>(q.data(), 1, 1, q_len, dim);
  attention<Bfloat16>(
      {queries, bhtd<const Bfloat16>(k.data(), 1, 1, k_len, dim), bhtd<const Bfloat16>(v.data(), 1, 1, k_len, dim)},
      bhtd(whole.data(), 1, 1, q_len, dim), {}, {}, options);
  AttentionInputs<Bfloat16> in{queries, bhtd<const Bfloat16>(paged_k.data(), blocks, 1, block_size, dim),
                               bhtd<const Bfloat16>(paged_v.data(), blocks, 1, block_size, dim)};
  in.block_table = dense(order.data(), 1, blocks);
  attention<Bfloat16>(in, bhtd(paged.data(), 1, 1, q_len, dim), {}, {}, options);
  EXPECT_TRUE(test::same_bits(whole, paged));
}

TEST(AmxForward, AnyExecutorGivesTheSameBits) {
  AttentionCase c = tiles_case(450, 450);
  c.options.mask = Mask::causal;
  const Alibi alibi{{0.25, 0.5}};
  const AlibiBias<float> bias(alibi);
  const AttentionData<Bfloat16> data(c);
  const Forced forced(&amx::emulated);
  const auto alone = data.forward<Bfloat16>(with(bias));
  for (const Index workers : {2, 3, 7}) {
    test::Workers threads(workers);
    EXPECT_TRUE(data.forward<Bfloat16>(with(bias), threads).same_bits_as(alone)) << workers;
    EXPECT_TRUE(data.forward<Bfloat16>(with(bias), test::backwards(workers)).same_bits_as(alone)) << workers;
  }
}

TEST(AmxForward, LeavesOtherCallsToTheFloatKernels) {
  const auto expect_float = [](const AttentionCase& c, const TermList<float>& terms = {}) {
    const AttentionData<Bfloat16> data(c);
    const auto forward = [&](const amx::Kernels* kernel) {
      const Forced forced(kernel);
      return data.forward<float>(terms);
    };
    EXPECT_TRUE(forward(&attend::amx::emulated).same_bits_as(forward(nullptr))) << test::describe(c);
  };
  expect_float(tiles_case(31, 40));  // few queries
  AttentionCase c = tiles_case(40, 40);
  c.dim = 48;
  expect_float(c);
  c.dim = 32, c.value_dim = 8;
  expect_float(c);
  c.value_dim = 32, c.options.scale = -0.5;
  expect_float(c);
}

/// −1e9 for all keys: a mask that hides rows whole.
struct Hidden {
  using Arithmetic = float;
  static constexpr bool constant = true;

  void bias(Index, Index n, const double*, float* b) const { std::fill_n(b, n, -1e9f); }
};

TEST(AmxForward, RowsThatAFiniteMaskHidesHaveTheirGradients) {
  // Scores are −1e9 each, and weights alike: the gradient of every value is that of the outputs over the
  // number of keys, off by the roundings of 64 sums in float.
  AttentionCase c = tiles_case(64, 96);
  c.heads = c.kv_heads = 1;
  const AttentionData<Bfloat16> data(c);
  const Hidden hidden;
  const Forced forced(&amx::emulated);
  const auto got = data.backward<float>(with(hidden));
  for (Index d = 0; d < c.value_dim; ++d) {
    double mean = 0;
    for (Index i = 0; i < c.q_len; ++i) mean += data.out_weight(static_cast<std::size_t>(i * c.value_dim + d)) / 96;
    for (Index j = 0; j < c.k_len; ++j) {
      EXPECT_NEAR(got.d_v[static_cast<std::size_t>(j * c.value_dim + d)], mean, 64 * 2e-6);
    }
  }
}

}  // namespace
}  // namespace bearing
