#pragma once

#include <bearing/encodings/rope.hpp>
#include <vector>

#include "aligned.hpp"

// A row is what one position contributes: the cos of every pair, then the sin, each padded to whole vectors.

namespace bearing {

/// Pairs are padded to a multiple of this: 16 float or two times 8 double lanes, one cache line of float.
inline constexpr Index row_padding = 16;
inline constexpr Index padded_pairs(Index pairs) { return (pairs + row_padding - 1) / row_padding * row_padding; }

/// RopeFrequencies are plain data that anyone may build. Throws ShapeError if they contradict themselves, RangeError
/// for a number that is not finite.
void check_frequencies(const RopeFrequencies& frequencies);

/// The frequencies of a rotary encoding, checked, padded with zeros, as kernels read them.
struct RowFrequencies {
  Index pairs = 0, padded = 0, axes = 1;
  Angles angles = Angles::exact;
  double attention_factor = 1;
  AlignedArray<double> quarter_turns;  ///< [3][padded]; as_float32: only the first is used, the float32 θ itself
  AlignedArray<float> axis32;          ///< [padded] which coordinate turns the pair, as lanes to compare with …
  AlignedArray<double> axis64;         ///< … of either width; empty with one axis

  template <class C>
  const C* axis_lanes() const {
    if constexpr (sizeof(C) == 4) return axis32.data();
    if constexpr (sizeof(C) == 8) return axis64.data();
  }

  RowFrequencies() = default;
  explicit RowFrequencies(const RopeFrequencies& from);
};

/// xPos: row p is multiplied by ζ^(sign·(p − centre)/scale_base), pair by pair.
struct RowDecay {
  std::vector<double> log2_zeta;  ///< [padded]; empty: no decay
  double centre = 0, scale_base = 1, sign = 1;

  bool any() const { return !log2_zeta.empty(); }
  /// cos and sin [padded] of the row at p.
  void apply(double p, double* cos, double* sin) const;
  /// Whether every factor at p lies within [2^-100, 2^100].
  bool in_range(double p) const;
};

/// Rows of a compact table: position p = coarse·fine_rows + fine.
inline constexpr Index compact_fine_rows(Index padded) {
  // Half of 1 MiB for either table, at 16 bytes a pair; a power of two so that splitting p is exact and cheap.
  Index rows = 1;
  while (rows < 512 && 2 * rows * padded * 16 <= (Index{1} << 19)) rows *= 2;
  return rows;
}

template <class T>
struct RopeTable<T>::Rows {
  RowFrequencies frequencies;
  RowDecay decay;
  bool given = false;           ///< cos and sin came from the caller: other positions are unknown
  Index length = 0;             ///< rows in `full`
  AlignedArray<T> full;         ///< [length][2][padded]
  Index fine_rows = 0;          ///< compact: rows in `fine`, positions 0 … fine_rows−1
  Index coarse_rows = 0;        ///< compact: rows in `coarse`, positions 0, fine_rows, 2·fine_rows, …
  AlignedArray<double> fine;    ///< [fine_rows][2][padded], without the attention factor
  AlignedArray<double> coarse;  ///< [coarse_rows][2][padded], without the attention factor
};

template <class T>
using RopeRows = typename RopeTable<T>::Rows;

/// A table whose rows are multiplied by a decay. T: float, double.
template <class T>
RopeTable<T> table_with_decay(RopeFrequencies frequencies, RowDecay decay, Index length, TableMemory memory,
                              const Executor& on);

/// Where rows of float go: row i's cos to cos + i·stride, its sin to sin + i·stride.
struct RowsOut {
  float *cos, *sin;
  Index stride;
  Index cosines, sines;  ///< how many a row has room for: pairs, one less, or [padded]
  bool in_turn = false;  ///< sin, cos, sin, cos, …: cos is sin + 1, and the next pair is 2 further
};

/// What runs of rows are built with, 64 pairs after 64: the rows at 0 … 16 and at 32, 64, … 480, exact, in double.
inline constexpr Index steps_pairs = 64, steps_near = 17, steps_far = 15;
inline constexpr Index steps_block = (steps_near + steps_far) * 2 * steps_pairs;  ///< numbers: 32 KiB
inline constexpr Index steps_size(Index padded) { return (padded + steps_pairs - 1) / steps_pairs * steps_block; }

/// Work on rows that tables, fill() and rotations share. Each has one version per SIMD target.
struct RowKernels {
  /// Fills steps [steps_size(padded)].
  void (*prepare_steps)(const RowFrequencies&, double* steps);
  /// Rows first … first + count − 1, exact. Prepared steps spare each call the evaluation of 32 rows; null: none.
  void (*sequence_f32)(const RowFrequencies&, const double* steps, Index first, Index count, const RowsOut&);
  /// One row at real position p, in double, without the attention factor; cos and sin [padded].
  void (*exact_row)(const RowFrequencies&, double p, double* cos, double* sin);
  /// The row of angle p'·θ' − p·θ: both products reduced exactly, then subtracted.
  void (*difference_row)(const RowFrequencies& to, double p_to, const RowFrequencies& from, double p_from, double* cos,
                         double* sin);
};
RowKernels row_kernels();

}  // namespace bearing
