#pragma once

#include <bearing/encodings/bucket_bias.hpp>

namespace bearing::reference {

/// The row of two tokens with attributes a_i, a_j and groups g_i, g_j: line by line as AlphaFold 3's Algorithm 3 says.
BEARING_EXPORT Index bucket_row(const BucketDifference& difference, Index a_i, Index a_j, Index g_i, Index g_j);

/// What is added to head h's score of a pair of that row: table[row, h]; nothing for −1.
BEARING_EXPORT double bucket_bias(View<const double, 2> table, Index h, Index row);

}  // namespace bearing::reference
