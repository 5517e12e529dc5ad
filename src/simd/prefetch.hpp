#pragma once

#include <bearing/view.hpp>
#include <cstdint>

namespace bearing::simd {

enum class Use { read, write };

/// Asks for the cache line of from[n], which will be used soon. It may lie behind the end of the memory: nothing is
/// read.
template <Use use = Use::read, class A>
inline void prefetch([[maybe_unused]] const A* from, [[maybe_unused]] Index n) {
#if defined(__GNUC__)
  const auto address = reinterpret_cast<std::uintptr_t>(from) + static_cast<std::uintptr_t>(n) * sizeof(A);
  // A pointer past the end must not be made by arithmetic on pointers.
  const void* line = reinterpret_cast<const void*>(address);  // NOLINT(performance-no-int-to-ptr)
  __builtin_prefetch(line, use == Use::write ? 1 : 0);
#endif
}

/// … of rows of `cols` numbers that lie `stride` apart, the first of them at from[first].
template <Use use = Use::read, class A>
void prefetch_rows(const A* from, Index first, Index rows, Index cols, Index stride) {
  constexpr Index line = 64 / static_cast<Index>(sizeof(A));
  for (Index i = 0; i < rows; ++i) {
    for (Index d = 0; d < cols; d += line) prefetch<use>(from, first + i * stride + d);
  }
}

/// Reads a byte in 64 of n numbers, from the first to the last. Where a loop reads and writes cache lines in another
/// order, some processors reach only a part of the memory's bandwidth. Two runs of lines in turns, as the halves of
/// heads are, leave Zen 4 a quarter of it.
template <class A>
inline void touch_in_order(const A* from, Index n) {
  const volatile unsigned char* now = reinterpret_cast<const volatile unsigned char*>(from);
  for (Index byte = 0; byte < n * static_cast<Index>(sizeof(A)); byte += 64) (void)now[byte];
}

}  // namespace bearing::simd
