#pragma once

#include <algorithm>
#include <atomic>
#include <bearing/executor.hpp>
#include <vector>

#include "workers.hpp"

namespace bearing {

/// Workers for a call of so many units, as many as it can use: each has memory of its own, and is made of `from`.
/// Throws std::bad_alloc.
template <class Worker, class... From>
std::vector<Worker> make_workers(const Executor& on, Index units, From&... from) {
  std::vector<Worker> workers;
  const Index count = std::min(units, workers_of(on));
  workers.reserve(static_cast<std::size_t>(count));
  for (Index w = 0; w < count; ++w) workers.emplace_back(from...);
  return workers;
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
