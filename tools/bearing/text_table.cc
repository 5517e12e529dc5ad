#include "text_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace bearing::tool {
namespace {

using Row = std::vector<std::string>;

std::string blocks(const Row& headings, const std::vector<Row>& rows, const Style& style) {
  std::string out;
  for (const Row& row : rows) {
    out += bold(style, row[0]) + '\n';
    for (std::size_t c = 1; c < row.size(); ++c) {
      if (row[c].empty()) continue;
      out += fmt::format("  {}: ", headings[c]) + wrapped(row[c], style.width, headings[c].size() + 4);
    }
  }
  return out;
}

}  // namespace

std::string text_table(const Row& headings, const std::vector<Row>& rows, const Style& style) {
  constexpr std::size_t gap = 2, narrowest_last = 24;
  const std::size_t last = headings.size() - 1;
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c <= last; ++c) {
    std::size_t width = headings[c].size();
    for (const Row& row : rows) width = std::max(width, row[c].size());
    widths.push_back(width);
  }
  std::size_t before = 0;
  for (std::size_t c = 0; c < last; ++c) before += widths[c] + gap;
  if (before + std::min(widths[last], narrowest_last) > style.width) return blocks(headings, rows, style);
  const auto line = [&](const Row& row) {
    std::string out;
    for (std::size_t c = 0; c < last; ++c) out += fmt::format("{:<{}}", row[c], widths[c] + gap);
    return out;
  };
  std::string out = bold(style, line(headings) + headings[last]) + '\n';
  for (const Row& row : rows) out += line(row) + wrapped(row[last], style.width, before);
  return out;
}

std::string markdown_code(std::string_view text) {
  const std::string safe = printable(text);
  std::string fence = "`";
  while (safe.find(fence) != safe.npos) fence += '`';
  if (fence.size() == 1) return fence + safe + fence;
  return fence + ' ' + safe + ' ' + fence;  // its first and last letter may be backquotes too
}

std::string markdown_table(const Row& headings, const std::vector<Row>& rows) {
  const auto line = [](const Row& row) {
    std::string out = "|";
    for (const std::string& cell : row) {
      out += ' ';
      for (const char c : cell) {
        if (c == '|') out += '\\';  // else it would end the cell
        out += c;
      }
      out += " |";
    }
    return out + '\n';
  };
  std::string out = line(headings) + '|';
  for (std::size_t c = 0; c < headings.size(); ++c) out += "---|";
  out += '\n';
  for (const Row& row : rows) out += line(row);
  return out;
}

}  // namespace bearing::tool
