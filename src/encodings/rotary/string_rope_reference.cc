#include <bearing/reference/rope_mixed.hpp>
#include <bearing/reference/string_rope.hpp>
#include <utility>
#include <vector>

#include "encodings/rotary/exponential_reference.hpp"

namespace bearing::reference {

namespace {

/// z with a z = x, by elimination; a [n, n] row by row.
std::vector<double> solve(std::vector<double> a, std::vector<double> x) {
  const std::size_t n = x.size();
  for (std::size_t c = 0; c < n; ++c) {
    std::size_t pivot = c;
    for (std::size_t r = c; r < n; ++r) {
      if (a[r * n + c] * a[r * n + c] > a[pivot * n + c] * a[pivot * n + c]) pivot = r;
    }
    for (std::size_t j = 0; j < n; ++j) std::swap(a[c * n + j], a[pivot * n + j]);
    std::swap(x[c], x[pivot]);
    for (std::size_t r = c + 1; r < n; ++r) {
      const double factor = a[r * n + c] / a[c * n + c];
      for (std::size_t j = c; j < n; ++j) a[r * n + j] -= factor * a[c * n + j];
      x[r] -= factor * x[c];
    }
  }
  for (std::size_t c = n; c-- > 0;) {
    for (std::size_t j = c + 1; j < n; ++j) x[c] -= a[c * n + j] * x[j];
    x[c] /= a[c * n + c];
  }
  return x;
}

}  // namespace

void cayley_string(const CayleyString& string, View<const double, 3> frequencies, View<const double, 2> skew, Index set,
                   const double* p, View<const double, 1> x, View<double, 1> y) {
  const auto n = static_cast<std::size_t>(string.rope.head_dim);
  std::vector<double> s(n * n), plus(n * n), row(n);
  Index t = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j, ++t) {
      s[i * n + j] = skew(set, t);
      s[j * n + i] = -skew(set, t);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) plus[i * n + j] = s[i * n + j] + (i == j ? 1 : 0);
    row[i] = x(static_cast<Index>(i));
  }
  const std::vector<double> z = solve(plus, row);
  std::vector<double> turned = z;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) turned[i] -= s[i * n + j] * z[j];
  }
  rope_mixed(string.rope, frequencies, set, p, View<const double, 1>{turned.data(), {string.rope.head_dim}, {1}}, y);
}

void circulant_string(const CirculantString& string, View<const double, 3> c, Index set, const double* p,
                      View<const double, 1> x, View<double, 1> y) {
  const Index n = string.head_dim;
  std::vector<double> m(static_cast<std::size_t>(n * n)), row(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) {
      for (Index axis = 0; axis < string.axes; ++axis) {
        m[static_cast<std::size_t>(i * n + j)] +=
            p[axis] * (c(axis, set, (i - j + n) % n) - c(axis, set, (j - i + n) % n));
      }
    }
    row[static_cast<std::size_t>(i)] = x(i);
  }
  act_exponential(m, row);
  for (Index i = 0; i < n; ++i) y(i) = row[static_cast<std::size_t>(i)];
}

}  // namespace bearing::reference
