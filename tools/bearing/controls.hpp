#pragma once

namespace bearing::tool {

/// Whether a terminal would obey the character in place of showing it: C0 and C1 controls, line and paragraph
/// separators, and the marks that turn the direction of writing.
constexpr bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x61C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace bearing::tool
