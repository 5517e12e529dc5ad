#pragma once

#include <bearing/executor.hpp>
#include <bearing/export.hpp>

namespace bearing {

/// An executor on oneTBB's pool that uses up to `workers` threads, the caller's included. Link `bearing::threads`.
///
/// workers = 0 takes as many as the process may use (its CPU affinity). Throws RangeError for a negative number.
BEARING_EXPORT Executor threads(Index workers = 0);

}  // namespace bearing
