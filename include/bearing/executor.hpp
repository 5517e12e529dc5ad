#pragma once

#include <bearing/view.hpp>

namespace bearing {

/// Where the work runs. The library starts no threads: it cuts the work into `tasks` independent tasks and calls `run`,
/// which must call task(data, 0) … task(data, tasks − 1), each once, in any order, on any threads, and return when all
/// are done. A call of the library may call `run` several times, one after the other, never from inside a task, and
/// not at all where all of its work is one task.
///
/// Tasks throw nothing. If `run` throws, none of its tasks may be running or run later: the exception leaves the call
/// of the library, whose outputs may be written in part then.
///
/// Tasks need the floating-point mode of the calling thread (rounding, denormals): threads that run them must have it.
///
/// The default runs them one after the other on the calling thread, which is serial whatever `workers` says. Results
/// have the same bits for every executor.
/// `bearing/threads.hpp` makes an executor on oneTBB; an engine passes its thread pool.
struct Executor {
  /// How many tasks can usefully run at once. Large work is cut into as many, or into up to four times as many; into
  /// fewer where fewer parts can run apart, such as heads of linear attention. Small work is not cut.
  Index workers = 1;
  /// Null: serial.
  void (*run)(void* context, Index tasks, void (*task)(void* data, Index i), void* data) = nullptr;
  /// Passed to `run` untouched.
  void* context = nullptr;
};

/// Calls body(0) … body(tasks − 1) on the executor. The body must not throw.
template <class Body>
void parallel(const Executor& on, Index tasks, Body&& body) {
  if (on.run == nullptr || tasks < 2) {
    for (Index i = 0; i < tasks; ++i) body(i);
    return;
  }
  on.run(
      on.context, tasks, [](void* data, Index i) { (*static_cast<std::remove_reference_t<Body>*>(data))(i); }, &body);
}

}  // namespace bearing
