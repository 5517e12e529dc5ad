#include <bearing/encodings/fope.hpp>
#include <bearing/encodings/rope_variants.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/fope.hpp>

#include "support/errors.hpp"
#include "support/row_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::RowSpot;

TEST(Fope, AgreesWithItsReference) {
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    // Of the five frequencies 10,000^(−i/5), two complete a turn within 64 tokens; mixed into two, three and five
    // pairs.
    for (const Index mixed : {2, 3, 5}) {
      const Fope fope{.head_dim = 10, .trained_length = 64, .pairing = pairing};
      ASSERT_EQ(fope_frequencies(fope).size(), 2u);
      Params params(Params::Shapes{{2, 2, mixed}, {2, 2, mixed}});
      const auto make = [fope]<class A>(Params& p) { return FopeRows<A>(fope, p.param<A, 3>(0), p.param<A, 3>(1), 2); };
      const auto reference = [fope](const Params& p, const RowSpot& s, View<const double, 1> x, View<double, 1> y) {
        reference::fope(fope, p.value<3>(0), p.value<3>(1), s.h / 2, s.p[0], x, y);
      };
      test::expect_row_encoding(make, params, test::row_cases(4, 10), reference);
    }
  }
}

// cos and sin are mixed by the identity: what is left of FoPE is RoPE without its low frequencies.
TEST(Fope, WithIdentityIsHighFrequencyRope) {
  const Fope fope{.head_dim = 16, .trained_length = 100, .pairing = Pairing::half};
  const auto kept = static_cast<Index>(fope_frequencies(fope).size());
  ASSERT_EQ(kept, 3);  // 10,000^(−3/8) = 0.0316 < 2π/100 < 0.1
  std::vector<double> identity(static_cast<std::size_t>(kept * kept));
  for (Index i = 0; i < kept; ++i) identity[static_cast<std::size_t>(i * kept + i)] = 1;
  const Param<double, 3> eye{dense<const double>(identity.data(), 1, kept, kept)};
  const FopeRows<double> rows(fope, eye, eye);
  const RopeTable<double> table(high_frequency(resolve({.head_dim = 16, .pairing = Pairing::half}), 100), 0);
  const test::RowData data({.batch = 2, .time = 40, .dim = 16, .first = 30}, 16);
  std::vector<double> a, b;
  turn<double>(rows, Side::query, data.at(), data.x<double>(), data.like_x(a));
  rotate_to<double>(table, data.x<double>(), data.like_x(b), data.at());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 0x1p-46);
}

TEST(Fope, GradientsOfOnlyOneParameterAreTheSame) {
  const test::RowCase c{.batch = 2, .heads = 1, .time = 5, .dim = 6};
  Params params(Params::Shapes{{1, 2, 3}, {1, 2, 3}});
  const auto make = [](bool with_cos, bool with_sin) {
    return [=]<class A>(Params& p) {
      Param<A, 3> cos = p.param<A, 3>(0), sin = p.param<A, 3>(1);
      if (!with_cos) cos.grad = {};
      if (!with_sin) sin.grad = {};
      return FopeRows<A>({.head_dim = 6, .kept = 2, .pairing = Pairing::half}, cos, sin);
    };
  };
  const test::RowData data(c, 6);
  const std::vector<double> d_x = test::backward_of<double>(make(true, true), params, c, data), none(6);
  const std::vector<double> d_cos = params.grads(0), d_sin = params.grads(1);
  EXPECT_NE(d_cos, d_sin);
  EXPECT_EQ(test::backward_of<double>(make(true, false), params, c, data), d_x);
  EXPECT_EQ(params.grads(0), d_cos);
  EXPECT_EQ(params.grads(1), none);
  EXPECT_EQ(test::backward_of<double>(make(false, true), params, c, data), d_x);
  EXPECT_EQ(params.grads(0), none);
  EXPECT_EQ(params.grads(1), d_sin);
}

TEST(Fope, PairsThatAreNotMixedPassThrough) {
  Params params(Params::Shapes{{1, 2, 2}, {1, 2, 2}});
  const Fope fope{.head_dim = 8, .kept = 2, .pairing = Pairing::half};
  const FopeRows<float> rows(fope, params.param<float, 3>(0), params.param<float, 3>(1));
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> y(8);
  turn<float>(rows, Side::query, Positions(11), bhtd(x.data(), 1, 1, 1, 8), bhtd(y.data(), 1, 1, 1, 8));
  for (const std::size_t i : {2u, 3u, 6u, 7u}) EXPECT_EQ(y[i], x[i]);
  for (const std::size_t i : {0u, 1u, 4u, 5u}) EXPECT_NE(y[i], x[i]);
}

TEST(Fope, KeepsNeitherNormsNorDistance) {
  Params params(Params::Shapes{{1, 3, 3}, {1, 3, 3}});
  const Fope fope{.head_dim = 6, .kept = 3, .pairing = Pairing::half};
  const FopeRows<double> rows(fope, params.param<double, 3>(0), params.param<double, 3>(1));
  EXPECT_GT(test::norm_change(rows, 6, 1), 0.1);
  EXPECT_GT(test::shift_dependence(rows, 6, 1), 0.1);
}

TEST(Fope, WrongCallsSayWhatMustHold) {
  std::vector<double> c(64);
  const Param<double, 3> two{dense<const double>(c.data(), 1, 2, 2)}, three{dense<const double>(c.data(), 1, 3, 2)};
  expect_error<ShapeError>([] { fope_frequencies({.head_dim = 5, .trained_length = 9, .pairing = Pairing::half}); },
                           "[fope_frequencies] head_dim: must be even and from 2 to 65536, got 5");
  expect_error<RangeError>([] { fope_frequencies({.head_dim = 4, .pairing = Pairing::half}); },
                           "[fope_frequencies] trained_length: must be from 1 to 2^31, got 0");
  expect_error<ShapeError>([] { fope_frequencies({.head_dim = 4, .kept = 3, .pairing = Pairing::half}); },
                           "[fope_frequencies] kept: must be from 0 to the pairs, 2, got 3");
  expect_error<RangeError>(
      [] { fope_frequencies({.head_dim = 4, .base = 0, .trained_length = 9, .pairing = Pairing::half}); },
      "[fope_frequencies] base: must be finite and above 0, got 0");
  const Fope fope{.head_dim = 4, .kept = 2, .pairing = Pairing::half};
  expect_error<ShapeError>([&] { FopeRows<double>(fope, three, two); },
                           "[FopeRows] cos: must be [sets, kept, mixed] = [1, 2, 2], got shape [1, 3, 2]");
  expect_error<ShapeError>([&] { FopeRows<double>(fope, two, three); },
                           "[FopeRows] sin: must be [sets, kept, mixed] = [1, 2, 2], got shape [1, 3, 2]");
  expect_error<ShapeError>([&] { FopeRows<double>(fope, {dense<const double>(c.data(), 1, 2, 3)}, two); },
                           "[FopeRows] cos: must mix from 1 to head_dim/2 = 2 pairs, got shape [1, 2, 3]");
  // With no frequency left cos' and sin' would be 0, and every query with them.
  const Fope none{.head_dim = 4, .trained_length = 6, .pairing = Pairing::half};
  expect_error<RangeError>([&] { FopeRows<double>(none, {dense<const double>(c.data(), 1, 0, 2)}, two); },
                           "[FopeRows] trained_length: must leave a frequency that completes a turn, got 6");
}

}  // namespace
}  // namespace bearing
