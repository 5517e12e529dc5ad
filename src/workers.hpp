#pragma once

#include <algorithm>
#include <bearing/executor.hpp>

namespace bearing {

/// How many tasks an executor runs at once: at least 1, and few enough to multiply with.
inline Index workers_of(const Executor& on) {
  return on.run == nullptr ? Index{1} : std::clamp<Index>(on.workers, 1, Index{1} << 20);
}

}  // namespace bearing
