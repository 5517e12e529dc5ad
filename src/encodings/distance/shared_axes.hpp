#pragma once

#include <bearing/view.hpp>

namespace bearing {

/// Where index i of an axis is kept: one that has an extent of 1 serves them all.
inline Index kept_at(Index extent, Index i) { return extent == 1 ? 0 : i; }

}  // namespace bearing
