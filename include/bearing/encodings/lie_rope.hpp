#pragma once

#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>

// LieRE (Ostmeier et al. 2024, "LieRE: Lie rotational positional encodings", arXiv 2406.10322): a token's position
// picks a rotation of the whole head, or of each block of it, out of a learned family,
//
//     R(p) = exp(Σ_axis p_axis A_axis),      A learned, skew-symmetric: A[i][j] = −A[j][i] = a[i < j]
//
// RoPE-Mixed is the case of blocks of 2 (with f = −a: a turns clockwise). R is orthogonal, so norms are kept. With one
// axis the score depends on the distance alone: R(m)ᵀR(n) = R(n − m). With more it does so only if the A commute, which
// nothing enforces: LieRE is not exactly relative. The encodings of string_rope.hpp are.
//
// The exponential is computed in double, for every token, by scaling and squaring; its gradient is the exact Fréchet
// derivative. One token costs some 10 + log2(size of the angles) products of block×block matrices, three times as many
// backward.

namespace bearing {

struct LieRope {
  Index head_dim = 0;
  Index axes = 2;
  Index block = 0;  ///< divides head_dim, at most 128; 0: the whole head, as in the authors' code

  bool operator==(const LieRope&) const = default;
};

/// Generators [sets, axes, head_dim/block, block·(block−1)/2]: the strict upper triangle of each A, row by row. Head h
/// uses set h / group (see RopeMixedRows). The authors start from numbers uniform in [0, 2π). Throws ShapeError for a
/// spec or parameters that do not fit each other; a call throws RangeError for generators that are not finite, or whose
/// product with the positions, summed over axes, may pass 2^36.
template <class A>
class BEARING_EXPORT LieRopeRows {
 public:
  using Arithmetic = A;

  LieRopeRows(const LieRope& lie, Param<A, 4> generators, Index group = 1);

  void check(const char* function, const Problem& problem) const;
  Index turn_scratch(Index) const { return 6 * lie_.block * lie_.block + lie_.block; }
  void turn(const RowTile& tile, const A* x, A* y) const;
  void turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const;
  auto grad_block(Index, Index head) const { return ParamBlock(slice(generators_.grad, 0, head / group_)); }
  void borrows(MemoryList& to) const { to.param("LieRope.generators", generators_); }

 private:
  Index blocks() const { return lie_.head_dim / lie_.block; }
  Index triangle() const { return lie_.block * (lie_.block - 1) / 2; }
  /// sign · Σ_axis p_axis A_axis of one block, [block, block].
  void exponent(const RowTile& tile, Index row, Index block, double sign, double* m) const;
  void add_generator_grads(const RowTile& tile, Index row, Index block, const double* l, A* d_params) const;

  LieRope lie_;
  Param<A, 4> generators_;
  Index group_;
};

}  // namespace bearing
