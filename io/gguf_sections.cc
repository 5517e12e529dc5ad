#include <algorithm>
#include <numeric>

#include "gguf_reader.hpp"

namespace bearing::gguf {
namespace {

constexpr std::string_view key = "rope.dimension_sections";
constexpr std::size_t most_axes = 4;

std::string text(const std::vector<Index>& sections) {
  std::string out;
  for (const Index n : sections) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return '[' + out + ']';
}

/// The axis of each pair as ggml deals them out, which begins anew where the sections are used up.
std::vector<Index> dealt(const std::vector<Index>& sections, Index pairs) {
  const Index total = std::accumulate(sections.begin(), sections.end(), Index{0});
  std::vector<Index> axis_of_pair;
  for (Index i = 0; i < pairs; ++i) {
    Index left = i % total, axis = 0;
    while (left >= sections[static_cast<std::size_t>(axis)]) left -= sections[static_cast<std::size_t>(axis++)];
    axis_of_pair.push_back(axis);
  }
  return axis_of_pair;
}

}  // namespace

RopeAxes read_sections(const File& file, Index pairs) {
  const Metadata& data = file.data;
  auto given = data.integers(key, 0, most_head_dim);
  if (!given) data.fail(key, "must be there: the pairs of each position axis");
  if (given->empty() || given->size() > most_axes) {
    data.fail(key, "must have 1 to 4 numbers, got " + std::to_string(given->size()));
  }
  std::vector<Index> sections = *given;
  while (!sections.empty() && sections.back() == 0) sections.pop_back();
  if (sections.empty() || std::find(sections.begin(), sections.end(), 0) != sections.end()) {
    data.fail(key, "must have no 0 before another number, and one that is above 0, got " + text(*given));
  }
  if (sections.size() == 1) return {};
  const Index total = std::accumulate(sections.begin(), sections.end(), Index{0});
  if (turn_of(file) == Turn::interleaved) {
    if (total != pairs || sections.size() != 3) {
      data.fail(key, "must be three numbers that add up to " + std::to_string(pairs) + " pairs, got " + text(*given));
    }
    return RopeAxes::interleaved(sections);
  }
  if (total == pairs) return RopeAxes::sections(sections);
  if (total > 2 * pairs) {
    data.fail(key, "must add up to " + std::to_string(pairs) + " pairs, got " + text(*given));
  }
  data.warn(key, "adds up to " + std::to_string(total) + ", but " + std::to_string(pairs) +
                     " pairs turn: ggml begins anew after the last section");
  return RopeAxes::listed(dealt(sections, pairs));
}

}  // namespace bearing::gguf
