#include <algorithm>
#include <bearing/reference/learned.hpp>
#include <cmath>

namespace bearing::reference {

double learned(const Learned& spec, View<const double, 2> table, Index d, Index p) { return table(p + spec.offset, d); }

double interpolated(Interpolation how, View<const double, 1> rows, double at) {
  const auto kernel = [how](double x) {
    x = std::abs(x);
    if (how == Interpolation::linear) return std::max(0.0, 1 - x);
    const double a = -0.75;
    if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
    if (x < 2) return a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a;
    return 0.0;
  };
  double sum = 0;
  for (Index j = -4; j < rows.shape[0] + 4; ++j) {
    sum += kernel(at - static_cast<double>(j)) * rows(std::clamp<Index>(j, 0, rows.shape[0] - 1));
  }
  return sum;
}

}  // namespace bearing::reference
