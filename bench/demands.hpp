#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/target.hpp>
#include <type_traits>

// What is demanded where it depends on the target. On vectors of 256 bits and less rotations and tables are bound by
// arithmetic where wider ones are bound by memory, so less of a limit is demanded there.

namespace bearing::bench {

inline bool has_wide_vectors() { return simd_target().starts_with("avx3"); }

/// A share of LIMIT, from memory.
template <class T>
double in_place_demand(Index threads) {
  if (std::is_same_v<T, Bfloat16>) return has_wide_vectors() ? 0.85 : 0.75;
  if (std::is_same_v<T, Float16>) return has_wide_vectors() ? 0.85 : 0.80;
  return threads == 1 && has_wide_vectors() ? 0.95 : 0.92;
}

/// A share of LIMIT, within the caches.
template <class T>
double cached_demand(Pairing pairing) {
  if (std::is_same_v<T, Bfloat16>) return has_wide_vectors() ? 0.55 : 0.35;
  if (std::is_same_v<T, Float16>) return has_wide_vectors() ? 0.55 : 0.40;
  if (has_wide_vectors()) return 0.95;
  return pairing == Pairing::half ? 0.85 : 0.75;
}

/// Of a decode step of several sequences; neighbours together are demanded no less of here.
template <class T>
double decode_demand() {
  return cached_demand<T>(Pairing::half);
}

/// Microseconds of one token.
template <class T>
double one_token_us() {
  if (has_wide_vectors()) return 0.25;
  return sizeof(T) == 2 ? 0.50 : 0.30;
}

/// A share of NT write.
inline double table_demand() { return has_wide_vectors() ? 0.90 : 0.35; }

}  // namespace bearing::bench
