#include <bearing/reference/position_temperature.hpp>
#include <cmath>

namespace bearing::reference {

void position_temperature(const PositionTemperature& t, Side side, double m, View<const double, 1> x,
                          View<double, 1> y) {
  double factor = 1;
  if (side == Side::query)
    factor = 1 + t.beta * std::log(1 + std::floor((m + static_cast<double>(t.first)) / t.length));
  for (Index d = 0; d < x.shape[0]; ++d) y(d) = factor * x(d);
}

}  // namespace bearing::reference
