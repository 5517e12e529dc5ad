#pragma once

#include <bearing/encodings/position_temperature.hpp>

namespace bearing::reference {

/// A query at m, or a key: keys are left alone.
BEARING_EXPORT void position_temperature(const PositionTemperature& temperature, Side side, double m,
                                         View<const double, 1> x, View<double, 1> y);

}  // namespace bearing::reference
