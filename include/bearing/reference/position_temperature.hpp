#pragma once

#include <bearing/encodings/position_temperature.hpp>

namespace bearing::reference {

/// A query at m, or a key: keys are left alone. scale and bias: the head's, of the learned form.
BEARING_EXPORT void position_temperature(const PositionTemperature& temperature, Side side, double m,
                                         View<const double, 1> x, View<double, 1> y, double scale = 0, double bias = 1);

}  // namespace bearing::reference
