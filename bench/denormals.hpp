#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace bearing::bench {

/// While it lives, this thread and those that it starts take numbers below the normal ones as 0: peers get it, as they
/// have settings for it and lose several times without. We run in the environment that a program starts with.
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

}  // namespace bearing::bench
