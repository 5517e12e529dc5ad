#pragma once

#include <bearing/encodings/retention.hpp>

namespace bearing::reference {

/// What is left of head h's key at n for a query at m ≥ n: e^(−rate·(m − n)); for another query 1.
BEARING_EXPORT double retention(const Retention& retention, Index h, double m, double n);

}  // namespace bearing::reference
