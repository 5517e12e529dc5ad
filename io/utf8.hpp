#pragma once

#include <cstddef>
#include <string_view>

namespace bearing::utf8 {

/// A character of UTF-8 (Unicode 15, table 3-7): its code, and how many bytes it takes. 0 bytes: the text does not
/// begin with one.
struct Character {
  char32_t code = 0;
  std::size_t bytes = 0;
};

inline Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const auto six = [&](std::size_t i) { return byte(i) & 0x3Fu; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead >= 0xC2 && lead < 0xE0 && follows(1)) return {(lead & 0x1Fu) << 6 | six(1), 2};
  if (lead >= 0xE0 && lead < 0xF0 && follows(1) && follows(2)) {
    const unsigned code = (lead & 0x0Fu) << 12 | six(1) << 6 | six(2);
    if (code >= 0x800 && (code < 0xD800 || code >= 0xE000)) return {code, 3};  // no longer than needed, no surrogate
  }
  if (lead >= 0xF0 && lead < 0xF5 && follows(1) && follows(2) && follows(3)) {
    const unsigned code = (lead & 0x07u) << 18 | six(1) << 12 | six(2) << 6 | six(3);
    if (code >= 0x10000 && code < 0x110000) return {code, 4};
  }
  return {};
}

}  // namespace bearing::utf8
