#include "inspect_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "arguments.hpp"
#include "errors.hpp"

namespace bearing::tool {
namespace {

/// Names that contain the word or that it contains, and the closest one; at most four.
std::vector<std::string> near(const std::string& word) {
  std::vector<std::string> all, found;
  for (const Description& entry : inspect::catalog()) all.push_back(entry.name);
  const std::string best = closest(word, all);
  if (!best.empty()) found.push_back(best);
  for (const std::string& stem : all) {
    const bool related = word.size() > 1 && (stem.find(word) != std::string::npos || word.find(stem) == 0);
    if (related && stem != best && found.size() < 4) found.push_back(stem);
  }
  return found;
}

}  // namespace

void SizeOptions::add_to(Command& command) {
  command.text("--heads", heads, "N", "Heads (default 8)");
  command.text("--dim", dim, "N", "Dimensions of a head (default 64)");
  command.text("--length", length, "N", "Tokens it is trained for (default 512)");
  command.text("--seed", seed, "N", "Draws what would be learned (default 1)");
}

inspect::SpecimenOptions SizeOptions::parse() const {
  inspect::SpecimenOptions size;
  if (!heads.empty()) size.heads = parse_index("--heads", heads, 1, 1024);
  if (!dim.empty()) size.dim = parse_index("--dim", dim, 1, 4096);
  if (!length.empty()) size.length = parse_index("--length", length, 1, 65536);
  if (!seed.empty()) {
    size.seed = static_cast<std::uint64_t>(parse_index("--seed", seed, 0, std::numeric_limits<std::int64_t>::max()));
  }
  return size;
}

const Description& entry_of(const std::string& command, const std::string& stem) {
  if (const Description* entry = inspect::find(stem)) return *entry;
  const std::vector<std::string> names = near(stem);
  const std::string hint =
      names.empty() ? "; 'bearing list' shows all" : fmt::format("; did you mean '{}'?", fmt::join(names, "', '"));
  throw UsageError(fmt::format("{}: '{}' is not an encoding{}", command, stem, hint));
}

}  // namespace bearing::tool
