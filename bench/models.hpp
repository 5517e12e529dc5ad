#pragma once

#include <bearing/encodings/rope.hpp>
#include <string>
#include <type_traits>
#include <vector>

// The shape that all cases share, Llama's: 32 heads of 128 dimensions, and its tables.

namespace bearing::bench {

inline constexpr Index heads = 32;
inline constexpr Index head_dim = 128;
inline constexpr double base = 500'000;

template <class T>
constexpr std::size_t tensor_bytes(Index tokens) {
  return static_cast<std::size_t>(tokens * heads * head_dim) * sizeof(T);
}

template <class T>
const char* dtype_name() {
  if constexpr (std::is_same_v<T, double>) return "f64";
  if constexpr (std::is_same_v<T, float>) return "f32";
  if constexpr (std::is_same_v<T, Bfloat16>) return "bf16";
  if constexpr (std::is_same_v<T, Float16>) return "f16";
}

inline const char* pairing_name(Pairing pairing) { return pairing == Pairing::half ? "half" : "interleaved"; }

/// Positions of n sequences in decoding, scattered over 131,072.
inline std::vector<Index> scattered(Index n) {
  std::vector<Index> at(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) at[static_cast<std::size_t>(i)] = (i * 52'561 + 99'991) % 131'072;
  return at;
}

/// A table of 131,072 positions, made when first used.
template <class T>
const RopeTable<T>& long_table(Pairing pairing) {
  constexpr Index length = 131'072;
  if (pairing == Pairing::half) {
    static const RopeTable<T> table(Rope{.head_dim = head_dim, .base = base, .pairing = Pairing::half}, length);
    return table;
  }
  static const RopeTable<T> table(Rope{.head_dim = head_dim, .base = base, .pairing = Pairing::interleaved}, length);
  return table;
}

}  // namespace bearing::bench
