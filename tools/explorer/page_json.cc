#include "page_json.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>

#include "json_text.hpp"

namespace bearing::explorer {

void PageJson::separate() {
  if (!first_) out_ += ',';
  first_ = false;
}

void PageJson::open(char bracket) {
  separate();
  out_ += bracket;
  first_ = true;
}

void PageJson::close(char bracket) {
  out_ += bracket;
  first_ = false;
}

void PageJson::raw(std::string_view text) {
  separate();
  out_ += text;
}

void PageJson::key(std::string_view name) {
  value(name);
  out_ += ':';
  first_ = true;
}

void PageJson::value(double number) {
  if (!std::isfinite(number)) return null();
  char digits[40];
  raw({digits, static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, number).ptr - digits)});
}

void PageJson::value(Index number) {
  char digits[24];
  raw({digits, static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, number).ptr - digits)});
}

void PageJson::value(std::string_view text) { raw(tool::json_text(text)); }

void PageJson::list(std::string_view name, const std::vector<double>& numbers) {
  key(name);
  begin_object();
  member("at", static_cast<Index>(reinterpret_cast<std::uintptr_t>(numbers.data())));
  member("count", static_cast<Index>(numbers.size()));
  end_object();
}

void PageJson::matrix(std::string_view name, const std::vector<double>& numbers, Index cols) {
  list(name, numbers);
  member("cols", cols);
}

}  // namespace bearing::explorer
