#pragma once

#include "encodings/rotary/rope_rows.hpp"
#include "numeric/wide.hpp"

namespace bearing {

/// Exact sines and cosines of position times frequency, by the kernels of the rotary tables.
class SinusoidRows {
 public:
  /// Pairs of a block: their two rows fit a stack frame.
  static constexpr Index block_pairs = 64;

  /// Throws RangeError, in `function`'s name, for a frequency above 2^13 or so small that three doubles cannot hold it.
  SinusoidRows(const char* function, const std::vector<detail::Wide>& frequencies, double scale);

  Index pairs() const { return whole_.pairs; }
  Index blocks() const { return static_cast<Index>(blocks_.size()); }
  Index block_size(Index block) const { return blocks_[static_cast<std::size_t>(block)].pairs; }

  /// The pairs block·block_pairs … of the row at p, in double, without the scale. cos, sin: [block_pairs].
  void row(double p, Index block, double* cos, double* sin) const;

  /// Evaluates what every sequence() begins with, once for all of them.
  void prepare_sequences();
  /// Rows first … first + count − 1, scaled and rounded.
  void sequence(Index first, Index count, const RowsOut& to) const;

 private:
  RowFrequencies whole_;
  AlignedArray<double> steps_;  ///< empty: not prepared
  std::vector<RowFrequencies> blocks_;
};

}  // namespace bearing
