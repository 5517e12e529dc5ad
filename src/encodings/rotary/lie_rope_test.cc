#include <bearing/encodings/lie_rope.hpp>
#include <bearing/encodings/rope_mixed.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/lie_rope.hpp>

#include "support/errors.hpp"
#include "support/row_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Place;
using test::RowSpot;

struct Form {
  Index axes, dim, block;
};

TEST(LieRope, AgreesWithItsReference) {
  for (const Form& f : {Form{1, 2, 2}, Form{2, 6, 3}, Form{2, 8, 4}, Form{3, 5, 0}}) {
    const LieRope lie{.head_dim = f.dim, .axes = f.axes, .block = f.block};
    const Index block = f.block == 0 ? f.dim : f.block;
    Params params(Params::Shapes{{2, f.axes, f.dim / block, block * (block - 1) / 2}}, -0.25, 0.25);
    const auto make = [lie]<class A>(Params& p) { return LieRopeRows<A>(lie, p.param<A, 4>(0)); };
    const auto reference = [lie](const Params& p, const RowSpot& s, View<const double, 1> x, View<double, 1> y) {
      reference::lie_rope(lie, p.value<4>(0), s.h, s.p, x, y);
    };
    // The reference walks some hundred steps, each of which rounds.
    const auto cases = test::row_cases(2, f.dim, f.axes, {f.axes == 2 ? Place::shuffled : Place::real});
    test::expect_row_encoding(make, params, cases, reference, 0x1p-40);
  }
}

TEST(LieRope, KeepsNorms) {
  Params params(Params::Shapes{{1, 2, 1, 16 * 15 / 2}}, 0, 6.28);
  const LieRopeRows<double> rows({.head_dim = 16}, params.param<double, 4>(0));
  // Column sums up to 2·50·6.28·15 = 9,420 < 2^14, times a few roundings of 2^-53.
  EXPECT_LT(test::norm_change(rows, 16, 2), 0x1p-36);
}

TEST(LieRope, BlocksOfTwoAreRopeMixedTurnedTheOtherWay) {
  Params lie(Params::Shapes{{1, 2, 4, 1}}), mixed(Params::Shapes{{2, 1, 4}});
  for (std::size_t i = 0; i < 8; ++i) mixed.values(0)[i] = -lie.values(0)[i];
  const LieRopeRows<double> a({.head_dim = 8, .block = 2}, lie.param<double, 4>(0));
  const RopeMixedRows<double> b({.head_dim = 8, .pairing = Pairing::interleaved}, mixed.param<double, 3>(0));
  const test::RowData data({.time = 13, .dim = 8, .place = test::Place::shuffled, .axes = 2, .first = 100}, 8);
  std::vector<double> y_a, y_b;
  turn<double>(a, Side::query, data.at(), data.x<double>(), data.like_x(y_a));
  turn<double>(b, Side::query, data.at(), data.x<double>(), data.like_x(y_b));
  // Angles up to 240: 2^-45, and the squarings as much again a few times.
  for (std::size_t i = 0; i < y_a.size(); ++i) EXPECT_NEAR(y_a[i], y_b[i], 0x1p-42);
}

// Rodrigues: exp of a 3×3 skew matrix with axis w and angle |w|.
TEST(LieRope, BlocksOfThreeAreRotationsAboutAnAxis) {
  const double w[3] = {0.3, -0.5, 0.9}, p = 7;
  // M v = w × v: M01 = −w2, M02 = w1, M12 = −w0.
  const std::vector<double> a{-w[2], w[1], -w[0]};
  const LieRopeRows<double> rows({.head_dim = 3, .axes = 1}, {dense(a.data(), 1, 1, 1, 3)});
  const std::vector<double> x{0.2, 0.7, -0.4};
  std::vector<double> y(3);
  turn<double>(rows, Side::query, Positions(7), bhtd(x.data(), 1, 1, 1, 3), bhtd(y.data(), 1, 1, 1, 3));
  const double angle = std::sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2]);
  const double n[3] = {w[0] / angle, w[1] / angle, w[2] / angle};
  const double along = n[0] * x[0] + n[1] * x[1] + n[2] * x[2], cos = std::cos(p * angle), sin = std::sin(p * angle);
  const double cross[3] = {n[1] * x[2] - n[2] * x[1], n[2] * x[0] - n[0] * x[2], n[0] * x[1] - n[1] * x[0]};
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(y[i], x[i] * cos + cross[i] * sin + n[i] * along * (1 - cos), 0x1p-47);
}

TEST(LieRope, DependsOnDistanceAloneOnOneAxis) {
  Params params(Params::Shapes{{1, 1, 2, 6}});
  const LieRopeRows<double> rows({.head_dim = 8, .axes = 1, .block = 4}, params.param<double, 4>(0));
  EXPECT_LT(test::shift_dependence(rows, 8, 1), 0x1p-40);
}

TEST(LieRope, DependsOnPlaceOnTwoAxesUnlessGeneratorsCommute) {
  Params params(Params::Shapes{{1, 2, 2, 6}});
  const LieRopeRows<double> rows({.head_dim = 8, .block = 4}, params.param<double, 4>(0));
  EXPECT_GT(test::shift_dependence(rows, 8, 2), 0.5);
  for (std::size_t t = 0; t < 12; ++t) params.values(0)[12 + t] = -0.5 * params.values(0)[t];
  const LieRopeRows<double> commuting({.head_dim = 8, .block = 4}, params.param<double, 4>(0));
  EXPECT_LT(test::shift_dependence(commuting, 8, 2), 0x1p-40);
}

TEST(LieRope, WrongCallsSayWhatMustHold) {
  std::vector<float> a(200);
  expect_error<ShapeError>([&] { LieRopeRows<float>({.head_dim = 8, .block = 3}, {dense(a.data(), 1, 2, 2, 3)}); },
                           "[LieRopeRows] block: must divide head_dim = 8 and be from 2 to 128, got 3");
  expect_error<ShapeError>([&] { LieRopeRows<float>({.head_dim = 256}, {dense(a.data(), 1, 2, 1, 3)}); },
                           "[LieRopeRows] block: must divide head_dim = 256 and be from 2 to 128, got 256");
  expect_error<ShapeError>(
      [&] { LieRopeRows<float>({.head_dim = 8, .block = 4}, {dense(a.data(), 1, 2, 2, 16)}); },
      "[LieRopeRows] generators: must be [sets, axes, head_dim/block, block*(block-1)/2] = [1, 2, 2, 6], got shape "
      "[1, 2, 2, 16]");
}

// 2^36 over the axes and the position: how large a generator may be depends on the call, and the error says on what.
TEST(LieRope, AGeneratorIsTooLargeForFarPositions) {
  const std::vector<double> a(1, 0x1p26);
  const LieRopeRows<double> rows({.head_dim = 2, .axes = 1}, {dense(a.data(), 1, 1, 1, 1)});
  std::vector<double> y(2, 1);
  const auto turn_at = [&](Index position) {
    turn<double>(rows, Side::query, Positions(position), bhtd(y.data(), 1, 1, 1, 2), bhtd(y.data(), 1, 1, 1, 2));
  };
  EXPECT_NO_THROW(turn_at(1'024));
  expect_error<RangeError>([&] { turn_at(2'048); },
                           "[turn] LieRope.generators: must be finite and at most 33554432 in size for positions up to "
                           "2048, got 67108864 at [0, 0, 0, 0]");
}

}  // namespace
}  // namespace bearing
