#include <bearing/encodings/string_rope.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/string_rope.hpp>

#include "support/errors.hpp"
#include "support/row_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::RowSpot;

CayleyString cayley(Index dim, Index axes, Pairing pairing = Pairing::half) {
  return {{.head_dim = dim, .axes = axes, .pairing = pairing}};
}

TEST(CayleyString, AgreesWithItsReference) {
  for (const auto& [axes, dim] : {std::pair<Index, Index>{1, 2}, {2, 6}, {3, 8}}) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      const CayleyString string = cayley(dim, axes, pairing);
      Params params(Params::Shapes{{axes, 2, dim / 2}, {2, dim * (dim - 1) / 2}});
      const auto make = [string]<class A>(Params& p) {
        return CayleyStringRows<A>(string, p.param<A, 3>(0), p.param<A, 2>(1));
      };
      const auto reference = [string](const Params& p, const RowSpot& s, View<const double, 1> x, View<double, 1> y) {
        reference::cayley_string(string, p.value<3>(0), p.value<2>(1), s.h, s.p, x, y);
      };
      test::expect_row_encoding(make, params, test::row_cases(2, dim, axes), reference);
    }
  }
}

TEST(CayleyString, GradientsOfOnlyOneParameterAreTheSame) {
  const test::RowCase c{.batch = 2, .heads = 3, .time = 5, .dim = 6, .axes = 2};
  Params params(Params::Shapes{{2, 1, 3}, {1, 15}});
  const auto both = []<class A>(Params& p) {
    return CayleyStringRows<A>(cayley(6, 2), p.param<A, 3>(0), p.param<A, 2>(1), 3);
  };
  const test::RowData data = test::row_data(both, params, c);
  const std::vector<double> d_x = test::backward_of<double>(both, params, c, data);
  const std::vector<double> d_f = params.grads(0), d_s = params.grads(1);
  const auto only = []<class A>(Params& p) {
    return CayleyStringRows<A>(cayley(6, 2), {p.param<A, 3>(0).value}, p.param<A, 2>(1), 3);
  };
  EXPECT_EQ(test::backward_of<double>(only, params, c, data), d_x);
  EXPECT_EQ(params.grads(1), d_s);
  EXPECT_EQ(params.grads(0), std::vector<double>(d_f.size()));
  const auto other = []<class A>(Params& p) {
    return CayleyStringRows<A>(cayley(6, 2), p.param<A, 3>(0), {p.param<A, 2>(1).value}, 3);
  };
  EXPECT_EQ(test::backward_of<double>(other, params, c, data), d_x);
  EXPECT_EQ(params.grads(0), d_f);
  EXPECT_EQ(params.grads(1), std::vector<double>(d_s.size()));
}

TEST(CayleyString, KeepsNormsAndDependsOnTheDifferenceAlone) {
  Params params(Params::Shapes{{3, 1, 8}, {1, 120}}, -2, 2);
  const CayleyStringRows<double> rows(cayley(16, 3), params.param<double, 3>(0), params.param<double, 2>(1));
  EXPECT_LT(test::norm_change(rows, 16, 3), 0x1p-44);
  EXPECT_LT(test::shift_dependence(rows, 16, 3), 0x1p-40);
}

TEST(CayleyString, WithoutABasisIsRopeMixed) {
  Params params(Params::Shapes{{2, 1, 4}});
  const std::vector<double> none(28);
  const CayleyStringRows<double> string(cayley(8, 2), params.param<double, 3>(0), {dense(none.data(), 1, 28)});
  const RopeMixedRows<double> mixed(cayley(8, 2).rope, params.param<double, 3>(0));
  const test::RowData data({.time = 9, .dim = 8, .axes = 2}, 8);
  std::vector<double> a, b;
  turn<double>(string, Side::query, data.at(), data.x<double>(), data.like_x(a));
  turn<double>(mixed, Side::query, data.at(), data.x<double>(), data.like_x(b));
  EXPECT_EQ(a, b);
}

TEST(CirculantString, AgreesWithItsReference) {
  for (const auto& [axes, dim] : {std::pair<Index, Index>{1, 2}, {2, 3}, {1, 7}, {3, 8}}) {
    const CirculantString string{.head_dim = dim, .axes = axes};
    Params params(Params::Shapes{{axes, 2, dim}}, -0.125, 0.125);
    const auto make = [string]<class A>(Params& p) { return CirculantStringRows<A>(string, p.param<A, 3>(0)); };
    const auto reference = [string](const Params& p, const RowSpot& s, View<const double, 1> x, View<double, 1> y) {
      reference::circulant_string(string, p.value<3>(0), s.h, s.p, x, y);
    };
    // The reference walks some hundreds of steps, each of which rounds.
    const auto cases = test::row_cases(2, dim, axes, {axes == 2 ? test::Place::shuffled : test::Place::real});
    test::expect_row_encoding(make, params, cases, reference, 0x1p-40);
  }
}

TEST(CirculantString, KeepsNormsAndDependsOnTheDifferenceAlone) {
  Params params(Params::Shapes{{3, 1, 15}});
  const CirculantStringRows<double> rows({.head_dim = 15, .axes = 3}, params.param<double, 3>(0));
  EXPECT_LT(test::norm_change(rows, 15, 3), 0x1p-46);
  EXPECT_LT(test::shift_dependence(rows, 15, 3), 0x1p-38);
}

TEST(CirculantString, LeavesTheConstantAndTheAlternatingRowAlone) {
  Params params(Params::Shapes{{2, 1, 6}});
  const CirculantStringRows<double> rows({.head_dim = 6}, params.param<double, 3>(0));
  const std::vector<double> x{1, 1, 1, 1, 1, 1, 1, -1, 1, -1, 1, -1}, at{3, 9, 4, -2};
  std::vector<double> y(12);
  turn<double>(rows, Side::key, Positions(dense(at.data(), 2, 1, 2)), bhtd(x.data(), 1, 1, 2, 6),
               bhtd(y.data(), 1, 1, 2, 6));
  for (std::size_t i = 0; i < 12; ++i) EXPECT_NEAR(y[i], x[i], 0x1p-49);
}

TEST(StringRope, WrongCallsSayWhatMustHold) {
  std::vector<double> f(64);
  expect_error<ShapeError>(
      [&] { CayleyStringRows<double>(cayley(4, 2), {dense(f.data(), 2, 1, 2)}, {dense(f.data(), 1, 16)}); },
      "[CayleyStringRows] skew: must be [sets, head_dim*(head_dim-1)/2] = [1, 6], got shape [1, 16]");
  expect_error<ShapeError>([&] { CirculantStringRows<double>({.head_dim = 4}, {dense(f.data(), 1, 2, 4)}); },
                           "[CirculantStringRows] c: must be [axes, sets, head_dim] = [2, 2, 4], got shape [1, 2, 4]");
  expect_error<ShapeError>([&] { CirculantStringRows<double>({.head_dim = 1}, {dense(f.data(), 2, 2, 1)}); },
                           "[CirculantStringRows] head_dim: must be from 2 to 1024, got 1");
}

}  // namespace
}  // namespace bearing
