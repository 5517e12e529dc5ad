// A case and what it is compared with keep their own numbers, whoever is prepared later; limits run on the library's
// instruction set and touch all of their bytes; a ratio is the other's time over the case's own, and near 1 beside
// itself. Exits with 1 if not.

#include <benchmark/benchmark.h>

#include <bearing/target.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "buffers.hpp"
#include "harness.hpp"
#include "limits.hpp"

namespace bearing::bench {
namespace {

int steps = 0, wrong = 0;

/// A case that fills its tensors with a number, and finds it there, in what it was given and in what it asks for.
Case filled_with(const char* name, float number, std::vector<Bar> bars) {
  return {.name = name, .bars = std::move(bars), .turns = 3, .prepare = [=]() -> std::function<void()> {
            float* const x = source().as<float>();
            float* const y = destination().as<float>();
            x[0] = y[0] = number;
            return [=] {
              ++steps;
              const bool right = x[0] == number && y[0] == number && source().as<float>() == x;
              if (!right) ++wrong;
            };
          }};
}

int targets = 0, elsewhere = 0;

/// A case that forces a target, as BEARING_TARGET does, and finds limits on it when it is timed.
Case forcing(std::string_view target) {
  return {.name = "on_" + std::string(target), .turns = 3, .prepare = [=]() -> std::function<void()> {
            use_simd_target(target);
            return [=] {
              ++targets;
              if (limits_target() != target.substr(0, target.find("_bf16"))) ++elsewhere;
            };
          }};
}

/// A case that takes so many milliseconds a step: `long_turns` of them, or turns as the options say.
Case sleeping(const char* name, int milliseconds, int long_turns, std::vector<Bar> bars) {
  return {.name = name, .bars = std::move(bars), .turns = long_turns, .prepare = [=]() -> std::function<void()> {
            return [=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); };
          }};
}

/// Keeps what each case reports, by its name and the counter's.
class Kept : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.error_occurred) errors += run.run_name.function_name + ": " + run.error_message + "\n";
      for (const auto& [counter, value] : run.counters) found[run.run_name.function_name][counter] = value;
    }
  }

  std::map<std::string, std::map<std::string, double>> found;
  std::string errors;
};

/// Three pages and three quarters of one, which no walk divides evenly: each number once.
bool limits_touch_all() {
  constexpr std::size_t numbers = 15 * 256, bytes = numbers * sizeof(float);
  float* const x = source().as<float>();
  float* const y = destination().as<float>();
  bool right = true;
  for (const auto& [name, walk] : walks) {
    for (std::size_t i = 0; i < numbers; ++i) x[i] = static_cast<float>(i), y[i] = 0;
    const double sum = read(x, bytes, walk, {});
    bool ours = sum == numbers * (numbers - 1.0) / 2;
    copy_non_temporal(x, y, bytes, walk, {});
    read_modify_write(x, bytes, walk, {});
    for (std::size_t i = 0; i < numbers; ++i) ours &= y[i] == static_cast<float>(i) && x[i] == -y[i];
    if (!ours) std::printf("the walk %s leaves numbers out, or takes some twice\n", name);
    right &= ours;
  }
  return right;
}

bool ratios_are_right(Kept& kept) {
  bool right = median({3, 1, 2}) == 2 && median({1, 2}) == 1.5 && median({4, 1, 2, 9}) == 3;
  if (!right) std::printf("a median is not in the middle\n");
  const auto expect = [&](const char* name, const char* counter, double least, double most) {
    const double found = kept.found[name][counter];
    if (found >= least && found <= most) return;
    std::printf("%s: %s must be in %g ... %g, got %g\n", name, counter, least, most, found);
    right = false;
  };
  for (const char* name : {"quick/1", "quick_long/1"}) {
    // A busy machine wakes a sleeper some milliseconds late, which takes a ratio towards 1, and not past it.
    expect(name, "vs slow/1", 1.5, 6);   // 3
    expect(name, "vs slower/1", 3, 12);  // 2 steps of it: 6
    expect(name, "vs same/1", 0.5, 2);
    expect(name, "step_us", 20'000, 60'000);
  }
  expect("slow/1", "vs same/1", 1.0 / 6, 1 / 1.5);
  expect("quick/1", "turns", 1, 1e9);                  // of least_turns, those in which nobody else came
  expect("quick/1", "us slower/1", 120'000, 400'000);  // with its weight
  const std::string wanted = "compared/1: no case is called nobody/*, which it is compared with\n";
  if (kept.errors != wanted) std::printf("errors must be\n%sgot\n%s", wanted.c_str(), kept.errors.c_str());
  if (kept.found.contains("beside/1")) std::printf("beside/1 ran alone\n"), right = false;
  return right && kept.errors == wanted;
}

}  // namespace

void add_cases() {
  const std::vector<Bar> bars = {{"slow/1"}, {.pattern = "slower/1", .times = 2}, {"same/1"}};
  add(sleeping("same", 20, 0, {}));
  add(sleeping("slower", 60, 0, {}));
  add(sleeping("slow", 60, 0, {{"same/1"}}));
  add(sleeping("quick", 20, 0, bars));
  add(sleeping("compared", 20, 0, {{"nobody/*"}}));
  Case beside = sleeping("beside", 20, 0, {});
  beside.alone = false;
  add(beside);
  add(sleeping("quick_long", 20, 3, bars));
  for (const std::string_view target : simd_targets()) add(forcing(target));
  add(filled_with("peer", 2, {}));
  add(filled_with("limit", 3, {}));
  add(filled_with("case", 1, {{"peer/1"}, {"limit/1"}}));
}

bool passed(Kept& kept) {
  if (steps == 0 || wrong > 0) std::printf("%d of %d steps met another side's numbers\n", wrong, steps);
  if (targets == 0 || elsewhere > 0) std::printf("%d of %d steps met limits on another target\n", elsewhere, targets);
  return ratios_are_right(kept) && limits_touch_all() && steps > 0 && wrong == 0 && targets > 0 && elsewhere == 0;
}

}  // namespace bearing::bench

int main(int argc, char** argv) {
  char short_repetitions[] = "--benchmark_min_time=0.02";
  std::vector<char*> arguments(argv, argv + argc);
  arguments.push_back(short_repetitions);
  argc = static_cast<int>(arguments.size());
  benchmark::Initialize(&argc, arguments.data());
  bearing::bench::add_cases();
  bearing::bench::Kept kept;
  benchmark::RunSpecifiedBenchmarks(&kept);
  return bearing::bench::passed(kept) ? 0 : 1;
}
