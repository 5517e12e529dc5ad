#pragma once

#include <bearing/encodings/gated_decay.hpp>

namespace bearing::reference {

/// What gates add to the score of tokens i (query q) and j (key k), from one head's ln a [time, dim]:
/// scale · Σ_c q_c k_c (Π_{j < t ≤ i} a_tc − 1), and 0 where the key is not before the query.
BEARING_EXPORT double gated_decay(View<const double, 2> log_decay, View<const double, 1> q, View<const double, 1> k,
                                  double scale, Index i, Index j);

}  // namespace bearing::reference
