#pragma once

#include <bearing/view.hpp>
#include <cstdint>
#include <vector>

// The reference of every_angle: angles as fractions of a turn in 128-bit integers, which add up without rounding.

namespace bearing::exhaustive {

/// Fractions of a turn, one for each pair, in units of 2^-128 turns; whole turns fall off at the top.
struct Turns {
  std::vector<std::uint64_t> high, low;  ///< [pairs]

  /// These, taken `times` times, which is below 2^32.
  Turns times(std::uint64_t times) const;
};

/// What is farthest off among some results.
struct Worst {
  double ulps = 0;  ///< of float, at the true value
  Index position = 0;
  Index pair = 0;

  void see(const Worst& other) {
    if (other.ulps > ulps) *this = other;
  }
};

/// What a walk found.
struct Found {
  Worst cos, sin;
  Index past_half = 0;  ///< results that are not the float nearest to the truth

  void see(const Found& other) {
    cos.see(other.cos), sin.see(other.sin);
    past_half += other.past_half;
  }
};

/// Holds cos and sin [count, pairs], the library's for positions first, first + 1, …, against those of `at`, the turns
/// of position `first`, which move on by `step` from row to row. `at` ends at first + count.
Found compare(const Turns& step, Turns& at, const float* cos, const float* sin, Index first, Index count);

}  // namespace bearing::exhaustive
