// Prints the targets of a build with another Highway, best first, and whether the first is in force.
#include <bearing/target.hpp>
#include <cstdio>

int main() {
  for (const std::string_view target : bearing::simd_targets()) {
    std::printf("%.*s ", static_cast<int>(target.size()), target.data());
  }
  const bool best = bearing::simd_targets().front() == bearing::simd_target();
  std::puts(best ? "| the first is in force" : "| another one is in force");
}
