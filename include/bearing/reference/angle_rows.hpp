#pragma once

#include <bearing/encodings/angle_rows.hpp>

namespace bearing::reference {

/// One row x [head_dim] whose pairs turn by `angles` [rotary_dim/2]: each pair times e^{iφ}, the rest as it is. y may
/// be x.
BEARING_EXPORT void angle_row(const GivenAngles& spec, View<const double, 1> angles, View<const double, 1> x,
                              View<double, 1> y);

}  // namespace bearing::reference
