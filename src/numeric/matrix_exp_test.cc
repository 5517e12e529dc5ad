#include "numeric/matrix_exp.hpp"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <vector>

#include "support/random.hpp"

namespace bearing {
namespace {

using test::Random;

std::vector<double> random_matrix(Random& random, Index n, double size) {
  std::vector<double> m(static_cast<std::size_t>(n * n));
  for (double& a : m) a = random.uniform(-size, size);
  return m;
}

TEST(MatrixExponential, OfLargeAnglesStaysARotation) {
  Random random(3);
  for (const double size : {1e-12, 1e-3, 1.0, 40.0, 1e4, 1e8}) {
    for (const Index n : {2, 3, 8, 33}) {
      std::vector<double> m(static_cast<std::size_t>(n * n)), f(m.size()), work(m.size());
      double norm = 0;
      for (Index i = 0; i < n; ++i) {
        for (Index j = 0; j < i; ++j) {
          const double a = random.uniform(-size, size);
          m[static_cast<std::size_t>(i * n + j)] = a;
          m[static_cast<std::size_t>(j * n + i)] = -a;
          norm += std::abs(a);
        }
      }
      exp_minus_identity(n, m.data(), f.data(), work.data());
      for (Index i = 0; i < n; ++i) f[static_cast<std::size_t>(i * n + i)] += 1;
      for (Index i = 0; i < n; ++i) {
        for (Index j = 0; j < n; ++j) {
          double dot = 0;
          for (Index k = 0; k < n; ++k) {
            dot += f[static_cast<std::size_t>(k * n + i)] * f[static_cast<std::size_t>(k * n + j)];
          }
          ASSERT_NEAR(dot, i == j ? 1 : 0, 0x1p-49 * (static_cast<double>(n) + norm)) << "n " << n << ", size " << size;
        }
      }
    }
  }
}

TEST(MatrixExponential, OfAPlaneIsCosAndSin) {
  for (const double angle : {1e-9, 0.01, 1.0, 3.0, 100.0, 12345.0}) {
    std::vector<double> m{0, -angle, angle, 0}, f(4), work(4);
    exp_minus_identity(2, m.data(), f.data(), work.data());
    const double tolerance = 0x1p-51 * (1 + angle);
    EXPECT_NEAR(f[0], std::cos(angle) - 1, tolerance);
    EXPECT_NEAR(f[1], -std::sin(angle), tolerance);
    EXPECT_NEAR(f[2], std::sin(angle), tolerance);
    // The identity is kept apart: small angles keep their digits.
    if (angle < 1) {
      EXPECT_NEAR(f[2] / std::sin(angle), 1, 0x1p-50);
    }
  }
}

// exp(M + tD) by central differences: with t = 2^-20 they err by t²/6 of the third derivative, 2^-43 of |D|³ e^|M|, and
// by 2^-53/t = 2^-33 of what exp(M) rounds to.
TEST(MatrixExponential, DerivativeIsThatOfTheExponential) {
  Random random(4);
  for (const double size : {0.01, 0.5, 3.0}) {
    for (const Index n : {1, 2, 5}) {
      const std::vector<double> m = random_matrix(random, n, size), d = random_matrix(random, n, 1);
      std::vector<double> f(m.size()), l(m.size()), above(m.size()), below(m.size()), work(2 * m.size());
      std::vector<double> m_copy = m, d_copy = d;
      exp_minus_identity(n, m_copy.data(), d_copy.data(), f.data(), l.data(), work.data());
      double norm = 0;
      for (const double a : m) norm += std::abs(a);
      const auto moved = [&](double t, std::vector<double>& to) {
        std::vector<double> at(m.size());
        for (std::size_t i = 0; i < m.size(); ++i) at[i] = m[i] + t * d[i];
        exp_minus_identity(n, at.data(), to.data(), work.data());
      };
      moved(0x1p-20, above);
      moved(-0x1p-20, below);
      for (std::size_t i = 0; i < m.size(); ++i) {
        ASSERT_NEAR(l[i], (above[i] - below[i]) * 0x1p19, 0x1p-30 * std::exp(norm)) << "n " << n << ", size " << size;
      }
      moved(0, above);
      EXPECT_EQ(above, f);  // the same steps: the same bits
    }
  }
}

TEST(MatrixInverse, TimesTheMatrixIsTheIdentity) {
  Random random(5);
  for (const Index n : {1, 2, 7, 20}) {
    std::vector<double> a = random_matrix(random, n, 1);
    // A zero in every pivot's place: rows must be exchanged.
    for (Index i = 0; i < n; ++i) a[static_cast<std::size_t>(i * n + i)] = n > 1 ? 0 : 2;
    std::vector<double> copy = a, inverse(a.size());
    invert(n, copy.data(), inverse.data());
    double largest = 0;
    for (const double x : inverse) largest = std::max(largest, std::abs(x));
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < n; ++j) {
        double dot = 0;
        for (Index k = 0; k < n; ++k) {
          dot += a[static_cast<std::size_t>(i * n + k)] * inverse[static_cast<std::size_t>(k * n + j)];
        }
        // n products of numbers up to `largest`, and elimination's growth: a factor of n twice.
        ASSERT_NEAR(dot, i == j ? 1 : 0, 0x1p-51 * static_cast<double>(n * n) * largest);
      }
    }
  }
}

}  // namespace
}  // namespace bearing
