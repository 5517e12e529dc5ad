#include "arguments.hpp"

#include <fmt/format.h>

#include <bearing/say.hpp>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "errors.hpp"

namespace bearing::tool {
namespace {

/// What to say of "128K" and "1G".
const char* about_suffix(std::string_view rest) {
  const bool letter = rest.size() == 1 && std::isalpha(static_cast<unsigned char>(rest[0])) != 0;
  return letter && rest != "k" && rest != "M" ? ": the suffixes are k (1024) and M (1024k)" : "";
}

}  // namespace

Index parse_index(std::string_view option, std::string_view text, Index lowest, Index highest) {
  Index value = 0;
  const char* end = text.data() + text.size();
  auto [last, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc{} && last + 1 == end) {
    const Index unit = *last == 'k' ? Index{1} << 10 : *last == 'M' ? Index{1} << 20 : 0;
    if (unit > 0 && std::abs(value) <= std::numeric_limits<Index>::max() / unit) value *= unit, ++last;
  }
  if (error != std::errc{} || last != end || value < lowest || value > highest) {
    throw UsageError(fmt::format("{}: must be a whole number from {} to {}, got '{}'{}", option, lowest, highest, text,
                                 about_suffix(text.substr(static_cast<std::size_t>(last - text.data())))));
  }
  return value;
}

bool is_index(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.ends_with('k') || text.ends_with('M')) text.remove_suffix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

std::string either(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    out += i == 0 ? "" : i + 1 < words.size() ? ", " : " or ";
    out += words[i];
  }
  return out;
}

std::string without_function(const std::string& error) {
  const std::size_t end = error.find("] ");
  return error.starts_with('[') && end != error.npos ? error.substr(end + 2) : error;
}

double parse_number(const std::string& option, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || last != end || !std::isfinite(value)) {
    throw UsageError(fmt::format("{}: must be a finite number, got '{}'", option, text));
  }
  return value;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string best = closest(word, known);
  return best.empty() ? "" : fmt::format("; did you mean '{}'?", best);
}

}  // namespace bearing::tool
