#pragma once

#include <mpfr.h>
#include <bearing/view.hpp>

namespace bearing::test {

/// An MPFR number of 320 bits with the operators of a number.
class Real {
 public:
  Real(double x = 0) {
    mpfr_init2(value_, 320);
    mpfr_set_d(value_, x, MPFR_RNDN);
  }
  Real(const Real& other) : Real() { mpfr_set(value_, other.value_, MPFR_RNDN); }
  Real& operator=(const Real& other) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  ~Real() { mpfr_clear(value_); }

  /// The number's own form, for MPFR's functions that have no operator here.
  mpfr_srcptr value() const { return value_; }

  double rounded() const { return mpfr_get_d(value_, MPFR_RNDN); }

  friend Real operator+(const Real& a, const Real& b) { return made(mpfr_add, a, b); }
  friend Real operator-(const Real& a, const Real& b) { return made(mpfr_sub, a, b); }
  friend Real operator*(const Real& a, const Real& b) { return made(mpfr_mul, a, b); }
  friend Real operator/(const Real& a, const Real& b) { return made(mpfr_div, a, b); }
  friend Real pow(const Real& a, const Real& b) { return made(mpfr_pow, a, b); }
  friend bool operator<(const Real& a, const Real& b) { return mpfr_less_p(a.value_, b.value_) != 0; }
  friend Real log(const Real& a) {
    Real result;
    mpfr_log(result.value_, a.value_, MPFR_RNDN);
    return result;
  }
  friend Real floor(const Real& a) {
    Real result;
    mpfr_floor(result.value_, a.value_);
    return result;
  }
  static Real pi() {
    Real result;
    mpfr_const_pi(result.value_, MPFR_RNDN);
    return result;
  }

 private:
  template <class F>
  static Real made(F f, const Real& a, const Real& b) {
    Real result;
    f(result.value_, a.value_, b.value_, MPFR_RNDN);
    return result;
  }
  mpfr_t value_;
};

inline Real real(Index i) { return {static_cast<double>(i)}; }

}  // namespace bearing::test
