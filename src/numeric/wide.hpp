#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace bearing::detail {

/// A real number with 192 bits: the 150 that a frequency needs (docs/adr/0002-frequencies-in-three-doubles.md), and
/// room for what exp, log and a chain of products lose. Integer arithmetic only: the same bits on every platform.
/// Boost.Multiprecision computes, in wide.cc alone: its headers take longer to compile than what uses them.
class Wide {
 public:
  Wide() : Wide(0.0) {}
  Wide(double x);
  template <std::signed_integral Int>
  Wide(Int n) : Wide(Whole{n}) {}

  Wide(const Wide& other);
  Wide& operator=(const Wide& other);

  /// Rounded to nearest.
  double to_double() const;
  float to_float() const;

 private:
  friend struct WideNumber;  // what lies in the bytes
  struct Whole {
    std::int64_t n;
  };
  explicit Wide(Whole whole);

  alignas(16) std::byte bytes_[64];
};

Wide operator-(const Wide& a);
Wide operator+(const Wide& a, const Wide& b);
Wide operator-(const Wide& a, const Wide& b);
Wide operator*(const Wide& a, const Wide& b);
Wide operator/(const Wide& a, const Wide& b);
bool operator==(const Wide& a, const Wide& b);
std::partial_ordering operator<=>(const Wide& a, const Wide& b);

Wide exp(const Wide& a);
Wide log(const Wide& a);
Wide sqrt(const Wide& a);
Wide sin(const Wide& a);
Wide cos(const Wide& a);
Wide floor(const Wide& a);
Wide ceil(const Wide& a);

Wide wide_pi();

/// A whole number to a power.
struct WholePower {
  std::int64_t base;
  unsigned exponent;
};

/// a·b ≥ c·d, exactly, however many bits that takes.
bool at_least(WholePower a, WholePower b, WholePower c, WholePower d);

/// A number as an unevaluated sum of three doubles, largest first; each is the rest rounded to nearest.
struct ThreeDoubles {
  double hi = 0, mid = 0, lo = 0;
};

ThreeDoubles three_doubles(const Wide& w);

}  // namespace bearing::detail
