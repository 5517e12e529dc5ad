#pragma once

#include <bearing/encodings/kerple.hpp>

namespace bearing::reference {

/// What KERPLE adds to the score of a query at m and a key at n, with one head's parameters.
BEARING_EXPORT double kerple(const Kerple& kerple, double r1, double r2, double m, double n);

}  // namespace bearing::reference
