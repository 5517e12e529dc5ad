#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>
#include <vector>

// RoPE-Mixed (Heo, Park, Han, Yun 2024, "Rotary position embedding for vision transformer", arXiv 2403.13298): each
// pair of each head turns by an angle that depends on all coordinates of the token's position,
//
//     φ = Σ_axis p_axis · f[axis, head, pair]
//
// with learned frequencies f, so that a pair can turn along a diagonal, which is not possible in axial RoPE. It is
// relative: the score depends on the differences of the positions on each axis. An encoding holds the frequencies of
// one layer; in the authors' models each layer learns its frequencies.

namespace bearing {

struct RopeMixed {
  Index head_dim = 0;  ///< even: all of it turns
  Index axes = 2;
  Required<Pairing> pairing;  ///< interleaved in the authors' code

  bool operator==(const RopeMixed&) const = default;
};

/// Where the authors start with two axes: frequencies [2, heads, head_dim/2]. Pair i of the first half has
/// base^(−4i/head_dim) in a direction α that is drawn per head (x = cos α, y = sin α), pair i of the second half the
/// same at a right angle. The same seed gives the same numbers on every machine. Throws ShapeError unless head_dim is a
/// multiple of 4 and there are two axes, RangeError for heads < 1 or a base that is not finite and above 0.
BEARING_EXPORT std::vector<double> rope_mixed_frequencies(const RopeMixed& mixed, Index heads, std::uint64_t seed,
                                                          double base = 10);

/// Frequencies [axes, sets, head_dim/2], in radians per unit of position. Head h uses set h / group. With grouped
/// queries, encode keys with group 1 and queries with group = query heads per key head; for one set for all heads,
/// group = heads. Throws ShapeError for a spec or parameters that do not fit each other; a call throws RangeError for
/// frequencies that are not finite, or above 10^290.
template <class A>
class BEARING_EXPORT RopeMixedRows {
 public:
  using Arithmetic = A;

  RopeMixedRows(const RopeMixed& mixed, Param<A, 3> frequencies, Index group = 1);

  void check(const char* function, const Problem& problem) const;
  Index turn_scratch(Index) const { return mixed_.axes * pairs(); }
  void turn(const RowTile& tile, const A* x, A* y) const;
  /// ∂y/∂φ is y turned by a right angle; df[axis] = Σ p_axis dφ; d_x = R(φ)ᵀ d_y.
  void turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const;
  auto grad_block(Index, Index head) const { return ParamBlock(slice(frequencies_.grad, 1, head / group_)); }
  void borrows(MemoryList& to) const { to.param("RopeMixed.frequencies", frequencies_); }

 private:
  Index pairs() const { return mixed_.head_dim / 2; }
  double phase(const RowTile& tile, Index set, Index row, Index pair) const;  ///< φ

  RopeMixed mixed_;
  Param<A, 3> frequencies_;
  Index group_;
};

}  // namespace bearing
