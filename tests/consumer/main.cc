// Uses each of the three libraries once, and checks what comes out.

#include <bearing/bearing.hpp>
#include <bearing/io.hpp>
#include <bearing/threads.hpp>
#include <cmath>
#include <cstdio>
#include <string>

#include "every_type.hpp"

int main() {
  using namespace bearing;
  const Rope rope = parse_rope(R"({"head_dim": 4, "pairing": "interleaved", "base": 100})");
  const RopeTable<float> table(rope, 16);

  // Pairs (1, 0) at position 2 with θ = 1 and 100^(-1/2) = 0.1 become (cos 2, sin 2) and (cos 0.2, sin 0.2).
  float x[2][4] = {{1, 0, 1, 0}, {1, 0, 1, 0}};
  rotate(table, bhtd(&x[0][0], 1, 2, 1, 4), Positions(2), threads(2));
  const double expected[4] = {std::cos(2.0), std::sin(2.0), std::cos(0.2), std::sin(0.2)};
  for (const auto& head : x) {
    for (int d = 0; d < 4; ++d) {
      // One rounding of a value below 1: half of 2^-24, and as much for the table's.
      if (std::abs(static_cast<double>(head[d]) - expected[d]) > 0x1p-24) {
        std::printf("x[%d] is %.9g, not %.9g\n", d, static_cast<double>(head[d]), expected[d]);
        return 1;
      }
    }
  }

  // An exception thrown in the library is caught here by its own type.
  try {
    rotate(table, bhtd(&x[0][0], 1, 1, 1, 8), Positions(2));
    std::puts("a head of the wrong size was accepted");
    return 1;
  } catch (const ShapeError&) {
  }
  if (!every_type()) {
    std::puts("attention to values of one half gave something else");
    return 1;
  }
  const std::string built_for = std::to_string(BEARING_VERSION_MAJOR) + "." + std::to_string(BEARING_VERSION_MINOR) +
                                "." + std::to_string(BEARING_VERSION_PATCH);
  if (built_for != version()) {
    std::printf("headers of %s, library of %s\n", built_for.c_str(), version());
    return 1;
  }
  std::printf("bearing %s on %s\n", version(), std::string(simd_target()).c_str());
}
