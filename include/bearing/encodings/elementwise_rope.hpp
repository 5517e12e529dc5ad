#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/export.hpp>
#include <bearing/term.hpp>
#include <vector>

// RoPE whose two members of a pair have an angle each, as two families of models ship it,
//
//     u ← a · (u cos φ_u − v sin φ_u)        φ_u = p_axis(u) · θ(u),  and v alike
//     v ← a · (v cos φ_v + u sin φ_v)
//
// Code that keeps cos and sin of every element, in place of every pair, computes this. With φ_u = φ_v it is RoPE. With
// two angles it is no rotation: lengths change, and a score depends on more than the distance. The backward is its
// transpose, which is not its inverse.
//
//     HunyuanVL    θ runs on over the head, in halves; each axis has 2·section elements one after another, so that the
//                  members of a pair turn by different axes
//     V-JEPA 2     each axis has a block of the head; within it θ runs through the elements twice, while neighbours
//     form
//                  pairs, so that the members of a pair have different frequencies
//
// V-JEPA 2: Assran et al. 2025, arXiv 2506.09985. Both are stated from transformers 5.24.0. Other engines read
// HunyuanVL's sections as pairs (RopeAxes::sections): those are other numbers.

namespace bearing {

struct BEARING_EXPORT ElementwiseRope {
  Rope rope;                 ///< θ of its pairs; its pairing says which two elements have the θ of a pair
  Required<Pairing> joined;  ///< which two elements turn into each other
  /// Elements of each axis, one run after another over the turned dimensions, in place of the rope's axes; empty: an
  /// element turns by its pair's axis.
  std::vector<Index> sections = {};

  /// HunyuanVL's, from the rope without axes, its scaling included, and the file's mrope_section (or xdrope_section).
  static ElementwiseRope hunyuan(const Rope& rope, const std::vector<Index>& mrope_section);
  /// V-JEPA 2's: three axes (frame, row, column) with 2·⌊⌊head_dim / 3⌋ / 2⌋ elements each; what is left does not turn.
  static ElementwiseRope vjepa2(Index head_dim);
  bool operator==(const ElementwiseRope&) const = default;
};

/// θ and axis of the first member of every pair that turns together, and of the second.
struct MemberFrequencies {
  RopeFrequencies first, second;
};
/// Throws as resolve(), and ShapeError for sections beside the rope's own axes, for more than four of them, and for
/// ones that are not above 0 or do not add up to the turned dimensions. Dynamic NTK and LongRoPE are resolved at the
/// trained length.
BEARING_EXPORT MemberFrequencies member_frequencies(const ElementwiseRope& spec);

/// The encoding. It is two rotations, each of which gives one member of every pair: with exact cos and sin, and the
/// same bits on every instruction set.
template <class A>
class BEARING_EXPORT ElementwiseRows {
 public:
  using Arithmetic = A;

  /// Throws as member_frequencies().
  explicit ElementwiseRows(const ElementwiseRope& spec);

  /// Throws ShapeError for another head_dim, for positions of too few axes, and for one number on all of several axes
  /// whose frequencies do not run on over the head (V-JEPA 2): only a token of text stands so (HunyuanVL).
  void check(const char* function, const Problem& problem) const;
  Index turn_scratch(Index dim) const;
  void turn(const RowTile& tile, const A* x, A* y) const;
  void turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const;

 private:
  explicit ElementwiseRows(const MemberFrequencies& of);

  RopeTable<A> first_, second_;
  bool stands_as_text_ = true;
};

}  // namespace bearing
