#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "simd/denormals.hpp"
#include "support/amx_heads.hpp"

// The block kernel with tiles in plain loops against the definition in double; the vectors of AVX-512 and the
// instructions themselves against that, bit by bit.

namespace bearing::attend::amx {
namespace {

using test::all_kernels;
using test::Named;
using test::tiles::at;
using test::tiles::expect_exact;
using test::tiles::expect_exact_everywhere;
using test::tiles::expect_same_bits;
using test::tiles::Head;
using test::tiles::Result;
using test::tiles::run;

TEST(AmxTest, AgreesWithTheDefinitionAtSizesAroundTiles) {
  std::uint64_t seed = 0;
  for (Index cols : {1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 129, 300}) {
    SCOPED_TRACE(cols);
    const Head head(1 + cols % 40, cols, 32, 32, ++seed, 4);
    expect_exact_everywhere(head);
    if (cols % 16 == 1 || cols == 300) expect_exact_everywhere(head.in_pieces());
  }
  for (Index rows : {1, 31, 32, 33, 70}) {
    SCOPED_TRACE(rows);
    expect_exact_everywhere(Head(rows, 150, 64, 32, ++seed));
    expect_exact_everywhere(Head(rows, 40, 32, 96, ++seed));
  }
  expect_exact_everywhere(Head(33, 70, 64, 96, ++seed).in_pieces());
  expect_exact_everywhere(Head(40, 140, 256, 256, ++seed));
}

TEST(AmxTest, WeightsAroundTheLeastNumbersAreTheSameInAnyMode) {
  Head head(40, 300, 32, 32, 13, 0.1);
  head.bias_by_distance([](Index n) { return -126 + 0.02 * static_cast<double>(n); });  // one key's is 0, below
  for (Index i = 0; i < head.rows; ++i) head.bias[at(head.rows - 1 - i)] = 0;
  expect_exact_everywhere(head);
  expect_exact_everywhere(head.in_pieces());
  const Result plain = run(head, emulated), plain_pieces = run(head.in_pieces(), emulated);
  const simd::FlushDenormals mode;
  for (const Named& each : all_kernels()) {
    SCOPED_TRACE(each.name);
    expect_same_bits(run(head, each.kernels), plain);
    expect_same_bits(run(head.in_pieces(), each.kernels), plain_pieces);
  }
}

TEST(AmxTest, LargeLogitsChooseOneKey) {
  // Logits of ±1e4, apart by thousands: the weights are one 1 and zeros, so that values come out as they went in.
  Head head(40, 160, 32, 32, 9);
  std::fill(head.q.begin(), head.q.end(), 0.0f);
  for (Index i = 0; i < head.rows; ++i) head.q[at(i * head.dim + i % 32)] = 1;
  for (Index j = 0; j < head.cols; ++j) {
    for (Index d = 0; d < head.dim; ++d) head.k[at(j * head.dim + d)] = j == 3 * d + 5 ? 8e4f : -8e4f;
  }
  Head long_values = head.in_pieces();
  long_values.q = head.q, long_values.k = head.k;
  for (const Named& each : all_kernels()) {
    for (const Head& of : {head, long_values}) {
      const Result r = run(of, each.kernels);
      for (Index i = 0; i < of.rows; ++i) {
        const float* v = of.v.data() + (3 * (i % 32) + 5) * of.value_dim;
        for (Index d = 0; d < of.value_dim; ++d) {
          ASSERT_EQ(r.out[i * of.value_dim + d] / r.divisor(of, i), v[d]) << each.name;
        }
      }
    }
  }
}

TEST(AmxTest, EqualScoresGiveTheMeanAsExactlyAsFloatHasIt) {
  // Weights are 1 and exact: what is left is float's sum of 300 numbers below 1, and one division.
  Head head(33, 300, 32, 64, 10);
  std::fill(head.q.begin(), head.q.end(), 0.0f);
  for (const Named& each : all_kernels()) {
    const Result r = run(head, each.kernels);
    for (Index d = 0; d < head.value_dim; ++d) {
      double mean = 0;
      for (Index j = 0; j < head.cols; ++j) mean += head.v[at(j * head.value_dim + d)] / 300.0;
      for (Index i = 0; i < head.rows; ++i) {
        ASSERT_EQ(r.rounded_sum[at(i)], 300);
        ASSERT_NEAR(r.out[i * head.value_dim + d] / 300, mean, 301 * 0x1p-24) << each.name;
      }
    }
  }
}

TEST(AmxTest, RowsHaveTheSameBitsInAnyCompany) {
  for (const int way : {0, 1, 2, 3}) {
    const bool biased = way % 2 == 1;
    Head all(70, 300, 32, 32, 11, 3);
    if (way > 1) all = all.in_pieces();
    all.scale = 0.177f;  // no power of two: where it is rounded in, bits would tell
    all.window(90);
    for (Index i = 0; i < 32; ++i)
      all.first[at(i)] = 0, all.end[at(i)] = i == 5 ? 120 : 300;  // one of them has an edge
    if (biased) all.bias_by_distance([](Index n) { return 0.013 * static_cast<double>(n); });
    const Result together = run(all, emulated);
    for (Index row : {0, 31, 32, 50, 69}) {
      Head alone(1, 300, 32, 32, 11);
      alone.pieces = all.pieces;
      alone.scale = all.scale;
      std::copy_n(all.q.begin() + row * 32, 32, alone.q.begin());
      alone.k = all.k, alone.v = all.v;
      alone.first[0] = all.first[at(row)], alone.end[0] = all.end[at(row)];
      Head thrice = alone;  // and in rows enough for a strip that has no edge
      thrice.rows = 32;
      for (auto* x : {&thrice.first, &thrice.end}) x->assign(32, x->front());
      thrice.q.resize(32 * 32);
      for (std::size_t x = 32; x < thrice.q.size(); ++x) thrice.q[x] = thrice.q[x - 32];
      for (Head* head : {&alone, &thrice}) {
        if (biased && head == &thrice) continue;  // whose other rows are at other distances
        if (biased)
          head->bias.assign(all.bias.begin() + (all.rows - 1 - row), all.bias.begin() + (all.rows - 1 - row) + 300);
        const Result r = run(*head, emulated);
        EXPECT_EQ(r.sum[0], together.sum[at(row)]) << row;
        EXPECT_EQ(r.rounded_sum[0], together.rounded_sum[at(row)]);
        EXPECT_EQ(std::memcmp(r.out.data(), together.out.data() + row * 32, 32 * sizeof(float)), 0) << row;
      }
    }
  }
}

TEST(AmxTest, ColumnsInPartsGoOnWhereTheOthersEnded) {
  Head short_numbers(40, 300, 32, 32, 12, 3);
  short_numbers.bias_by_distance(
      [](Index n) { return 0.01 * static_cast<double>(n); });  // maxima rise from part to part
  for (const Head& head : {short_numbers, short_numbers.in_pieces()}) {
    const Result whole = run(head, emulated);
    expect_same_bits(run(head, emulated, {128, 256}), whole);
    expect_exact(head, run(head, emulated, {1, 50, 100, 131, 260}));
  }
}

}  // namespace
}  // namespace bearing::attend::amx
