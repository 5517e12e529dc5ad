#include <bearing/encodings/pope.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/pope.hpp>
#include <cerrno>
#include <numbers>

#include "support/errors.hpp"
#include "support/row_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::RowSpot;

TEST(Pope, AgreesWithItsReference) {
  for (const Index dim : {1, 6}) {
    const Pope pope{.head_dim = dim, .base = 50};
    // From past −2π to past 0: offsets at both ends are held, and have no gradient.
    Params params(Params::Shapes{{2, dim}}, -8, 1);
    const auto make = [pope]<class A>(Params& p) { return PopeRows<A>(pope, p.param<A, 2>(0), 2); };
    const auto reference = [pope](const Params& p, const RowSpot& s, View<const double, 1> x, View<double, 1> y) {
      reference::pope(pope, p.value<2>(0), s.h / 2, s.side, s.p[0], x, y);
    };
    const auto cases = test::row_cases(4, dim);
    test::expect_reference_rows(make, params, cases, reference);
    test::expect_row_gradients(make, params, cases, reference);
    test::expect_float_row_gradients(make, params, cases);
    test::expect_same_row_bits(make, params, cases);
  }
}

TEST(Pope, ScoreIsContentTimesCosineOfDistancePlusOffset) {
  Params params(Params::Shapes{{1, 3}}, -3, -0.5);
  const PopeRows<double> rows({.head_dim = 3, .base = 100}, params.param<double, 2>(0));
  const std::vector<double> q{0.3, -2, 1}, k{-0.7, 0.1, 40};
  double score = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    const double theta = std::pow(100, -static_cast<double>(c) / 3);
    score +=
        std::log(1 + std::exp(q[c])) * std::log(1 + std::exp(k[c])) * std::cos((4 - 9) * theta + params.values(0)[c]);
  }
  EXPECT_NEAR(test::row_product(rows, q, {9}, k, {4}), score, 0x1p-45);
  EXPECT_LT(test::shift_dependence(rows, 3, 1), 0x1p-44);
}

TEST(Pope, RadiiNeverVanishNorOverflow) {
  const PopeRows<float> rows({.head_dim = 3});
  const std::vector<float> x{-80, 0, 3e38f};
  std::vector<float> y(6);
  turn<float>(rows, Side::key, Positions{}, bhtd(x.data(), 1, 1, 1, 3), bhtd(y.data(), 1, 1, 1, 6));
  EXPECT_FLOAT_EQ(y[0], std::exp(-80.0f));
  EXPECT_FLOAT_EQ(y[2], std::log(2.0f));
  EXPECT_EQ(y[4], 3e38f);
  const std::vector<float> far{-3e38f, -800, 3e38f}, weights(6, 1.0f);
  std::vector<float> d_x(3);
  errno = 0;
  turn<float>(rows, Side::key, Positions{}, bhtd(far.data(), 1, 1, 1, 3), bhtd(y.data(), 1, 1, 1, 6));
  turn_backward<float>(rows, Side::key, Positions{}, bhtd(far.data(), 1, 1, 1, 3), bhtd(weights.data(), 1, 1, 1, 6),
                       bhtd(d_x.data(), 1, 1, 1, 3));
  EXPECT_EQ(errno, 0);
  EXPECT_EQ(y, (std::vector<float>{0, 0, 0, 0, 3e38f, 0}));
  EXPECT_EQ(d_x, (std::vector<float>{0, 0, 1}));
  EXPECT_EQ(y[5], 0);
}

TEST(Pope, OffsetsTurnKeysOnly) {
  const std::vector<double> offset{-std::numbers::pi / 2}, x{1};
  const PopeRows<double> rows({.head_dim = 1}, {dense(offset.data(), 1, 1)});
  std::vector<double> q(2), k(2);
  turn<double>(rows, Side::query, {}, bhtd(x.data(), 1, 1, 1, 1), bhtd(q.data(), 1, 1, 1, 2));
  turn<double>(rows, Side::key, {}, bhtd(x.data(), 1, 1, 1, 1), bhtd(k.data(), 1, 1, 1, 2));
  EXPECT_EQ(q[1], 0);
  EXPECT_NEAR(k[0], 0, 0x1p-52);
  EXPECT_EQ(k[1], -q[0]);
}

TEST(Pope, WrongCallsSayWhatMustHold) {
  std::vector<float> offsets(6), x(4, 7.0f);
  expect_error<ShapeError>([&] { PopeRows<float>({.head_dim = 4}, {dense(offsets.data(), 2, 3)}); },
                           "[PopeRows] offsets: must be [sets, head_dim] = [2, 4], got shape [2, 3]");
  expect_error<ShapeError>([&] { PopeRows<float>({.head_dim = 0}); },
                           "[PopeRows] head_dim: must be from 1 to 65536, got 0");
  expect_error<RangeError>([&] { PopeRows<float>({.head_dim = 2, .base = -1}); },
                           "[PopeRows] base: must be finite and above 0, got -1");
  const PopeRows<float> rows({.head_dim = 2});
  expect_error<ShapeError>(
      [&] { turn<float>(rows, Side::key, {}, bhtd<const float>(x.data(), 1, 1, 1, 2), bhtd(x.data(), 1, 1, 1, 2)); },
      "[turn] y: must be [batch, heads, time, 4] for x with shape [1, 1, 1, 2], got [1, 1, 1, 2]");
  EXPECT_EQ(x, std::vector<float>(4, 7.0f));
}

}  // namespace
}  // namespace bearing
