#include <gtest/gtest.h>
#include <bearing/encodings/swin.hpp>
#include <bearing/encodings/swin_v2.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/swin.hpp>
#include <bearing/scores.hpp>

#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Score;
using test::ScoreCase;

// Whole windows and parts of them, tokens in any order.
std::vector<ScoreCase> windows(const Swin& spec, Index heads) {
  const bool class_token = spec.class_token == Swin::ClassToken::three_rows;
  std::vector<ScoreCase> cases;
  for (const auto& [batch, q_len, k_len] : {std::array<Index, 3>{1, 1, 1}, {2, 12, 12}, {3, 7, 20}, {1, 70, 140}}) {
    ScoreCase c{batch, heads, heads, q_len, k_len};
    c.axes = 2;
    c.height = spec.height;
    c.width = spec.width;
    c.class_token = class_token;
    cases.push_back(c);
  }
  return cases;
}

TEST(Swin, RowsAreThoseOfTheAuthorsIndex) {
  const rapidjson::Document golden = test::golden("relative/swin_relative_position_index.json");
  for (const auto& c : golden["cases"].GetArray()) {
    const Swin spec{c["window"][0].GetInt64(), c["window"][1].GetInt64()};
    EXPECT_EQ(spec.rows(), c["table_rows"].GetInt64());
    const std::vector<Index> index = test::integers(c["index"]);
    const Index tokens = spec.height * spec.width;
    for (Index i = 0; i < tokens; ++i) {
      for (Index j = 0; j < tokens; ++j) {
        const double q[] = {static_cast<double>(i / spec.width), static_cast<double>(i % spec.width)};
        const double k[] = {static_cast<double>(j / spec.width), static_cast<double>(j % spec.width)};
        EXPECT_EQ(spec.row(q, k), index[static_cast<std::size_t>(i * tokens + j)]);
      }
    }
  }
}

TEST(Swin, ClassTokenHasTheLastThreeRows) {
  const Swin beit{14, 14, Swin::ClassToken::three_rows};
  const double token[] = {3, 5}, class_token[] = {-1, -1};
  EXPECT_EQ(beit.rows(), 732);  // 27·27 + 3, as BEiT-base's table
  EXPECT_EQ(beit.row(class_token, token), 729);
  EXPECT_EQ(beit.row(token, class_token), 730);
  EXPECT_EQ(beit.row(class_token, class_token), 731);
  EXPECT_EQ(beit.row(token, token), 13 * 27 + 13);
}

TEST(Swin, AgreesWithItsReference) {
  for (const Swin& spec : {Swin{3, 4}, Swin{5, 2, Swin::ClassToken::three_rows}}) {
    Params params(Params::Shapes{{spec.rows(), 3}});
    const auto make = [&]<class A>(Params& p) { return SwinBias<A>(spec, p.param<A, 2>(0)); };
    const auto reference = [&](const Params& p, const Score& s) {
      return reference::swin(spec, p.value<2>(0), s.h, s.q_at, s.k_at);
    };
    test::expect_reference_scores(make, params, windows(spec, 3), reference);
    test::expect_gradients(make, params, windows(spec, 3), reference);
    test::expect_float_gradients(make, params, windows(spec, 3));
    test::expect_same_bits_for_any_executor(make, params, windows(spec, 3));
  }
}

TEST(Swin, WrongCallsSayWhatMustHold) {
  std::vector<float> table(15 * 2), bias(2 * 4);
  expect_error<ShapeError>(
      [&] {
        SwinBias<float>(Swin{2, 3}, {dense<const float>(table.data(), 14, 2)});
      },
      "[SwinBias] table: must be [15, heads] for a window of 2 x 3, shape is [14, 2]");
  expect_error<ShapeError>(
      [&] {
        SwinBias<float>(Swin{0, 3}, {dense<const float>(table.data(), 15, 2)});
      },
      "[SwinBias] height, width: must be between 1 and 4096, got 0, 3");
  expect_error<ShapeError>(
      [&] {
        SwinBias<float>(Swin{2, 3}, {dense<const float>(nullptr, 15, 2)});
      },
      "[SwinBias] table: must have memory, got a null pointer; shape is [15, 2]");
  const SwinBias<float> swin(Swin{2, 3}, {dense<const float>(table.data(), 15, 2)});
  expect_error<ShapeError>([&] { bias_matrix(with(swin), {}, {}, dense(bias.data(), 2, 2, 2)); },
                           "[bias_matrix] q_at: must have two axes, (y, x), got 1");
  const std::vector<Index> at = {0, 1, 2, 3};
  const Positions outside(dense(at.data(), 2, 1, 2));
  expect_error<RangeError>([&] { bias_matrix(with(swin), outside, outside, dense(bias.data(), 2, 2, 2)); },
                           "[bias_matrix] q_at: must be a token of a grid of 2 x 3, got (1, 3) at [batch 0, time 1]");
  expect_error<ShapeError>([&] { bias_matrix(with(swin), outside, outside, dense(bias.data(), 1, 2, 2)); },
                           "[bias_matrix] Swin.table: must have a column for each of 1 heads, shape is [15, 2]");
}

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
      "[swin_v2_table] table: must be [15, 1], shape is [9, 1]");
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
