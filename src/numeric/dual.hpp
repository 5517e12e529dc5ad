#pragma once

#include <cmath>

namespace bearing::detail {

/// A number and its derivative with respect to one variable: forward differentiation by the chain rule.
struct Dual {
  double value = 0, slope = 0;

  constexpr Dual() = default;
  constexpr Dual(double constant) : value(constant) {}
  constexpr Dual(double value_, double slope_) : value(value_), slope(slope_) {}
};

constexpr Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
constexpr Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.slope - b.slope}; }
constexpr Dual operator*(Dual a, Dual b) { return {a.value * b.value, a.slope * b.value + a.value * b.slope}; }
constexpr Dual operator/(Dual a, Dual b) {
  const double quotient = a.value / b.value;
  return {quotient, (a.slope - quotient * b.slope) / b.value};
}

inline Dual exp(Dual a) {
  const double value = std::exp(a.value);
  return {value, value * a.slope};
}
inline Dual log(Dual a) { return {std::log(a.value), a.slope / a.value}; }

// Steps: flat wherever they have a derivative.
inline Dual floor(Dual a) { return {std::floor(a.value), 0}; }
inline Dual ceil(Dual a) { return {std::ceil(a.value), 0}; }

constexpr bool operator<(Dual a, Dual b) { return a.value < b.value; }
constexpr bool operator>(Dual a, Dual b) { return a.value > b.value; }
constexpr bool operator==(Dual a, Dual b) { return a.value == b.value; }

}  // namespace bearing::detail
