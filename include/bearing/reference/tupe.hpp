#pragma once

#include <bearing/encodings/tupe.hpp>

namespace bearing::reference {

/// What TUPE adds to head h's score of a query at m and a key at n. query, key: projected position vectors
/// [heads, length (+ 1), dim]; bias [bins (+ 1), heads].
BEARING_EXPORT double tupe(const Tupe& tupe, View<const double, 3> query, View<const double, 3> key,
                           View<const double, 2> bias, Index h, double m, double n);

}  // namespace bearing::reference
