#include <gtest/gtest.h>
#include <bearing/encodings/learned.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/learned.hpp>
#include <limits>

#include "support/errors.hpp"
#include "support/input_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::InputCase;
using test::InputPoint;
using test::Params;
using test::Place;

TEST(Learned, AgreesWithItsReference) {
  test::compared_gradients() = 0;
  for (const Index offset : {0, 2}) {
    for (const Index dim : {1, 7, 64}) {
      const Learned spec{.length = 151, .dim = dim, .offset = offset};
      Params params(Params::Shapes{{spec.rows(), dim}});
      const auto make = [&]<class A>(Params& p) { return LearnedInputs<A>(spec, p.param<A, 2>(0)); };
      const auto reference = [&](const Params& p, const InputPoint& x) {
        return reference::learned(spec, p.value<2>(0), x.d, static_cast<Index>(x.at[0]));
      };
      const auto cases = test::input_cases({Place::offsets, Place::shuffled});
      test::expect_reference_rows(make, params, cases, reference, 0);
      test::expect_every_type(make, params, {{1, 1}, {2, 11, Place::shuffled}, {1, 131}});
      test::expect_float_input_gradients(make, params, cases);
      test::expect_same_input_bits_for_any_executor(make, params, cases);
      if (dim < 64) test::expect_input_gradients(make, params, cases, reference);
    }
  }
  EXPECT_GE(test::compared_gradients(), 5000);
}

TEST(Learned, TokensAtOnePositionShareItsGradient) {
  const Learned spec{.length = 4, .dim = 2, .offset = 1};
  std::vector<double> table(10, 1.0), grad(10, 100.0);
  const LearnedInputs<double> encoding(spec, {dense<const double>(table.data(), 5, 2), dense(grad.data(), 5, 2)});
  const std::vector<Index> at{3, 0, 3};
  const std::vector<double> d_x{1, 2, 3, 4, 5, 6};
  add_backward<double>(encoding, dense(at.data(), 3), dense(d_x.data(), 1, 3, 2));
  EXPECT_EQ(grad, (std::vector<double>{100, 100, 103, 104, 100, 100, 100, 100, 106, 108}));
}

// RoBERTa: tokens start at row padding_idx + 1 = 2 of 514, padding reads row 1, which is never trained.
TEST(Learned, PaddingHasItsOwnRowWithoutGradient) {
  const Learned spec{.length = 3, .dim = 1, .offset = 2, .padding_row = 1};
  EXPECT_EQ(spec.rows(), 5);
  std::vector<float> table{-5, 0, 10, 11, 12}, grad(5);
  const LearnedInputs<float> encoding(spec, {dense<const float>(table.data(), 5, 1), dense(grad.data(), 5, 1)});
  const std::vector<Index> at{0, 1, 2, -1};
  std::vector<float> x(4);
  fill<float>(encoding, dense(at.data(), 4), dense(x.data(), 4, 1));
  EXPECT_EQ(x, (std::vector<float>{10, 11, 12, 0}));
  const std::vector<float> d_x{1, 1, 1, 1};
  add_backward<float>(encoding, dense(at.data(), 4), dense(d_x.data(), 1, 4, 1));
  EXPECT_EQ(grad, (std::vector<float>{0, 0, 1, 1, 1}));
}

TEST(Learned, TableMayLieAnyhow) {
  const std::vector<float> columns{1, 2, 3, 10, 20, 30};  // [dim, rows]
  const LearnedInputs<float> encoding({.length = 3, .dim = 2}, {View<const float, 2>{columns.data(), {3, 2}, {1, 3}}});
  std::vector<float> x(6);
  fill<float>(encoding, {}, dense(x.data(), 3, 2));
  EXPECT_EQ(x, (std::vector<float>{1, 10, 2, 20, 3, 30}));
}

TEST(Learned, WrongCallsSayWhatMustHold) {
  const std::vector<float> table(12);
  std::vector<float> grad(12), x(12, 7.0f);
  const auto make = [&](const Learned& spec, Index rows, Index grad_rows = 0) {
    LearnedInputs<float> encoding(
        spec, {dense(table.data(), rows, 2), grad_rows == 0 ? View<float, 2>{} : dense(grad.data(), grad_rows, 2)});
  };
  expect_error<RangeError>([&] { make({.length = -1, .dim = 2}, 1); },
                           "[Learned] length, offset: must be from 0 to 2^31, got -1, 0");
  expect_error<ShapeError>([&] { make({.length = 1}, 1); }, "[Learned] dim: must be at least 1, got 0");
  expect_error<RangeError>([&] { make({.length = 3, .dim = 2, .padding_row = 3}, 3); },
                           "[Learned] padding_row: must be a row of the table, 0 to 2, got 3");
  expect_error<ShapeError>([&] { make({.length = 3, .dim = 2, .offset = 2}, 3); },
                           "[LearnedInputs] table: must be [length + offset, dim] = [5, 2], got [3, 2]");
  expect_error<ShapeError>([&] { make({.length = 3, .dim = 2}, 3, 4); },
                           "[LearnedInputs] table.grad: must have the shape of the table, [3, 2], got [4, 2]");

  const LearnedInputs<float> encoding({.length = 4, .dim = 2, .offset = 2}, {dense(table.data(), 6, 2)});
  const auto refused = [&](const Positions& at, const std::string& got) {
    expect_error<RangeError>(
        [&] { fill<float>(encoding, at, dense(x.data(), 2, 3, 2)); },
        "[fill] positions: must be whole and lie in [0, 4), the length of the learned table, got " + got);
  };
  refused(Positions(2), "4 at [batch 0, time 2]");
  refused(Positions(-1), "-1 at [batch 0, time 0]");
  const std::vector<double> real{0, 1, 2, 0, 1.5, 2};
  refused(dense(real.data(), 2, 3), "1.5 at [batch 1, time 1]");
  const std::vector<double> axes(12);
  expect_error<ShapeError>([&] { add<float>(encoding, dense(axes.data(), 2, 2, 3), dense(x.data(), 2, 3, 2)); },
                           "[add] positions: must have one axis for Learned, got 2");
  EXPECT_EQ(x, std::vector<float>(12, 7.0f));
}

TEST(LearnedResize, GivesPyTorchsNumbers) {
  // interpolate(mode='linear', align_corners=False) of PyTorch 2, size 8 and 3.
  const std::vector<double> squares{0, 1, 4, 9, 16};
  std::vector<double> eight(8), three(3);
  resize(Interpolation::linear, 0, dense(squares.data(), 5, 1), dense(eight.data(), 8, 1));
  EXPECT_EQ(eight, (std::vector<double>{0, 0.4375, 1.1875, 3.0625, 5.5625, 8.6875, 12.9375, 16}));
  resize(Interpolation::linear, 0, dense(squares.data(), 5, 1), dense(three.data(), 3, 1));
  const double thirds[] = {1.0 / 3, 4, 41.0 / 3};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(three[i], thirds[i], 16 * 0x1p-51);

  // interpolate(mode='bicubic', align_corners=False) of a 2 × 3 grid of two features, to 3 × 5 and 1 × 2.
  const std::vector<double> grid{0, 1.75, 0.75, 2.5, 1.5, 0.5, 2.25, 1.25, 0.25, 2, 1, 0};
  const std::vector<double> larger{-0.290229166667,
                                   1.721402777778,
                                   0.134309027778,
                                   2.228402777778,
                                   0.793402777778,
                                   2.543402777778,
                                   1.323590277778,
                                   1.373402777778,
                                   1.615402777778,
                                   0.351402777778,
                                   1.185,
                                   1.428,
                                   0.8285,
                                   1.935,
                                   0.5,
                                   2.25,
                                   0.914,
                                   1.08,
                                   1.322,
                                   0.058,
                                   2.660229166667,
                                   1.134597222222,
                                   1.522690972222,
                                   1.641597222222,
                                   0.206597222222,
                                   1.956597222222,
                                   0.504409722222,
                                   0.786597222222,
                                   1.028597222222,
                                   -0.235402777778};
  std::vector<double> got(30), two(4);
  resize_grid(Interpolation::cubic, 0, dense(grid.data(), 6, 2), {2, 3}, dense(got.data(), 15, 2), {3, 5});
  for (std::size_t i = 0; i < 30; ++i) EXPECT_NEAR(got[i], larger[i], 6e-13) << i;  // twelve digits are written above
  resize_grid(Interpolation::cubic, 0, dense(grid.data(), 6, 2), {2, 3}, dense(two.data(), 2, 2), {1, 2});
  const double smaller[] = {0.95703125, 1.740234375, 1.05810546875, 0.7294921875};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(two[i], smaller[i], 0x1p-49);
}

TEST(LearnedResize, AgreesWithItsReferenceAndKeepsThePrefix) {
  test::Random random(9);
  for (const Interpolation how : {Interpolation::linear, Interpolation::cubic}) {
    for (const auto& [from, to] : {std::pair<Index, Index>{1, 4}, {2, 7}, {11, 11}, {16, 24}, {24, 5}, {3, 0}}) {
      constexpr Index prefix = 2, dim = 3;
      std::vector<double> table(static_cast<std::size_t>((prefix + from) * dim)), column;
      for (double& x : table) x = random.uniform(-1, 1);
      std::vector<double> got(static_cast<std::size_t>((prefix + to) * dim));
      resize(how, prefix, dense(table.data(), prefix + from, dim), dense(got.data(), prefix + to, dim));
      for (std::size_t x = 0; x < prefix * dim; ++x) EXPECT_EQ(got[x], table[x]);
      for (Index d = 0; d < dim; ++d) {
        const View<const double, 1> rows{table.data() + prefix * dim + d, {from}, {dim}};
        for (Index i = 0; i < to; ++i) {
          const double at = (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
          // Weights are polynomials with coefficients up to 6 at arguments below 2.
          EXPECT_NEAR(got[static_cast<std::size_t>((prefix + i) * dim + d)], reference::interpolated(how, rows, at),
                      0x1p-45);
        }
      }
      if (from == to) {
        EXPECT_EQ(got, table);
      }
    }
  }
}

TEST(LearnedResize, AGridIsResizedAlongEitherSide) {
  // A table that is f(y)·g(x) becomes the product of both resized: not square, with a class token, in float.
  const std::vector<double> f{1, -2, 0.5}, g{0.25, 1, 2, -1};
  std::vector<float> table{9};
  for (const double y : f) {
    for (const double x : g) table.push_back(static_cast<float>(y * x));
  }
  std::vector<float> got(1 + 5 * 2);
  resize_grid(Interpolation::cubic, 1, dense(table.data(), 13, 1), {3, 4}, dense(got.data(), 11, 1), {5, 2});
  EXPECT_EQ(got[0], 9.0f);
  for (Index y = 0; y < 5; ++y) {
    for (Index x = 0; x < 2; ++x) {
      const double fy =
          reference::interpolated(Interpolation::cubic, dense(f.data(), 3), (double(y) + 0.5) * 0.6 - 0.5);
      const double gx = reference::interpolated(Interpolation::cubic, dense(g.data(), 4), (double(x) + 0.5) * 2 - 0.5);
      EXPECT_NEAR(double{got[static_cast<std::size_t>(1 + y * 2 + x)]}, fy * gx, 8 * 0x1p-24);
    }
  }
}

// interpolate(mode='bilinear' | 'bicubic', align_corners=True) and (…, antialias=True) of a 4 × 3 grid, to 2 × 4.
TEST(LearnedResize, CornersAndAntialiasAreAsPyTorchDoesThem) {
  const std::vector<double> grid{0.25,      2.25, 6.25,      1.125,  2.125,  4.125,
                                 49.0 / 12, 4.75, 73.0 / 12, 9.0625, 9.5625, 10.5625};
  const auto resized = [&](Interpolation how, Sampling sampling) {
    std::vector<double> got(8);
    resize_grid(how, 0, dense(grid.data(), 12, 1), {4, 3}, dense(got.data(), 8, 1), {2, 4}, {.sampling = sampling});
    return got;
  };
  const auto expect = [](const std::vector<double>& got, const std::vector<double>& wanted) {
    for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(got[i], wanted[i], 6e-13) << i;  // twelve digits are written
  };
  expect(resized(Interpolation::linear, Sampling::corners),
         {0.25, 1.583333333333, 3.583333333333, 6.25, 9.0625, 9.395833333333, 9.895833333333, 10.5625});
  expect(resized(Interpolation::cubic, Sampling::corners),
         {0.25, 1.175925925926, 3.731481481481, 6.25, 9.0625, 9.293981481481, 9.93287037037, 10.5625});
  expect(resized(Interpolation::linear, Sampling::antialias),
         {1.172619047619, 2.035714285714, 3.589285714286, 5.315476190476, 5.794642857143, 6.196428571429,
          6.919642857143, 7.723214285714});
  expect(resized(Interpolation::cubic, Sampling::antialias),
         {0.707887473788, 1.482139647388, 3.394094900231, 5.245123812754, 6.124888213889, 6.437631185784,
          7.209925521264, 7.957609935858});
  double one = 0;  // one sample lies at the first row, as in PyTorch
  resize(Interpolation::linear, 0, dense<const double>(grid.data(), 12, 1), dense(&one, 1, 1),
         {.sampling = Sampling::corners});
  EXPECT_EQ(one, 0.25);
}

TEST(LearnedResize, TheSuffixIsCopied) {
  const std::vector<double> table{9, 0, 1, 2, 3, 7, 8};
  std::vector<double> got(5);
  const View<const double, 2> from = dense(table.data(), 7, 1);
  resize(Interpolation::linear, 1, from, dense(got.data(), 5, 1), {.suffix = 2});
  EXPECT_EQ(got, (std::vector<double>{9, 0.5, 2.5, 7, 8}));
  resize_grid(Interpolation::linear, 1, from, {4, 1}, dense(got.data(), 5, 1), {2, 1}, {.suffix = 2});
  EXPECT_EQ(got, (std::vector<double>{9, 0.5, 2.5, 7, 8}));
  expect_error<ShapeError>([&] { resize(Interpolation::linear, 1, from, dense(got.data(), 5, 1), {.suffix = -1}); },
                           "[resize] suffix: must be from 0 to 2^31, got -1");
  expect_error<ShapeError>([&] { resize(Interpolation::linear, 1, from, dense(got.data(), 5, 1), {.suffix = 6}); },
                           "[resize] from, to: must have rows to sample after the prefix of 1 and before the suffix of "
                           "6, got [7, 1], [5, 1]");
  expect_error<ShapeError>(
      [&] { resize(Interpolation::linear, 1, from, dense(got.data(), 5, 1), {.sampling = static_cast<Sampling>(4)}); },
      "[resize] options.sampling: must be centres, corners or antialias, got 4");
  EXPECT_EQ(got[1], 0.5);
}

TEST(LearnedResize, WrongCallsSayWhatMustHold) {
  std::vector<float> from(12), to(12, 7.0f);
  const auto try_resize = [&](Interpolation how, Index prefix, Index from_rows, Index to_dim) {
    resize(how, prefix, dense<const float>(from.data(), from_rows, 2), dense(to.data(), 3, to_dim));
  };
  expect_error<ShapeError>([&] { try_resize(static_cast<Interpolation>(5), 0, 6, 2); },
                           "[resize] how: must be linear or cubic, got 5");
  expect_error<ShapeError>([&] { try_resize(Interpolation::linear, -1, 6, 2); },
                           "[resize] prefix: must be from 0 to 2^31, got -1");
  expect_error<ShapeError>([&] { try_resize(Interpolation::linear, std::numeric_limits<Index>::min(), 6, 2); },
                           "[resize] prefix: must be from 0 to 2^31, got -9223372036854775808");
  expect_error<ShapeError>([&] { try_resize(Interpolation::linear, 2, 2, 2); },
                           "[resize] from, to: must have rows to sample after the prefix of 2, got [2, 2], [3, 2]");
  expect_error<ShapeError>([&] { try_resize(Interpolation::linear, 1, 6, 4); },
                           "[resize] from, to: must be [6, dim] and [3, dim], got [6, 2], [3, 4]");
  expect_error<ShapeError>(
      [&] {
        resize_grid(Interpolation::cubic, 1, dense<const float>(from.data(), 6, 2), {2, 3}, dense(to.data(), 6, 2),
                    {1, 5});
      },
      "[resize_grid] from, to: must be [7, dim] and [6, dim], got [6, 2], [6, 2]");
  expect_error<ShapeError>(
      [&] {
        resize_grid(Interpolation::cubic, 0, dense<const float>(from.data(), 6, 2), {2, 3}, dense(to.data(), 6, 2),
                    {-1, -6});
      },
      "[resize_grid] from_grid, to_grid: must be at least 0 and make at most 2^31 patches, got -1 by -6");
  // No patches at all, but a walk along 2^40 rows.
  expect_error<ShapeError>(
      [&] {
        resize_grid(Interpolation::cubic, 0, dense<const float>(from.data(), 6, 2), {2, 3}, dense(to.data(), 0, 2),
                    {Index{1} << 40, 0});
      },
      "[resize_grid] from_grid, to_grid: must be at least 0 and make at most 2^31 patches, got 1099511627776 by 0");
  expect_error<ShapeError>(
      [&] {
        resize(Interpolation::linear, 0, View<const float, 2>{nullptr, {6, 2}, {2, 1}}, dense(to.data(), 3, 2));
      },
      "[resize] from: must have memory, got a null pointer; shape is [6, 2]");
  expect_error<ShapeError>(
      [&] {
        resize(Interpolation::linear, 0, dense<const float>(from.data(), 6, 2), View<float, 2>{to.data(), {3, 2}, {}});
      },
      "[resize] to: no two elements may share memory, got strides [0, 0] for shape [3, 2]");
  EXPECT_EQ(to, std::vector<float>(12, 7.0f));
}

TEST(Learned, ATableNeedsMemory) {
  expect_error<ShapeError>(
      [] {
        LearnedInputs<float>({.length = 3, .dim = 2}, {View<const float, 2>{nullptr, {3, 2}, {2, 1}}});
      },
      "[LearnedInputs] table: must have memory, got a null pointer; shape is [3, 2]");
}

TEST(LearnedResize, OneRowIsItsMeanOrItself) {
  const std::vector<double> from{1, 2, 3, 6};
  for (const Interpolation how : {Interpolation::linear, Interpolation::cubic}) {
    double one = 0;
    resize(how, 0, dense<const double>(from.data(), 1, 1), dense(&one, 1, 1));
    EXPECT_EQ(one, 1);
    std::vector<double> many(5);
    resize(how, 0, dense<const double>(from.data(), 1, 1), dense(many.data(), 5, 1));
    for (const double x : many) EXPECT_NEAR(x, 1, 0x1p-51);  // weights of four taps sum to 1
    resize(how, 0, dense<const double>(from.data(), 4, 1), dense(&one, 1, 1));
    // Half way between 2 and 3: their mean, or (9.5·(2 + 3) − 1.5·(1 + 6))/16 with a = −0.75.
    EXPECT_NEAR(one, how == Interpolation::linear ? 2.5 : 2.3125, 0x1p-50);
  }
}

}  // namespace
}  // namespace bearing
