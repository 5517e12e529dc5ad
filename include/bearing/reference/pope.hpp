#pragma once

#include <bearing/encodings/pope.hpp>

namespace bearing::reference {

/// One row x [head_dim] at position p to y [2·head_dim]; offsets [sets, head_dim] count for keys only.
BEARING_EXPORT void pope(const Pope& pope, View<const double, 2> offsets, Index set, Side side, double p,
                         View<const double, 1> x, View<double, 1> y);

}  // namespace bearing::reference
