#pragma once

#include <bearing/view.hpp>
#include <memory>
#include <vector>

#include "support/ulp.hpp"

namespace bearing::test {

/// A true value as the unevaluated sum of two doubles: 106 bits, more than any comparison here needs.
struct Truth {
  double hi = 0, lo = 0;
};

/// |got − truth| in ulps of T at the truth. got − hi is exact wherever the two are close (Sterbenz), so this is too.
template <class T>
double ulps(T got, Truth truth) {
  return std::abs((to_double(got) - truth.hi) - truth.lo) / ulp<T>(truth.hi);
}

struct TrueCosSin {
  Truth cos, sin;
};

/// One frequency as a real number, to 320 bits, with cos and sin by MPFR.
class TrueFrequency {
 public:
  /// base^(−numerator/denominator): the definition, not what any library made of it.
  static TrueFrequency power(double base, Index numerator, Index denominator);
  /// Exactly this double.
  static TrueFrequency exactly(double theta);

  /// factor·cos(pθ) and factor·sin(pθ).
  TrueCosSin cos_sin(double position, double factor = 1) const;

  /// θ as two doubles.
  Truth value() const;

  /// Whole positions up to `limit` at which pθ comes closest to a multiple of π/2, where cos or sin is tiny and a
  /// careless reduction loses all its bits: the denominators of the convergents of θ·2/π, and of the fractions between
  /// them.
  std::vector<Index> near_quarter_turns(Index limit) const;

  struct Number;  // an MPFR number

 private:
  explicit TrueFrequency(std::shared_ptr<const Number> theta) : theta_(std::move(theta)) {}
  std::shared_ptr<const Number> theta_;
};

/// A decimal number as two doubles.
Truth parse_truth(const char* decimal);

}  // namespace bearing::test
