#include <gtest/gtest.h>
#include <bearing/encodings/sinusoidal_2d.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/sinusoidal_2d.hpp>

#include "support/errors.hpp"
#include "support/input_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::InputPoint;
using test::Params;
using test::Place;

std::vector<double> rows_at(const Sinusoidal2d& spec, const std::vector<double>& at) {
  const Index patches = static_cast<Index>(at.size()) / 2;
  std::vector<double> rows(static_cast<std::size_t>(patches * spec.dim));
  fill<double>(Sinusoidal2dInputs<double>(spec), dense(at.data(), 2, 1, patches),
               dense(rows.data(), patches, spec.dim));
  return rows;
}

TEST(Sinusoidal2d, AgreesWithItsReference) {
  Params none(Params::Shapes{});
  for (const Sinusoidal2d& spec :
       {Sinusoidal2d::detr(4), Sinusoidal2d::detr(256), Sinusoidal2d::mae(12), Sinusoidal2d::mae(192),
        Sinusoidal2d{.dim = 20, .base = 20, .first = FirstHalf::x, .layout = SinusoidalLayout::cos_first_shifted}}) {
    const auto make = [&]<class A>(Params&) { return Sinusoidal2dInputs<A>(spec); };
    const auto reference = [&](const Params&, const InputPoint& x) {
      return reference::sinusoidal_2d(spec, x.d, x.at[0], x.at[1]);
    };
    const auto cases = test::input_cases({Place::shuffled, Place::real}, 2);
    test::expect_reference_rows(make, none, cases, reference, 150 * 12 * 0x1p-53);
    test::expect_every_type(make, none, cases);
    test::expect_same_input_bits_for_any_executor(make, none, cases);
  }
}

// DETR's code, by hand: rows and columns count from 1, are divided by height or width + 1e-6 and multiplied by 2π; y's
// half comes first; columns 2i and 2i + 1 are sin and cos of position / 10000^(2i/(dim/2)).
TEST(Sinusoidal2d, DetrHasYFirstAndInterleaved) {
  const double turn = 6.283185307179586;
  const std::vector<double> at = grid_positions({.height = 2, .width = 3, .first = 1, .span = turn, .eps = 1e-6});
  const std::vector<double> rows = rows_at(Sinusoidal2d::detr(8), at);
  const std::size_t patch = 1 * 3 + 0;  // second row, first column
  const double y = 2 / (2 + 1e-6) * turn, x = 1 / (3 + 1e-6) * turn;
  const double wanted[] = {std::sin(y), std::cos(y), std::sin(y / 100), std::cos(y / 100),
                           std::sin(x), std::cos(x), std::sin(x / 100), std::cos(x / 100)};
  for (std::size_t d = 0; d < 8; ++d) EXPECT_NEAR(rows[patch * 8 + d], wanted[d], 6.3 * 0x1p-50) << d;
}

// MAE's code, by hand: columns of the image first, sines before cosines, positions from 0.
TEST(Sinusoidal2d, MaeHasXFirstAndHalvesOfSines) {
  const std::vector<double> rows = rows_at(Sinusoidal2d::mae(8), grid_positions({.height = 2, .width = 3}));
  const std::size_t patch = 1 * 3 + 2;  // y = 1, x = 2
  const double wanted[] = {std::sin(2), std::sin(0.02), std::cos(2), std::cos(0.02),
                           std::sin(1), std::sin(0.01), std::cos(1), std::cos(0.01)};
  for (std::size_t d = 0; d < 8; ++d) EXPECT_NEAR(rows[patch * 8 + d], wanted[d], 0x1p-50) << d;
}

// MoCo v3's code, by hand: meshgrid(arange(w), arange(h)) indexed "ij", so its `grid_w` runs down the rows of the
// image.
TEST(Sinusoidal2d, MocoHasYFirstAndHalvesOfSines) {
  const Sinusoidal2d moco{.dim = 8, .first = FirstHalf::y, .layout = SinusoidalLayout::concatenated};
  const std::vector<double> rows = rows_at(moco, grid_positions({.height = 3, .width = 3}));
  for (std::size_t patch = 0; patch < 9; ++patch) {
    const double grid_w = static_cast<double>(patch / 3), grid_h = static_cast<double>(patch % 3);
    const double wanted[] = {std::sin(grid_w), std::sin(grid_w / 100), std::cos(grid_w), std::cos(grid_w / 100),
                             std::sin(grid_h), std::sin(grid_h / 100), std::cos(grid_h), std::cos(grid_h / 100)};
    for (std::size_t d = 0; d < 8; ++d) EXPECT_NEAR(rows[patch * 8 + d], wanted[d], 0x1p-50) << patch << ' ' << d;
  }
}

TEST(Sinusoidal2d, GridPositionsRunAlongRows) {
  EXPECT_EQ(grid_positions({.height = 2, .width = 3}), (std::vector<double>{0, 0, 0, 1, 1, 1, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(grid_positions({.height = 1, .width = 2, .first = 0.5}), (std::vector<double>{0.5, 0.5, 0.5, 1.5}));
  EXPECT_TRUE(grid_positions({.height = 0, .width = 5}).empty());
}

// With a power of two as the extent each division is exact.
TEST(Sinusoidal2d, GridPositionsWithASpanAreExactWithoutEps) {
  const std::vector<double> at = grid_positions({.height = 2, .width = 4, .first = 0.5, .span = 2});
  EXPECT_EQ(at, (std::vector<double>{0.5, 0.5, 0.5, 0.5, 1.5, 1.5, 1.5, 1.5, 0.25, 0.75, 1.25, 1.75, 0.25, 0.75, 1.25,
                                     1.75}));
  EXPECT_EQ(grid_positions({.height = 1, .width = 1, .first = 1, .span = 3, .eps = 0.5}), (std::vector<double>{2, 2}));
}

TEST(Sinusoidal2d, WrongCallsSayWhatMustHold) {
  expect_error<ShapeError>([] { Sinusoidal2dInputs<float> encoding(Sinusoidal2d::mae(6)); },
                           "[Sinusoidal2d] dim: must be a positive multiple of 4, at most 65536, got 6");
  expect_error<ShapeError>(
      [] {
        Sinusoidal2dInputs<float> encoding(
            {.dim = 8, .first = static_cast<FirstHalf>(3), .layout = SinusoidalLayout::interleaved});
      },
      "[Sinusoidal2d] first: must be y or x, got 3");
  expect_error<RangeError>([] { Sinusoidal2dInputs<float> encoding(Sinusoidal2d::detr(8, -1)); },
                           "[Sinusoidal] base: must be finite and above 0, got -1");
  expect_error<RangeError>(
      [] { grid_positions({.height = -1, .width = 2}); },
      "[grid_positions] height, width: must be at least 0 and make at most 2^31 patches, got -1, 2");
  expect_error<RangeError>([] { grid_positions({.height = 1, .width = 2, .first = NAN}); },
                           "[grid_positions] first, span: must be finite, got nan, 0");
  expect_error<RangeError>([] { grid_positions({.height = 1, .width = 2, .span = 1, .eps = -1e-6}); },
                           "[grid_positions] eps: must be finite and at least 0, got -1e-06");
  const Sinusoidal2dInputs<float> encoding(Sinusoidal2d::detr(8));
  std::vector<float> x(16, 7.0f);
  expect_error<ShapeError>([&] { fill<float>(encoding, {}, dense(x.data(), 2, 8)); },
                           "[fill] positions: must have two axes, y and x, for Sinusoidal2d, got 1");
  EXPECT_EQ(x, std::vector<float>(16, 7.0f));
}

}  // namespace
}  // namespace bearing
