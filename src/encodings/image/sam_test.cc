#include <gtest/gtest.h>
#include <bearing/encodings/sam.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/sam.hpp>
#include <bearing/scores.hpp>

#include "support/errors.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Score;
using test::ScoreCase;

std::vector<ScoreCase> maps(const Sam& spec, Index dim) {
  std::vector<ScoreCase> cases;
  for (const auto& [batch, heads, kv_heads, q_len, k_len] :
       {std::array<Index, 5>{1, 1, 1, 1, 1}, {2, 2, 2, 12, 12}, {1, 4, 2, 7, 20}, {1, 2, 1, 70, 140}}) {
    ScoreCase c{batch, heads, kv_heads, q_len, k_len, dim};
    c.axes = 2;
    c.height = spec.height;
    c.width = spec.width;
    cases.push_back(c);
  }
  return cases;
}

TEST(Sam, AgreesWithItsReference) {
  for (const auto& [spec, dim] : {std::pair<Sam, Index>{{3, 4}, 6}, {{7, 2}, 20}, {{1, 1}, 1}}) {
    Params params(Params::Shapes{{2 * spec.height - 1, dim}, {2 * spec.width - 1, dim}});
    const auto make = [&spec = spec]<class A>(Params& p) {
      return SamTerm<A>(spec, p.param<A, 2>(0), p.param<A, 2>(1));
    };
    const auto reference = [&spec = spec](const Params& p, const Score& s) {
      return reference::sam(spec, p.value<2>(0), p.value<2>(1), s.q, s.q_positions, s.k_positions);
    };
    test::expect_reference_scores(make, params, maps(spec, dim), reference, 0x1p-46);  // sums of 2·dim products
    test::expect_gradients(make, params, maps(spec, dim), reference);
    test::expect_float_gradients(make, params, maps(spec, dim));
    test::expect_same_bits_for_any_executor(make, params, maps(spec, dim));
  }
}

TEST(Sam, EqualRowsOfBothTablesAddTheSameToEveryKey) {
  // With every vector of a table the same, a query's scores do not depend on the key.
  std::vector<double> up(5 * 2), across(7 * 2), q = {0.5, -2}, k(12 * 2), s(12);
  for (std::size_t row = 0; row < 5; ++row) up[2 * row] = 3, up[2 * row + 1] = 1;
  for (std::size_t row = 0; row < 7; ++row) across[2 * row] = -1, across[2 * row + 1] = 0.25;
  const SamTerm<double> sam({3, 4}, {dense<const double>(up.data(), 5, 2)}, {dense<const double>(across.data(), 7, 2)});
  std::vector<Index> grid;
  for (const Index axis : {0, 1}) {
    for (Index t = 0; t < 12; ++t) grid.push_back(axis == 0 ? t / 4 : t % 4);
  }
  const std::vector<Index> corner = {0, 0};
  add_scores(with(sam),
             {Positions(dense(corner.data(), 2, 1, 1)), Positions(dense(grid.data(), 2, 1, 12)),
              bhtd<const double>(q.data(), 1, 1, 1, 2), bhtd<const double>(k.data(), 1, 1, 12, 2)},
             bhtd(s.data(), 1, 1, 1, 12));
  for (const double score : s) EXPECT_EQ(score, 0.5 * 2 + -2 * 1.25);
}

TEST(Sam, WrongCallsSayWhatMustHold) {
  std::vector<float> table(64);
  const auto rows = [&](Index n, Index dim) { return Param<float, 2>{dense<const float>(table.data(), n, dim)}; };
  expect_error<ShapeError>(
      [&] {
        SamTerm<float>({3, 2}, rows(4, 4), rows(3, 4));
      },
      "[SamTerm] height_table: must be [2 * 3 - 1, dim] = [5, 4], got shape [4, 4]");
  expect_error<ShapeError>(
      [&] {
        SamTerm<float>({3, 2}, rows(5, 4), rows(3, 2));
      },
      "[SamTerm] width_table: must be [2 * 2 - 1, dim] = [3, 4], got shape [3, 2]");
  expect_error<ShapeError>(
      [&] {
        SamTerm<float>({3, 2}, rows(5, 0), rows(3, 0));
      },
      "[SamTerm] height_table: must be [2 * 3 - 1, dim] = [5, 0], got shape [5, 0]");
  expect_error<ShapeError>(
      [&] {
        SamTerm<float>({3, 2}, rows(5, 4), {dense<const float>(nullptr, 3, 4)});
      },
      "[SamTerm] width_table: must have memory, got a null pointer; shape is [3, 4]");
  const SamTerm<float> sam({3, 2}, rows(5, 4), rows(3, 4));
  std::vector<float> s(6, 1.0f);
  const std::vector<Index> at(12);
  const Positions grid(dense(at.data(), 2, 1, 6)), corner(dense(at.data(), 2, 1, 1));
  expect_error<ShapeError>(
      [&] {
        add_scores(with(sam), {corner, grid}, bhtd(s.data(), 1, 1, 1, 6));
      },
      "[add_scores] q: must have the tables' dim = 4, got 0");
  EXPECT_EQ(s, std::vector<float>(6, 1.0f));
}

}  // namespace
}  // namespace bearing
