#include <bearing/reference/rope.hpp>
#include <bearing/reference/rotary_values.hpp>
#include <vector>

namespace bearing::reference {

void rotary_value(const RopeFrequencies& frequencies, View<const double, 1> m, View<const double, 1> n,
                  View<const double, 1> v, View<double, 1> out) {
  const std::vector<double> back = rotation_matrix(frequencies, m), there = rotation_matrix(frequencies, n);
  const auto dim = static_cast<std::size_t>(frequencies.head_dim);
  for (std::size_t d = 0; d < dim; ++d) {
    double sum = 0;
    for (std::size_t e = 0; e < dim; ++e) {
      double product = 0;  // (Bᵀ T)_de
      for (std::size_t x = 0; x < dim; ++x) product += back[x * dim + d] * there[x * dim + e];
      sum += product * v(static_cast<Index>(e));
    }
    out(static_cast<Index>(d)) = sum;
  }
}

}  // namespace bearing::reference
