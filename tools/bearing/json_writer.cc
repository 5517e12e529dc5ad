#include "json_writer.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace bearing::tool {
namespace {

/// The length of the UTF-8 sequence that text begins with, 0 if it is not one.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0 && follows(1)) return 2;
  if (lead >= 0xE0 && lead < 0xF0 && follows(1) && follows(2)) {
    const unsigned code = (lead & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6;
    return code >= 0x800 && (code < 0xD800 || code >= 0xE000) ? 3 : 0;  // no longer than needed, no surrogate
  }
  if (lead >= 0xF0 && lead < 0xF5 && follows(1) && follows(2) && follows(3)) {
    const unsigned code = (lead & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12;
    return code >= 0x10000 && code < 0x110000 ? 4 : 0;
  }
  return 0;
}

}  // namespace

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!first_) out_ += inline_ > 0 ? ", " : ",";
  if (inline_ == 0 && depth_ > 0) out_ += '\n' + std::string(2 * depth_, ' ');
  first_ = false;
}

void JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  ++depth_;
  first_ = true;
}

void JsonWriter::close(char bracket) {
  --depth_;
  if (!first_ && inline_ == 0) out_ += '\n' + std::string(2 * depth_, ' ');
  out_ += bracket;
  first_ = false;
}

void JsonWriter::key(std::string_view name) {
  value(name);
  out_ += ": ";
  after_key_ = true;
}

void JsonWriter::raw(std::string_view text) {
  separate();
  out_ += text;
}

void JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  // 500000 is as short as 5e+05 to read back, and easier to read; from 2^53 on the exponent says what is known.
  if (std::abs(number) < 0x1p53 && number == std::trunc(number)) return value(static_cast<Index>(number));
  char digits[40];
  raw({digits, static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, number).ptr - digits)});
}

void JsonWriter::value(Index number) { raw(fmt::format("{}", number)); }

void JsonWriter::value(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      quoted += "\\ufffd";  // a file name need not be UTF-8, JSON must be
    } else if (c == '"' || c == '\\') {
      quoted += {'\\', text[0]};
    } else if (c < 0x20) {
      quoted += fmt::format("\\u{:04x}", c);
    } else {
      quoted += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  raw(quoted + '"');
}

}  // namespace bearing::tool
