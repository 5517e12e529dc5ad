#include <algorithm>
#include <bearing/reference/pope.hpp>
#include <cmath>
#include <numbers>

namespace bearing::reference {

void pope(const Pope& pope, View<const double, 2> offsets, Index set, Side side, double p, View<const double, 1> x,
          View<double, 1> y) {
  for (Index c = 0; c < pope.head_dim; ++c) {
    double angle = p * std::pow(pope.base, -static_cast<double>(c) / static_cast<double>(pope.head_dim));
    if (side == Side::key) angle += std::clamp(offsets(set, c), -2 * std::numbers::pi, 0.0);
    const double radius = std::log(1 + std::exp(x(c)));
    y(2 * c) = radius * std::cos(angle);
    y(2 * c + 1) = radius * std::sin(angle);
  }
}

}  // namespace bearing::reference
