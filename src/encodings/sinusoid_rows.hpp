#pragma once

#include "encodings/rope_rows.hpp"
#include "numeric/wide.hpp"

namespace bearing {

/// Exact sines and cosines of position times frequency, by the kernels of the rotary tables.
class SinusoidRows {
 public:
  /// Pairs of a block: their two rows fit a stack frame, and 2,048 of them a second cache.
  static constexpr Index block_pairs = 64;

  /// Throws RangeError, in `function`'s name, for a frequency above 2^13 or so small that three doubles cannot hold it.
  SinusoidRows(const char* function, const std::vector<detail::Wide>& frequencies, double scale);

  Index pairs() const { return whole_.pairs; }
  Index blocks() const { return static_cast<Index>(blocks_.size()); }
  Index block_size(Index block) const { return blocks_[static_cast<std::size_t>(block)].pairs; }

  /// The pairs block·block_pairs … of the row at p, in double, without the scale. cos, sin: [block_pairs].
  void row(double p, Index block, double* cos, double* sin) const;

  /// Rows first … first + count − 1, scaled and rounded, to cos + i·stride and sin + i·stride: all pairs, which must be
  /// a multiple of row_padding, or …
  void sequence(Index first, Index count, float* cos, float* sin, Index stride) const;
  bool whole_vectors() const { return pairs() % row_padding == 0; }
  /// … one block's, to rows of block_pairs numbers, the last of which may be padding.
  void block_sequence(Index block, Index first, Index count, float* cos, float* sin, Index stride) const;

 private:
  RowFrequencies whole_;
  std::vector<RowFrequencies> blocks_;
};

/// Rows of `pairs` sines and cosines, in turn, into rows of pairs: to[2i] = sin[i], to[2i + 1] = cos[i].
struct Interleave {
  const float *sin, *cos;
  Index from_stride;  ///< between rows of sin and of cos
  Index rows, pairs;
  float* to;
  Index to_stride;
  /// For memory that nobody reads soon: `to` must lie on a 64-byte border, to_stride and 2·pairs be multiples of 16.
  bool past_caches;
};
void interleave(const Interleave& rows);

}  // namespace bearing
