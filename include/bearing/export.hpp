#pragma once

#if __cplusplus < 202002L
#error "bearing needs C++20: compile with -std=c++20 or later"
#endif

// Marks what a shared library shows; everything else in it is hidden.
#define BEARING_EXPORT __attribute__((visibility("default")))
