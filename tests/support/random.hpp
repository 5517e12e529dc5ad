#pragma once

#include <bearing/view.hpp>
#include <cstdint>

namespace bearing::test {

/// Seeded numbers, the same on every machine (the standard library's distributions are not).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  /// SplitMix64 (Steele et al. 2014).
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9E37'79B9'7F4A'7C15u;
    z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9u;
    z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBu;
    return z ^ (z >> 31);
  }
  double uniform(double low, double high) { return low + (high - low) * 0x1p-53 * static_cast<double>(bits() >> 11); }
  Index integer(Index low, Index high) {  ///< both included
    return low + static_cast<Index>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::uint64_t state_;
};

}  // namespace bearing::test
