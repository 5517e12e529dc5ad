#include <bearing/encodings/rope_mixed.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/rope_mixed.hpp>

#include "support/errors.hpp"
#include "support/row_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::RowSpot;

TEST(RopeMixed, AgreesWithItsReference) {
  for (const auto& [axes, dim] : {std::pair<Index, Index>{1, 2}, {2, 8}, {3, 6}, {4, 10}}) {
    for (const Pairing pairing : {Pairing::interleaved, Pairing::half}) {
      const RopeMixed mixed{.head_dim = dim, .axes = axes, .pairing = pairing};
      Params params(Params::Shapes{{axes, 2, dim / 2}});
      const auto reference = [mixed](const Params& p, const RowSpot& s, View<const double, 1> x, View<double, 1> y) {
        reference::rope_mixed(mixed, p.value<3>(0), s.h, s.p, x, y);
      };
      const auto make = [mixed]<class A>(Params& p) { return RopeMixedRows<A>(mixed, p.param<A, 3>(0)); };
      test::expect_row_encoding(make, params, test::row_cases(2, dim, axes), reference);
      const auto grouped = [mixed](const Params& p, const RowSpot& s, View<const double, 1> x, View<double, 1> y) {
        reference::rope_mixed(mixed, p.value<3>(0), s.h / 3, s.p, x, y);
      };
      const auto make_grouped = [mixed]<class A>(Params& p) { return RopeMixedRows<A>(mixed, p.param<A, 3>(0), 3); };
      test::expect_row_encoding(make_grouped, params, test::row_cases(6, dim, axes, {test::Place::shuffled}), grouped);
    }
  }
}

TEST(RopeMixed, KeepsNormsAndDependsOnTheDifferenceOfPositionsAlone) {
  const RopeMixed mixed{.head_dim = 16, .axes = 3, .pairing = Pairing::half};
  Params params(Params::Shapes{{3, 1, 8}});
  const RopeMixedRows<double> rows(mixed, params.param<double, 3>(0));
  EXPECT_LT(test::norm_change(rows, 16, 3), 0x1p-48);
  // Angles up to 3·50 are rounded to 2^-46, over 16 products.
  EXPECT_LT(test::shift_dependence(rows, 16, 3), 0x1p-42);
}

TEST(RopeMixed, WithRopesFrequenciesIsRope) {
  const Rope rope{.head_dim = 12, .pairing = Pairing::half};
  const std::vector<double> theta = resolve(rope).inv_freq;
  const RopeMixedRows<double> rows({.head_dim = 12, .axes = 1, .pairing = Pairing::half},
                                   {dense(theta.data(), 1, 1, 6)});
  const RopeTable<double> table(rope, 0);
  const test::RowData data({.batch = 2, .time = 9, .dim = 12, .first = 40}, 12);
  std::vector<double> mixed, rotated;
  turn<double>(rows, Side::query, data.at(), data.x<double>(), data.like_x(mixed));
  rotate_to<double>(table, data.x<double>(), data.like_x(rotated), data.at());
  // p·θ as a double is off by half an ulp of 48: 2^-48.
  for (std::size_t i = 0; i < mixed.size(); ++i) EXPECT_NEAR(mixed[i], rotated[i], 0x1p-47);
}

TEST(RopeMixed, StartsInOneRandomDirectionPerHeadAndAtARightAngleToIt) {
  const RopeMixed mixed{.head_dim = 16, .pairing = Pairing::interleaved};
  const std::vector<double> f = rope_mixed_frequencies(mixed, 3, 1);
  const auto at = dense(f.data(), 2, 3, 8);
  for (Index h = 0; h < 3; ++h) {
    for (Index i = 0; i < 4; ++i) {
      const double size = std::pow(10, -static_cast<double>(i) / 4);
      EXPECT_NEAR(std::hypot(at(0, h, i), at(1, h, i)), size, 0x1p-50);
      EXPECT_NEAR(at(0, h, i + 4), -at(1, h, i), 0x1p-50);
      EXPECT_NEAR(at(1, h, i + 4), at(0, h, i), 0x1p-50);
      EXPECT_NEAR(at(0, h, i) / size, at(0, h, 0), 0x1p-50);  // one direction
    }
  }
  EXPECT_NE(at(0, 0, 0), at(0, 1, 0));
  EXPECT_EQ(f, rope_mixed_frequencies(mixed, 3, 1));
  EXPECT_NE(f, rope_mixed_frequencies(mixed, 3, 2));
  const std::vector<double> steeper = rope_mixed_frequencies(mixed, 1, 1, 100);
  EXPECT_NEAR(std::hypot(steeper[3], steeper[8 + 3]), std::pow(100, -0.75), 0x1p-50);
}

TEST(RopeMixed, WrongCallsSayWhatMustHold) {
  std::vector<double> f(2 * 3 * 4), x(8, 7.0);
  const RopeMixed mixed{.head_dim = 8, .pairing = Pairing::half};
  expect_error<ShapeError>(
      [&] { RopeMixedRows<double>({.head_dim = 7, .pairing = Pairing::half}, {dense(f.data(), 2, 3, 4)}); },
      "[RopeMixedRows] head_dim: must be even and from 2 to 65536, got 7");
  expect_error<ShapeError>(
      [&] { RopeMixedRows<double>({.head_dim = 8, .axes = 5, .pairing = Pairing::half}, {dense(f.data(), 2, 3, 4)}); },
      "[RopeMixedRows] axes: must be from 1 to 4, got 5");
  expect_error<ShapeError>([&] { RopeMixedRows<double>(mixed, {dense(f.data(), 3, 2, 4)}); },
                           "[RopeMixedRows] frequencies: must be [axes, sets, head_dim/2] = [2, 2, 4], got shape "
                           "[3, 2, 4]");
  expect_error<ShapeError>(
      [&] {
        RopeMixedRows<double>(mixed, {dense(f.data(), 2, 3, 4), dense(f.data(), 2, 2, 4)});
      },
      "[RopeMixedRows] frequencies.grad: must have the shape of its parameter, [2, 3, 4], got [2, 2, 4]");
  expect_error<ShapeError>([&] { RopeMixedRows<double>(mixed, {dense(f.data(), 2, 3, 4)}, 0); },
                           "[RopeMixedRows] group: there must be at least one set of parameters and one head for each, "
                           "got 3 sets and group 0");
  const RopeMixedRows<double> rows(mixed, {dense(f.data(), 2, 3, 4)});
  const auto call = [&](Index heads, Index dim) {
    turn<double>(rows, Side::key, {}, bhtd<const double>(x.data(), 1, heads, 1, dim), bhtd(x.data(), 1, heads, 1, dim));
  };
  expect_error<ShapeError>(
      [&] { call(1, 8); },
      "[turn] RopeMixed: must have a set of parameters for each of 1 heads, got 3 sets for 1 heads "
      "each");
  expect_error<ShapeError>([&] { call(3, 2); },
                           "[turn] RopeMixed.head_dim: must be the last extent of the rows, 2, got 8");
  std::vector<double> three(24, 7.0);
  const auto forgets = [&](const Positions& at) {
    turn<double>(rows, Side::key, at, bhtd<const double>(three.data(), 1, 3, 1, 8), bhtd(three.data(), 1, 3, 1, 8));
  };
  const std::vector<double> one{5};
  for (const Positions& at : {Positions{}, Positions(3), Positions(dense(one.data(), 1))}) {
    expect_error<ShapeError>([&] { forgets(at); }, "[turn] positions: must have 2 axes, as RopeMixed has, got 1");
  }
  EXPECT_EQ(three, std::vector<double>(24, 7.0));
  EXPECT_EQ(x, std::vector<double>(8, 7.0));
  expect_error<ShapeError>([] { rope_mixed_frequencies({.head_dim = 6, .pairing = Pairing::half}, 1, 0); },
                           "[rope_mixed_frequencies] mixed: must have two axes and a head_dim that is a multiple of 4, "
                           "at most 65536, got 2 and 6");
  expect_error<RangeError>([&] { rope_mixed_frequencies(mixed, 0, 0); },
                           "[rope_mixed_frequencies] heads: must be at least 1, got 0");
  expect_error<RangeError>([&] { rope_mixed_frequencies(mixed, 1, 0, -10); },
                           "[rope_mixed_frequencies] base: must be finite and above 0, got -10");
}

}  // namespace
}  // namespace bearing
