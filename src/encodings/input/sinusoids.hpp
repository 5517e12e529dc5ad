#pragma once

#include "encodings/rotary/rope_phases.hpp"
#include "numeric/wide.hpp"

namespace bearing {

/// Exact sines and cosines of position times frequency, by the kernels of the rotary tables.
class Sinusoids {
 public:
  /// Pairs of a block: their phases fit a stack frame.
  static constexpr Index block_pairs = 64;

  /// Throws RangeError, in `function`'s name, for a frequency above 2^13 or so small that three doubles cannot hold it.
  Sinusoids(const char* function, const std::vector<detail::Wide>& frequencies, double scale);

  Index pairs() const { return whole_.pairs; }
  Index blocks() const { return static_cast<Index>(blocks_.size()); }
  Index block_size(Index block) const { return blocks_[static_cast<std::size_t>(block)].pairs; }

  /// The pairs block·block_pairs … at p, in double, without the scale. cos, sin: [block_pairs].
  void phases(double p, Index block, double* cos, double* sin) const;

  /// Evaluates what every sequence() begins with, once for all of them.
  void prepare_sequences();
  /// The phases at first … first + count − 1, scaled and rounded.
  void sequence(Index first, Index count, const PhasesOut& to) const;

 private:
  PhaseFrequencies whole_;
  AlignedArray<double> steps_;  ///< empty: not prepared
  std::vector<PhaseFrequencies> blocks_;
};

}  // namespace bearing
