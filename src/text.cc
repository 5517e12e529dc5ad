#include "text.hpp"

#include <charconv>

namespace bearing::text {

namespace {

template <class Number>
void append_number(std::string& to, Number number) {
  char digits[40];
  to.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

}  // namespace

void append(std::string& to, std::string_view piece) { to += piece; }
void append(std::string& to, const char* piece) { to += piece; }
void append(std::string& to, std::int64_t number) { append_number(to, number); }
void append(std::string& to, std::uint64_t number) { append_number(to, number); }
void append(std::string& to, double number) { append_number(to, number); }

void append(std::string& to, const Device& device) {
  append(to, name(device.kind));
  to += ':';
  append(to, Index{device.index});
}

void append(std::string& to, std::span<const Index> numbers) {
  const char* before = "[";
  for (const Index number : numbers) {
    append(to, before);
    append(to, number);
    before = ", ";
  }
  append(to, numbers.empty() ? "[]" : "]");
}

std::string renamed(std::string_view function, std::string_view what) {
  const std::size_t end = what.find("] ");
  return concat("[", function, end == what.npos ? std::string_view("] ") : std::string_view(""),
                end == what.npos ? what : what.substr(end));
}

}  // namespace bearing::text
