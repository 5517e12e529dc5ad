#include "support/oracle.hpp"

#include <mpfr.h>

namespace bearing::test {
namespace {

// Angles reach 2^32, and a cos may be as small as 2^-70 beside them: 320 bits leave more than 200 for the result.
constexpr mpfr_prec_t working_bits = 320;
constexpr mpfr_prec_t result_bits = 128;

}  // namespace

struct TrueFrequency::Number {
  explicit Number(mpfr_prec_t bits = working_bits) { mpfr_init2(value, bits); }
  ~Number() { mpfr_clear(value); }
  Number(const Number&) = delete;
  Number& operator=(const Number&) = delete;

  mpfr_t value;
};

namespace {

using Number = TrueFrequency::Number;

Truth two_doubles(const Number& number) {
  Truth truth;
  truth.hi = mpfr_get_d(number.value, MPFR_RNDN);
  Number rest;
  mpfr_sub_d(rest.value, number.value, truth.hi, MPFR_RNDN);
  truth.lo = mpfr_get_d(rest.value, MPFR_RNDN);
  return truth;
}

}  // namespace

TrueFrequency TrueFrequency::power(double base, Index numerator, Index denominator) {
  auto theta = std::make_shared<Number>();
  Number exponent;
  mpfr_set_si(exponent.value, -numerator, MPFR_RNDN);
  mpfr_div_si(exponent.value, exponent.value, denominator, MPFR_RNDN);
  mpfr_set_d(theta->value, base, MPFR_RNDN);
  mpfr_pow(theta->value, theta->value, exponent.value, MPFR_RNDN);
  return TrueFrequency(std::move(theta));
}

TrueFrequency TrueFrequency::exactly(double theta) {
  auto number = std::make_shared<Number>();
  mpfr_set_d(number->value, theta, MPFR_RNDN);
  return TrueFrequency(std::move(number));
}

TrueCosSin TrueFrequency::cos_sin(double position, double factor) const {
  Number angle, cos(result_bits), sin(result_bits);
  mpfr_mul_d(angle.value, theta_->value, position, MPFR_RNDN);
  mpfr_sin_cos(sin.value, cos.value, angle.value, MPFR_RNDN);
  mpfr_mul_d(sin.value, sin.value, factor, MPFR_RNDN);
  mpfr_mul_d(cos.value, cos.value, factor, MPFR_RNDN);
  return {two_doubles(cos), two_doubles(sin)};
}

Truth TrueFrequency::value() const { return two_doubles(*theta_); }

std::vector<Index> TrueFrequency::near_quarter_turns(Index limit) const {
  Number x, whole;
  mpfr_const_pi(x.value, MPFR_RNDN);
  mpfr_div(x.value, theta_->value, x.value, MPFR_RNDN);
  mpfr_mul_2ui(x.value, x.value, 1, MPFR_RNDN);
  std::vector<Index> found;
  Index before = 1, now = 0;  // denominators: q_{k−2}, q_{k−1}
  while (mpfr_number_p(x.value)) {
    mpfr_floor(whole.value, x.value);
    // A partial quotient past the limit ends the search: the next denominator would be past it too.
    const bool huge = mpfr_cmp_si(whole.value, limit) > 0;
    const Index quotient = huge ? limit : mpfr_get_si(whole.value, MPFR_RNDN);
    if (now > 0) {
      for (Index j = 1; j <= std::min<Index>(quotient, 4); ++j) {
        if (j <= (limit - before) / now) found.push_back(before + j * now);
      }
    }
    if (huge || (now > 0 && quotient > (limit - before) / now)) break;
    const Index next = quotient * now + before;
    before = now, now = next;
    found.push_back(now);
    mpfr_sub(x.value, x.value, whole.value, MPFR_RNDN);
    if (mpfr_zero_p(x.value)) break;
    mpfr_ui_div(x.value, 1, x.value, MPFR_RNDN);
  }
  return found;
}

Truth parse_truth(const char* decimal) {
  Number number;
  mpfr_set_str(number.value, decimal, 10, MPFR_RNDN);
  return two_doubles(number);
}

}  // namespace bearing::test
