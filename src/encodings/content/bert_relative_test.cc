#include <gtest/gtest.h>
#include <bearing/encodings/bert_relative.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/bert_relative.hpp>
#include <bearing/scores.hpp>
#include <limits>

#include "support/errors.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Score;

constexpr Index heads = 2, dim = 6;

template <class Spec, class Reference>
void expect_all(const Spec& spec, const Reference& reference, double tolerance) {
  Params params(Params::Shapes{{spec.rows(), dim}});
  const auto make = [&]<class A>(Params& p) { return BertRelativeTerm<A>(spec, p.param<A, 2>(0)); };
  const auto cases = test::score_cases(heads, dim);
  test::expect_reference_scores(make, params, cases, reference, tolerance);
  test::expect_gradients(make, params, cases, reference);
  test::expect_float_gradients(make, params, cases);
  test::expect_same_bits_for_any_executor(make, params, cases);
}

TEST(BertRelative, AgreesWithItsReference) {
  for (const BertRelativeType type : {BertRelativeType::relative_key, BertRelativeType::relative_key_query}) {
    const BertRelative bert{200, type};
    // 12 products of at most 1, times 0.375: 14 roundings of a sum of at most 4.5 are 2^-47.
    expect_all(
        bert,
        [&](const Params& p, const Score& s) {
          return reference::bert_relative(bert, p.value<2>(0), s.m, s.n, s.q, s.k, s.scale);
        },
        0x1p-47);
  }
}

TEST(BertRelative, ClippedFormAgreesWithItsReference) {
  for (const Wav2Vec2BertRelative& spec : {Wav2Vec2BertRelative{}, {3, 1}, {0, 0}, {0, 300}}) {
    expect_all(
        spec,
        [&](const Params& p, const Score& s) {
          return reference::wav2vec2_bert_relative(spec, p.value<2>(0), s.m, s.n, s.q, s.scale);
        },
        0x1p-48);
  }
}

// A row's only feature is its number, and every query and key is 1: a score is the sum of the rows that it takes.
std::vector<double> rows_taken(const BertRelativeTerm<double>& term, Index q_first, Index q_len, Index k_len) {
  std::vector<double> s(static_cast<std::size_t>(q_len * k_len)), ones(s.size() + 8, 1);
  add_scores(with(term),
             {Positions(q_first),
              {},
              bhtd<const double>(ones.data(), 1, 1, q_len, 1),
              bhtd<const double>(ones.data(), 1, 1, k_len, 1)},
             dense(s.data(), 1, 1, q_len, k_len));
  return s;
}

TEST(BertRelative, RowsCountFromTheFarthestKeyAfterTheQuery) {
  std::vector<double> table;
  for (int row = 0; row < 9; ++row) table.push_back(row);
  const Param<double, 2> param{dense<const double>(table.data(), 9, 1)};
  // BERT, max_position_embeddings 5: distance 0 is row 4, a key one before the query row 5.
  EXPECT_EQ(rows_taken(BertRelativeTerm<double>(BertRelative{5}, param), 0, 2, 3),
            (std::vector<double>{4, 3, 2, 5, 4, 3}));
  EXPECT_EQ(rows_taken(BertRelativeTerm<double>(BertRelative{5, BertRelativeType::relative_key_query}, param), 0, 2, 3),
            (std::vector<double>{8, 6, 4, 10, 8, 6}));
  // Decoding: the query stands where the last key does.
  EXPECT_EQ(rows_taken(BertRelativeTerm<double>(BertRelative{5}, param), 4, 1, 5),
            (std::vector<double>{8, 7, 6, 5, 4}));
  // Wav2Vec2-BERT, six to the left and two to the right: distance 0 is row 6, a key one after the query row 7.
  EXPECT_EQ(rows_taken(BertRelativeTerm<double>(Wav2Vec2BertRelative{6, 2}, param), 0, 1, 5),
            (std::vector<double>{6, 7, 8, 8, 8}));
  EXPECT_EQ(rows_taken(BertRelativeTerm<double>(Wav2Vec2BertRelative{6, 2}, param), 8, 1, 5),
            (std::vector<double>{0, 0, 0, 1, 2}));
  // The same, asked for.
  for (Index j = 0; j < 5; ++j) {
    EXPECT_EQ(BertRelative{5}.row(j - 4), 8 - j);
    EXPECT_EQ((Wav2Vec2BertRelative{6, 2}.row(j - 8)), std::max<Index>(j - 2, 0));
    EXPECT_EQ((Wav2Vec2BertRelative{6, 2}.row(j)), std::min<Index>(6 + j, 8));
  }
  test::expect_error<RangeError>(
      [] { BertRelative{5}.row(-5); },
      "[BertRelative] distance: must be less than max_position_embeddings = 5 either way, got -5");
}

TEST(BertRelative, WrongCallsSayWhatMustHold) {
  std::vector<float> memory(1000);
  const auto table = [&](Index rows, Index features) {
    return Param<float, 2>{dense<const float>(memory.data(), rows, features)};
  };
  expect_error<RangeError>([&] { BertRelativeTerm<float>(BertRelative{0}, table(1, 4)); },
                           "[BertRelativeTerm] max_position_embeddings: must be from 1 to 2^31, got 0");
  const Index lowest = std::numeric_limits<Index>::min();  // the negative of which is no number
  expect_error<RangeError>(
      [&] { BertRelativeTerm<float>(BertRelative{lowest}, table(1, 4)); },
      "[BertRelativeTerm] max_position_embeddings: must be from 1 to 2^31, got -9223372036854775808");
  expect_error<RangeError>(
      [&] {
        BertRelativeTerm<float>(Wav2Vec2BertRelative{lowest, 0}, table(4, 4));
      },
      "[BertRelativeTerm] left, right: must be from 0 to 2^31, got -9223372036854775808, 0");
  expect_error<RangeError>(
      [&] {
        BertRelativeTerm<float>(Wav2Vec2BertRelative{4, -1}, table(4, 4));
      },
      "[BertRelativeTerm] left, right: must be from 0 to 2^31, got 4, -1");
  expect_error<ShapeError>(
      [&] { BertRelativeTerm<float>(BertRelative{5}, table(10, 4)); },
      "[BertRelativeTerm] table: must be [2 max_position_embeddings - 1, dim] = [9, dim], got shape [10, 4]");
  expect_error<ShapeError>([&] { BertRelativeTerm<float>(Wav2Vec2BertRelative{}, table(72, 4)); },
                           "[BertRelativeTerm] table: must be [left + right + 1, dim] = [73, dim], got shape [72, 4]");

  const BertRelativeTerm<float> term(BertRelative{5}, table(9, 4));
  std::vector<float> x(1000), s(36, 7.0f);
  const auto rows = [&](Index time, Index features) { return bhtd<const float>(x.data(), 1, 1, time, features); };
  expect_error<RangeError>(
      [&] {
        add_scores(with(term), {{}, {}, rows(6, 4), rows(6, 4)}, dense(s.data(), 1, 1, 6, 6));
      },
      "[add_scores] q_positions, k_positions: must be less than max_position_embeddings = 5 apart for BertRelative, "
      "got 5");
  expect_error<RangeError>(
      [&] {
        add_scores(with(term), {Positions(9), {}, rows(1, 4), rows(6, 4)}, dense(s.data(), 1, 1, 1, 6));
      },
      "[add_scores] q_positions, k_positions: must be less than max_position_embeddings = 5 apart for BertRelative, "
      "got 9");
  expect_error<ShapeError>(
      [&] {
        add_scores(with(term), {{}, {}, rows(3, 8), rows(3, 8)}, dense(s.data(), 1, 1, 3, 3));
      },
      "[add_scores] BertRelative.table: must have q's dim of 8, got 4");
  EXPECT_EQ(s, std::vector<float>(36, 7.0f));
}

}  // namespace
}  // namespace bearing
