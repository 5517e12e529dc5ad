#include <gtest/gtest.h>
#include <bearing/encodings/swin.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/swin.hpp>
#include <bearing/scores.hpp>

#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Score;
using test::ScoreCase;

// Whole windows and parts of them, tokens in any order.
std::vector<ScoreCase> windows(const Swin& spec, Index heads) {
  const bool class_token = spec.class_token == Swin::ClassToken::three_rows;
  std::vector<ScoreCase> cases;
  for (const auto& [batch, q_len, k_len] : {std::array<Index, 3>{1, 1, 1}, {2, 12, 12}, {3, 7, 20}, {1, 70, 140}}) {
    ScoreCase c{batch, heads, heads, q_len, k_len};
    c.axes = 2;
    c.height = spec.height;
    c.width = spec.width;
    c.class_token = class_token;
    cases.push_back(c);
  }
  return cases;
}

TEST(Swin, RowsAreThoseOfTheAuthorsIndex) {
  const rapidjson::Document golden = test::golden("relative/swin_relative_position_index.json");
  for (const auto& c : golden["cases"].GetArray()) {
    const Swin spec{c["window"][0].GetInt64(), c["window"][1].GetInt64()};
    EXPECT_EQ(spec.rows(), c["table_rows"].GetInt64());
    const std::vector<Index> index = test::integers(c["index"]);
    const Index tokens = spec.height * spec.width;
    for (Index i = 0; i < tokens; ++i) {
      for (Index j = 0; j < tokens; ++j) {
        const double q[] = {static_cast<double>(i / spec.width), static_cast<double>(i % spec.width)};
        const double k[] = {static_cast<double>(j / spec.width), static_cast<double>(j % spec.width)};
        EXPECT_EQ(spec.row(q, k), index[static_cast<std::size_t>(i * tokens + j)]);
      }
    }
  }
}

TEST(Swin, ClassTokenHasTheLastThreeRows) {
  const Swin beit{14, 14, Swin::ClassToken::three_rows};
  const double token[] = {3, 5}, class_token[] = {-1, -1};
  EXPECT_EQ(beit.rows(), 732);  // 27·27 + 3, as BEiT-base's table
  EXPECT_EQ(beit.row(class_token, token), 729);
  EXPECT_EQ(beit.row(token, class_token), 730);
  EXPECT_EQ(beit.row(class_token, class_token), 731);
  EXPECT_EQ(beit.row(token, token), 13 * 27 + 13);
}

TEST(Swin, AgreesWithItsReference) {
  for (const Swin& spec : {Swin{3, 4}, Swin{5, 2, Swin::ClassToken::three_rows}}) {
    Params params(Params::Shapes{{spec.rows(), 3}});
    const auto make = [&]<class A>(Params& p) { return SwinBias<A>(spec, p.param<A, 2>(0)); };
    const auto reference = [&](const Params& p, const Score& s) {
      return reference::swin(spec, p.value<2>(0), s.h, s.q_positions, s.k_positions);
    };
    test::expect_reference_scores(make, params, windows(spec, 3), reference);
    test::expect_gradients(make, params, windows(spec, 3), reference);
    test::expect_float_gradients(make, params, windows(spec, 3));
    test::expect_same_bits_for_any_executor(make, params, windows(spec, 3));
  }
}

TEST(Swin, WrongCallsSayWhatMustHold) {
  std::vector<float> table(15 * 2), bias(2 * 4);
  expect_error<ShapeError>(
      [&] {
        SwinBias<float>(Swin{2, 3}, {dense<const float>(table.data(), 14, 2)});
      },
      "[SwinBias] table: must be [15, heads] for a window of 2 x 3, got shape [14, 2]");
  expect_error<ShapeError>(
      [&] {
        SwinBias<float>(Swin{0, 3}, {dense<const float>(table.data(), 15, 2)});
      },
      "[SwinBias] height, width: must be from 1 to 1024, got 0, 3");
  expect_error<ShapeError>(
      [&] {
        SwinBias<float>(Swin{2, 3}, {dense<const float>(nullptr, 15, 2)});
      },
      "[SwinBias] table: must have memory, got a null pointer; shape is [15, 2]");
  const SwinBias<float> swin(Swin{2, 3}, {dense<const float>(table.data(), 15, 2)});
  expect_error<ShapeError>([&] { bias_matrix(with(swin), {}, {}, dense(bias.data(), 2, 2, 2)); },
                           "[bias_matrix] q_positions: must have two axes, (y, x), got 1");
  const std::vector<Index> at = {0, 1, 2, 3};
  const Positions outside(dense(at.data(), 2, 1, 2));
  expect_error<RangeError>(
      [&] { bias_matrix(with(swin), outside, outside, dense(bias.data(), 2, 2, 2)); },
      "[bias_matrix] q_positions: must be a token of a grid of 2 x 3, got (1, 3) at [batch 0, time 1]");
  expect_error<ShapeError>([&] { bias_matrix(with(swin), outside, outside, dense(bias.data(), 1, 2, 2)); },
                           "[bias_matrix] Swin.table: must have a column for each of 1 heads, got shape [15, 2]");
}

}  // namespace
}  // namespace bearing
