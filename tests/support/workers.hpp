#pragma once

#include <atomic>
#include <bearing/executor.hpp>
#include <thread>
#include <vector>

namespace bearing::test {

/// An executor of plain threads that hands tasks out one by one, in whatever order they come to ask.
class Workers {
 public:
  explicit Workers(Index count) : count_(count) {}

  operator Executor() { return {.workers = count_, .run = run, .context = this}; }

 private:
  static void run(void* context, Index tasks, void (*task)(void* data, Index i), void* data) {
    std::atomic<Index> next{0};
    const auto work = [&] {
      for (Index i = next++; i < tasks; i = next++) task(data, i);
    };
    std::vector<std::thread> helpers;
    const Index count = static_cast<Workers*>(context)->count_;
    for (Index w = 1; w < count && w < tasks; ++w) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
  }

  Index count_;
};

/// Runs the tasks one after the other, the last first: what depends on the order shows.
inline Executor backwards(Index workers) {
  return {.workers = workers, .run = [](void*, Index tasks, void (*task)(void*, Index), void* data) {
            for (Index i = tasks; i-- > 0;) task(data, i);
          }};
}

}  // namespace bearing::test
