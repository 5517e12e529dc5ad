#pragma once

#include <bearing/encodings/fire.hpp>

namespace bearing::reference {

/// What FIRE adds to head h's score of a query at m and a key at n.
BEARING_EXPORT double fire(const Fire& fire, const FireParams<double>& params, Index h, double m, double n);

}  // namespace bearing::reference
