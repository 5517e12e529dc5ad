#include <cstddef>

// What libc has of memory and mathematics and the page has already: instructions of WebAssembly, and Math of
// JavaScript, which library.js hands over. Compiled apart from the rest, as the linker's optimiser knows these names.

extern "C" {

void* memcpy(void* to, const void* from, std::size_t bytes) { return __builtin_memcpy(to, from, bytes); }
void* memmove(void* to, const void* from, std::size_t bytes) { return __builtin_memmove(to, from, bytes); }
void* memset(void* to, int byte, std::size_t bytes) { return __builtin_memset(to, byte, bytes); }

#define BEARING_MATH_1(NAME)                                                              \
  [[clang::import_module("math"), clang::import_name(#NAME)]] double math_##NAME(double); \
  double NAME(double x) { return math_##NAME(x); }
#define BEARING_MATH_2(NAME)                                                                      \
  [[clang::import_module("math"), clang::import_name(#NAME)]] double math_##NAME(double, double); \
  double NAME(double x, double y) { return math_##NAME(x, y); }

BEARING_MATH_1(sin)
BEARING_MATH_1(cos)
BEARING_MATH_1(exp)
BEARING_MATH_1(log)
BEARING_MATH_1(log1p)
BEARING_MATH_1(log2)
BEARING_MATH_1(log10)
BEARING_MATH_1(atan)
BEARING_MATH_1(tanh)
BEARING_MATH_2(atan2)
BEARING_MATH_2(hypot)
BEARING_MATH_2(pow)

/// Powers of 2 that are whole stay exact.
double exp2(double x) { return math_pow(2, x); }

}  // extern "C"
