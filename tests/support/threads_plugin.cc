#include <bearing/threads.hpp>

#include <atomic>
#include <chrono>
#include <thread>

// A plug-in of a program that knows nothing of the library; see unload_test.cc.

extern "C" __attribute__((visibility("default"))) int bearing_plugin_runs(int tasks) {
  std::atomic<int> runs = 0;
  bearing::parallel(bearing::threads(2), tasks, [&](bearing::Index) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));  // so that another thread comes
    ++runs;
  });
  return runs;
}
