#pragma once

#include <bearing/encodings/rope_mixed.hpp>

namespace bearing::reference {

/// One row x [head_dim] of a head that uses frequency set `set`, at position p [axes]: each pair times e^{iφ}. y may be
/// x.
BEARING_EXPORT void rope_mixed(const RopeMixed& mixed, View<const double, 3> frequencies, Index set, const double* p,
                               View<const double, 1> x, View<double, 1> y);

}  // namespace bearing::reference
