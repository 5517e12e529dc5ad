#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>
#include <vector>

// FoPE, Fourier position embedding (Hua et al. 2024, arXiv 2412.17739): RoPE in which each pair turns by a Fourier
// series instead of one frequency, and frequencies that complete no turn within the trained length are left out,
//
//     cos′_d(p) = Σ_D cos(pθ_D) C[head, D, d]     sin′_d(p) = Σ_D sin(pθ_D) S[head, D, d]     θ_D ≥ 2π/trained_length
//     (u, v) ← (u cos′ − v sin′,  u sin′ + v cos′)
//
// Pairs past the mixed ones have frequency 0: cos′ = 1, sin′ = 0, and pass through. (Code in circulation, vLLM's own
// until it was mended, pads sin′ with 1: those pairs then mix.) (cos′, sin′) is not on the unit circle, so norms are
// not kept, and with more than one frequency in a pair the score does not depend on the distance alone.

namespace bearing {

struct Fope {
  Index head_dim = 0;
  double base = 10'000;
  Index trained_length = 0;
  Index kept = 0;             ///< how many frequencies are kept; 0: those with θ ≥ 2π/trained_length
  Required<Pairing> pairing;  ///< half in vLLM

  bool operator==(const Fope&) const = default;
};

/// The frequencies that are kept, the fastest first. Throws ShapeError for a head_dim that is odd or below 2, or for
/// more kept ones than pairs; RangeError for a base or a trained length that cannot be.
BEARING_EXPORT std::vector<double> fope_frequencies(const Fope& fope);

/// C and S [sets, kept, mixed], with kept as many rows as fope_frequencies() has, and at most head_dim/2 columns. They
/// are taken as they are, as vLLM does: the authors' training code divides each column by its sum first. Head h uses
/// set h / group (see RopeMixedRows): the published models have one set per key head. Throws ShapeError for a spec or
/// parameters that do not fit each other, RangeError if no frequency is kept; a call throws RangeError for numbers that
/// are not finite.
template <class A>
class BEARING_EXPORT FopeRows {
 public:
  using Arithmetic = A;

  FopeRows(const Fope& fope, Param<A, 3> cos, Param<A, 3> sin, Index group = 1);

  void check(const char* function, const Problem& problem) const;
  Index turn_scratch(Index) const { return 2 * kept() + 2 * mixed(); }
  void turn(const RowTile& tile, const A* x, A* y) const;
  void turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const;
  auto grad_block(Index, Index head) const {
    return ParamBlock(slice(cos_.grad, 0, head / group_), slice(sin_.grad, 0, head / group_));
  }
  void borrows(MemoryList& to) const { to.param("Fope.cos", cos_), to.param("Fope.sin", sin_); }

 private:
  Index kept() const { return static_cast<Index>(frequencies_.size()); }
  Index mixed() const { return cos_.value.shape[2]; }
  void series(Index head, double p, double* waves, double* mixed) const;

  Fope fope_;
  std::vector<double> frequencies_;
  Param<A, 3> cos_, sin_;
  Index group_;
};

}  // namespace bearing
