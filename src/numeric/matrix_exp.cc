#include "numeric/matrix_exp.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace bearing {

namespace {

/// Of the power series. With the norm scaled below 1/16 the first term left out is 16^-9/9!, 2^-54.
constexpr int degree = 8;

/// out += factor · a b. Four columns at a time stay in registers, whatever n is: most blocks have four.
void add_product(Index n, double factor, const double* a, const double* b, double* out) {
  constexpr Index side = 4;
  for (Index i = 0; i < n; ++i) {
    double* row = out + i * n;
    Index j = 0;
    for (; j + side <= n; j += side) {
      std::array<double, side> sum{};
      std::copy_n(row + j, side, sum.begin());
      for (Index k = 0; k < n; ++k) {
        const double times = factor * a[i * n + k];
        for (Index c = 0; c < side; ++c) sum[static_cast<std::size_t>(c)] += times * b[k * n + j + c];
      }
      std::copy_n(sum.begin(), side, row + j);
    }
    for (; j < n; ++j) {
      for (Index k = 0; k < n; ++k) row[j] += factor * a[i * n + k] * b[k * n + j];
    }
  }
}

/// How often M must be halved for the largest column sum of |M| to lie below 1/16.
int halvings(Index n, const double* m) {
  double norm = 0;
  for (Index j = 0; j < n; ++j) {
    double sum = 0;
    for (Index i = 0; i < n; ++i) sum += std::fabs(m[i * n + j]);
    norm = std::max(norm, sum);
  }
  if (!std::isfinite(norm) || norm < 0x1p-4) return 0;
  return std::ilogb(norm) + 5;
}

void scale(Index n, double factor, double* m) {
  for (Index i = 0; i < n * n; ++i) m[i] *= factor;
}

/// t = I + a/divisor
void plus_identity(Index n, const double* a, double divisor, double* t) {
  for (Index i = 0; i < n * n; ++i) t[i] = a[i] / divisor;
  for (Index i = 0; i < n; ++i) t[i * n + i] += 1;
}

}  // namespace

void exp_minus_identity(Index n, double* m, double* f, double* work) {
  const int squarings = halvings(n, m);
  scale(n, std::ldexp(1, -squarings), m);
  // exp(M) − I = M (I + M/2 (I + M/3 (…)))
  double* t = work;
  plus_identity(n, m, degree, t);
  for (int k = degree - 1; k >= 1; --k) {
    std::fill(f, f + n * n, 0.0);
    add_product(n, 1.0 / k, m, t, f);
    if (k == 1) break;
    for (Index i = 0; i < n; ++i) f[i * n + i] += 1;
    std::copy(f, f + n * n, t);
  }
  for (int s = 0; s < squarings; ++s) {
    for (Index i = 0; i < n * n; ++i) t[i] = 2 * f[i];
    add_product(n, 1, f, f, t);
    std::copy(t, t + n * n, f);
  }
}

void exp_minus_identity(Index n, double* m, double* d, double* f, double* l, double* work) {
  const int squarings = halvings(n, m);
  scale(n, std::ldexp(1, -squarings), m);
  scale(n, std::ldexp(1, -squarings), d);
  double *t = work, *d_t = work + n * n;
  // The same steps as above, each followed by its derivative. f and l serve as the next t and d_t.
  plus_identity(n, m, degree, t);
  for (Index i = 0; i < n * n; ++i) d_t[i] = d[i] / degree;
  for (int k = degree - 1; k >= 1; --k) {
    std::fill(f, f + n * n, 0.0);
    std::fill(l, l + n * n, 0.0);
    add_product(n, 1.0 / k, m, t, f);
    add_product(n, 1.0 / k, d, t, l);
    add_product(n, 1.0 / k, m, d_t, l);
    if (k == 1) break;
    for (Index i = 0; i < n; ++i) f[i * n + i] += 1;
    std::copy(f, f + n * n, t);
    std::copy(l, l + n * n, d_t);
  }
  for (int s = 0; s < squarings; ++s) {
    for (Index i = 0; i < n * n; ++i) t[i] = 2 * f[i];
    for (Index i = 0; i < n * n; ++i) d_t[i] = 2 * l[i];
    add_product(n, 1, f, f, t);
    add_product(n, 1, f, l, d_t);
    add_product(n, 1, l, f, d_t);
    std::copy(t, t + n * n, f);
    std::copy(d_t, d_t + n * n, l);
  }
}

void invert(Index n, double* a, double* out) {
  std::fill(out, out + n * n, 0.0);
  for (Index i = 0; i < n; ++i) out[i * n + i] = 1;
  for (Index c = 0; c < n; ++c) {
    Index pivot = c;
    for (Index r = c + 1; r < n; ++r) {
      if (std::fabs(a[r * n + c]) > std::fabs(a[pivot * n + c])) pivot = r;
    }
    if (pivot != c) {
      std::swap_ranges(a + c * n, a + (c + 1) * n, a + pivot * n);
      std::swap_ranges(out + c * n, out + (c + 1) * n, out + pivot * n);
    }
    const double over = 1 / a[c * n + c];
    for (Index j = 0; j < n; ++j) a[c * n + j] *= over, out[c * n + j] *= over;
    for (Index r = 0; r < n; ++r) {
      const double factor = a[r * n + c];
      if (r == c || factor == 0) continue;
      for (Index j = 0; j < n; ++j) a[r * n + j] -= factor * a[c * n + j], out[r * n + j] -= factor * out[c * n + j];
    }
  }
}

}  // namespace bearing
