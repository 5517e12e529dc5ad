#include "attention/decode/decode_kernels.hpp"

#include <gtest/gtest.h>
#include <cmath>
#include <limits>
#include <vector>

#include "support/guarded.hpp"
#include "support/random.hpp"
#include "support/rotation.hpp"
#include "support/targets.hpp"

// The kernels by themselves against plain loops in double: every number of rows, every rest of a vector, rows apart or
// backwards, nothing written beside what is theirs.

namespace bearing {
namespace {

std::size_t size(Index n) { return static_cast<std::size_t>(n); }

/// Random numbers as T holds them.
template <class T>
std::vector<T> numbers(Index n, test::Random& random) {
  std::vector<T> x(size(n));
  for (T& number : x) number = test::from_double<T>(random.uniform(-1, 1));
  return x;
}

/// Rows padded with zeros to whole vectors.
template <class A>
std::vector<A> padded_rows(Index rows, Index dim, test::Random& random) {
  const Index stride = attend::padded<A>(dim);
  std::vector<A> x(size(rows * stride));
  for (Index i = 0; i < rows; ++i) {
    for (Index d = 0; d < dim; ++d) x[size(i * stride + d)] = static_cast<A>(random.uniform(-1, 1));
  }
  return x;
}

constexpr Index dims[] = {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 72, 128, 130};

/// `n` products, each and their sum rounded in A: at most n + 2 roundings of the sum of their sizes, which is below n.
template <class A>
double rounding(Index n) {
  return static_cast<double>((n + 2) * n) * std::numeric_limits<A>::epsilon() / 2;
}

TEST(DecodeKernels, DotsAreProductsOfRows) {
  test::on_every_target([] {
    test::for_each_type([]<class T>(T) {
      using A = Compute<T>;
      for (const Index dim : dims) {
        for (const Index rows : {1, 2, 3, 4, 5, 7, 8}) {
          for (const Index keys : {1, 2, 3, 4, 5, 11}) {
            for (const bool backwards : {false, true}) {
              test::Random random(7);
              const Index stride = dim + 3;
              const std::vector<T> k = numbers<T>(keys * stride, random);
              const std::vector<A> q = padded_rows<A>(rows, dim, random);
              std::vector<A> s(size(rows * (keys + 1)), A{9});
              attend::dots<T>(rows, keys, dim, A{0.5}, q.data(), attend::padded<A>(dim),
                              k.data() + (backwards ? (keys - 1) * stride : 0), backwards ? -stride : stride, s.data(),
                              keys + 1);
              for (Index i = 0; i < rows; ++i) {
                for (Index j = 0; j < keys; ++j) {
                  const Index row = backwards ? keys - 1 - j : j;
                  double truth = 0;
                  for (Index d = 0; d < dim; ++d) {
                    truth += static_cast<double>(q[size(i * attend::padded<A>(dim) + d)]) *
                             test::to_double(k[size(row * stride + d)]);
                  }
                  ASSERT_NEAR(s[size(i * (keys + 1) + j)], truth / 2, rounding<A>(dim))
                      << "dim " << dim << ", row " << i << " of " << rows << ", key " << j << " of " << keys;
                }
                ASSERT_EQ(s[size(i * (keys + 1) + keys)], A{9});  // what lies past a row is another's
              }
            }
          }
        }
      }
    });
  });
}

TEST(DecodeKernels, WeightedSumsOfValues) {
  test::on_every_target([] {
    test::for_each_type([]<class T>(T) {
      using A = Compute<T>;
      for (const Index dim : dims) {
        for (const Index rows : {1, 2, 3, 5}) {
          for (const Index keys : {0, 1, 15, 16, 17, 40}) {
            test::Random random(8);
            const Index stride = dim + 2, out_stride = attend::padded<A>(dim);
            const std::vector<T> v = numbers<T>(keys * stride, random);
            const std::vector<A> p = numbers<A>(rows * keys, random), before = padded_rows<A>(rows, dim, random);
            std::vector<A> out = before;
            attend::add_weighted<T>(rows, keys, dim, p.data(), keys, v.data(), stride, out.data(), out_stride);
            for (Index i = 0; i < rows; ++i) {
              for (Index d = 0; d < dim; ++d) {
                double truth = static_cast<double>(before[size(i * out_stride + d)]);
                for (Index j = 0; j < keys; ++j) {
                  truth += static_cast<double>(p[size(i * keys + j)]) * test::to_double(v[size(j * stride + d)]);
                }
                ASSERT_NEAR(out[size(i * out_stride + d)], truth, rounding<A>(keys + 1))
                    << "dim " << dim << ", row " << i << " of " << rows << ", feature " << d << ", keys " << keys;
              }
              for (Index d = dim; d < out_stride; ++d) ASSERT_EQ(out[size(i * out_stride + d)], 0);
            }
          }
        }
      }
    });
  });
}

TEST(DecodeKernels, BlendsRoundOnceAndKeepNaNs) {
  test::on_every_target([] {
    test::for_each_type([]<class T>(T) {
      using A = Compute<T>;
      for (const Index n : dims) {
        test::Random random(9);
        const std::vector<T> part = numbers<T>(n, random), before = numbers<T>(n, random);
        std::vector<T> out = before;
        attend::blend<T>(n, A{0.25}, out.data(), A{0.75}, part.data());
        for (std::size_t x = 0; x < out.size(); ++x) {
          const double truth = 0.25 * test::to_double(before[x]) + 0.75 * test::to_double(part[x]);
          ASSERT_NEAR(test::to_double(out[x]), truth, 0.5 * test::ulp<T>(truth) + test::ulp<A>(1.0))
              << x << " of " << n;
        }
      }
      const T hole = test::from_double<T>(std::numeric_limits<double>::quiet_NaN());
      const std::vector<T> part(19, hole);
      std::vector<T> out(19, test::from_double<T>(1));
      attend::blend<T>(19, A{0.5}, out.data(), A{0.5}, part.data());
      for (const T x : out) ASSERT_TRUE(std::isnan(test::to_double(x)));
      const std::vector<T> ones(19, test::from_double<T>(1));
      out.assign(19, test::from_double<T>(std::numeric_limits<double>::infinity()));
      attend::blend<T>(19, A{0.5}, out.data(), A{0.5}, ones.data());
      for (const T x : out) ASSERT_EQ(test::to_double(x), std::numeric_limits<double>::infinity());
    });
  });
}

}  // namespace
}  // namespace bearing
