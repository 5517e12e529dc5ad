#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace bearing::simd {

/// While it lives, this thread and those that it starts take numbers below the normal ones as 0, where the machine has
/// such a mode.
class FlushDenormals {
#if defined(__SSE__)
 public:
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040u); }  // results and operands
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned before_;
#else
 public:
  FlushDenormals() {}
  ~FlushDenormals() {}
#endif
};

}  // namespace bearing::simd
