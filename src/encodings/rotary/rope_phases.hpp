#pragma once

#include <bearing/encodings/rope.hpp>
#include <vector>

#include "aligned.hpp"

// The phases of a position: the cos of every pair, then the sin, each padded to whole vectors.

namespace bearing {

/// Pairs are padded to a multiple of this: 16 float or two times 8 double lanes, one cache line of float.
inline constexpr Index pair_padding = 16;
inline constexpr Index padded_pairs(Index pairs) { return (pairs + pair_padding - 1) / pair_padding * pair_padding; }

/// RopeFrequencies are plain data that anyone may build. Throws ShapeError if they contradict themselves, RangeError
/// for a number that is not finite.
void check_frequencies(const RopeFrequencies& frequencies);

/// The frequencies of a rotary encoding, checked, padded with zeros, as kernels read them.
struct PhaseFrequencies {
  Index pairs = 0, padded = 0, axes = 1;
  Angles angles = Angles::exact;
  double attention_factor = 1;
  AlignedArray<double> quarter_turns;  ///< [3][padded]; as_float32: only the first is used, the float32 θ itself
  AlignedArray<float> axis32;          ///< [padded] which coordinate turns the pair, as lanes to compare with …
  AlignedArray<double> axis64;         ///< … of either width; empty with one axis
  std::vector<Index> blocks;           ///< as RopeFrequencies'

  template <class C>
  const C* axis_lanes() const {
    if constexpr (sizeof(C) == 4) return axis32.data();
    if constexpr (sizeof(C) == 8) return axis64.data();
  }

  PhaseFrequencies() = default;
  explicit PhaseFrequencies(const RopeFrequencies& from);

  /// use(first, count) for each run of pairs whose elements lie together.
  template <class Use>
  void each_block(const Use& use) const {
    if (blocks.empty()) return use(Index{0}, pairs);
    Index first = 0;
    for (const Index count : blocks) use(first, count), first += count;
  }
};

/// xPos: the phases at p are multiplied by ζ^(sign·(p − centre)/scale_base), pair by pair.
struct PhaseDecay {
  std::vector<double> log2_zeta;  ///< [padded]; empty: no decay
  double centre = 0, scale_base = 1, sign = 1;

  bool any() const { return !log2_zeta.empty(); }
  /// Multiplies cos and sin [padded], the phases at p.
  void apply(double p, double* cos, double* sin) const;
  /// Whether every factor at p lies within [2^-100, 2^100].
  bool in_range(double p) const;
};

/// How many phases the fine part of a compact table has: position p = coarse·fine_count + fine.
inline constexpr Index compact_fine_count(Index padded) {
  // Half of 1 MiB for either table, at 16 bytes a pair; a power of two so that splitting p is exact and cheap.
  Index count = 1;
  while (count < 512 && 2 * count * padded * 16 <= (Index{1} << 19)) count *= 2;
  return count;
}

template <class T>
struct RopeTable<T>::Phases {
  PhaseFrequencies frequencies;
  PhaseDecay decay;
  bool given = false;           ///< cos and sin came from the caller: other positions are unknown
  Index length = 0;             ///< positions in `full`
  AlignedArray<T> full;         ///< [length][2][padded]
  Index fine_count = 0;         ///< compact: positions 0 … fine_count−1, in `fine`
  Index coarse_count = 0;       ///< compact: positions 0, fine_count, 2·fine_count, …, in `coarse`
  AlignedArray<double> fine;    ///< [fine_count][2][padded], without the attention factor
  AlignedArray<double> coarse;  ///< [coarse_count][2][padded], without the attention factor
};

template <class T>
using RopePhases = typename RopeTable<T>::Phases;

/// The frequencies of a table of that length. A length that cannot be is the table's to refuse. Throws RangeError where
/// they depend on a length that nobody said: that of the table is how much it keeps, not how long a prompt is.
RopeFrequencies resolve_told(const char* function, const Rope& rope, Index length, const TableOptions& options);

/// xPos' table, whose phases are multiplied by a decay. T: float, double.
template <class T>
RopeTable<T> table_with_decay(RopeFrequencies frequencies, PhaseDecay decay, Index length, TableMemory memory,
                              const Executor& on);

/// Where phases of consecutive positions go, as float: cos of the i-th to cos + i·stride, sin to sin + i·stride.
struct PhasesOut {
  float *cos, *sin;
  Index stride;
  Index cosines, sines;  ///< how many there is room for at each position: pairs, one less, or [padded]
  bool in_turn = false;  ///< sin, cos, sin, cos, …: cos is sin + 1, and the next pair is 2 further
  float scale = 1;       ///< what each number is multiplied by after its rounding to float, and rounded again
  bool added = false;    ///< to what is there
  Index rows = 0;        ///< of all that tasks write together, where this is one task's part; 0: this is all
};

/// What phases of consecutive positions are built with, 64 pairs after 64: those at 0 … 16 and at 32, 64, … 480, exact,
/// in double.
inline constexpr Index steps_pairs = 64, steps_near = 17, steps_far = 15;
inline constexpr Index steps_block = (steps_near + steps_far) * 2 * steps_pairs;  ///< numbers: 32 KiB
inline constexpr Index steps_size(Index padded) { return (padded + steps_pairs - 1) / steps_pairs * steps_block; }

/// Work on phases that tables, fill() and rotations share. Each has one version per SIMD target.
struct PhaseKernels {
  /// Fills steps [steps_size(padded)].
  void (*prepare_steps)(const PhaseFrequencies&, double* steps);
  /// Phases at first … first + count − 1, exact. Prepared steps spare each call the evaluation of 32; null: none.
  void (*sequence_f32)(const PhaseFrequencies&, const double* steps, Index first, Index count, const PhasesOut&);
  /// Phases at a real position p, in double, without the attention factor; cos and sin [padded].
  void (*exact_phases)(const PhaseFrequencies&, double p, double* cos, double* sin);
  /// Phases of the angle p'·θ' − p·θ: both products reduced exactly, then subtracted.
  void (*difference_phases)(const PhaseFrequencies& to, double p_to, const PhaseFrequencies& from, double p_from,
                            double* cos, double* sin);
};
PhaseKernels phase_kernels();

}  // namespace bearing
