#include <bearing/reference/lie_rope.hpp>
#include <cmath>
#include <vector>

#include "encodings/rotary/exponential_reference.hpp"

namespace bearing::reference {

void act_exponential(const std::vector<double>& m, std::vector<double>& x) {
  const std::size_t n = x.size();
  double norm = 0;
  for (const double a : m) norm += a * a;
  const double steps = std::ceil(std::sqrt(norm)) + 1;
  std::vector<double> term(n), next(n);
  for (double step = 0; step < steps; ++step) {
    term = x;
    for (int k = 1; k <= 20; ++k) {  // 1/21! is 2^-65
      for (std::size_t i = 0; i < n; ++i) {
        next[i] = 0;
        for (std::size_t j = 0; j < n; ++j) next[i] += m[i * n + j] * term[j] / (steps * k);
      }
      term = next;
      for (std::size_t i = 0; i < n; ++i) x[i] += term[i];
    }
  }
}

void lie_rope(const LieRope& lie, View<const double, 4> generators, Index set, const double* p, View<const double, 1> x,
              View<double, 1> y) {
  const Index b = lie.block == 0 ? lie.head_dim : lie.block;
  for (Index first = 0; first < lie.head_dim; first += b) {
    std::vector<double> m(static_cast<std::size_t>(b * b)), rows(static_cast<std::size_t>(b));
    Index t = 0;
    for (Index i = 0; i < b; ++i) {
      for (Index j = i + 1; j < b; ++j, ++t) {
        double a = 0;
        for (Index axis = 0; axis < lie.axes; ++axis) a += p[axis] * generators(set, axis, first / b, t);
        m[static_cast<std::size_t>(i * b + j)] = a;
        m[static_cast<std::size_t>(j * b + i)] = -a;
      }
    }
    for (Index i = 0; i < b; ++i) rows[static_cast<std::size_t>(i)] = x(first + i);
    act_exponential(m, rows);
    for (Index i = 0; i < b; ++i) y(first + i) = rows[static_cast<std::size_t>(i)];
  }
}

}  // namespace bearing::reference
