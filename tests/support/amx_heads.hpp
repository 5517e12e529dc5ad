#pragma once

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "aligned.hpp"
#include "attention/amx/amx_packing.hpp"
#include "support/amx_machines.hpp"
#include "support/random.hpp"

// Problems of one head for the block kernel on matrix tiles: what it gives of them, against the definition in double,
// and bit by bit from every kernel.

namespace bearing::test::tiles {

using attend::amx::Bias;
using attend::amx::Block;
using attend::amx::emulated;
using attend::amx::float_pieces;
using attend::amx::Kernels;
using attend::amx::Packing;
using attend::amx::padded;
using attend::amx::scratch_size;

inline constexpr float infinity = std::numeric_limits<float>::infinity();
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
inline Result run(const Head& head, const Kernels& kernels, std::vector<Index> cuts = {}) {
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
inline void expect_same_bits(const Result& a, const Result& b) {
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
inline void expect_exact(const Head& head, const Result& r) {
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
inline void expect_exact_everywhere(const Head& head) {
  SCOPED_TRACE(head.pieces);
  const Result plain = run(head, emulated);
  expect_exact(head, plain);
  for (const Named& each : all_kernels()) {
    SCOPED_TRACE(each.name);
    const Result r = run(head, each.kernels);
    expect_same_bits(r, plain);
  }
}

}  // namespace bearing::test::tiles
