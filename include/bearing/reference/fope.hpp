#pragma once

#include <bearing/encodings/fope.hpp>

namespace bearing::reference {

/// One row at position p: each pair by its own two sums.
BEARING_EXPORT void fope(const Fope& fope, View<const double, 3> cos, View<const double, 3> sin, Index set, double p,
                         View<const double, 1> x, View<double, 1> y);

}  // namespace bearing::reference
