#include <gtest/gtest.h>
#include <bearing/encodings/bucket_bias.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/bucket_bias.hpp>
#include <map>

#include "support/errors.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Score;
using test::ScoreCase;

const std::vector<ScoreCase> cases = {{1, 2, 2, 1, 1}, {2, 3, 3, 11, 7}, {3, 2, 1, 1, 37}, {1, 2, 2, 67, 131}};

/// Any rule that knows batch, head, query and key: −1 and the rows 0 … 4.
std::int32_t bucket(Index b, Index h, Index i, Index j) {
  return static_cast<std::int32_t>((b + 2 * h + 3 * i + 5 * j * j) % 6) - 1;
}

TEST(BucketBias, AnIndexAgreesWithItsReferenceHoweverItIsBroadcast) {
  for (const ScoreCase& c : cases) {
    for (const Index batch : {Index{1}, c.batch}) {
      for (const Index heads : {Index{1}, c.heads}) {
        std::vector<std::int32_t> index;
        for (Index n = 0; n < batch * heads * c.q_len * c.k_len; ++n) {
          const Index j = n % c.k_len, i = n / c.k_len % c.q_len, h = n / c.k_len / c.q_len % heads;
          index.push_back(bucket(n / c.k_len / c.q_len / heads, h, i, j));
        }
        const auto view = dense<const std::int32_t>(index.data(), batch, heads, c.q_len, c.k_len);
        Params params(Params::Shapes{{5, c.heads}});
        const auto make = [&]<class A>(Params& p) { return BucketBias<A>(view, p.param<A, 2>(0)); };
        const auto reference = [&](const Params& p, const Score& s) {
          const Index row = bucket(batch == 1 ? 0 : s.b, heads == 1 ? 0 : s.h, s.i, s.j);
          return reference::bucket_bias(p.value<2>(0), s.h, row);
        };
        test::expect_reference_scores(make, params, {c}, reference, 0);  // a copy
        const std::vector<Index> wide(index.begin(), index.end());
        const auto wide_view = dense<const Index>(wide.data(), batch, heads, c.q_len, c.k_len);
        const auto make_wide = [&]<class A>(Params& p) { return BucketBias<A>(wide_view, p.param<A, 2>(0)); };
        test::expect_reference_scores(make_wide, params, {c}, reference, 0);
        test::expect_gradients(make_wide, params, {c}, reference);
        test::expect_gradients(make, params, {c}, reference);
        test::expect_float_gradients(make, params, {c});
        test::expect_same_bits_for_any_executor(make, params, {c});
      }
    }
  }
}

/// Residue t/2 + b of chain t/5, as a rule.
Index residue(Index b, Index t) { return t / 2 + b; }
Index chain(Index b, Index t) { return (t + b) / 5; }

TEST(BucketBias, DifferencesAgreeWithTheirReference) {
  for (const ScoreCase& c : cases) {
    for (const BucketPairs pairs : {BucketPairs::all, BucketPairs::same_group, BucketPairs::other_group}) {
      for (const Index clip : {0, 3, 32}) {
        const BucketDifference difference{clip, pairs};
        std::vector<Index> residues, chains;
        for (Index b = 0; b < c.batch; ++b) {
          for (Index t = 0; t < std::max(c.q_len, c.k_len); ++t) {
            residues.push_back(residue(b, t)), chains.push_back(chain(b, t));
          }
        }
        const auto tokens = [&](Index time) {
          const std::array<Index, 2> shape{c.batch, time}, stride{std::max(c.q_len, c.k_len), 1};
          BucketTokens some{{residues.data(), shape, stride}};
          if (pairs != BucketPairs::all) some.group = {chains.data(), shape, stride};
          return some;
        };
        Params params(Params::Shapes{{difference.rows(), c.heads}});
        const auto make = [&]<class A>(Params& p) {
          return BucketBias<A>(difference, p.param<A, 2>(0), tokens(c.q_len), tokens(c.k_len));
        };
        const auto reference = [&](const Params& p, const Score& s) {
          const Index row =
              reference::bucket_row(difference, residue(s.b, s.i), residue(s.b, s.j), chain(s.b, s.i), chain(s.b, s.j));
          return reference::bucket_bias(p.value<2>(0), s.h, row);
        };
        test::expect_reference_scores(make, params, {c}, reference, 0);
        test::expect_gradients(make, params, {c}, reference);
        test::expect_same_bits_for_any_executor(make, params, {c});
      }
    }
  }
}

TEST(BucketBias, AlphaFoldsFeaturesAreItsRows) {
  // Algorithm 3 joins 66 features of residues, 66 of tokens, one of the entity and 6 of chains: 139.
  const Index residues = BucketDifference{32, BucketPairs::same_group}.rows();
  const Index chains = BucketDifference{2, BucketPairs::other_group}.rows();
  EXPECT_EQ(residues, 66);
  EXPECT_EQ(chains, 6);
  EXPECT_EQ(2 * residues + 1 + chains, 139);
  EXPECT_EQ(BucketDifference{32}.rows(), 65);  // AlphaFold 2's relpos, which has no chains

  // Three residues of one chain and one of another: rows of d = clip(i − j + 32), 65 across chains.
  const std::vector<Index> residue = {1, 2, 100, 1}, chain = {0, 0, 0, 1};
  std::vector<double> table(66), s(16);
  for (std::size_t row = 0; row < 66; ++row) table[row] = static_cast<double>(row);
  const BucketTokens tokens{dense(residue.data(), 1, 4), dense(chain.data(), 1, 4)};
  const BucketBias<double> bias({.clip = 32, .pairs = BucketPairs::same_group}, {dense(table.data(), 66, 1)}, tokens,
                                tokens);
  add_scores(with(bias), {}, dense(s.data(), 1, 1, 4, 4));
  EXPECT_EQ(s, (std::vector<double>{32, 31, 0, 65, 33, 32, 0, 65, 64, 64, 32, 65, 65, 65, 65, 32}));
}

TEST(BucketBias, LeVitsIndexAndTableServeAsTheyAre) {
  // attention_biases [heads, offsets] by attention_bias_idxs: |Δy|, |Δx| numbered as they are first met.
  const Index side = 4, tokens = side * side, heads = 2;
  std::map<std::pair<Index, Index>, std::int32_t> offsets;
  std::vector<std::int32_t> index;
  for (Index a = 0; a < tokens; ++a) {
    for (Index b = 0; b < tokens; ++b) {
      const std::pair offset(std::abs(a / side - b / side), std::abs(a % side - b % side));
      index.push_back(offsets.try_emplace(offset, static_cast<std::int32_t>(offsets.size())).first->second);
    }
  }
  ASSERT_EQ(offsets.size(), 16u);
  std::vector<float> biases(32), grad(32), s(heads * tokens * tokens), d_s(s.size(), 1.0f);
  for (std::size_t x = 0; x < 32; ++x) biases[x] = static_cast<float>(x);
  const std::array<Index, 2> shape{16, heads}, stride{1, 16};
  const BucketBias<float> bias(dense<const std::int32_t>(index.data(), 1, 1, tokens, tokens),
                               {{biases.data(), shape, stride}, {grad.data(), shape, stride}});
  add_scores(with(bias), {}, dense(s.data(), 1, heads, tokens, tokens));
  add_scores_backward(with(bias), {}, dense<const float>(d_s.data(), 1, heads, tokens, tokens));
  EXPECT_EQ(s[0], 0);               // a patch and itself
  EXPECT_EQ(s[5], 5);               // (0, 0) and (1, 1): after the four of the first row, the second of the next
  EXPECT_EQ(s[256 + 15], 16 + 15);  // opposite corners, head 1
  EXPECT_EQ(grad[0], 16);           // pairs at no offset
  EXPECT_EQ(grad[15], 4);           // pairs of opposite corners
  EXPECT_EQ(grad[16 + 5], 4 * 9);   // pairs of diagonal neighbours
}

TEST(BucketBias, WrongCallsSayWhatMustHold) {
  std::vector<std::int32_t> index = {0, 1, -1, 2};
  std::vector<double> table(6), s(8, 7.0);
  const auto view = dense<const std::int32_t>(index.data(), 1, 1, 2, 2);
  const Param<double, 2> three{dense(table.data(), 3, 2)}, two{dense(table.data(), 2, 2)};
  using Bias = BucketBias<double>;
  expect_error<RangeError>(
      [&] { Bias(view, two); },
      "[BucketBias] index: must be -1 (nothing) to 1, the last row of the table, got 2 at [batch 0, "
      "head 0, query 1, key 1]");
  expect_error<ShapeError>([&] { Bias(view, Param<double, 2>{}); },
                           "[BucketBias] table: must be [rows, heads] with at least one row, got shape [0, 0]");
  expect_error<ShapeError>(
      [&] {
        Bias(view, Param<double, 2>{three.value, dense(table.data(), 2, 3)});
      },
      "[BucketBias] table.grad: must have the shape of its parameter, [3, 2], got [2, 3]");
  const Bias bias(view, three);
  expect_error<ShapeError>([&] { add_scores(with(bias), {}, dense(s.data(), 1, 1, 2, 2)); },
                           "[add_scores] BucketBias.table: must have a column for each of 1 heads, got shape [3, 2]");
  expect_error<ShapeError>([&] { add_scores(with(bias), {}, dense(s.data(), 1, 2, 1, 2)); },
                           "[add_scores] BucketBias.index: must be [batch or 1, heads or 1, q_len, k_len] of "
                           "[1, 2, 1, 2], got shape [1, 1, 2, 2]");

  const std::vector<Index> residues = {1, 2};
  const BucketTokens tokens{dense(residues.data(), 1, 2)};
  expect_error<RangeError>([&] { Bias({.clip = -1}, three, tokens, tokens); },
                           "[BucketBias] clip: must be from 0 to 2^31, got -1");
  expect_error<ShapeError>([&] { Bias({.clip = 2}, three, tokens, tokens); },
                           "[BucketBias] table: must be [5, heads] for a clip of 2, got shape [3, 2]");
  expect_error<ShapeError>([&] { Bias({.clip = 0, .pairs = BucketPairs::same_group}, two, tokens, tokens); },
                           "[BucketBias] queries.group: must have the shape of the attribute, [1, 2], got nothing");
  expect_error<ShapeError>(
      [&] {
        Bias({.clip = 1}, three, tokens, {tokens.attribute, tokens.attribute});
      },
      "[BucketBias] keys.group: must be left out where all pairs have a difference");
  const Index far[] = {Index{1} << 32};
  expect_error<RangeError>(
      [&] { Bias({.clip = 1}, three, tokens, {dense(far, 1, 1)}); },
      "[BucketBias] keys.attribute: must be within ±2^31, got 4294967296 for token 0 of sequence 0");
  const Bias by_residue({.clip = 1}, three, tokens, tokens);
  expect_error<ShapeError>([&] { add_scores(with(by_residue), {}, dense(s.data(), 1, 2, 2, 1)); },
                           "[add_scores] BucketBias.keys: must be [batch or 1, tokens] of [1, 1], got shape [1, 2]");
  EXPECT_EQ(s, std::vector<double>(8, 7.0));
}

}  // namespace
}  // namespace bearing
