#include "arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "commands.hpp"

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
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || last != end || value < lowest || value > highest) {
    throw UsageError(fmt::format("{}: must be a whole number from {} to {}, got '{}'", option, lowest, highest, text));
  }
  return value;
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
