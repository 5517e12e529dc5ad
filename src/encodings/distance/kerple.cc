#include <bearing/encodings/kerple.hpp>
#include <cmath>
#include <limits>

#include "describe/describer.hpp"
#include "terms/checks.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

constexpr double largest = std::numeric_limits<double>::max();

/// A logarithm's argument may fall below 0 otherwise, far from the query; a power may overflow; ∞ · 0 is a NaN.
template <class A>
void check_numbers(const char* function, const char* name, View<const A, 1> numbers, double most) {
  for (Index h = 0; h < numbers.shape[0]; ++h) {
    const auto number = static_cast<double>(numbers(h));
    if (number > 0 && number <= most) continue;
    throw RangeError(concat("[", function, "] ", name, ": must be positive and ",
                            most == largest ? "finite" : concat("at most ", most), ", got ", number, " for head ", h));
  }
}

}  // namespace

template <class A>
void KerpleBias<A>::check(const char* function, const Problem& problem) const {
  check_param(function, "Kerple.r1", r1_, {problem.heads}, "[heads]");
  check_param(function, "Kerple.r2", r2_, {problem.heads}, "[heads]");
  check_numbers(function, "Kerple.r1", r1_.value, largest);
  check_numbers(function, "Kerple.r2", r2_.value, form_ == KerpleForm::power ? Kerple::most_power : largest);
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
  const auto [to_r1, to_r2] = grad_block(0, head).split(d_params);
  if (to_r1 != nullptr) *to_r1 += static_cast<A>(d_r1);
  if (to_r2 != nullptr) *to_r2 += static_cast<A>(d_r2);
}

template class KerpleBias<float>;
template class KerpleBias<double>;

template <>
struct describe::Words<KerpleForm> {
  static constexpr const char* all[] = {"logarithmic", "power"};
};

void describe_kerple(Describer& to) {
  to.home("kerple", {"Chi et al.", 2022, "arXiv 2205.09921"});
  to.record(
        "Kerple", Kerple{KerpleForm::logarithmic},
        "KERPLE, kernelised relative positions: a kernel of the distance, with two learned numbers, is subtracted.\n\n"
        "    logarithmic   s_ij <- s_ij - r1_h ln(1 + r2_h |n - m|)\n"
        "    power         s_ij <- s_ij - r1_h |n - m|^r2_h              (ALiBi is r2 = 1)\n\n"
        "Chi, Fan, Ramadge, Rudnicky 2022, arXiv 2205.09921.")
      .member("form", &Kerple::form, "The kernel.")
      .constant("least", Kerple::least, "The least value of r1 and r2 after an optimiser's step.")
      .constant("most_power", Kerple::most_power,
                "The largest value of r2 in the power form; beyond it the kernel is not positive definite.");
  // The authors' code draws what multiplies a distance from U(0, 1), the other number from U(0, 2).
  const auto start = [](KerpleForm wide) {
    return Rule{"uniform, as in the authors' code", [wide](const Filling& all) {
                  const bool power = all.spec.as<Kerple>()->form == KerpleForm::power;
                  uniform(0, power == (wide == KerpleForm::power) ? 2 : 1).fill(all);
                  for (double& number : all.numbers) number = std::max(number, Kerple::least);
                }};
  };
  to.encoding<Kerple, 1, 1>(
        "KerpleBias",
        "KERPLE as a bias by distance: r1, r2 [heads], positive. Positions may be real numbers.\n\n"
        "    logarithmic   s_ij <- s_ij - r1_h ln(1 + r2_h |n - m|)\n"
        "    power         s_ij <- s_ij - r1_h |n - m|^r2_h\n\n"
        "The caller keeps parameters within Kerple.least and Kerple.most_power after an optimiser's step.\n\n"
        "Chi, Fan, Ramadge, Rudnicky 2022, arXiv 2205.09921.",
        {Parameter("r1", {"heads"}, "What multiplies the kernel.")
             .starts(start(KerpleForm::logarithmic))
             .draws(positive(0.5)),
         Parameter("r2", {"heads"}, "What multiplies the distance, or its exponent in the power form.")
             .starts(start(KerpleForm::power))
             .draws(positive(0.25, Kerple::most_power))},
        make_with_spec<KerpleBias>)
      .form(Form::distance)
      .called("kerple_log", "KERPLE, logarithmic", "a score loses by the logarithm of distance",
              [](const ExampleSize&) { return Kerple{KerpleForm::logarithmic}; })
      .also({"kerple"})
      .called("kerple_power", "KERPLE, power", "a score loses by a power of distance",
              [](const ExampleSize&) { return Kerple{KerpleForm::power}; });
}

}  // namespace bearing
