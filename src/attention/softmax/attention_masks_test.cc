#include <gtest/gtest.h>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/dense_bias.hpp>

#include "support/attention.hpp"
#include "support/attention_masks.hpp"
#include "support/targets.hpp"

// Which keys a query sees: every mask with every other, by position and by index.

namespace bearing {
namespace {

using test::Masks;
using test::Standing;

/// Rows that see nothing, some keys, all keys.
struct Seen {
  Index nothing = 0, some = 0, all = 0;

  void count(const AttentionCase& c, const AttentionData<double>& data) {
    for (Index row = 0; row < c.batch * c.heads * c.q_len; ++row) {
      const Index i = row % c.q_len, h = row / c.q_len % c.heads, b = row / c.q_len / c.heads;
      Index keys = 0;
      for (Index j = 0; j < c.k_len; ++j) {
        keys +=
            reference::visible(c.options, data.q_positions(), data.k_positions(), c.q_len, c.k_len, b, h, i, j) ? 1 : 0;
      }
      ++(keys == 0 ? nothing : keys == c.k_len ? all : some);
    }
  }
};

TEST(AttentionMasks, EveryMaskWithEveryOther) {
  const Masks masks(3, 1, 11, 20);
  Seen seen;
  masks.each([&](const AttentionCase& c, const std::string& others) {
    SCOPED_TRACE(others);
    const AttentionData<double> data(c);
    const auto truth = test::attention_truth(data.problem(false), {});
    test::expect_attention<double>(data, truth);
    seen.count(c, data);
  });
  EXPECT_GT(seen.nothing, 1000);
  EXPECT_GT(seen.some, 10'000);
  EXPECT_GT(seen.all, 300);
}

TEST(AttentionMasks, EveryMaskOverManyBlocks) {
  const Masks masks(2, 1, 140, 530);
  Index n = 0;
  masks.each([&](const AttentionCase& c, const std::string& others) {
    if (n++ % 13 != 0) return;  // 480 combinations and 13 have no common divisor: every kind takes its turn
    SCOPED_TRACE(others);
    test::expect_attention<float>(c);
  });
}

TEST(AttentionMasks, EveryMaskWithABiasByDistance) {
  const Masks masks(2, 2, 70, 150);
  const Alibi alibi{{0.25, 0.5}};
  const AlibiBias<double> bias(alibi);
  Index n = 0;
  masks.each([&](const AttentionCase& c, const std::string& others) {
    if (n++ % 7 != 3) return;
    SCOPED_TRACE(others);
    const AttentionData<double> data(c);
    test::expect_attention<double>(data, test::attention_truth(data.problem(false), with(bias)), with(bias));
  });
}

TEST(AttentionMasks, EveryMaskWithAMatrix) {
  const Masks masks(2, 2, 70, 150);
  // One for each head, one row for all queries, and one column for all keys, which is none whose columns lie side by
  // side.
  const std::array<Index, 4> shapes[] = {{2, 2, 70, 150}, {1, 2, 1, 150}, {2, 1, 70, 1}};
  test::Random random(7);
  Index n = 0;
  masks.each([&](AttentionCase c, const std::string& others) {
    if (n++ % 7 != 5) return;
    SCOPED_TRACE(others);
    const auto& [batch, heads, rows, cols] = shapes[n / 7 % 3];
    std::vector<double> numbers(static_cast<std::size_t>(batch * heads * rows * cols));
    for (double& x : numbers) x = random.uniform(-2, 2);
    const DenseBias<double> bias(Param<double, 4>{dense<const double>(numbers.data(), batch, heads, rows, cols)});
    if (n % 2 == 0) c.options.soft_cap = 1.5;
    const AttentionData<double> data(c);
    test::expect_attention<double>(data, test::attention_truth(data.problem(false), with(bias)), with(bias));
  });
}

TEST(AttentionMasks, EveryMaskWithEveryBand) {
  const Band bands[] = {{.from = 2},
                        {.to = 3},
                        {.from = 1, .to = 5},
                        {.from = -2, .to = 4},
                        {.from = 3, .to = 3},
                        {.to = 1, .chunk = 4},
                        {.from = 1, .to = 2, .chunk = 4},
                        {.from = 2, .chunk = 3}};
  const Masks few(3, 1, 11, 20), many(2, 1, 140, 530);
  Index n = 0;
  few.each([&](AttentionCase c, const std::string& others) {
    SCOPED_TRACE(others);
    c.options.band = bands[n++ % 8];
    const AttentionData<double> data(c);
    const auto truth = test::attention_truth(data.problem(true), {});
    test::expect_attention<double>(data, truth);
    test::expect_attention_gradients<double>(data, truth);
  });
  n = 0;
  many.each([&](AttentionCase c, const std::string& others) {
    if (n++ % 13 != 0) return;
    SCOPED_TRACE(others);
    c.options.band = bands[n % 8];
    if (n % 5 == 0) c.options.band = {.from = 100};
    test::expect_attention<float>(c);
  });
}

// What the options mean, spelt out for one row each: the keys that query 2 of 4 sees among 6.
TEST(AttentionMasks, SayWhichKeysAQuerySees) {
  const auto keys_of = [](const AttentionOptions<double>& options, Positions q_positions = {},
                          Positions k_positions = {}, Index i = 2) {
    // Values are the keys' bits, weights are all the same: the sum tells who was there.
    const std::vector<double> q(4), k(6);
    std::vector<double> v, out(4), lse(4);
    for (int j = 0; j < 6; ++j) v.push_back(std::exp2(j));
    attention<double>({bhtd(q.data(), 1, 1, 4, 1), bhtd(k.data(), 1, 1, 6, 1), bhtd<const double>(v.data(), 1, 1, 6, 1),
                       q_positions, k_positions},
                      bhtd(out.data(), 1, 1, 4, 1), dense(lse.data(), 1, 1, 4), {}, options);
    const auto row = static_cast<std::size_t>(i);
    const auto bits = static_cast<unsigned>(std::lround(out[row] * std::exp(lse[row])));
    std::string keys;
    for (unsigned j = 0; j < 6; ++j) {
      if (bits >> j & 1) keys += std::to_string(j);
    }
    return keys;
  };
  EXPECT_EQ(keys_of({.mask = Mask::none}), "012345");
  EXPECT_EQ(keys_of({.mask = Mask::causal}), "012");
  EXPECT_EQ(keys_of({.mask = Mask::causal}, Positions(2)), "01234");
  EXPECT_EQ(keys_of({.mask = Mask::causal_top_left}, Positions(2)), "012");
  EXPECT_EQ(keys_of({.mask = Mask::causal_bottom_right}), "01234");
  EXPECT_EQ(keys_of({.mask = Mask::causal_bottom_right}, {}, {}, 3), "012345");

  EXPECT_EQ(keys_of({.mask = Mask::causal, .window = {.before = 1}}), "12");
  EXPECT_EQ(keys_of({.mask = Mask::causal, .window = {.before = 1, .after = 2}}), "12");
  EXPECT_EQ(keys_of({.mask = Mask::none, .window = {.before = 1}}), "12345");
  EXPECT_EQ(keys_of({.mask = Mask::none, .window = {.before = 1, .after = 2}}), "1234");
  EXPECT_EQ(keys_of({.mask = Mask::none, .window = {.before = -1, .after = 0}}), "012");
  EXPECT_EQ(keys_of({.mask = Mask::none, .window = {.before = 0, .after = 0}}, Positions(1)), "3");
  EXPECT_EQ(keys_of({.mask = Mask::causal_bottom_right, .window = {.before = 1}}), "34");
  EXPECT_EQ(keys_of({.mask = Mask::causal_top_left, .window = {.before = 1}}, Positions(9)), "12");
  EXPECT_EQ(keys_of({.mask = Mask::causal, .window = {.before = std::numeric_limits<Index>::max()}}), "012");
  EXPECT_EQ(keys_of({.mask = Mask::causal_bottom_right, .window = {.before = std::numeric_limits<Index>::max()}}),
            "01234");
  EXPECT_EQ(keys_of({.mask = Mask::none, .window = {.after = std::numeric_limits<Index>::max()}}), "012345");

  EXPECT_EQ(keys_of({.mask = Mask::causal, .band = {.from = 1}}), "01");
  EXPECT_EQ(keys_of({.mask = Mask::causal, .band = {.to = 1}}), "2");
  EXPECT_EQ(keys_of({.mask = Mask::none, .band = {.to = 1}}), "2345");
  EXPECT_EQ(keys_of({.mask = Mask::none, .band = {.from = -2, .to = 2}}), "1234");
  EXPECT_EQ(keys_of({.mask = Mask::causal_top_left, .band = {.from = 1}}, Positions(9)), "012");  // by position
  EXPECT_EQ(keys_of({.mask = Mask::none, .band = {.to = 1, .chunk = 2}}), "2345");
  EXPECT_EQ(keys_of({.mask = Mask::none, .band = {.from = 1, .to = 2, .chunk = 2}}), "01");
  EXPECT_EQ(keys_of({.mask = Mask::none, .band = {.from = 0, .to = 1, .chunk = 2}}, {}, Positions(-1)), "34");

  const Index four = 4;
  AttentionOptions<double> padded{.mask = Mask::none};
  padded.k_lengths = dense(&four, 1);
  EXPECT_EQ(keys_of(padded), "0123");
  padded.mask = Mask::causal_bottom_right;  // the last query sees the last key that exists
  EXPECT_EQ(keys_of(padded), "012");
  EXPECT_EQ(keys_of(padded, {}, {}, 3), "0123");

  const bool shown[] = {false, true, true, false, true, true};
  AttentionOptions<double> masked{.mask = Mask::causal};
  masked.key_mask = dense(shown, 1, 6);
  EXPECT_EQ(keys_of(masked), "12");
  masked.key_mask = {}, masked.mask = Mask::none;
  masked.visible = View<const bool, 4>{shown, {1, 1, 4, 6}, {0, 0, 0, 1}};
  EXPECT_EQ(keys_of(masked), "1245");

  const std::vector<Index> q_starts = {0, 1, 4}, k_starts = {0, 2, 6};
  AttentionOptions<double> packed{.mask = Mask::none};
  packed.q_starts = dense(q_starts.data(), 3), packed.k_starts = dense(k_starts.data(), 3);
  EXPECT_EQ(keys_of(packed), "2345");
  EXPECT_EQ(keys_of(packed, {}, {}, 0), "01");
  packed.mask = Mask::causal_top_left;  // the second of three queries
  EXPECT_EQ(keys_of(packed), "23");
  packed.mask = Mask::causal_bottom_right;
  EXPECT_EQ(keys_of(packed), "234");
  packed.k_lengths = dense(&four, 1);  // the second sequence has keys 2 and 3 left
  EXPECT_EQ(keys_of(packed), "2");
  EXPECT_EQ(keys_of(packed, {}, {}, 3), "23");

  const std::vector<double> q_positions = {9, 9, 1.5, 9}, k_positions = {1, 7, 2, 1.5, -4, 1.75};
  const Positions q_real(dense(q_positions.data(), 4)), k_real(dense(k_positions.data(), 6));
  EXPECT_EQ(keys_of({.mask = Mask::causal}, q_real, k_real), "034");
  EXPECT_EQ(keys_of({.mask = Mask::none, .window = {.before = 1, .after = 0}}, q_real, k_real), "03");
  EXPECT_EQ(keys_of({.mask = Mask::none, .window = {.before = 0, .after = 1}}, q_real, k_real), "235");
  EXPECT_EQ(keys_of({.mask = Mask::none, .band = {.from = 0, .to = 1}}, q_real, k_real), "03");
}

TEST(AttentionMasks, ShardsOfAZigzagSplitMergeToTheWhole) {
  // Ring attention: every shard of the queries meets every shard of the keys, at their true positions.
  const Index time = 64, shards = 4, part = time / shards, dim = 8;
  const AttentionCase c{.heads = 1, .kv_heads = 1, .q_len = time, .k_len = time, .options = {.mask = Mask::causal}};
  const AttentionData<double> data(c);
  const auto truth = test::attention_truth(data.problem(false), {});
  const AttentionInputs<double> in = data.inputs();
  const auto shard = [&](Index s) {  // its tokens: piece s and piece 2·shards − 1 − s of 2·shards
    std::vector<Index> at;
    for (const Index piece : {s, 2 * shards - 1 - s}) {
      for (Index t = 0; t < part / 2; ++t) at.push_back(piece * part / 2 + t);
    }
    return at;
  };
  const auto gather = [&](View<const double, 4> x, const std::vector<Index>& at) {
    std::vector<double> rows;
    for (const Index t : at) rows.insert(rows.end(), &x(0, 0, t, 0), &x(0, 0, t, 0) + dim);
    return rows;
  };
  for (Index s = 0; s < shards; ++s) {
    const std::vector<Index> q_positions = shard(s);
    const std::vector<double> q = gather(in.q, q_positions);
    std::vector<double> out(q.size()), lse(static_cast<std::size_t>(part), -std::numeric_limits<double>::infinity());
    for (Index other = 0; other < shards; ++other) {
      const std::vector<Index> k_positions = shard(other);
      const std::vector<double> k = gather(in.k, k_positions), v = gather(in.v, k_positions);
      std::vector<double> some(q.size()), some_lse(lse.size());
      const auto rows = [&](const std::vector<double>& x) { return bhtd(x.data(), 1, 1, part, dim); };
      attention<double>({rows(q), rows(k), rows(v), Positions(dense(q_positions.data(), part)),
                         Positions(dense(k_positions.data(), part))},
                        bhtd(some.data(), 1, 1, part, dim), dense(some_lse.data(), 1, 1, part), {},
                        {.mask = Mask::causal});
      merge<double>(rows(some), dense<const double>(some_lse.data(), 1, 1, part), bhtd(out.data(), 1, 1, part, dim),
                    dense(lse.data(), 1, 1, part));
    }
    for (std::size_t t = 0; t < q_positions.size(); ++t) {
      const auto at = static_cast<std::size_t>(q_positions[t]);
      EXPECT_NEAR(lse[t], truth.lse[at], 1e-13);
      for (std::size_t d = 0; d < dim; ++d) EXPECT_NEAR(out[t * dim + d], truth.out[at * dim + d], 1e-13);
    }
  }
}

TEST(AttentionMasks, InfinitelyLowBiasesHideKeys) {
  // The same as `visible`, to the last bit but one: a dense bias of 0 and −∞ hides what it hides, whole rows too.
  const Index q_len = 20, k_len = 90;
  test::Random random(31);
  const auto visible = std::make_unique<bool[]>(q_len * k_len);
  std::vector<double> bias(q_len * k_len);
  for (Index x = 0; x < q_len * k_len; ++x) {
    const Index i = x / k_len, j = x % k_len;
    // Row 3 sees nothing, row 4 nothing in its first 70 keys, row 5 the last key alone.
    const bool sees = i == 3 ? false : i == 4 ? j >= 70 : i == 5 ? j == k_len - 1 : random.integer(0, 2) > 0;
    visible[static_cast<std::size_t>(x)] = sees;
    if (!sees) bias[static_cast<std::size_t>(x)] = -std::numeric_limits<double>::infinity();
  }
  const DenseBias<double> hidden(Param<double, 4>{dense<const double>(bias.data(), 1, 1, q_len, k_len)});
  AttentionCase c{.q_len = q_len, .k_len = k_len};
  const AttentionData<double> biased(c);
  c.options.visible = View<const bool, 4>{visible.get(), {1, 2, q_len, k_len}, {0, 0, k_len, 1}};
  const AttentionData<double> masked(c);
  const auto truth = test::attention_truth(masked.problem(false), {});
  EXPECT_EQ(truth.lse[3], -std::numeric_limits<double>::infinity());
  test::expect_attention<double>(masked, truth);
  test::expect_attention<double>(biased, truth, with(hidden));

  const std::vector<float> bias32(bias.begin(), bias.end());
  const DenseBias<float> hidden32(Param<float, 4>{dense<const float>(bias32.data(), 1, 1, q_len, k_len)});
  test::expect_attention<float>(AttentionData<float>(AttentionCase{.q_len = q_len, .k_len = k_len}),
                                test::attention_truth(AttentionData<float>(c).problem(false), {}), with(hidden32));
}

TEST(AttentionMasks, RowsThatSeeNothingAreZeroAndNeverNaN) {
  // Hidden keys may hold anything, infinities and NaN too, and are not read into any row.
  const Index q_len = 9, k_len = 40;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  AttentionCase c{.heads = 1, .kv_heads = 1, .q_len = q_len, .k_len = k_len, .options = {.mask = Mask::causal}};
  c.k_first = 3;  // queries 0, 1, 2 see nothing
  const AttentionData<double> data(c);
  const auto truth = test::attention_truth(data.problem(false), {});
  const auto got = data.forward({});
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(got.lse[i], -std::numeric_limits<double>::infinity());
    for (std::size_t d = 0; d < 8; ++d) EXPECT_EQ(got.out[8 * i + d], 0);
  }
  AttentionInputs<double> in = data.inputs();
  std::vector<double> k(&in.k(0, 0, 0, 0), &in.k(0, 0, 0, 0) + k_len * 8),
      v(&in.v(0, 0, 0, 0), &in.v(0, 0, 0, 0) + k_len * 8);
  for (std::size_t x = 6 * 8; x < k.size(); ++x) k[x] = v[x] = x % 2 ? nan : std::numeric_limits<double>::infinity();
  in.k.data = k.data(), in.v.data = v.data();
  std::vector<double> out(q_len * 8), lse(q_len);
  attention<double>(in, bhtd(out.data(), 1, 1, q_len, 8), dense(lse.data(), 1, 1, q_len), {}, data.options());
  test::expect_close(out, truth.out, truth.score_size, k_len, "out", truth.sizes.out);
}

}  // namespace
}  // namespace bearing
