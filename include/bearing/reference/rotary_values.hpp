#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/export.hpp>

namespace bearing::reference {

/// What one unit of probability brings from a value at n to the output at m, in double: out = a·R(−mθ) · a·R(nθ) v, for
/// one head. v, out [head_dim], m and n [axes].
BEARING_EXPORT void rotary_value(const RopeFrequencies& frequencies, View<const double, 1> m, View<const double, 1> n,
                                 View<const double, 1> v, View<double, 1> out);

}  // namespace bearing::reference
