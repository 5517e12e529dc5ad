#pragma once

#include <bearing/encodings/sinusoidal.hpp>

namespace bearing::reference {

/// Column d of the row at p. Angles are rounded to double: for |p| up to some thousand.
BEARING_EXPORT double sinusoidal(const Sinusoidal& spec, Index d, double p);
/// … with these frequencies in place of the spec's.
BEARING_EXPORT double sinusoidal(const Sinusoidal& spec, View<const double, 1> frequencies, Index d, double p);

}  // namespace bearing::reference
