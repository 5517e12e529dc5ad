#pragma once

#include <bearing/encodings/sinusoidal_2d.hpp>

namespace bearing::reference {

/// Column d of the patch at (y, x).
BEARING_EXPORT double sinusoidal_2d(const Sinusoidal2d& spec, Index d, double y, double x);

}  // namespace bearing::reference
