#pragma once

#include <algorithm>
#include <atomic>
#include <bearing/executor.hpp>
#include <vector>

namespace bearing {

/// How many workers, each with memory of its own, a call of so many units can use.
inline Index worker_count(const Executor& on, Index units) {
  return std::min(units, on.run == nullptr ? Index{1} : std::clamp<Index>(on.workers, 1, Index{1} << 20));
}

/// body(worker, unit) for all units, in `workers` tasks that take the next one as they get ready: units need not cost
/// the same, and results must not depend on who computes them.
template <class Worker, class Body>
void share_units(const Executor& on, std::vector<Worker>& workers, Index units, const Body& body) {
  std::atomic<Index> next = 0;
  parallel(on, static_cast<Index>(workers.size()), [&](Index w) {
    for (Index unit = next++; unit < units; unit = next++) body(workers[static_cast<std::size_t>(w)], unit);
  });
}

}  // namespace bearing
