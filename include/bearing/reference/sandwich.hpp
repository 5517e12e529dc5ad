#pragma once

#include <bearing/encodings/sandwich.hpp>

namespace bearing::reference {

/// What Sandwich adds to head h's score (h from 0) of a query at m and a key at n.
BEARING_EXPORT double sandwich(const Sandwich& sandwich, Index h, double m, double n);

}  // namespace bearing::reference
