#include <bearing/reference/fope.hpp>
#include <cmath>
#include <vector>

namespace bearing::reference {

void fope(const Fope& fope, View<const double, 3> cos, View<const double, 3> sin, Index set, double p,
          View<const double, 1> x, View<double, 1> y) {
  const std::vector<double> theta = fope_frequencies(fope);
  const Index pairs = fope.head_dim / 2;
  for (Index i = 0; i < pairs; ++i) {
    const Index u = fope.pairing == Pairing::half ? i : 2 * i;
    const Index v = fope.pairing == Pairing::half ? i + pairs : 2 * i + 1;
    double c = 1, s = 0;
    if (i < cos.shape[2]) {
      c = 0;
      for (Index k = 0; k < cos.shape[1]; ++k) {
        c += std::cos(p * theta[static_cast<std::size_t>(k)]) * cos(set, k, i);
        s += std::sin(p * theta[static_cast<std::size_t>(k)]) * sin(set, k, i);
      }
    }
    const double x_u = x(u), x_v = x(v);
    y(u) = x_u * c - x_v * s;
    y(v) = x_u * s + x_v * c;
  }
}

}  // namespace bearing::reference
