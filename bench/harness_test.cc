// A case and what it is compared with keep their own numbers, whoever is prepared later; limits run on the library's
// instruction set. Exits with 1 if not.

#include <benchmark/benchmark.h>

#include <bearing/target.hpp>
#include <cstdio>
#include <string>

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

}  // namespace

void add_cases() {
  for (const std::string_view target : simd_targets()) add(forcing(target));
  add(filled_with("peer", 2, {}));
  add(filled_with("limit", 3, {}));
  add(filled_with("case", 1, {{"peer/1"}, {"limit/1"}}));
}

bool passed() {
  if (steps == 0 || wrong > 0) std::printf("%d of %d steps met another side's numbers\n", wrong, steps);
  if (targets == 0 || elsewhere > 0) std::printf("%d of %d steps met limits on another target\n", elsewhere, targets);
  return steps > 0 && wrong == 0 && targets > 0 && elsewhere == 0;
}

}  // namespace bearing::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  bearing::bench::add_cases();
  benchmark::RunSpecifiedBenchmarks();
  return bearing::bench::passed() ? 0 : 1;
}
