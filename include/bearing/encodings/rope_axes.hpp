#pragma once

#include <bearing/export.hpp>
#include <bearing/view.hpp>
#include <vector>

namespace bearing {

/// Which coordinate of a token's position turns which pair, for positions with several axes.
///
/// A rotary encoding has one angle per pair: position(axis of the pair) · θ(exponent of the pair). The forms in use
/// differ in the two maps. With n = rotary_dim / 2 pairs and A axes (t, h, w or y, x, in the order of Positions):
///
///     RopeAxes{}                      one axis turns every pair
///     sections({16, 24, 24})          M-RoPE (Qwen2-VL, arXiv 2409.12191): axis a turns the next pairs[a] pairs; the
///                                     frequencies run on over the whole head
///     interleaved({24, 20, 20})       M-RoPE of Qwen3-VL: of the pairs 0, 1, 2, … axis a ≥ 1 takes a, a + A, a + 2A, …
///                                     below A·pairs[a]; axis 0 has the rest. ({n/2, n/2} alternates the two axes.)
///     axial({16, 16})                 2-D (Qwen2-VL's vision tower, rope-vit's axial form, DINOv3): as sections, but
///                                     each axis starts its frequencies afresh: exponents 2j / (2·pairs[a]) for pair j
///     strided({16, 16})               2-D of Pixtral: as sections, but axis a takes every A-th of the head's
///                                     frequencies, starting with the a-th
///     listed({1, 2, 1, 2, 0, 0})      any other order: the axis of each pair (ERNIE 4.5 VL); frequencies run on
///     blocks({16, 16})                2-D of Gemma 4's vision tower: as axial, but each axis has a block of the head
///                                     to itself, and Pairing::half pairs within it: [y y' x x'], not [y x y' x']
///
/// Whatever the form, axes may have numbers of their own: `bases` (ESMFold2: 20 for x, y and z, 10,000 for the group),
/// `ntk_factors` (Cosmos) and pairs that do not turn at all (`still`, ESMFold2).
///
/// Where engines differ: for {24, 20, 20} ggml gives pairs 61 and 62 of the interleaved form to a fourth axis that is
/// always 0; Hugging Face, which trained the models, gives them to axis 0, and so do we.
struct BEARING_EXPORT RopeAxes {
  enum class Order { contiguous, interleaved, listed };
  enum class Frequencies { shared, restarted, strided };
  /// What Pairing::half halves: the turned dimensions, or each axis' part of them (contiguous order only). Neighbours
  /// are paired the same way in both.
  enum class Halves { head, axis };

  std::vector<Index> pairs;  ///< pairs per axis, adding up to rotary_dim / 2 − still; for `listed`, the axis of each
  Order order = Order::contiguous;
  Frequencies frequencies = Frequencies::shared;
  std::vector<double> bases = {};  ///< one per axis, in place of Rope::base; empty: that one for all
  /// One per axis: its base is multiplied by s^(r/(r−2)) with r twice its run's pairs (NtkScaling); empty: 1 for all.
  std::vector<double> ntk_factors = {};
  Index still = 0;  ///< the last pairs, beside those of `pairs`, which have frequency 0
  Halves halves = Halves::head;

  static RopeAxes sections(std::vector<Index> pairs);
  static RopeAxes interleaved(std::vector<Index> pairs);
  static RopeAxes axial(std::vector<Index> pairs);
  static RopeAxes strided(std::vector<Index> pairs);
  static RopeAxes listed(std::vector<Index> axis_of_pair);
  static RopeAxes blocks(std::vector<Index> pairs);

  bool operator==(const RopeAxes&) const = default;
};

/// The two maps, written out: one entry per pair.
struct PairAxes {
  Index axes = 1;                  ///< how many axes a position must have
  std::vector<Index> axis;         ///< [pairs] the axis that turns the pair
  std::vector<Index> numerator;    ///< [pairs] the exponent of the base is −2·numerator / denominator
  std::vector<Index> denominator;  ///< 0: the pair is still
  std::vector<Index> blocks = {};  ///< pairs of each block that is halved by itself; empty: the whole is
};

/// Writes the maps out for a head with rotary_dim turned dimensions. Throws ShapeError if the pairs do not add up to
/// rotary_dim / 2 − still, an axis is empty, negative or past the fourth, or has no number of its own where others do;
/// RangeError for a base or an NTK factor that is not finite and above 0.
BEARING_EXPORT PairAxes pair_axes(const RopeAxes& axes, Index rotary_dim);

}  // namespace bearing
