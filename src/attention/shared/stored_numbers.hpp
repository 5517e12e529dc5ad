#pragma once

#include <algorithm>
#include <bearing/half.hpp>
#include <cstring>

#include "attention/shared/row_kernels.hpp"

// Numbers as they lie in memory: of any type outside, A = float or double inside. What attention does with their type
// is here, behind a table of functions, so that all else is compiled for A alone.

// Types of numbers; of inputs, with those that their results may have.
#define BEARING_EACH_NUMBER(DO) DO(double) DO(float) DO(Bfloat16) DO(Float16)
#define BEARING_EACH_NUMBER_AND_RESULT(DO) \
  DO(double, double)                       \
  DO(float, float)                         \
  DO(Bfloat16, Bfloat16) DO(Bfloat16, float) DO(Float16, Float16) DO(Float16, float)

namespace bearing {

/// Whether any of n numbers is NaN, infinite or so large that products of it may be: from 2^65 on, float64 2^513,
/// float16 512. Those are the ones whose exponent has its upper two bits set. They are looked for in words of 64 bits.
template <class T>
bool wild(const T* x, Index n, Index step = 1) {
  constexpr Index in_word = 8 / static_cast<Index>(sizeof(T));
  constexpr std::uint64_t each = sizeof(T) == 8 ? 1 : sizeof(T) == 4 ? 0x0000'0001'0000'0001 : 0x0001'0001'0001'0001;
  constexpr std::uint64_t upper = each << (8 * sizeof(T) - 2);
  std::uint64_t any = 0;
  Index d = 0;
  for (; step == 1 && d + in_word <= n; d += in_word) {
    std::uint64_t word;
    std::memcpy(&word, x + d, sizeof(word));
    any |= word & (word << 1);
  }
  for (; d < n; ++d) {
    std::uint64_t word = 0;
    std::memcpy(&word, x + d * step, sizeof(T));
    any |= word & (word << 1);
  }
  return (any & upper) != 0;
}

enum class NumberType { f64, f32, bf16, f16 };

template <class T>
inline constexpr NumberType number_type = std::is_same_v<T, double>     ? NumberType::f64
                                          : std::is_same_v<T, float>    ? NumberType::f32
                                          : std::is_same_v<T, Bfloat16> ? NumberType::bf16
                                                                        : NumberType::f16;

/// Rows of n numbers, `step` apart: what is done with them.
template <class A>
struct StoredNumbers {
  NumberType type;
  Index bytes;  ///< of one
  /// to [rows, n] ← rows `stride` apart
  void (*load)(const void* from, Index stride, Index step, Index rows, Index n, A* to);
  /// … and back, rounded once; rows of `from` lie from_stride apart.
  void (*store)(const A* from, Index from_stride, Index rows, Index n, void* to, Index stride, Index step);
  bool (*wild)(const void* row, Index n, Index step);
};

namespace stored {

template <class T>
void load(const void* from, Index stride, Index step, Index rows, Index n, Compute<T>* to) {
  using A = Compute<T>;
  const T* row = static_cast<const T*>(from);
  for (Index i = 0; n > 0 && i < rows; ++i, row += stride, to += n) {
    if (step != 1 && n > 1) {
      for (Index d = 0; d < n; ++d) to[d] = static_cast<A>(row[d * step]);
    } else if constexpr (requires { attend::widen(n, row, to); }) {
      attend::widen(n, row, to);
    } else {
      std::copy_n(row, n, to);
    }
  }
}

template <class T>
void store(const Compute<T>* from, Index from_stride, Index rows, Index n, void* to, Index stride, Index step) {
  T* row = static_cast<T*>(to);
  for (Index i = 0; n > 0 && i < rows; ++i, from += from_stride, row += stride) {
    if (step != 1 && n > 1) {
      for (Index d = 0; d < n; ++d) row[d * step] = T(from[d]);
    } else if constexpr (requires { attend::narrow(n, from, row); }) {
      attend::narrow(n, from, row);
    } else {
      std::copy_n(from, n, row);
    }
  }
}

template <class T>
bool wild(const void* row, Index n, Index step) {
  return bearing::wild(static_cast<const T*>(row), n, step);
}

}  // namespace stored

template <class T>
inline constexpr StoredNumbers<Compute<T>> stored_numbers{number_type<T>, static_cast<Index>(sizeof(T)),
                                                          &stored::load<T>, &stored::store<T>, &stored::wild<T>};

}  // namespace bearing
