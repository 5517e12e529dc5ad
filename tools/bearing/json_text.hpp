#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "utf8.hpp"

namespace bearing::tool {

/// A text as JSON writes it, in quotes. What is no UTF-8 becomes U+FFFD: a file name need not be UTF-8, JSON must be.
inline std::string json_text(std::string_view text) {
  constexpr const char* hex = "0123456789abcdef";
  std::string quoted = "\"";
  while (!text.empty()) {
    const utf8::Character c = utf8::first_character(text);
    if (c.bytes == 0 || utf8::is_control(c.code)) {
      const char32_t code = c.bytes == 0 ? 0xFFFD : c.code;
      quoted += {'\\', 'u', hex[code >> 12 & 15], hex[code >> 8 & 15], hex[code >> 4 & 15], hex[code & 15]};
    } else if (c.code == '"' || c.code == '\\') {
      quoted += {'\\', text[0]};
    } else {
      quoted += text.substr(0, c.bytes);
    }
    text.remove_prefix(std::max<std::size_t>(c.bytes, 1));
  }
  return quoted + '"';
}

}  // namespace bearing::tool
