#include <gtest/gtest.h>
#include <bearing/encodings/dense_bias.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/dense_bias.hpp>

#include "support/errors.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Score;
using test::ScoreCase;

TEST(DenseBias, AgreesWithItsReferenceHoweverItIsBroadcast) {
  for (const ScoreCase& c : {ScoreCase{1, 2, 2, 1, 1}, ScoreCase{2, 3, 3, 11, 7}, ScoreCase{3, 2, 1, 1, 37},
                             ScoreCase{2, 1, 1, 5, 1}, ScoreCase{1, 2, 2, 67, 131}}) {
    for (unsigned ones = 0; ones < 16; ++ones) {
      const auto extent = [&](unsigned axis, Index all) { return (ones >> axis & 1) != 0 ? Index{1} : all; };
      Params params(Params::Shapes{{extent(0, c.batch), extent(1, c.heads), extent(2, c.q_len), extent(3, c.k_len)}});
      const auto make = []<class A>(Params& p) { return DenseBias<A>(p.param<A, 4>(0)); };
      const auto reference = [](const Params& p, const Score& s) {
        return reference::dense_bias(p.value<4>(0), s.b, s.h, s.i, s.j);
      };
      test::expect_reference_scores(make, params, {c}, reference, 0);  // a copy
      test::expect_gradients(make, params, {c}, reference);
      test::expect_float_gradients(make, params, {c});
      test::expect_same_bits_for_any_executor(make, params, {c});
    }
  }
}

TEST(DenseBias, MayLieInMemoryInAnyOrder) {
  const Index heads = 2, q_len = 3, k_len = 4;
  std::vector<double> heads_last(24), grad(24), s(24), d_s(24);
  for (std::size_t x = 0; x < 24; ++x) heads_last[x] = static_cast<double>(x), d_s[x] = static_cast<double>(100 + x);
  const std::array<Index, 4> shape = {1, heads, q_len, k_len}, stride = {0, 1, k_len * heads, heads};
  const DenseBias<double> bias({{heads_last.data(), shape, stride}, {grad.data(), shape, stride}});
  add_scores(with(bias), {}, bhtd(s.data(), 1, heads, q_len, k_len));
  add_scores_backward(with(bias), {}, bhtd<const double>(d_s.data(), 1, heads, q_len, k_len));
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t x = 0; x < 12; ++x) {
      EXPECT_EQ(s[12 * h + x], heads_last[2 * x + h]);
      EXPECT_EQ(grad[2 * x + h], d_s[12 * h + x]);
    }
  }
}

TEST(DenseBias, AMaskIsAddedAsItIs) {
  const std::vector<float> mask = {0, -INFINITY, 0, 0};
  const DenseBias<float> bias({dense(mask.data(), 1, 1, 2, 2)});
  std::vector<float> s(4, 3.0f);
  add_scores(with(bias), {}, bhtd(s.data(), 1, 1, 2, 2));
  EXPECT_EQ(s, (std::vector<float>{3, -INFINITY, 3, 3}));
  EXPECT_EQ(bias.grad_block(0, 0).size(), 0);
}

TEST(DenseBias, WrongCallsSayWhatMustHold) {
  Params params(Params::Shapes{{1, 2, 3, 4}, {1, 2, 3, 5}});
  const Param<double, 4> good = params.param<double, 4>(0), bad = params.param<double, 4>(1);
  std::vector<double> s(2 * 3 * 4, 7.0);
  const auto wrong = [&](const DenseBias<double>& bias) { add_scores(with(bias), {}, bhtd(s.data(), 1, 2, 3, 4)); };
  expect_error<ShapeError>([&] { wrong(DenseBias<double>(bad)); },
                           "[add_scores] DenseBias: must be [batch, heads, q_len, k_len] = [1, 2, 3, 4] or 1 on any "
                           "axis, got shape [1, 2, 3, 5]");
  expect_error<ShapeError>(
      [&] {
        wrong(DenseBias<double>(Param<double, 4>{good.value, bad.grad}));
      },
      "[add_scores] DenseBias.grad: must have the shape of its parameter, [1, 2, 3, 4], got "
      "[1, 2, 3, 5]");
  expect_error<ShapeError>(
      [&] {
        wrong(DenseBias<double>(Param<double, 4>{{nullptr, {1, 1, 1, 1}, {}}}));
      },
      "[add_scores] DenseBias: must be [batch or 1, heads or 1, q_len or 1, k_len or 1] = [1, 1, "
      "1, 1], got nothing");
  EXPECT_EQ(s, std::vector<double>(24, 7.0));
}

}  // namespace
}  // namespace bearing
