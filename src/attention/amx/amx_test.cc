#include "attention/amx/amx_kernels.hpp"

#include <gtest/gtest.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

#include "aligned.hpp"
#include "attention/amx/amx_emulated.hpp"
#include "attention/amx/amx_packing.hpp"
#include "simd/denormals.hpp"
#include "simd/target.hpp"
#include "support/amx_machines.hpp"
#include "support/amx_trap.hpp"
#include "support/random.hpp"

#define BEARING_TILE_CODE
#include "attention/amx/amx_block-inl.hpp"

// The block kernel with tiles in plain loops against the definition in double; the vectors of AVX-512 and the
// instructions themselves against that, bit by bit.

namespace bearing::attend::amx {
namespace {

using test::all_kernels;
using test::Named;
using test::Random;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// A problem of one head.
struct Head {
  Index rows, cols, dim, value_dim;
  std::vector<float> q, k, v;  ///< numbers of bfloat16, where they have one piece
  std::vector<Index> first, end;
  std::vector<float> bias = {};    ///< of distance j − i, from −rows + 1 on; in units of log2
  std::vector<float> matrix = {};  ///< [rows, cols]
  std::vector<char> marks = {};    ///< [rows, cols] 0 where a key is hidden
  float scale = 0.125f, cap = 0;
  int pieces = 1;

  Head(Index m, Index n, Index d, Index e, std::uint64_t seed, double range = 1)
      : rows(m), cols(n), dim(d), value_dim(e), q(at(m * d)), k(at(n * d)), v(at(n * e)), first(at(m)), end(at(m), n) {
    Random random(seed);
    for (float& x : q) x = short_number(random.uniform(-range, range));
    for (float& x : k) x = short_number(random.uniform(-range, range));
    for (float& x : v) x = short_number(random.uniform(-1, 1));
  }
  /// The same with all digits of float, in pieces.
  Head in_pieces() const {
    Head head = *this;
    head.pieces = float_pieces;
    Random random(77);
    for (auto* numbers : {&head.q, &head.k, &head.v}) {
      for (float& x : *numbers) x *= static_cast<float>(1 + random.uniform(-0x1p-8, 0x1p-8));
    }
    return head;
  }
  static float short_number(double x) { return static_cast<float>(Bfloat16(static_cast<float>(x))); }
  void causal() {
    for (Index i = 0; i < rows; ++i) end[at(i)] = std::clamp<Index>(i + 1 + cols - rows, 0, cols);
  }
  void window(Index width) {
    causal();
    for (Index i = 0; i < rows; ++i) first[at(i)] = std::max<Index>(end[at(i)] - width, 0);
  }
  template <class F>
  void bias_by_distance(const F& f) {
    for (Index n = -rows + 1; n < cols; ++n) bias.push_back(static_cast<float>(f(n)));
  }
  double score(Index i, Index j) const {
    double s = 0;
    for (Index d = 0; d < dim; ++d) {
      s += static_cast<double>(q[at(i * dim + d)]) * k[at(j * dim + d)];
    }
    if (cap > 0) s = cap * std::tanh(s / cap);
    return marks.empty() || marks[at(i * cols + j)] != 0 ? s * scale + added(i, j) : -infinity;
  }
  /// In units of log2; of numbers that are none, 0.
  double added(Index i, Index j) const {
    if (!matrix.empty()) return matrix[at(i * cols + j)] * std::numbers::log2e;
    return bias.empty() ? 0 : bias[at(j - i + rows - 1)];
  }
  Bias biases() const {
    if (!matrix.empty()) return {Bias::By::element, matrix.data(), cols};
    return bias.empty() ? Bias() : Bias{Bias::By::distance, bias.data() + rows - 1};
  }
  template <class F>
  void add_matrix(const F& f) {
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) matrix.push_back(static_cast<float>(f(i, j)));
    }
  }
  template <class F>
  void mark(const F& f) {
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) marks.push_back(f(i, j) ? 1 : 0);
    }
  }
};

struct Result {
  AlignedArray<float> out;
  std::vector<float> max, sum, rounded_sum;

  /// What out is to be divided by.
  float divisor(const Head& head, Index i) const { return head.pieces == 1 ? rounded_sum[at(i)] : sum[at(i)]; }
};

/// Columns in pieces that end at `cuts` and at the last column.
Result run(const Head& head, const Kernels& kernels, std::vector<Index> cuts = {}) {
  const Packing pack{&kernels, head.pieces};
  AlignedArray<Bfloat16> q(pack.room(padded(head.rows) * head.dim)), keys(pack.room(padded(head.cols) * head.dim)),
      values(pack.room(padded(head.cols) * head.value_dim));
  AlignedArray<float> scratch(scratch_size);
  pack.queries(head.rows, head.dim, head.q.data(), head.dim, q.data());
  pack.keys(head.cols, head.dim, head.k.data(), head.dim, keys.data());
  pack.values(head.cols, head.value_dim, head.v.data(), head.value_dim, values.data());
  Result r{AlignedArray<float>(padded(head.rows) * head.value_dim),
           std::vector<float>(at(padded(head.rows)), -infinity), std::vector<float>(at(padded(head.rows))),
           std::vector<float>(at(padded(head.rows)))};
  std::fill_n(r.out.data(), r.out.size(), 0.0f);
  Block block{.pieces = head.pieces,
              .rows = head.rows,
              .dim = head.dim,
              .value_dim = head.value_dim,
              .q = q.data(),
              .keys = keys.data(),
              .values = values.data(),
              .row_first = head.first.data(),
              .row_end = head.end.data(),
              .scale = head.matrix.empty() ? head.scale : head.scale / std::numbers::log2e_v<float>,
              .cap = head.cap,
              .bias = head.biases(),
              .seen = head.marks.empty() ? nullptr : head.marks.data(),
              .seen_stride = head.cols,
              .max = r.max.data(),
              .sum = r.sum.data(),
              .rounded_sum = r.rounded_sum.data(),
              .out = r.out.data(),
              .scratch = scratch.data()};
  cuts.push_back(head.cols);
  for (Index cut : cuts) {
    block.end = cut;
    kernels.attend(block);
    block.first = cut;
  }
  return r;
}

template <class A>
void expect_same_bits(const A& a, const A& b, Index n, const char* what) {
  EXPECT_EQ(std::memcmp(a.data(), b.data(), at(n) * sizeof(float)), 0) << what;
}
void expect_same_bits(const Result& a, const Result& b) {
  expect_same_bits(a.out, b.out, a.out.size(), "out");
  expect_same_bits(a.max, b.max, static_cast<Index>(a.max.size()), "max");
  expect_same_bits(a.sum, b.sum, static_cast<Index>(a.sum.size()), "sum");
  expect_same_bits(a.rounded_sum, b.rounded_sum, static_cast<Index>(a.rounded_sum.size()), "rounded sum");
}

/// Each weight is off by a factor 1 + ε at most: 2^-8 from rounding to bfloat16, 7.5e-5 from the polynomial, and ln 2
/// times what its exponent is off by. That is a float's product of `dim` features, whose two chains and three sums are
/// off by at most (dim/2 + 3)·2^-24 of the sum of magnitudes, and five roundings at the size of the logit, the maximum
/// or the bias. The mean of values in [−1, 1] with such weights is off by what these factors deviate from their own
/// mean, on the mean: at most ε, over 1 − ε; and float's sums over `cols` products, of values and of weights, and the
/// vectors' own, by cols·2^-24 each.
/// A cap's tanh has eight roundings more.
/// In pieces the polynomial is off by 8.3e-8, no weight is rounded, and below 2^-24 of each product is left out.
/// The sum is of weights before they are rounded: it is off by a factor 1 + η at most, η their ε without 2^-8 and
/// cols·2^-24 for float's sum; its logarithm by −log2(1 − η).
void expect_exact(const Head& head, const Result& r) {
  std::vector<double> s(at(head.cols));
  for (Index i = 0; i < head.rows; ++i) {
    double highest = -infinity, size = 0, products = 0;
    for (Index j = head.first[at(i)]; j < head.end[at(i)]; ++j) {
      s[at(j)] = head.score(i, j);
      highest = std::max(highest, s[at(j)]);
      double magnitudes = 0;
      for (Index d = 0; d < head.dim; ++d) {
        magnitudes += std::abs(static_cast<double>(head.q[at(i * head.dim + d)]) * head.k[at(j * head.dim + d)]);
      }
      products = std::max(products, magnitudes * head.scale);
      if (std::isfinite(head.added(i, j))) size = std::max(size, std::abs(head.added(i, j)));
    }
    const float* out = r.out.data() + i * head.value_dim;
    if (highest == -infinity) {
      EXPECT_EQ(r.sum[at(i)], 0);
      EXPECT_EQ(r.divisor(head, i), 0);
      EXPECT_EQ(r.max[at(i)], -infinity);
      for (Index d = 0; d < head.value_dim; ++d) EXPECT_EQ(out[d], 0);
      continue;
    }
    const double capped = head.cap > 0 ? 8 * std::min<double>(products, head.cap * head.scale) : 0;
    const double exponent = (static_cast<double>(head.dim) / 2 + 9) * products + capped + 5 * (size + 1);
    const bool in_pieces = head.pieces > 1;
    const double unrounded = (in_pieces ? 8.3e-8 + 6 * 0x1p-24 : 7.5e-5) + std::log(2) * exponent * 0x1p-24;
    const double weight = (in_pieces ? 0 : 0x1p-8) + unrounded;
    const double sums = static_cast<double>(head.cols) * 0x1p-24, bound = weight / (1 - weight) + 2 * sums;
    double sum = 0;
    std::vector<double> mean(at(head.value_dim));
    for (Index j = head.first[at(i)]; j < head.end[at(i)]; ++j) {
      const double p = std::exp2(s[at(j)] - highest);
      sum += p;
      for (Index d = 0; d < head.value_dim; ++d) mean[at(d)] += p * head.v[at(j * head.value_dim + d)];
    }
    const float whole = head.matrix.empty() ? std::ceil(r.max[at(i)]) : r.max[at(i)];
    EXPECT_EQ(r.max[at(i)], whole);
    const double unit = head.matrix.empty() ? 1 : std::numbers::log2e;
    const double log_sum = unit * static_cast<double>(r.max[at(i)]) + std::log2(static_cast<double>(r.sum[at(i)]));
    ASSERT_NEAR(log_sum, highest + std::log2(sum), -std::log2(1 - unrounded - sums)) << "row " << i;
    for (Index d = 0; d < head.value_dim; ++d)
      ASSERT_NEAR(out[d] / r.divisor(head, i), mean[at(d)] / sum, bound) << i << " " << d;
  }
}

/// Same bits from all: a processor's own tiles sum as its manual says.
void expect_exact_everywhere(const Head& head) {
  SCOPED_TRACE(head.pieces);
  const Result plain = run(head, emulated);
  expect_exact(head, plain);
  for (const Named& each : all_kernels()) {
    SCOPED_TRACE(each.name);
    const Result r = run(head, each.kernels);
    expect_same_bits(r, plain);
  }
}

void set(TileRegister& tile, int row, int lane, float low, float high) {
  tile.lanes[row][lane] =
      static_cast<std::uint32_t>(Bfloat16(low).bits) | static_cast<std::uint32_t>(Bfloat16(high).bits) << 16;
}
float got(const TileRegister& tile, int row, int lane) { return std::bit_cast<float>(tile.lanes[row][lane]); }

TEST(AmxTest, TilesMultiplyAsTheInstructionDoes) {
  TileRegister a, b, c;
  set(a, 3, 0, 2, 3);
  set(b, 0, 5, 5, 7);
  set(a, 3, 15, -1, 4);
  set(b, 15, 5, 8, 0.5f);
  c.lanes[3][5] = std::bit_cast<std::uint32_t>(100.0f);
  multiply_tiles(c, a, b);
  EXPECT_EQ(got(c, 3, 5), 100 + 2 * 5 + 3 * 7 - 8 + 2);
  EXPECT_EQ(got(c, 3, 4), 0);
  EXPECT_EQ(got(c, 4, 5), 0);
}

TEST(AmxTest, TilesSumEvenAndOddFeaturesApart) {
  // Even: 2^24, then 1, which is half a unit and rounds to even: 2^24. Odd: 1 + 1. Together 2^24 + 2; then c = 1 is
  // half a unit again, and rounds up to the even 2^24 + 4. One chain, or one that starts with c, would end elsewhere.
  TileRegister a, b, c;
  set(a, 0, 0, 0x1p12f, 1);
  set(b, 0, 0, 0x1p12f, 1);
  set(a, 0, 1, 1, 1);
  set(b, 1, 0, 1, 1);
  c.lanes[0][0] = std::bit_cast<std::uint32_t>(1.0f);
  multiply_tiles(c, a, b);
  EXPECT_EQ(got(c, 0, 0), 0x1p24f + 4);
}

TEST(AmxTest, TilesTakeAndGiveDenormalNumbersAsZero) {
  TileRegister a, b, c;
  set(a, 0, 0, 0x1p-127f, 0);  // comes in as 0
  set(b, 0, 0, 0x1p100f, 0);
  set(a, 1, 0, 0x1p-64f, 0);  // the product 2^-127 goes out as 0, and the next one finds nothing to add to
  set(b, 0, 1, 0x1p-63f, 0);
  set(a, 1, 1, 0x1p-63f, 0);
  set(b, 1, 1, 0x1p-63f, 0);
  c.lanes[2][2] = 1;  // the least denormal number in c
  multiply_tiles(c, a, b);
  EXPECT_EQ(c.lanes[0][0], 0u);
  EXPECT_EQ(got(c, 1, 1), 0x1p-126f);
  EXPECT_EQ(c.lanes[2][2], 0u);
}

template <int pieces>
void expect_powers_of_two(double bound) {
  double worst = 0;
  for (double x = -125; x <= 1; x += 0x1p-10) {
    const float p = power_of_two<PlainLanes, pieces>(PlainLanes::all(static_cast<float>(x))).lane[0];
    worst = std::max(worst, std::abs(p / std::exp2(x) - 1));
  }
  EXPECT_LE(worst, bound);
  for (const float x : {-126.001f, -151.0f, -1e4f, -1e30f, -infinity}) {
    const float p = power_of_two<PlainLanes, pieces>(PlainLanes::all(x)).lane[0];
    EXPECT_EQ(p, 0) << x;
  }
  const float p = power_of_two<PlainLanes, pieces>(PlainLanes::all(std::nanf(""))).lane[0];
  EXPECT_TRUE(std::isnan(p));
}

TEST(AmxTest, PowersOfTwoAreWithinTheirBound) {
  // The polynomials' 7.5e-5 and 8.3e-8; and float's rounding of three sums and of three coefficients, each at most
  // 2^-24 of about 1. The longer one has two smaller terms more.
  expect_powers_of_two<1>(7.5e-5 + 6 * 0x1p-24);
  expect_powers_of_two<float_pieces>(8.3e-8 + 7 * 0x1p-24);
}

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

TEST(AmxTest, TanhIsWithinFourUnits) {
  for (double x = 0x1p-30; x < 100; x *= 1.003) {
    for (const double sign : {-1.0, 1.0}) {
      const auto z = static_cast<float>(sign * x);
      const double want = std::tanh(static_cast<double>(z));
      ASSERT_NEAR(tanh<PlainLanes>(PlainLanes::all(z)).lane[0], want, 4 * 0x1p-24 * std::abs(want)) << z;
    }
  }
  EXPECT_EQ(tanh<PlainLanes>(PlainLanes::all(0)).lane[0], 0);
  EXPECT_EQ(tanh<PlainLanes>(PlainLanes::all(-infinity)).lane[0], -1);
  const auto none = tanh<PlainLanes>(PlainLanes::all(std::nanf("")));
  EXPECT_TRUE(std::isnan(none.lane[0]));
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

TEST(AmxTest, LogitsInLog2StayWhatTheyAre) {
  constexpr float most = std::numeric_limits<float>::max();
  EXPECT_EQ(in_log2(1), std::numbers::log2e_v<float>);
  EXPECT_EQ(in_log2(-most), -most);
  EXPECT_EQ(in_log2(most), most);
  EXPECT_EQ(in_log2(-infinity), -infinity);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(in_log2(std::bit_cast<float>(0xFFFFFFFFu))), 0x7FC00000u);
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

#if defined(__x86_64__)

/// Says what ran: a test that runs nothing must not look like one that did.
void report(const std::string& what) { std::cout << "[   AMX    ] " << what << std::endl; }

/// Whether the upper halves of vectors hold something, as the processor tells: instructions of SSE are slow then.
bool upper_halves_in_use() {
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));  // there on whatever has AVX-512
  return (low & 4) != 0;
}

void expect_the_emulations_bits(const Head& head) {
  const Result of_machine = run(head, machine);
  EXPECT_FALSE(upper_halves_in_use());
  expect_same_bits(of_machine, run(head, emulated));
}

TEST(AmxTest, AmxInstructionsEqualTheirEmulation) {
  std::vector<Head> heads = {Head(33, 150, 64, 32, 21, 2), Head(70, 300, 32, 64, 22), Head(40, 70, 128, 128, 23)};
  heads[1].window(90);
  heads[2].bias_by_distance([](Index n) { return -0.1 * static_cast<double>(std::abs(n)); });
  for (std::size_t n = 0; n < 3; ++n) heads.push_back(heads[n].in_pieces());
  if (simd::has_amx_bf16()) {
    report("the instructions ran on this machine's tiles");
    EXPECT_EQ(kernels(), &machine);
    for (const Head& head : heads) expect_the_emulations_bits(head);
    return;
  }
  EXPECT_EQ(kernels(), nullptr) << "without AMX the float kernels serve";
#if defined(__linux__)
  if (simd::has_avx512_bf16()) {
    report("no AMX here: its instructions were trapped and done in software; the vectors ran on this machine");
    test::AmxTrap trap;
    for (const Head& head : heads) expect_the_emulations_bits(head);
    EXPECT_GT(trap.products(), 0);
    EXPECT_EQ(trap.configured(), 6);
    EXPECT_EQ(trap.released(), 6);
    return;
  }
#endif
  report("neither AMX nor AVX-512's bfloat16 here: nothing of it ran, and dispatch was seen to choose float");
}

#endif

TEST(AmxTest, ServesWholeTilesAndPositiveScales) {
  EXPECT_TRUE(usable(64, 128, 0.125f));
  EXPECT_TRUE(usable(256, 32, 1));
  EXPECT_FALSE(usable(48, 64, 1));
  EXPECT_FALSE(usable(64, 8, 1));
  EXPECT_FALSE(usable(288, 64, 1));
  EXPECT_FALSE(usable(64, 64, -1));
  EXPECT_FALSE(usable(64, 64, 0));
  EXPECT_FALSE(usable(64, 64, infinity));
}

TEST(AmxTest, ATestsChoiceOfKernelHoldsUntilItIsTakenBack) {
  const Kernels* before = kernels();
  force_kernels(&emulated);
  EXPECT_EQ(kernels(), &emulated);
  force_kernels(std::nullopt);
  EXPECT_EQ(kernels(), before);
}

}  // namespace
}  // namespace bearing::attend::amx
