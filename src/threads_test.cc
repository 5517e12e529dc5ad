#include <bearing/attention.hpp>
#include <bearing/error.hpp>
#include <bearing/threads.hpp>

#include <dirent.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cpu_quota.hpp"

namespace bearing {
namespace {

Index threads_of_this_process() {
  Index n = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* entry = readdir(tasks)) n += entry->d_name[0] != '.';
  closedir(tasks);
  return n;
}

// Named so that it runs before any test that starts threads: gtest runs suites in the order of this file.
TEST(ThreadsBeforeUse, AnExecutorStartsNoThread) {
  const Index before = threads_of_this_process();
  const Executor on = threads(4);
  EXPECT_EQ(on.workers, 4);
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST(Threads, EveryTaskRunsOnce) {
  for (const Index workers : {1, 2, 3, 7, 16}) {
    for (const Index tasks : {0, 1, 2, 15, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
      parallel(threads(workers), tasks, [&](Index i) { ++runs[static_cast<std::size_t>(i)]; });
      EXPECT_TRUE(std::all_of(runs.begin(), runs.end(), [](const auto& n) { return n == 1; }))
          << workers << " workers, " << tasks << " tasks";
    }
  }
}

TEST(Threads, AllIsDoneWhenRunReturns) {
  std::atomic<int> done = 0;
  parallel(threads(4), 8, [&](Index) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ++done;
  });
  EXPECT_EQ(done, 8);
}

TEST(Threads, TasksReallyRunAtTheSameTime) {
  // Each of two tasks waits until the other has begun; one thread alone would wait in vain until the limit.
  cpu_set_t cpus;
  ASSERT_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
  const bool expected = CPU_COUNT(&cpus) > 1;  // oneTBB starts no more threads than there are CPUs
  std::atomic<int> begun = 0;
  std::atomic<bool> met = true;
  parallel(threads(2), 2, [&](Index) {
    ++begun;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(expected ? 20 : 0);
    while (begun < 2 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    if (begun < 2) met = false;
  });
  EXPECT_EQ(met, expected);
}

TEST(Threads, NoMoreThreadsWorkThanWorkers) {
  std::atomic<int> inside = 0, most = 0;
  parallel(threads(2), 200, [&](Index) {
    const int now = ++inside;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    --inside;
  });
  EXPECT_LE(most, 2);
  EXPECT_GE(most, 1);
}

TEST(Threads, RunsMayBeNested) {
  std::atomic<int> runs = 0;
  const Executor on = threads(3);
  parallel(on, 5, [&](Index) { parallel(on, 7, [&](Index) { parallel(threads(2), 3, [&](Index) { ++runs; }); }); });
  EXPECT_EQ(runs, 5 * 7 * 3);
}

TEST(Threads, OneExecutorServesManyCallersAtOnce) {
  const Executor on = threads(4);
  std::atomic<int> runs = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 8; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) parallel(on, 6, [&](Index) { ++runs; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs, 8 * 50 * 6);
}

/// Waits until `reached`, for 20 s at most: a thread that sleeps behind another one's run would wait in vain.
template <class Reached>
bool wait_until(const Reached& reached) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!reached() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  return reached();
}

TEST(Threads, AShortRunDoesNotWaitForALongOneOfTheSameWidth) {
  for (const Index workers : {1, 2, 3}) {
    const Executor on = threads(workers);
    std::atomic<int> begun = 0;
    std::atomic<bool> short_one_done = false, met = true;
    std::thread long_one([&] {
      parallel(on, 6, [&](Index) {
        ++begun;
        if (!wait_until([&] { return short_one_done.load(); })) met = false;
      });
    });
    wait_until([&] { return begun > 0; });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that other threads have joined it
    std::atomic<int> runs = 0;
    parallel(on, 2, [&](Index) { ++runs; });
    EXPECT_EQ(runs, 2);
    short_one_done = true;
    long_one.join();
    EXPECT_TRUE(met) << workers << " workers";
  }
}

TEST(Threads, ManyCallersAreAtWorkAtTheSameTime) {
  constexpr int callers = 12;
  const Executor on = threads(2);
  std::atomic<int> inside = 0;
  std::atomic<bool> met = true;
  std::vector<std::thread> all;
  for (int c = 0; c < callers; ++c) {
    all.emplace_back([&] {
      std::atomic<bool> counted = false;
      parallel(on, 4, [&](Index) {
        if (!counted.exchange(true)) ++inside;
        if (met && !wait_until([&] { return inside == callers; })) met = false;
      });
    });
  }
  for (std::thread& caller : all) caller.join();
  EXPECT_TRUE(met) << inside << " of " << callers;
}

TEST(Threads, CallersHaveThreadsAsFarAsOneTbbIsLetHaveThem) {
  // Each caller's two tasks wait for each other: one that works alone would wait in vain.
  constexpr auto parallelism = tbb::global_control::max_allowed_parallelism;
  constexpr int width = 3, callers = width + 1;
  {
    const tbb::global_control few(parallelism, width);
    parallel(threads(width), 2, [](Index) {});
  }
  const tbb::global_control many(parallelism, 16);
  const Executor on = threads(width);
  std::atomic<int> inside = 0;
  std::atomic<bool> met = true;
  std::vector<std::thread> all;
  for (int c = 0; c < callers; ++c) {
    all.emplace_back([&] {
      parallel(on, 2, [&](Index) {
        ++inside;
        if (met && !wait_until([&] { return inside == 2 * callers; })) met = false;
      });
    });
  }
  for (std::thread& caller : all) caller.join();
  EXPECT_TRUE(met) << inside << " of " << 2 * callers;
}

TEST(Threads, ATaskThatRunsOthersIsNotInterrupted) {
  // A thread that waits inside a task must not pick up another outer task: its thread-local state would be overwritten.
  thread_local int depth = 0;
  std::atomic<int> deepest = 0;
  const Executor on = threads(2);
  parallel(on, 16, [&](Index) {
    const int now = ++depth;
    if (now > deepest) deepest = now;
    parallel(on, 4, [](Index) { std::this_thread::sleep_for(std::chrono::microseconds(200)); });
    --depth;
  });
  EXPECT_EQ(deepest, 1);
}

TEST(Threads, RunsThatNestBothWaysRoundDoNotDeadlock) {
  const Executor narrow = threads(1), wide = threads(2);
  std::atomic<int> runs = 0;
  const auto nest = [&](const Executor& outer, const Executor& inner) {
    for (int round = 0; round < 200; ++round) {
      parallel(outer, 4, [&](Index) { parallel(inner, 4, [&](Index) { ++runs; }); });
    }
  };
  std::thread other([&] { nest(narrow, wide); });
  nest(wide, narrow);
  other.join();
  EXPECT_EQ(runs, 2 * 200 * 16);
}

TEST(Threads, ManyShortRunsDoNotSlowDown) {
  // Every run on a new arena would take longer than the one before it: thousands took hundreds of microseconds each.
  const Executor on = threads(2);
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 20'000; ++round) parallel(on, 2, [](Index) {});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Threads, TheDefaultIsWhatTheAffinityAllows) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  const Index quota = cpu_quota();
  EXPECT_EQ(threads().workers, quota > 0 ? std::min<Index>(quota, CPU_COUNT(&all)) : CPU_COUNT(&all));
  CPU_ZERO(&one);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const Index workers = threads().workers;
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(workers, 1);
}

/// Files of control groups below a folder of their own.
class Groups {
 public:
  Groups() : root_(std::filesystem::path(testing::TempDir()) / ("groups" + std::to_string(getpid()))) {}
  ~Groups() { std::filesystem::remove_all(root_); }
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  Groups& write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
    return *this;
  }
  Index quota() const { return cpu_quota(root_.string()); }

 private:
  std::filesystem::path root_;
};

TEST(Threads, AQuotaIsThatOfTheGroupAndOfThoseAboveIt) {
  EXPECT_EQ(Groups().quota(), 0);
  EXPECT_EQ(Groups().write("proc/self/cgroup", "0::/").write("sys/fs/cgroup/cpu.max", "max 100000").quota(), 0);
  EXPECT_EQ(Groups().write("proc/self/cgroup", "0::/").write("sys/fs/cgroup/cpu.max", "150000 100000").quota(), 2);
  EXPECT_EQ(Groups().write("proc/self/cgroup", "0::/").write("sys/fs/cgroup/cpu.max", "1000 100000").quota(), 1);
  EXPECT_EQ(Groups()
                .write("proc/self/cgroup", "0::/pod/app")
                .write("sys/fs/cgroup/pod/app/cpu.max", "800000 100000")
                .write("sys/fs/cgroup/pod/cpu.max", "300000 100000")
                .quota(),
            3);
  EXPECT_EQ(Groups()
                .write("proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/docker/on/the/host\n0::/x")
                .write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000")
                .write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
                .quota(),
            4);
  EXPECT_EQ(Groups()
                .write("proc/self/cgroup", "4:cpu:/\nno group")
                .write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1")
                .write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
                .quota(),
            0);
}

/// Two tasks of two threads, where there are two CPUs: each waits a while for the other.
template <class Body>
void on_two_threads(const Body& body) {
  std::atomic<int> begun = 0;
  parallel(threads(2), 2, [&](Index i) {
    ++begun;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (begun < 2 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    body(i);
  });
}

TEST(Threads, WorkInTheCallersFloatingPointMode) {
  for (const int mode : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    int seen[2] = {-1, -1};
    on_two_threads([&](Index i) { seen[i] = std::fegetround(); });
    EXPECT_EQ(std::fegetround(), mode);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(seen[0], mode);
    EXPECT_EQ(seen[1], mode);
  }
}

#if defined(__x86_64__)
TEST(Threads, FlushDenormalsWhereTheCallerDoes) {
  const unsigned usual = __builtin_ia32_stmxcsr();
  for (const unsigned flags : {0x8040u, 0u}) {  // flush to zero and denormals are zero; then as ever
    __builtin_ia32_ldmxcsr(usual | flags);
    unsigned seen[2] = {1, 1};
    on_two_threads([&](Index i) { seen[i] = __builtin_ia32_stmxcsr() & 0x8040u; });
    const unsigned after = __builtin_ia32_stmxcsr() & 0x8040u;
    __builtin_ia32_ldmxcsr(usual);
    EXPECT_EQ(after, flags);
    EXPECT_EQ(seen[0], flags);
    EXPECT_EQ(seen[1], flags);
  }
}
#endif

TEST(Threads, AttentionHasTheSameBitsForAnyNumberInAnyMode) {
  constexpr Index heads = 8, time = 40, dim = 16;
  std::vector<float> x(heads * time * dim);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(std::sin(static_cast<double>(i)));
  const auto of = [&](Index workers) {
    std::vector<float> out(x.size());
    const View<const float, 4> in = bhtd<const float>(x.data(), 1, heads, time, dim);
    attention<float>({in, in, in}, bhtd(out.data(), 1, heads, time, dim), {}, {}, {.mask = Mask::causal},
                     threads(workers));
    return out;
  };
  const std::vector<float> nearest = of(1);
  std::fesetround(FE_UPWARD);
  const std::vector<float> one = of(1);
  bool same = true;
  for (int round = 0; round < 20; ++round) same = same && of(4) == one;
  std::fesetround(FE_TONEAREST);
  EXPECT_TRUE(same);
  EXPECT_NE(one, nearest);  // the mode was there
}

TEST(Threads, AChildOfForkWorksThoughAnotherThreadWasInsideACall) {
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) parallel(threads(2), 4, [](Index) {});
  });
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // a child that hangs dies of it
      std::atomic<int> runs = 0;
      parallel(threads(2), 50, [&](Index) { ++runs; });
      parallel(threads(3), 50, [&](Index) { ++runs; });
      _exit(runs == 100 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    if (!WIFEXITED(status)) break;
  }
  done = true;
  other.join();
}

TEST(Threads, ANegativeNumberIsRefused) {
  try {
    threads(-3);
    FAIL() << "accepted";
  } catch (const RangeError& error) {
    EXPECT_STREQ(error.what(), "[threads] workers: must be at least 0 (0 for as many as the process may use), got -3");
  }
}

}  // namespace
}  // namespace bearing
