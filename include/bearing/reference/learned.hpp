#pragma once

#include <bearing/encodings/learned.hpp>

namespace bearing::reference {

/// Column d of position p's row.
BEARING_EXPORT double learned(const Learned& spec, View<const double, 2> table, Index d, Index p);

/// What row `at` of n, the real number, is worth: Σ_j k(at − j)·row_j, rows beyond the edges being the edge's.
BEARING_EXPORT double interpolated(Interpolation how, View<const double, 1> rows, double at);

}  // namespace bearing::reference
