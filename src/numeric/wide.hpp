#pragma once

#include <boost/math/constants/constants.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>

namespace bearing::detail {

/// A real number with 192 bits: the 150 that a frequency needs (docs/adr/0002-frequencies-in-three-doubles.md), and
/// room for what exp, log and a chain of products lose. Integer arithmetic only: the same bits on every platform.
using Wide =
    boost::multiprecision::number<boost::multiprecision::cpp_bin_float<192, boost::multiprecision::digit_base_2>,
                                  boost::multiprecision::et_off>;

inline Wide wide_pi() { return boost::math::constants::pi<Wide>(); }

/// A number as an unevaluated sum of three doubles, largest first; each is the rest rounded to nearest.
struct ThreeDoubles {
  double hi = 0, mid = 0, lo = 0;
};

inline ThreeDoubles three_doubles(const Wide& w) {
  ThreeDoubles sum;
  sum.hi = w.convert_to<double>();
  const Wide after_hi = w - sum.hi;
  sum.mid = after_hi.convert_to<double>();
  sum.lo = Wide(after_hi - sum.mid).convert_to<double>();
  return sum;
}

}  // namespace bearing::detail
