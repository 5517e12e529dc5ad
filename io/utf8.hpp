#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
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

inline bool is_text(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = first_character(text.substr(at)).bytes;
    if (bytes == 0) return false;
    at += bytes;
  }
  return true;
}

/// Whether a terminal would obey the character in place of showing it: C0 and C1 controls, line and paragraph
/// separators, and the marks that turn the direction of writing.
constexpr bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x61C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

/// Text of a file or of its name, for a message: with \x1b and \u202e for controls, and \xff for what is no UTF-8.
inline std::string printable(std::string_view text) {
  constexpr const char* hex = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    const Character c = first_character(text);
    const std::size_t bytes = std::max<std::size_t>(c.bytes, 1);
    if (c.bytes == 0 || c.code == 0x7F || c.code < 0x20) {
      const auto byte = static_cast<unsigned char>(text[0]);
      out += {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
    } else if (is_control(c.code)) {
      out += {'\\', 'u', hex[c.code >> 12 & 15], hex[c.code >> 8 & 15], hex[c.code >> 4 & 15], hex[c.code & 15]};
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace bearing::utf8
