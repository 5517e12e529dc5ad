#pragma once

#include <bearing/export.hpp>
#include <bearing/term.hpp>
#include <vector>

// Sandwich (Chi, Fan, Rudnicky, Ramadge 2023, arXiv 2212.10356): the product of the sinusoidal encodings of query and
// key, without anything to learn,
//
//     s_ij ← s_ij + H/(8h) · Σ_i cos((n − m) · base^(−2i/dim)),   i = 0 … dim/2 − 1, h = 1 … H
//
// The sum is dim/2 at distance 0 and falls, though not monotonically: it oscillates around its decay.

namespace bearing {

struct Sandwich {
  Index heads = 0;
  Index dim = 128;  ///< d̄, even: of the sinusoids; it need not be the model's
  double base = 10'000;

  bool operator==(const Sandwich&) const = default;
};

/// Sandwich as a bias by distance, for whole and real positions; whole distances are much faster. Throws ShapeError for
/// a dim that is odd, below 2 or past 65,536, RangeError for heads < 1 or base ≤ 0; a call throws ShapeError for
/// another number of heads than the spec's.
template <class A>
class BEARING_EXPORT SandwichBias {
 public:
  using Arithmetic = A;
  static constexpr bool constant = true;

  explicit SandwichBias(const Sandwich& sandwich);

  void check(const char* function, const Problem& problem) const;
  void bias(Index head, Index n, const double* distance, A* b) const;

 private:
  void block_sums(double a, double* sums) const;

  Index heads_ = 0;
  std::vector<double> theta_;      ///< [dim/2] radians per token
  std::vector<double> cos_, sin_;  ///< [dim/2, 64] of 0 … 63 tokens, for the addition theorem
  std::vector<double> near_;       ///< the sums of distances 0, 1, 2, …
};

}  // namespace bearing
