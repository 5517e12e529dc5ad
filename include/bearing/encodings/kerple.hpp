#pragma once

#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>

// KERPLE, kernelised relative positions (Chi, Fan, Ramadge, Rudnicky 2022, arXiv 2205.09921): a conditionally positive
// definite kernel of the distance is subtracted from the score, with two learned numbers per head,
//
//     logarithmic  s_ij ← s_ij − r1_h · ln(1 + r2_h · |n − m|)
//     power        s_ij ← s_ij − r1_h · |n − m|^r2_h                (ALiBi is r2 = 1)
//
// The authors' code calls them p, a (logarithmic) and a, p (power), draws what multiplies a distance from U(0, 1) and
// the other from U(0, 2), and before every forward pass sets parameters that an optimiser took too far back to `least`
// and `most_power`. The clipping is no part of the function or of its gradient: the caller does it. The code's optional
// multiplicative kernel ("wei") is not here, because it multiplies whole scores.

namespace bearing {

enum class KerpleForm { logarithmic, power };

struct Kerple {
  Required<KerpleForm> form;

  static constexpr double least = 0.01;    ///< of r1 and r2, after an optimiser's step
  static constexpr double most_power = 2;  ///< of r2 in the power form: beyond it the kernel is not positive definite

  bool operator==(const Kerple&) const = default;
};

/// KERPLE as a bias by distance, for whole and real positions. A call throws ShapeError unless there is one of each
/// parameter for each head, and RangeError for one that is not positive and finite or a power past `most_power`.
template <class A>
class BEARING_EXPORT KerpleBias {
 public:
  using Arithmetic = A;

  /// r1, r2 [heads], positive.
  /// Logarithmic: ∂b/∂r1 = −ln(1 + r2·|n − m|), ∂b/∂r2 = −r1·|n − m| / (1 + r2·|n − m|).
  /// Power: ∂b/∂r1 = −|n − m|^r2, ∂b/∂r2 = −r1·|n − m|^r2·ln|n − m|, both 0 at distance 0.
  KerpleBias(const Kerple& kerple, Param<A, 1> r1, Param<A, 1> r2) : form_(kerple.form), r1_(r1), r2_(r2) {}

  void check(const char* function, const Problem& problem) const;
  void bias(Index head, Index n, const double* distance, A* b) const;
  void bias_grads(Index head, Index n, const double* distance, const A* d_b, A* d_params) const;
  auto grad_block(Index, Index head) const { return ParamBlock(slice(r1_.grad, 0, head), slice(r2_.grad, 0, head)); }
  void borrows(MemoryList& to) const { to.param("Kerple.r1", r1_), to.param("Kerple.r2", r2_); }

 private:
  KerpleForm form_;
  Param<A, 1> r1_, r2_;
};

}  // namespace bearing
