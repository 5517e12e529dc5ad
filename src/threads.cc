#include <bearing/error.hpp>
#include <bearing/threads.hpp>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/version.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cpu_quota.hpp"

namespace bearing {
namespace {

// The number of CPUs that the calling thread may run on.
Index allowed_cpus() {
#ifdef __linux__
  cpu_set_t cpus;
  // It fails only where there are more than cpu_set_t can name.
  return sched_getaffinity(0, sizeof cpus, &cpus) != 0 ? CPU_SETSIZE : std::max<Index>(1, CPU_COUNT(&cpus));
#else
  return std::max(1u, std::thread::hardware_concurrency());
#endif
}

// As many of them as the process has a share of, which is read once, as it stands in files.
Index usable_cpus() {
  static std::atomic<Index> share = -1;  // no guard, which another thread could hold in a child of fork()
  if (share < 0) share = cpu_quota();
  const Index allowed = allowed_cpus();
  return share > 0 ? std::min<Index>(share, allowed) : allowed;
}

// oneTBB's threads are not in a child that fork() made, but its locks are, as another thread may have left them: once
// it has run anything, a child must not touch it again.
std::atomic<bool> used = false, forked = false;

// Keeps oneTBB and this library where they are until the process ends: a plug-in that has them may be closed, but the
// pool's threads are still there. Without a lock, as others may be loading libraries that call this one.
void stay_loaded() {
  static std::atomic<bool> stays = false;
  if (stays.exchange(true)) return;
  for (void* code : {reinterpret_cast<void*>(&TBB_runtime_version), reinterpret_cast<void*>(&stay_loaded)}) {
    Dl_info found;
    if (dladdr(code, &found) != 0) dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

std::mutex arenas_mutex;

// Asked for when the library is loaded: in a first call, another thread could fork just then. Without memory for it
// forks go unnoticed.
[[maybe_unused]] const int watched_forks = pthread_atfork([] { arenas_mutex.lock(); }, [] { arenas_mutex.unlock(); },
                                                          [] {
                                                            if (used) forked = true;
                                                            arenas_mutex.unlock();
                                                          });

// oneTBB's arenas for this many threads. One caller at a time has an arena: where two share one, the second sleeps
// until the first has nothing left. Entering an arena takes a fraction of a microsecond, making one takes hundreds.
// They start no thread before their first task, and are never destroyed, since executors are plain values that nobody
// keeps count of.
class Arenas {
 public:
  explicit Arenas(int slots) : slots_(slots) {}

  int slots() const { return slots_; }

  // An arena for this caller alone, or null: the caller then works by itself. Throws what oneTBB throws.
  tbb::task_arena* take() {
    const std::lock_guard lock(arenas_mutex);
    if (forked) return nullptr;
    tbb::task_arena* arena = nullptr;
    if (!idle_.empty()) {
      arena = idle_.back();
      idle_.pop_back();
    } else if (made_ < tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism)) {
      // With more callers at work than oneTBB has threads, more arenas help nobody.
      idle_.reserve(made_ + 1);
      arena = new tbb::task_arena(slots_);
      ++made_;
    }
    used = used || arena != nullptr;
    return arena;
  }

  void give_back(tbb::task_arena* arena) noexcept {
    const std::lock_guard lock(arenas_mutex);
    idle_.push_back(arena);  // there is room for all
  }

 private:
  int slots_;
  std::size_t made_ = 0;
  std::vector<tbb::task_arena*> idle_;  // the last to be used first: its threads may still be there
};

// The same ones each time; null after a fork.
Arenas* arenas_of(Index workers) {
  const std::lock_guard lock(arenas_mutex);
  if (forked) return nullptr;
  // Slots beyond oneTBB's own limit stay empty, and asking for them makes it print a warning.
  const auto limit = tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
  const int slots = static_cast<int>(std::min(workers, static_cast<Index>(limit)));
  static auto& all = *new std::map<int, Arenas>;
  return &all.try_emplace(slots, slots).first->second;
}

// The floating-point mode of the calling thread (rounding, denormals, traps). oneTBB's threads do not have it, and
// within an arena the calling thread itself does not either.
class CallersMode {
 public:
  CallersMode() { std::fegetenv(&mode_); }

  // body() in this mode; the thread's own returns.
  template <class Body>
  void run(const Body& body) const {
    std::fenv_t own;
    std::fegetenv(&own);
    std::fesetenv(&mode_);
    body();
    std::fesetenv(&own);
  }

 private:
  std::fenv_t mode_;
};

// Whether this thread is inside a task. A nested run is serial: a thread that never waits inside a task can neither
// deadlock between two arenas nor pick up a stranger's task.
thread_local bool in_task = false;

class Taken {
 public:
  explicit Taken(Arenas& from) : from_(from), arena_(from.take()) {}
  ~Taken() {
    if (arena_ != nullptr) from_.give_back(arena_);
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;

  tbb::task_arena* get() const { return arena_; }

 private:
  Arenas& from_;
  tbb::task_arena* arena_;
};

void run_in_arena(void* context, Index tasks, void (*task)(void* data, Index i), void* data) {
  std::atomic<Index> next = 0;
  // noexcept: a task that throws has broken its contract, and must not unwind through other people's work.
  const auto drain = [&]() noexcept {
    const bool outer = std::exchange(in_task, true);
    for (Index i = next++; i < tasks; i = next++) task(data, i);
    in_task = outer;
  };
  auto* arenas = static_cast<Arenas*>(context);
  if (!in_task && arenas != nullptr && arenas->slots() > 1 && tasks > 1) {
    try {
      stay_loaded();
      const CallersMode mode;
      const Taken arena(*arenas);
      if (arena.get() == nullptr) return drain();
      arena.get()->execute([&] {
        const Index slots = std::min<Index>(tbb::this_task_arena::max_concurrency(), tasks);
        tbb::this_task_arena::isolate([&] {
          tbb::parallel_for(
              Index{0}, slots, [&](Index) { mode.run(drain); }, tbb::simple_partitioner());
        });
      });
    } catch (...) {
      // Only oneTBB itself can have thrown, for want of memory or threads: what is left is done below.
    }
  }
  drain();
}

}  // namespace

Executor threads(Index workers) {
  if (workers < 0) {
    throw RangeError("[threads] workers: must be at least 0 (0 for as many as the process may use), got " +
                     std::to_string(workers));
  }
  if (workers == 0) workers = usable_cpus();
  return {workers, run_in_arena, arenas_of(workers)};
}

}  // namespace bearing
