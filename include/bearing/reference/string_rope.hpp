#pragma once

#include <bearing/encodings/string_rope.hpp>

namespace bearing::reference {

/// RoPE(p)·P x, without an inverse: (I + S) z = x is solved by elimination, and P x = (I − S) z.
BEARING_EXPORT void cayley_string(const CayleyString& string, View<const double, 3> frequencies,
                                  View<const double, 2> skew, Index set, const double* p, View<const double, 1> x,
                                  View<double, 1> y);

/// exp(Σ p_axis (C_axis − C_axisᵀ)) x with the circulant matrices written out, by LieRE's reference.
BEARING_EXPORT void circulant_string(const CirculantString& string, View<const double, 3> c, Index set, const double* p,
                                     View<const double, 1> x, View<double, 1> y);

}  // namespace bearing::reference
