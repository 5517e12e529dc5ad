#pragma once

#include <bearing/encodings/cope.hpp>

namespace bearing::reference {

/// What CoPE adds to head h's score of query q at m and key j of `keys` [k_len, dim], which stand at k_positions
/// [k_len].
BEARING_EXPORT double cope(const Cope& cope, View<const double, 3> embeddings, Index h, View<const double, 1> q,
                           View<const double, 2> keys, double m, View<const double, 1> k_positions, Index j,
                           double scale);

/// The position p_ij before it is capped; 0 for a key after the query.
BEARING_EXPORT double cope_position(const Cope& cope, View<const double, 1> q, View<const double, 2> keys, double m,
                                    View<const double, 1> k_positions, Index j, double scale);

}  // namespace bearing::reference
