#pragma once

#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>
#include <vector>

// PoPE, polar coordinate position embedding (Gopalakrishnan, Csordás, Schmidhuber, Mozer 2025, "Decoupling the what and
// where with polar coordinate positional embeddings", arXiv 2509.10534): each element of a query or key becomes a
// vector of the plane, its length from the content alone, its angle from the position alone,
//
//     q_c at m  →  softplus(q_c) · (cos mθ_c, sin mθ_c)              θ_c = base^(−c/head_dim), c = 0 … head_dim − 1
//     k_c at n  →  softplus(k_c) · (cos(nθ_c + δ_c), sin(nθ_c + δ_c))          δ learned, held within [−2π, 0]
//
//     score  =  Σ_c softplus(q_c) softplus(k_c) cos((n − m)θ_c + δ_c)
//
// It has twice as many frequencies as RoPE, turned rows are twice as wide, and scores depend on the distance alone.

namespace bearing {

struct Pope {
  Index head_dim = 0;
  double base = 10'000;

  bool operator==(const Pope&) const = default;
};

/// Rows [head_dim] → [2·head_dim]: cos and sin of element c at 2c and 2c + 1. Offsets δ [sets, head_dim] turn keys
/// only; if they are not given they are 0. A δ outside [−2π, 0] counts as the nearer end and has gradient 0. Head h
/// uses set h / group (see RopeMixedRows). Throws ShapeError for parameters that do not fit, RangeError for a base that
/// is not finite and above 0.
template <class A>
class BEARING_EXPORT PopeRows {
 public:
  using Arithmetic = A;

  explicit PopeRows(const Pope& pope) : PopeRows(pope, {}, 1) {}
  PopeRows(const Pope& pope, Param<A, 2> offsets, Index group = 1);

  Index out_dim(Index dim) const { return 2 * dim; }
  Index turn_scratch(Index dim) const { return 2 * dim; }
  void check(const char* function, const Problem& problem) const;
  void turn(const RowTile& tile, const A* x, A* y) const;
  /// d softplus(x) = logistic(x); dδ_c is the torque of d_y on y.
  void turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const;
  auto grad_block(Index, Index head) const { return ParamBlock(slice(offsets_.grad, 0, head / group_)); }
  void borrows(MemoryList& to) const { to.param("Pope.offsets", offsets_); }

 private:
  double angle(const RowTile& tile, Index row, Index c) const;

  Pope pope_;
  std::vector<double> frequencies_;
  Param<A, 2> offsets_;
  Index group_;
};

}  // namespace bearing
