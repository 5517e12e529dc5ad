#include <gtest/gtest.h>
#include <bearing/encodings/swin_v2.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/swin.hpp>
#include <cmath>
#include <vector>

#include "support/errors.hpp"
#include "support/random.hpp"

namespace bearing {
namespace {

using test::expect_error;

struct Network {
  std::vector<double> w1, b1, w2, d_w1, d_b1, d_w2;

  Network(std::size_t hidden, std::size_t heads)
      : w1(2 * hidden), b1(hidden), w2(heads * hidden), d_w1(w1.size()), d_b1(b1.size()), d_w2(w2.size()) {
    test::Random random(3);
    for (auto* values : {&w1, &b1, &w2}) {
      for (double& value : *values) value = random.uniform(-1, 1);
    }
  }
  SwinV2Network<double> network() {
    const auto hidden = static_cast<Index>(b1.size()), heads = static_cast<Index>(w2.size()) / hidden;
    return {{dense<const double>(w1.data(), hidden, 2), dense(d_w1.data(), hidden, 2)},
            {dense<const double>(b1.data(), hidden), dense(d_b1.data(), hidden)},
            {dense<const double>(w2.data(), heads, hidden), dense(d_w2.data(), heads, hidden)}};
  }
};

double reference_of(const SwinV2& spec, Network& n, Index h, Index row) {
  const SwinV2Network<double> net = n.network();
  const Index across = 2 * spec.window.width - 1;
  return reference::swin_v2(spec, net.w1.value, net.b1.value, net.w2.value, h, row / across - spec.window.height + 1,
                            row % across - spec.window.width + 1);
}

const std::vector<SwinV2> v2_specs = {{.window = {3, 4}},
                                      {.window = {2, 2}},
                                      {.window = {6, 5}, .trained_height = 4, .trained_width = 3},
                                      {.window = {1, 5}, .trained_height = 8, .trained_width = 8}};

TEST(SwinV2, TableAgreesWithItsReference) {
  for (const SwinV2& spec : v2_specs) {
    Network n(7, 3);
    std::vector<double> table(static_cast<std::size_t>(spec.window.rows() * 3));
    swin_v2_table<double>(spec, n.network(), dense(table.data(), spec.window.rows(), 3));
    for (Index row = 0; row < spec.window.rows(); ++row) {
      for (Index h = 0; h < 3; ++h) {
        // 16σ(z) moves at most 4 per unit of z, a sum of 7 products of a few units each: some 2^-49.
        EXPECT_NEAR(table[static_cast<std::size_t>(row * 3 + h)], reference_of(spec, n, h, row), 0x1p-46);
      }
    }
  }
}

TEST(SwinV2, GradientsAreCentralDifferences) {
  for (const SwinV2& spec : v2_specs) {
    Network n(7, 3);
    std::vector<double> weights(static_cast<std::size_t>(spec.window.rows() * 3));
    test::Random random(5);
    for (double& w : weights) w = random.uniform(-1, 1);
    swin_v2_table_backward<double>(spec, n.network(), dense<const double>(weights.data(), spec.window.rows(), 3));
    const auto loss = [&] {
      double sum = 0;
      for (Index row = 0; row < spec.window.rows(); ++row) {
        for (Index h = 0; h < 3; ++h) {
          sum += weights[static_cast<std::size_t>(row * 3 + h)] * reference_of(spec, n, h, row);
        }
      }
      return sum;
    };
    // No hidden unit of this seed changes its sign within a step; truncation 1e-9, rounding 1e-10.
    const double step = 1e-6;
    const auto compare = [&](std::vector<double>& values, const std::vector<double>& grads) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double value = values[i];
        values[i] = value + step;
        const double above = loss();
        values[i] = value - step;
        const double below = loss();
        values[i] = value;
        EXPECT_NEAR(grads[i], (above - below) / (2 * step), 1e-6 * std::max(1.0, std::abs(grads[i])));
      }
    };
    compare(n.w1, n.d_w1);
    compare(n.b1, n.d_b1);
    compare(n.w2, n.d_w2);
  }
}

TEST(SwinV2, CoordinatesAreWhatTheNetworkSees) {
  // A network of one hidden unit for each side of either coordinate hands them through: z = 100·c, B = 16σ(z).
  const SwinV2 spec{.window = {2, 3}, .trained_height = 4, .trained_width = 0};
  const std::vector<double> c = swin_v2_coordinates(spec);
  ASSERT_EQ(c.size(), 2 * 15U);
  const std::vector<double> b1(4, 0.0);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    std::vector<double> w1(8, 0.0), table(15);
    const std::vector<double> w2{1, -1, 0, 0};
    w1[axis] = 1, w1[2 + axis] = -1;
    swin_v2_table<double>(spec,
                          {{dense<const double>(w1.data(), 4, 2)},
                           {dense<const double>(b1.data(), 4)},
                           {dense<const double>(w2.data(), 1, 4)}},
                          dense(table.data(), 15, 1));
    for (std::size_t row = 0; row < 15; ++row) {
      EXPECT_NEAR(table[row], 16 / (1 + std::exp(-c[2 * row + axis])), 0x1p-48) << row;
    }
  }
  EXPECT_EQ(c[2 * 7], 0);  // no displacement
  EXPECT_EQ(c[2 * 7 + 1], 0);
  EXPECT_NEAR(c[2 * 14 + 1], std::log2(9.0) / 3, 0x1p-50);  // two of two: the trained window's edge
  EXPECT_THROW(swin_v2_coordinates({.window = {0, 3}}), ShapeError);
}

TEST(SwinV2, ZeroDisplacementSeesTheOffsetsAlone) {
  Network n(5, 1);
  const SwinV2 spec{.window = {4, 4}};
  double z = 0;
  for (std::size_t u = 0; u < 5; ++u) z += n.w2[u] * std::max(n.b1[u], 0.0);
  EXPECT_NEAR(reference_of(spec, n, 0, 24), 16 / (1 + std::exp(-z)), 0x1p-48);
}

TEST(SwinV2, WrongCallsSayWhatMustHold) {
  Network n(2, 1);
  std::vector<double> table(9, 5.0);
  expect_error<ShapeError>(
      [&] {
        swin_v2_table<double>({.window = {1, 5}}, n.network(), dense(table.data(), 9, 1));
      },
      "[swin_v2_table] trained_height, trained_width: must be at least 2 for a window of 1 x 5, got 0, 0");
  expect_error<ShapeError>(
      [&] {
        swin_v2_table<double>({.window = {2, 3}}, n.network(), dense(table.data(), 9, 1));
      },
      "[swin_v2_table] table: must be [15, 1], got shape [9, 1]");
  expect_error<ShapeError>(
      [&] {
        swin_v2_table<double>({.window = {2, 2, Swin::ClassToken::three_rows}}, n.network(),
                              dense(table.data(), 12, 1));
      },
      "[swin_v2_table] window.class_token: must be none: Swin V2 has no class token");
  expect_error<ShapeError>(
      [&] {
        swin_v2_table<double>({.window = {2, 3}}, n.network(), dense<double>(nullptr, 15, 1));
      },
      "[swin_v2_table] table: must have memory, got a null pointer; shape is [15, 1]");
  expect_error<ShapeError>(
      [&] {
        swin_v2_table<double>({.window = {2, 3}}, n.network(), {table.data(), {15, 1}, {0, 1}});
      },
      "[swin_v2_table] table: no two elements may share memory, got strides [0, 1] for shape [15, 1]");
  SwinV2Network<double> missing = n.network();
  missing.b1.value.data = nullptr;
  expect_error<ShapeError>(
      [&] {
        swin_v2_table_backward<double>({.window = {2, 3}}, missing, dense<const double>(table.data(), 15, 1));
      },
      "[swin_v2_table_backward] b1: must be [hidden] = [2], got nothing");
  EXPECT_EQ(table, std::vector<double>(9, 5.0));
}

}  // namespace
}  // namespace bearing
