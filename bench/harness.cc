#include "harness.hpp"

#include <benchmark/benchmark.h>
#include <sched.h>

#include <bearing/threads.hpp>
#include <set>
#include <utility>

#include "buffers.hpp"
#include "limits.hpp"

namespace bearing::bench {
namespace {

/// Keeps the calling thread on the core where it is, while it lives.
class Pinned {
 public:
  Pinned() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~Pinned() { sched_setaffinity(0, sizeof before_, &before_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t before_{};
};

/// What report.py needs to know of a case, as key=value; key=value.
std::string label(const Case& c) {
  std::string text;
  for (const Bar& bar : c.bars) text += "bar=" + bar.pattern + "@" + std::to_string(bar.demand) + ";";
  if (c.at_most_us > 0) text += "at_most_us=" + std::to_string(c.at_most_us) + ";";
  if (!c.peer_of.empty()) text += "peer_of=" + c.peer_of + ";";
  return text;
}

void time_steps(benchmark::State& state, const Case& c) {
  const std::function<void()> step = c.prepare();
  constexpr int warm_passes = 3;  // the first passes after another large stream find colder caches
  for (int i = 0; i < warm_passes; ++i) step();
  for (auto _ : state) step();
}

void run(benchmark::State& state, const Case& c) {
  try {
    if (c.threads == 1) {
      const Pinned pinned;
      time_steps(state, c);
    } else {
      time_steps(state, c);
    }
    state.SetLabel(label(c));
  } catch (const std::exception& e) {
    state.SkipWithError(e.what());
  }
}

using Move = void (*)(std::size_t bytes, const Executor& on);

/// Registers a limit once per size and number of threads.
std::string add_limit(const std::string& kind, Move move, std::size_t bytes, Index threads) {
  static std::set<std::string> known;
  const std::string name = kind + "/" + size_text(bytes);
  if (known.insert(name + "/" + std::to_string(threads)).second) {
    add({.name = name, .threads = threads, .prepare = [=] {
           fill_with_numbers(source(), bytes);
           return [=] { move(bytes, executor(threads)); };
         }});
  }
  return name + "/" + std::to_string(threads);
}

}  // namespace

void add(Case c) {
  const std::string name = c.name + "/" + std::to_string(c.threads);
  benchmark::RegisterBenchmark(name.c_str(), [c = std::move(c)](benchmark::State& state) { run(state, c); })
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

const Executor& executor(Index n) {
  static const Executor serial{};
  static const Executor two = threads(2);
  return n == 1 ? serial : two;
}

std::string size_text(std::size_t bytes) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  return bytes % mib == 0 ? std::to_string(bytes / mib) + "MiB" : std::to_string(bytes / 1024) + "KiB";
}

std::string limit(std::size_t bytes, Index threads) {
  add_limit(
      "limit/plain", [](std::size_t n, const Executor& on) { read_modify_write(source().as<float>(), n, on); }, bytes,
      threads);
  add_limit(
      "limit/prefetch",
      [](std::size_t n, const Executor& on) { read_modify_write_prefetching(source().as<float>(), n, on); }, bytes,
      threads);
  return "limit/*/" + size_text(bytes) + "/" + std::to_string(threads);
}

std::string plain_copy(std::size_t bytes, Index threads) {
  return add_limit(
      "memcpy", [](std::size_t n, const Executor& on) { copy(source().as<float>(), destination().as<float>(), n, on); },
      bytes, threads);
}

std::string nt_copy(std::size_t bytes, Index threads) {
  return add_limit(
      "nt_copy",
      [](std::size_t n, const Executor& on) {
        copy_non_temporal(source().as<float>(), destination().as<float>(), n, on);
      },
      bytes, threads);
}

std::string nt_write(std::size_t bytes, Index threads) {
  return add_limit(
      "nt_write", [](std::size_t n, const Executor& on) { write_non_temporal(destination().as<float>(), n, on); },
      bytes, threads);
}

}  // namespace bearing::bench
