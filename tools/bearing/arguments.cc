#include "arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>

#include "errors.hpp"

namespace bearing::tool {
namespace {

/// Levenshtein's distance: insertions, deletions and replacements of one character.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
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
    throw UsageError(fmt::format("{}: must be a whole number from {} to {}, got '{}'", option, lowest, highest, text));
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

std::string closest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string best = closest(word, known);
  return best.empty() ? "" : fmt::format("; did you mean '{}'?", best);
}

}  // namespace bearing::tool
