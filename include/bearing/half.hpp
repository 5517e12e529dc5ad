#pragma once

#include <bearing/export.hpp>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace bearing {

/// bfloat16: the upper 16 bits of a float32 (8 exponent bits, 7 fraction bits). Stored as its bits.
struct BEARING_EXPORT Bfloat16 {
  std::uint16_t bits = 0;

  Bfloat16() = default;
  /// Rounds to nearest, ties to even; a NaN stays a NaN (made quiet), overflow gives infinity.
  explicit constexpr Bfloat16(float value);
  explicit constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static constexpr Bfloat16 from_bits(std::uint16_t bits) {
    Bfloat16 h;
    h.bits = bits;
    return h;
  }
  friend constexpr bool operator==(Bfloat16 a, Bfloat16 b) { return static_cast<float>(a) == static_cast<float>(b); }
};

/// IEEE 754 binary16 (5 exponent bits, 10 fraction bits). Stored as its bits.
struct BEARING_EXPORT Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  /// Rounds to nearest, ties to even, subnormals included; a NaN stays a NaN (made quiet), overflow gives infinity.
  explicit constexpr Float16(float value);
  explicit constexpr operator float() const;
  static constexpr Float16 from_bits(std::uint16_t bits) {
    Float16 h;
    h.bits = bits;
    return h;
  }
  friend constexpr bool operator==(Float16 a, Float16 b) { return static_cast<float>(a) == static_cast<float>(b); }
};

static_assert(sizeof(Bfloat16) == 2 && sizeof(Float16) == 2);

constexpr Bfloat16::Bfloat16(float value) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
  if ((u & 0x7FFF'FFFFu) > 0x7F80'0000u) {  // NaN: keep the upper payload, set the quiet bit
    bits = static_cast<std::uint16_t>((u >> 16) | 0x0040u);
    return;
  }
  // Adding half a unit, less one when the kept part is even, rounds ties to even; a carry into the exponent is right.
  bits = static_cast<std::uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
}

constexpr Float16::Float16(float value) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((u >> 16) & 0x8000u);
  const std::uint32_t magnitude = u & 0x7FFF'FFFFu;
  if (magnitude > 0x7F80'0000u) {  // NaN
    bits = static_cast<std::uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x01FFu));
  } else if (magnitude >= 0x4780'0000u) {  // at least 65,536, infinity included: past every finite value and its tie
    bits = static_cast<std::uint16_t>(sign | 0x7C00u);
  } else if (magnitude >= 0x3880'0000u) {  // normal in binary16; 65,520 and above carry into infinity
    const std::uint32_t rebiased = magnitude - (112u << 23);  // exponent bias 127 becomes 15
    bits = static_cast<std::uint16_t>(sign | ((rebiased + 0x0FFFu + ((rebiased >> 13) & 1u)) >> 13));
  } else {  // subnormal: adding 0.5 puts one unit of 2^-24 at the last fraction bit, and the addition rounds
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F00'0000u));
  }
}

constexpr Float16::operator float() const {
  const std::uint32_t sign = (static_cast<std::uint32_t>(bits) & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) return std::bit_cast<float>(sign | 0x7F80'0000u | ((magnitude & 0x03FFu) << 13));
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  const float value = static_cast<float>(magnitude) * 0x1p-24f;  // subnormal or zero: exact
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

/// The types of numbers in memory. 16 bits that other code holds as std::uint16_t do not say which kind they are: the
/// caller does, by a pointer to Bfloat16 or Float16.
template <class T>
concept Element = (std::is_same_v<std::remove_const_t<T>, double> || std::is_same_v<std::remove_const_t<T>, float> ||
                   std::is_same_v<std::remove_const_t<T>, Bfloat16> || std::is_same_v<std::remove_const_t<T>, Float16>);

/// Compute as a class, and Element and Writable as what has a member: compilers of several ages spell constraints and
/// expressions in the names of functions, each in its own way, and such a member alike.
template <class T>
struct ComputeOf {};
template <>
struct ComputeOf<double> {
  using type = double;
};
template <>
struct ComputeOf<float> {
  using type = float;
};
template <>
struct ComputeOf<Bfloat16> {
  using type = float;
};
template <>
struct ComputeOf<Float16> {
  using type = float;
};
template <class T>
struct ComputeOf<const T> : ComputeOf<T> {};
template <class T>
struct ComputeInPlaceOf : ComputeOf<T> {};
template <class T>
struct ComputeInPlaceOf<const T> {};

/// The type that arithmetic on T is done in: double for double, float for float and both 16-bit types.
template <Element T>
using Compute = typename ComputeOf<T>::type;

/// Compute of numbers that are written; const ones have none.
template <Element T>
using ComputeInPlace = typename ComputeInPlaceOf<T>::type;

}  // namespace bearing
