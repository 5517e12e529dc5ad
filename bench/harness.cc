#include "harness.hpp"

#include <benchmark/benchmark.h>
#include <fnmatch.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <bearing/threads.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <thread>
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
  if (c.peer) text += "peer=1;";
  return text;
}

/// All cases by their full names, so that a case finds what it is compared with whatever is filtered.
std::map<std::string, Case>& registry() {
  static std::map<std::string, Case> cases;
  return cases;
}

double seconds(const std::function<void()>& step, int times) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A step, how often it makes up a turn, and its times per step, one for each turn.
struct Contender {
  std::string name;
  std::function<void()> step;
  std::size_t side = 0;  // whose numbers it works on
  double weight = 1;     // its time counts so many times
  int times = 1;
  std::vector<double> turns = {};

  /// Warm, and long enough a turn that reading the clock does not count.
  void warm_up() {
    choose_side(side);
    constexpr double turn_seconds = 100e-6;
    if (seconds(step, 1) > 100 * turn_seconds) return;
    constexpr int passes = 2;  // the first passes after another large stream find colder caches
    const double one = seconds(step, passes) / passes;
    times = std::clamp(static_cast<int>(turn_seconds / one), 1, 4096);
  }

  double best() const { return *std::min_element(turns.begin(), turns.end()); }
  void take_turn() {
    choose_side(side);
    turns.push_back(weight * seconds(step, times) / times);
  }
};

/// How often somebody else was given our core.
long preemptions() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

/// A peer's threads that have worked ask for more for some milliseconds (GNU's OpenMP 300,000 times), on cores that the
/// next side is to have.
void let_threads_sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

/// Times the case's step as the benchmark's own; a turn of it is an iteration. The counters are how many turns count,
/// the case's time per step in its shortest turn, that of each other side, and other's time / own time: the median,
/// turn by turn, or that of the shortest of few long turns.
void time_steps(benchmark::State& state, const Case& c) {
  std::vector<Contender> all;
  const auto enter = [&](const std::string& name, const Case& of, double weight) {
    choose_side(all.size());
    all.push_back({name, of.prepare(), all.size(), weight});
  };
  for (const Bar& bar : c.bars) {
    const std::size_t before = all.size();
    for (const auto& [name, other] : registry()) {
      if (fnmatch(bar.pattern.c_str(), name.c_str(), 0) == 0) enter(name, other, bar.times);
    }
    if (all.size() == before)
      throw std::logic_error("no case is called " + bar.pattern + ", which it is compared with");
  }
  enter("", c, 1);
  follow_the_library();
  for (Contender& each : all) each.warm_up();
  std::vector<std::vector<double>> ratios(all.size() - 1);
  std::size_t counted = 0;
  const auto take_turns = [&] {  // of all sides, once; returns the case's own time
    const long before = preemptions();
    for (Contender& each : all) {
      if (c.peer && c.threads > 1) let_threads_sleep();
      each.take_turn();
    }
    const double own = all.back().turns.back();
    if (c.turns == 0 && preemptions() != before && counted > 0) return own;  // unfair to whoever was running
    ++counted;
    for (std::size_t i = 0; i + 1 < all.size(); ++i) ratios[i].push_back(all[i].turns.back() / own);
    return own;
  };
  for (auto _ : state) state.SetIterationTime(take_turns() * all.back().times);
  if (c.turns == 0) {
    for (std::size_t more = 0; counted < least_turns && more < least_turns; ++more) take_turns();
  }
  state.counters["turns"] = static_cast<double>(counted);
  // A handful of long turns: each side's best, as one of them is always disturbed on a machine that others use.
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    state.counters["vs " + all[i].name] = c.turns > 0 ? all[i].best() / all.back().best() : median(ratios[i]);
    state.counters["us " + all[i].name] = all[i].best() * 1e6;
  }
  state.counters["step_us"] = all.back().best() * 1e6;
}

/// What say_progress() was told, and how far we are.
struct Progress {
  int descriptor = -1, of = 0, done = 0;
  std::chrono::steady_clock::time_point said = std::chrono::steady_clock::now();

  void count(const std::string& name) {
    ++done;
    const auto now = std::chrono::steady_clock::now();
    if (descriptor < 0 || now - said < std::chrono::minutes(1)) return;
    said = now;
    dprintf(descriptor, "%d of about %d: %s\n", done, of, name.c_str());
  }
};

Progress& progress() {
  static Progress kept;
  return kept;
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
    progress().count(c.name);
  } catch (const std::exception& e) {
    state.SkipWithError(e.what());
  }
}

using Move = std::function<void(std::size_t bytes, const Executor& on)>;

bool quick = false;

/// Registers a limit once per size and number of threads.
std::string add_limit(const std::string& kind, const Move& move, std::size_t bytes, Index threads) {
  const std::string name = kind + "/" + size_text(bytes);
  if (!registry().contains(name + "/" + std::to_string(threads))) {
    add({.name = name, .threads = threads, .prepare = [=] {
           fill_with_numbers(source(), bytes);
           return [=] { move(bytes, executor(threads)); };
         }});
  }
  return name + "/" + std::to_string(threads);
}

/// One limit for each walk; the pattern of all four.
template <class Walked>
std::string add_walks(const std::string& kind, std::size_t bytes, Index threads, const Walked& move) {
  for (const auto& [name, walk] : walks) {
    add_limit(
        kind + "/" + name, [=, walk = walk](std::size_t n, const Executor& on) { move(n, walk, on); }, bytes, threads);
  }
  return kind + "/*/" + size_text(bytes) + "/" + std::to_string(threads);
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void be_quick() { quick = true; }

void say_progress(int descriptor, int of) {
  progress().descriptor = descriptor;
  progress().of = of;
}

void add(Case c) {
  const std::string name = c.name + "/" + std::to_string(c.threads);
  const Case& kept = registry().emplace(name, std::move(c)).first->second;
  if (!kept.alone) return;
  auto* const made = benchmark::RegisterBenchmark(name.c_str(), [&kept](auto& state) { run(state, kept); });
  made->UseManualTime()->Unit(benchmark::kMicrosecond);
  if (kept.turns > 0) made->Iterations(quick ? (3 * kept.turns + 4) / 5 : kept.turns)->Repetitions(1);
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
  return add_walks("limit", bytes, threads, [](std::size_t n, Walk walk, const Executor& on) {
    read_modify_write(source().as<float>(), n, walk, on);
  });
}

std::string plain_copy(std::size_t bytes, Index threads) {
  return add_limit(
      "memcpy", [](std::size_t n, const Executor& on) { copy(source().as<float>(), destination().as<float>(), n, on); },
      bytes, threads);
}

std::string nt_copy(std::size_t bytes, Index threads) {
  return add_walks("nt_copy", bytes, threads, [](std::size_t n, Walk walk, const Executor& on) {
    copy_non_temporal(source().as<float>(), destination().as<float>(), n, walk, on);
  });
}

std::string nt_write(std::size_t bytes, Index threads) {
  return add_limit(
      "nt_write", [](std::size_t n, const Executor& on) { write_non_temporal(destination().as<float>(), n, on); },
      bytes, threads);
}

std::string read_limit(std::size_t bytes, Index threads) {
  return add_walks("read", bytes, threads,
                   [](std::size_t n, Walk walk, const Executor& on) { read(source().as<float>(), n, walk, on); });
}

template <class T>
Bar fma_limit(double fmas, Index threads, double demand) {
  const std::string name = sizeof(T) == 4 ? "fma/f32" : "fma/f64", full_name = name + "/" + std::to_string(threads);
  if (!registry().contains(full_name)) {
    add({.name = name, .threads = threads, .prepare = [=] { return [=] { multiply_add<T>(executor(threads)); }; }});
  }
  return {full_name, demand, fmas / (fma_burst * static_cast<double>(threads))};
}
template Bar fma_limit<float>(double, Index, double);
template Bar fma_limit<double>(double, Index, double);

}  // namespace bearing::bench
