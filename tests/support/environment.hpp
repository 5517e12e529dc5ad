#pragma once

#include <gtest/gtest.h>
#include <cfenv>
#include <limits>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "simd/denormals.hpp"

namespace bearing::test {

/// The process's rounding mode, and whether it keeps denormal numbers: all of MXCSR but its sticky flags, where there
/// is one.
struct Environment {
  int rounding = std::fegetround();
  bool denormals = [] {
    volatile double least = std::numeric_limits<double>::min();
    return least / 2 > 0;
  }();
#if defined(__SSE2__)
  unsigned control = _mm_getcsr() & ~0x3Fu;
#endif
  bool operator==(const Environment&) const = default;
};

/// body() leaves the floating-point environment as it was, whatever it was.
template <class Body>
void expect_environment_kept(const Body& body) {
  std::fenv_t usual;
  std::fegetenv(&usual);
  const auto expect_kept = [&](const char* what) {
    const Environment before;
    body();
    const Environment after;
    EXPECT_TRUE(before == after) << what;
  };
  expect_kept("the usual environment");
  std::fesetround(FE_UPWARD);
  expect_kept("rounding upward");
  std::fesetenv(&usual);
  const simd::FlushDenormals mode;
  expect_kept("denormals flushed");
}

/// Whether body() met a denormal number on this thread: as an operand, where the machine says so, or as a result that
/// was rounded. Such operations cost a hundred times the others on some machines.
template <class Body>
bool meets_denormals(const Body& body) {
  std::feclearexcept(FE_ALL_EXCEPT);
#if defined(__SSE2__)
  _mm_setcsr(_mm_getcsr() & ~0x3Fu);
#endif
  body();
#if defined(__SSE2__)
  if ((_mm_getcsr() & 0x02u) != 0) return true;
#endif
  return std::fetestexcept(FE_UNDERFLOW) != 0;
}

}  // namespace bearing::test
