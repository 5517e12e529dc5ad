#pragma once

#include <algorithm>
#include <bearing/half.hpp>
#include <cmath>

namespace bearing::test {

/// Significant bits of a type and the exponent of its smallest positive number.
template <class T>
struct Format;
template <>
struct Format<double> {
  static constexpr int digits = 53, least = -1074;
};
template <>
struct Format<float> {
  static constexpr int digits = 24, least = -149;
};
template <>
struct Format<Bfloat16> {
  static constexpr int digits = 8, least = -133;
};
template <>
struct Format<Float16> {
  static constexpr int digits = 11, least = -24;
};

/// The distance of T's neighbours in the binade of x: 2^(⌊log2 |x|⌋ + 1 − digits), but for subnormals.
template <class T>
double ulp(double x) {
  int exponent = 0;  // |x| = m·2^exponent with ½ ≤ m < 1
  std::frexp(x, &exponent);
  return std::ldexp(1.0, x == 0 ? Format<T>::least : std::max(exponent - Format<T>::digits, Format<T>::least));
}

template <class T>
double to_double(T value) {
  if constexpr (sizeof(T) == 2) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

/// Rounds once; the 16-bit types go through float, so give them what a float holds.
template <class T>
T from_double(double value) {
  if constexpr (sizeof(T) == 2) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace bearing::test
