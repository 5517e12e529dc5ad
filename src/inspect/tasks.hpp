#pragma once

#include <algorithm>
#include <bearing/executor.hpp>
#include <exception>
#include <vector>

namespace bearing::inspect {

/// body(0) … body(tasks − 1) on the executor, where the body may throw: the error of the first task that threw is
/// thrown once all are done.
template <class Body>
void each(const Executor& on, Index tasks, Body&& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(tasks));
  parallel(on, tasks, [&](Index i) noexcept {
    try {
      body(i);
    } catch (...) {
      errors[static_cast<std::size_t>(i)] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// body(block, from, rows) for 0 … count − 1 in blocks of at most `most` rows.
template <class Body>
void each_block(const Executor& on, Index count, Index most, Body&& body) {
  each(on, (count + most - 1) / most, [&](Index block) {
    const Index from = block * most;
    body(block, from, std::min(most, count - from));
  });
}

}  // namespace bearing::inspect
