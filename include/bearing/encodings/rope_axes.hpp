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
///
/// Where engines differ: for {24, 20, 20} ggml gives pairs 61 and 62 of the interleaved form to a fourth axis that is
/// always 0; Hugging Face, which trained the models, gives them to axis 0, and so do we.
struct BEARING_EXPORT RopeAxes {
  enum class Order { contiguous, interleaved, listed };
  enum class Frequencies { shared, restarted, strided };

  std::vector<Index> pairs;  ///< pairs per axis, adding up to rotary_dim / 2; for `listed`, the axis of each pair
  Order order = Order::contiguous;
  Frequencies frequencies = Frequencies::shared;

  static RopeAxes sections(std::vector<Index> pairs);
  static RopeAxes interleaved(std::vector<Index> pairs);
  static RopeAxes axial(std::vector<Index> pairs);
  static RopeAxes strided(std::vector<Index> pairs);
  static RopeAxes listed(std::vector<Index> axis_of_pair);

  bool operator==(const RopeAxes&) const = default;
};

/// The two maps, written out: one entry per pair.
struct PairAxes {
  Index axes = 1;                ///< how many axes a position must have
  std::vector<Index> axis;       ///< [pairs] the axis that turns the pair
  std::vector<Index> numerator;  ///< [pairs] the exponent of the base is −2·numerator / denominator
  std::vector<Index> denominator;
};

/// Writes the maps out for a head with rotary_dim turned dimensions. Throws ShapeError if the pairs do not add up to
/// rotary_dim / 2, or an axis is empty, negative or past the fourth.
BEARING_EXPORT PairAxes pair_axes(const RopeAxes& axes, Index rotary_dim);

}  // namespace bearing
