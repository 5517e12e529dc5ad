#pragma once

#include <bearing/encodings/elementwise_rope.hpp>

namespace bearing::reference {

/// One row x [head_dim] at position p [axes]: each element with its own angle. `rope` is resolve(spec.rope). y must be
/// other memory than x.
BEARING_EXPORT void elementwise_row(const ElementwiseRope& spec, const RopeFrequencies& rope, const double* p,
                                    View<const double, 1> x, View<double, 1> y);

}  // namespace bearing::reference
