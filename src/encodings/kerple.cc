#include <bearing/encodings/kerple.hpp>
#include <cmath>
#include <limits>

#include "terms/checks.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

/// A logarithm's argument may fall below 0 otherwise, far from the query; a power may overflow.
template <class A>
void check_numbers(const char* function, const char* name, View<const A, 1> numbers, double most) {
  for (Index h = 0; h < numbers.shape[0]; ++h) {
    const auto number = static_cast<double>(numbers(h));
    if (number > 0 && number <= most) continue;
    throw RangeError(concat("[", function, "] ", name, ": must be positive",
                            std::isinf(most) ? "" : concat(" and at most ", most), ", got ", number, " for head ", h));
  }
}

}  // namespace

template <class A>
void KerpleBias<A>::check(const char* function, const Problem& problem) const {
  check_param(function, "Kerple.r1", r1_, {problem.heads}, "[heads]");
  check_param(function, "Kerple.r2", r2_, {problem.heads}, "[heads]");
  constexpr double infinity = std::numeric_limits<double>::infinity();
  check_numbers(function, "Kerple.r1", r1_.value, infinity);
  check_numbers(function, "Kerple.r2", r2_.value, form_ == KerpleForm::power ? Kerple::most_power : infinity);
}

template <class A>
void KerpleBias<A>::bias(Index head, Index n, const double* distance, A* b) const {
  const auto r1 = static_cast<double>(r1_.value(head)), r2 = static_cast<double>(r2_.value(head));
  for (Index i = 0; i < n; ++i) {
    const double x = std::abs(distance[i]);
    if (form_ == KerpleForm::logarithmic) {
      b[i] = static_cast<A>(0 - r1 * std::log1p(r2 * x));
    } else {
      b[i] = x == 0 ? A{0} : static_cast<A>(-r1 * std::pow(x, r2));
    }
  }
}

template <class A>
void KerpleBias<A>::bias_grads(Index head, Index n, const double* distance, const A* d_b, A* d_params) const {
  const auto r1 = static_cast<double>(r1_.value(head)), r2 = static_cast<double>(r2_.value(head));
  double d_r1 = 0, d_r2 = 0;
  for (Index i = 0; i < n; ++i) {
    const double x = std::abs(distance[i]), d = static_cast<double>(d_b[i]);
    if (x == 0) continue;  // the bias is 0 whatever the parameters; x^r2·ln x tends to 0
    if (form_ == KerpleForm::logarithmic) {
      // b = −r1·ln(1 + r2·x)
      d_r1 -= d * std::log1p(r2 * x);
      d_r2 -= d * r1 * x / (1 + r2 * x);
    } else {
      // b = −r1·x^r2
      const double power = std::pow(x, r2);
      d_r1 -= d * power;
      d_r2 -= d * r1 * power * std::log(x);
    }
  }
  d_params[0] += static_cast<A>(d_r1);
  d_params[1] += static_cast<A>(d_r2);
}

template <class A>
void KerpleBias<A>::collect(Index, Index head, const A* d_params) const {
  if (r1_.grad.data != nullptr) r1_.grad(head) += d_params[0];
  if (r2_.grad.data != nullptr) r2_.grad(head) += d_params[1];
}

template class KerpleBias<float>;
template class KerpleBias<double>;

}  // namespace bearing
