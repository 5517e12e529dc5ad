#pragma once

#include <bearing/encodings/rope_mixed.hpp>
#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>
#include <vector>

// STRING (Schenck et al. 2025, "Learning the RoPEs: better 2D and 3D position encodings with STRING", arXiv
// 2502.02562): rotations R(p) = exp(Σ_axis p_axis L_axis) whose generators L commute, so that R(m)ᵀR(n) = R(n − m)
// exactly, on any number of axes. Two forms that are cheap:
//
//     Cayley-STRING      R(p) = RoPE(p) · P,   P = (I − S)(I + S)⁻¹,   S learned, skew-symmetric; P is orthogonal
//     Circulant-STRING   L_axis = C_axis − C_axisᵀ,   C circulant: C[i][j] = c[(i − j) mod head_dim]
//
// Every STRING is RoPE-Mixed in another basis (their theorem 3.4): Cayley-STRING learns the basis, Circulant-STRING
// takes the Fourier basis. With softmax attention P could be part of the projections; the authors report that it trains
// better as a separate parameter.

namespace bearing {

struct CayleyString {
  RopeMixed rope;  ///< axes 1: RoPE with learned frequencies

  bool operator==(const CayleyString&) const = default;
};

/// Frequencies [axes, sets, head_dim/2] and S [sets, head_dim·(head_dim−1)/2], its strict upper triangle row by row;
/// head h uses set h / group (see RopeMixedRows). The constructor computes P, in double: make a new one when S changes.
/// Throws ShapeError for a spec or parameters that do not fit each other, RangeError for an S that is not finite; a
/// call throws RangeError for frequencies as RopeMixedRows.
template <class A>
class BEARING_EXPORT CayleyStringRows {
 public:
  using Arithmetic = A;

  CayleyStringRows(const CayleyString& string, Param<A, 3> frequencies, Param<A, 2> skew, Index group = 1);

  void check(const char* function, const Problem& problem) const;
  Index turn_scratch(Index dim) const { return rotation_.turn_scratch(dim) + 2 * dim; }
  void turn(const RowTile& tile, const A* x, A* y) const;
  /// dS = −2 (I + S)⁻ᵀ dP (I + S)⁻ᵀ, its skew part; d_x = Pᵀ RoPE(p)ᵀ d_y.
  void turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const;
  Index param_size() const;
  void collect(Index batch, Index head, const A* d_params) const;
  void borrows(MemoryList& to) const { rotation_.borrows(to), to.param("CayleyString.skew", skew_); }

 private:
  void to_basis(Index set, const A* x, A* y, double* room) const;  ///< y = P x

  Index dim_, sets_, group_;
  RopeMixedRows<A> rotation_;
  Param<A, 2> skew_;
  std::vector<double> inverse_;  ///< [sets, dim, dim] (I + S)⁻¹
  std::vector<double> basis_;    ///< [sets, dim, dim] P
};

struct CirculantString {
  Index head_dim = 0;  ///< at most 1024
  Index axes = 2;

  bool operator==(const CirculantString&) const = default;
};

/// c [axes, sets, head_dim]; only its odd part c[k] − c[head_dim − k] matters. Head h uses set h / group (see
/// RopeMixedRows). Works in the Fourier basis: pair f of it turns by −2 Σ_axis p_axis Σ_k c[k] sin(2πfk/head_dim);
/// the constant, and of an even head the alternating, component stay. Throws ShapeError for a spec or parameters that
/// do not fit each other; a call throws RangeError for numbers that are not finite, or above 10^290.
template <class A>
class BEARING_EXPORT CirculantStringRows {
 public:
  using Arithmetic = A;

  CirculantStringRows(const CirculantString& string, Param<A, 3> c, Index group = 1);

  void check(const char* function, const Problem& problem) const;
  Index turn_scratch(Index) const { return 2 * string_.axes * pairs() + 2 * string_.head_dim; }
  void turn(const RowTile& tile, const A* x, A* y) const;
  void turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const;
  auto grad_block(Index, Index head) const { return ParamBlock(slice(c_.grad, 1, head / group_)); }
  void borrows(MemoryList& to) const { to.param("CirculantString.c", c_); }

 private:
  Index pairs() const { return (string_.head_dim - 1) / 2; }
  /// cos or sin of 2πk/head_dim for any k ≥ 0
  double wave(const std::vector<double>& of, Index k) const {
    return of[static_cast<std::size_t>(k % string_.head_dim)];
  }
  /// at + step on the circle of head_dim places, both below head_dim: a division would cost more than the rest
  Index after(Index at, Index step) const {
    return at + step < string_.head_dim ? at + step : at + step - string_.head_dim;
  }
  double phase(const RowTile& tile, Index row, const double* omega) const;
  void find_frequencies(Index head, double* omega) const;  ///< [axes, pairs]
  void to_fourier(const A* x, double* z) const;            ///< z = F x, F orthogonal
  void from_fourier(const double* z, A* x) const;          ///< x = Fᵀ z

  CirculantString string_;
  Param<A, 3> c_;
  Index group_;
  std::vector<double> cos_, sin_;  ///< [head_dim] of 2πk/head_dim
};

}  // namespace bearing
