#include "attention/softmax/backward_kernels.hpp"

#include <gtest/gtest.h>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/shared/row_kernels.hpp"
#include "attention/softmax/softmax_kernels.hpp"
#include "support/edge.hpp"
#include "support/random.hpp"
#include "support/targets.hpp"

// The backward's kernels against plain loops in double, on every target.

namespace bearing {
namespace {

template <class A>
std::vector<A> numbers(Index n, std::uint64_t seed) {
  test::Random random(seed);
  std::vector<A> x(static_cast<std::size_t>(n));
  for (A& number : x) number = static_cast<A>(random.uniform(-1, 1));
  return x;
}

/// Sums of `terms` products of numbers below 1, rounded one by one.
template <class A>
double bound(Index terms) {
  return static_cast<double>(terms + 4) * static_cast<double>(terms + 1) *
         static_cast<double>(std::numeric_limits<A>::epsilon());
}

template <class A>
void expect_products(Index rows, Index dim, Index terms) {
  const Index stride = std::max(rows, terms) + 3, width = dim + 2;
  const A alpha = A(0.75);
  const std::vector<A> left = numbers<A>(std::max(rows, terms) * stride, 1), right = numbers<A>(terms * width, 2);
  const std::vector<A> before = numbers<A>(rows * width, 3);
  for (const bool transposed : {false, true}) {
    std::vector<A> out = before;
    const auto product = transposed ? attend::add_transposed_product<A> : attend::add_product<A>;
    product(rows, dim, terms, alpha, left.data(), stride, right.data(), width, out.data(), width);
    for (Index i = 0; i < rows; ++i) {
      for (Index x = 0; x < width; ++x) {
        const auto at = static_cast<std::size_t>(i * width + x);
        double sum = 0;
        for (Index t = 0; t < terms && x < dim; ++t) {
          const Index from = transposed ? t * stride + i : i * stride + t;
          sum += static_cast<double>(left[static_cast<std::size_t>(from)]) *
                 static_cast<double>(right[static_cast<std::size_t>(t * width + x)]);
        }
        const double wanted = static_cast<double>(before[at]) + static_cast<double>(alpha) * sum;
        ASSERT_NEAR(static_cast<double>(out[at]), wanted, x < dim ? bound<A>(terms) : 0)
            << rows << ' ' << dim << ' ' << terms << (transposed ? " transposed" : "");
      }
    }
  }
}

TEST(BackwardKernels, ProductsOfEverySizeAndNothingBeside) {
  test::on_every_target([] {
    for (const Index rows : {1, 2, 5, 6, 7, 24}) {
      for (const Index dim : {1, 7, 16, 33, 64, 129}) {
        for (const Index terms : {0, 1, 17, 72}) {
          expect_products<float>(rows, dim, terms);
          expect_products<double>(rows, dim, terms);
        }
      }
    }
  });
}

template <class A>
void expect_nothing_read_past(Index rows, Index dim, Index terms) {
  // Rows side by side, so that the last number of each operand is the last of its memory.
  test::AtTheEdge<A> left(numbers<A>(rows * terms, 1)), right(numbers<A>(terms * dim, 2));
  test::AtTheEdge<A> out(std::vector<A>(static_cast<std::size_t>(rows * dim)));
  attend::add_product<A>(rows, dim, terms, A(1), left.data(), terms, right.data(), dim, out.data(), dim);
  attend::add_transposed_product<A>(rows, dim, terms, A(1), left.data(), rows, right.data(), dim, out.data(), dim);
}

TEST(BackwardKernels, ReadNothingPastTheirRows) {
  test::on_every_target([] {
    for (const Index rows : {1, 2, 6, 7}) {
      for (const Index dim : {1, 2, 7, 8, 33}) {
        for (const Index terms : {1, 2, 17}) {
          expect_nothing_read_past<float>(rows, dim, terms);
          expect_nothing_read_past<double>(rows, dim, terms);
        }
      }
    }
  });
}

template <class A>
void expect_scores(bool biased, bool anchored) {
  const Index panel = attend::panel_width<A>(), rows = 4, cols = 3 * panel, end = cols - 1;
  const std::vector<Index> first = {0, 3, panel + 1, 5}, last = {end, panel + 2, 2 * panel, 5};  // the last: nothing
  std::vector<A> s = numbers<A>(rows * cols, 4), d_p = numbers<A>(rows * cols, 5);
  const std::vector<A> sum = numbers<A>(rows, 6), along = numbers<A>(rows, 7), bias = numbers<A>(rows + cols, 8),
                       origin = {0, 4, 5, 6};
  s[0] = -1000;  // far below the normal range
  std::vector<A> d_bias(static_cast<std::size_t>(rows + cols));
  const std::vector<A> s_before = s, d_p_before = d_p;
  attend::ScoreRows<A> strip{.rows = rows,
                             .first = 0,
                             .end = end,
                             .row_first = first.data(),
                             .row_end = last.data(),
                             .s = s.data(),
                             .d_p = d_p.data(),
                             .stride = cols,
                             .log2_scale = A(1.5),
                             .bias = biased ? bias.data() + rows - 1 : nullptr,
                             .origin = anchored ? origin.data() : nullptr,
                             .log2_sum = sum.data(),
                             .along = along.data(),
                             .d_bias = biased ? d_bias.data() + rows - 1 : nullptr};
  attend::probabilities(strip);
  attend::score_grads(strip);
  const double epsilon = static_cast<double>(std::numeric_limits<A>::epsilon());
  std::vector<double> d_bias_wanted(d_bias.size());
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) {
      const auto at = static_cast<std::size_t>(i * cols + j), row = static_cast<std::size_t>(i);
      const auto diagonal = static_cast<std::size_t>(rows - 1 + j - i);
      if (j < first[row] || j >= last[row]) {
        ASSERT_TRUE(s[at] == 0 && d_p[at] == 0) << "hidden: " << i << ' ' << j;
        continue;
      }
      const double start = anchored ? static_cast<double>(origin[row]) : 0;
      const double score = static_cast<double>(s_before[at]) + (biased ? static_cast<double>(bias[diagonal]) : 0);
      const double p = at == 0 ? 0 : std::exp2(std::min(1.5 * (score - start) - static_cast<double>(sum[row]), 0.0));
      const double d_s = p * (static_cast<double>(d_p_before[at]) - static_cast<double>(along[row]));
      d_bias_wanted[diagonal] += d_s;
      // An exponent of at most 4 and a polynomial's last unit; then two roundings more of numbers below 2.
      ASSERT_NEAR(static_cast<double>(s[at]), p, 8 * epsilon * p) << i << ' ' << j;
      ASSERT_NEAR(static_cast<double>(d_p[at]), d_s, 24 * epsilon * p) << i << ' ' << j;
    }
  }
  for (std::size_t x = 0; x < d_bias.size() && biased; ++x) {
    ASSERT_NEAR(static_cast<double>(d_bias[x]), d_bias_wanted[x], 4 * 24 * 16 * epsilon) << "diagonal " << x;
  }
}

TEST(BackwardKernels, ProbabilitiesAndTheirGradientsWhereRowsSee) {
  test::on_every_target([] {
    for (const bool biased : {false, true}) {
      for (const bool anchored : {false, true}) {
        expect_scores<float>(biased, anchored);
        expect_scores<double>(biased, anchored);
      }
    }
  });
}

TEST(BackwardKernels, RowsTimesRows) {
  test::on_every_target([] {
    for (const Index dim : {0, 1, 7, 16, 65}) {
      const std::vector<float> a = numbers<float>(3 * (dim + 1), 1), b = numbers<float>(3 * (dim + 2), 2);
      std::vector<float> out(3, 5);
      attend::row_products<float>(3, dim, a.data(), dim + 1, b.data(), dim + 2, out.data());
      for (std::size_t i = 0; i < 3; ++i) {
        double sum = 0;
        for (std::size_t d = 0; d < static_cast<std::size_t>(dim); ++d) {
          sum += static_cast<double>(a[i * static_cast<std::size_t>(dim + 1) + d]) *
                 static_cast<double>(b[i * static_cast<std::size_t>(dim + 2) + d]);
        }
        EXPECT_NEAR(static_cast<double>(out[i]), sum, bound<float>(dim));
      }
    }
  });
}

}  // namespace
}  // namespace bearing
