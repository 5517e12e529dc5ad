#pragma once

#include <bearing/encodings/t5.hpp>

namespace bearing::reference {

/// The bucket of a distance (key minus query), with a logarithm in double.
BEARING_EXPORT Index t5_bucket(const T5& t5, Index distance);

/// What T5 adds to head h's score of a query at m and a key at n: table[bucket(n − m), h].
BEARING_EXPORT double t5(const T5& t5, View<const double, 2> table, Index h, double m, double n);

}  // namespace bearing::reference
