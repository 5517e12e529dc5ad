#include "json_writer.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "json_text.hpp"

namespace bearing::tool {
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

void JsonWriter::value(std::string_view text) { raw(json_text(text)); }

}  // namespace bearing::tool
