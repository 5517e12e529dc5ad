#pragma once

#include <bearing/encodings/cape.hpp>

namespace bearing::reference {

/// Draw n of a sequence, uniform in [−bound, bound).
BEARING_EXPORT double cape_draw(CapeSeed seed, Index sequence, Index n, double bound);
/// (p + Δ + ε)·λ
BEARING_EXPORT double cape_moved(double p, double shift, double jitter, double scale);
/// Column d of the patch at (y, x).
BEARING_EXPORT double cape_2d(const Cape2d& cape, Index d, double y, double x);

}  // namespace bearing::reference
