#pragma once

#include <bearing/encodings/lie_rope.hpp>

namespace bearing::reference {

/// y = exp(Σ p_axis A_axis) x, block by block, by the power series of the exponential acting on x, in steps small
/// enough for it to converge at once. No matrix is squared or exponentiated.
BEARING_EXPORT void lie_rope(const LieRope& lie, View<const double, 4> generators, Index set, const double* p,
                             View<const double, 1> x, View<double, 1> y);

}  // namespace bearing::reference
