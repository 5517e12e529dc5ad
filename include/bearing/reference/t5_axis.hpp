#pragma once

#include <bearing/encodings/t5_axis.hpp>

namespace bearing::reference {

/// What T5Axis adds to head h's score of a query at m and a key at n, both on the spec's axis.
BEARING_EXPORT double t5_axis(const T5Axis& spec, View<const double, 2> table, Index h, double m, double n);

}  // namespace bearing::reference
