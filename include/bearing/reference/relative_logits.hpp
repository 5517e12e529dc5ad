#pragma once

#include <bearing/encodings/relative_logits.hpp>

namespace bearing::reference {

/// What RelativeLogits adds to head h's score of query i at m and a key at n, in sequence b.
BEARING_EXPORT double relative_logits(const RelativeLogits& spec, View<const double, 3> table, View<const double, 4> r,
                                      Index b, Index h, Index i, double m, double n);

}  // namespace bearing::reference
