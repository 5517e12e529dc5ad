#include <algorithm>
#include <bearing/reference/position_temperature.hpp>
#include <cmath>

namespace bearing::reference {

void position_temperature(const PositionTemperature& t, Side side, double m, View<const double, 1> x, View<double, 1> y,
                          double scale, double bias) {
  const double n = m + static_cast<double>(t.first);
  double factor = 1;
  if (side == Side::query) {
    if (t.form == TemperatureForm::stepped) factor = 1 + t.beta * std::log(1 + std::floor(n / t.length));
    if (t.form == TemperatureForm::clamped) factor = 1 + t.beta * std::log(std::max(1.0, n / t.length));
    if (t.form == TemperatureForm::power) factor = std::pow(1 + n / t.length, t.beta);
    if (t.form == TemperatureForm::learned) factor = scale * std::log(std::max(1.0, n)) + bias;
  }
  for (Index d = 0; d < x.shape[0]; ++d) y(d) = factor * x(d);
}

}  // namespace bearing::reference
