#include <gtest/gtest.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "support/amx_heads.hpp"

// The block kernel where something is added to its scores, or hides keys.

namespace bearing::attend::amx {
namespace {

using test::all_kernels;
using test::Named;
using test::tiles::at;
using test::tiles::expect_exact_everywhere;
using test::tiles::expect_same_bits;
using test::tiles::Head;
using test::tiles::infinity;
using test::tiles::Result;
using test::tiles::run;

TEST(AmxTest, HidesWhatMasksHide) {
  for (Index rows : {40, 150}) {
    Head head(rows, 150, 32, 32, 3, 4);
    head.causal();
    expect_exact_everywhere(head);
    head.window(37);
    expect_exact_everywhere(head);
    head.bias_by_distance([](Index n) { return std::sin(static_cast<double>(n)); });
    expect_exact_everywhere(head);
    if (rows == 40) expect_exact_everywhere(head.in_pieces());
  }
}

TEST(AmxTest, AddsBiasesByDistance) {
  Head alibi(70, 600, 32, 32, 5, 2);
  alibi.bias_by_distance([](Index n) { return -0.7 * static_cast<double>(std::abs(n)); });  // far keys underflow
  expect_exact_everywhere(alibi);
  Head hidden(70, 200, 32, 32, 6, 2);
  hidden.bias_by_distance([](Index n) { return n % 3 == 0 || n > 100 ? -infinity : 1.0f; });
  expect_exact_everywhere(hidden);
  expect_exact_everywhere(hidden.in_pieces());
}

TEST(AmxTest, AddsAnyMatrix) {
  Head head(40, 150, 32, 32, 16, 2);
  head.add_matrix(
      [](Index i, Index j) { return (i * j) % 7 == 3 ? -infinity : 0.1 * static_cast<double>(i * j % 50); });
  expect_exact_everywhere(head);
  expect_exact_everywhere(head.in_pieces());
  head.window(120);
  expect_exact_everywhere(head.in_pieces());
}

TEST(AmxTest, SeesWhatIsMarkedAndNoMore) {
  for (const bool causal : {false, true}) {
    Head head(50, 150, 32, 32, 17, 2);
    if (causal) head.causal();
    head.mark([](Index i, Index j) { return (i * 31 + j * 17) % 10 > 2 && i != 40; });  // row 40 sees nothing
    expect_exact_everywhere(head);
    expect_exact_everywhere(head.in_pieces());
    head.add_matrix([](Index i, Index j) { return 0.1 * static_cast<double>((i + j) % 9); });
    expect_exact_everywhere(head.in_pieces());
    head.matrix.clear();
    head.bias_by_distance([](Index n) { return 0.01 * static_cast<double>(n); });
    expect_exact_everywhere(head.in_pieces());
  }
}

TEST(AmxTest, CapsScores) {
  Head head(40, 150, 32, 32, 19, 4);
  for (const float cap : {1.0f, 10.0f, 1e6f}) {
    head.cap = cap;
    expect_exact_everywhere(head);
    expect_exact_everywhere(head.in_pieces());
  }
  head.cap = 10;
  head.causal();
  head.bias_by_distance([](Index n) { return 0.1 * static_cast<double>(n); });
  expect_exact_everywhere(head.in_pieces());
}

TEST(AmxTest, WhatIsFiniteInAMatrixHidesNothing) {
  // Row 0 has the least float everywhere, and sees all alike; row 1 has one number more, and sees that key alone. Row 2
  // has the largest float once; row 3 a NaN with all bits, which no addition may make a number, and row 4 an infinity.
  // Row 5 is at −1e9, whose units are 64: a logit of 55 is one unit up.
  constexpr float most = std::numeric_limits<float>::max();
  Head head(40, 150, 32, 32, 18);
  head.add_matrix([](Index i, Index) { return i < 2 ? -most : i == 5 ? -1e9 : 0; });
  head.matrix[at(150 + 100)] = -3e38f;
  head.matrix[at(2 * 150 + 7)] = most;
  head.matrix[at(3 * 150 + 20)] = std::bit_cast<float>(0xFFFFFFFFu);
  head.matrix[at(4 * 150 + 20)] = infinity;
  std::fill_n(head.q.begin() + 5 * 32, 32, 0.0f);
  head.q[5 * 32] = 640;
  for (Index j = 0; j < 150; ++j) head.k[at(j * 32)] = j == 30 || j == 99 ? 1 : 0.25f;  // logits of 55 and 14
  for (const Head& of : {head, head.in_pieces()}) {
    const Result plain = run(of, emulated);
    const double near = of.pieces == 1 ? 1e-4 : 1e-6;
    for (const Named& each : all_kernels()) {
      SCOPED_TRACE(each.name);
      const Result r = run(of, each.kernels);
      expect_same_bits(r, plain);
      EXPECT_EQ(r.max[0], -most);
      EXPECT_NEAR(r.sum[0], 150, 150 * near);
      EXPECT_EQ(r.max[1], -3e38f);
      EXPECT_NEAR(r.sum[1], 1, near);
      EXPECT_EQ(r.max[2], most);
      EXPECT_NEAR(r.sum[2], 1, near);
      EXPECT_TRUE(std::isnan(r.sum[3]));
      EXPECT_TRUE(std::isnan(r.sum[4]));
      EXPECT_EQ(r.max[5], -1e9f + 64);
      EXPECT_NEAR(r.sum[5], 2, 2 * near);
      const auto out = [&](Index i, Index d) { return r.out[i * of.value_dim + d] / r.divisor(of, i); };
      const auto v = [&](Index j, Index d) { return of.v[at(j * of.value_dim + d)]; };
      for (Index d = 0; d < of.value_dim; ++d) {
        double mean = 0;
        for (Index j = 0; j < of.cols; ++j) mean += v(j, d) / 150.0;
        EXPECT_NEAR(out(0, d), mean, 151 * 0x1p-24);
        EXPECT_EQ(out(1, d), v(100, d));
        EXPECT_EQ(out(2, d), v(7, d));
        EXPECT_TRUE(std::isnan(out(3, d)));
        EXPECT_NEAR(out(5, d), (v(30, d) + v(99, d)) / 2, 0x1p-23);
        EXPECT_FALSE(std::isnan(out(6, d)));
      }
    }
  }
}

TEST(AmxTest, RowsThatSeeNothingAreZero) {
  Head head(70, 200, 32, 32, 7);
  for (Index i = 0; i < head.rows; ++i) {
    if (i % 3 != 0) head.first[at(i)] = head.end[at(i)] = i % 5 == 0 ? 0 : 60;
  }
  expect_exact_everywhere(head);
  expect_exact_everywhere(head.in_pieces());
  std::fill(head.end.begin(), head.end.end(), 0);
  std::fill(head.first.begin(), head.first.end(), 0);
  expect_exact_everywhere(head);
  Head biased(33, 140, 32, 32, 8);
  biased.bias_by_distance([](Index) { return -infinity; });
  expect_exact_everywhere(biased);
}

}  // namespace
}  // namespace bearing::attend::amx
