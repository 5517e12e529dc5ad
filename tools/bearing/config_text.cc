#include <fmt/format.h>

#include <algorithm>

#include "config_report.hpp"
#include "terminal.hpp"

namespace bearing::tool {
namespace {

constexpr std::size_t label_width = 20;  // "  attention factor  "

std::string labelled(const std::string& label, std::string_view text, const Style& style) {
  // A label that leaves no gap has a line of its own.
  const bool fits = label.size() < label_width - 2;
  return fmt::format("  {:<{}}", label, fits ? label_width - 2 : 0) +
         (fits ? "" : '\n' + std::string(label_width, ' ')) + wrapped(text, style.width, label_width);
}

std::string labelled(const std::vector<Fact>& facts, const Style& style) {
  std::string out;
  for (const Fact& fact : facts) out += labelled(fact.label, fact.text, style);
  return out;
}

using Cells = std::vector<std::string>;

/// As many blocks side by side as the width allows, read downwards first.
std::string table_text(const std::vector<Cells>& rows, const Style& style) {
  const std::size_t columns = rows[0].size();
  std::vector<std::size_t> widths(columns);
  for (const Cells& row : rows) {
    for (std::size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::size_t block_width = 2 * (columns - 1);
  for (std::size_t width : widths) block_width += width;
  constexpr std::size_t indent = 2, gap = 4;
  const std::size_t fitting = (style.width - indent + gap) / (block_width + gap);
  const std::size_t blocks = std::clamp<std::size_t>(fitting, 1, (rows.size() + 6) / 8);  // no block of under 8 rows
  const std::size_t height = (rows.size() - 1 + blocks - 1) / blocks;
  const auto cells_text = [&](const Cells& row) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      // Words stand left, numbers right.
      line += c == 0 ? "" : "  ";
      line +=
          rows[0][c] == "change" ? fmt::format("{:<{}}", row[c], widths[c]) : fmt::format("{:>{}}", row[c], widths[c]);
    }
    return line;
  };
  std::string out;
  for (std::size_t y = 0; y <= height; ++y) {
    std::string line(indent, ' ');
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t row = y == 0 ? 0 : 1 + b * height + (y - 1);
      if (row >= rows.size()) continue;
      line += (b == 0 ? "" : std::string(gap, ' ')) + cells_text(rows[row]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += (y == 0 ? bold(style, line) : line) + '\n';
  }
  return out;
}

std::string pairs_text(const GroupReport& group, const ConfigReport& report, const Style& style, Pairs pairs) {
  if (!group.frequencies) return "";
  if (const GroupReport* other = same_table(group, report)) {
    return labelled("table", "that of " + layers_text(other->group.layers), style);
  }
  return '\n' + table_text(pair_rows(group, pairs), style);
}

std::string titled(const std::string& title, const Style& style) {
  return "\n" + bold(style, wrapped(title, style.width, 2));
}

/// What is added to the input, and what the layers do.
std::string parts_text(const ConfigReport& report, const Style& style, Pairs pairs) {
  std::string out;
  for (const ModelInput& input : report.model.inputs) {
    out += titled(input_title(input), style) + labelled(input_facts(input), style);
  }
  for (const GroupReport& group : report.groups) {
    out += titled(group_title(group.group), style) + labelled(group_facts(group, report), style);
    out += pairs_text(group, report, style, pairs);
  }
  return out;
}

}  // namespace

std::string to_text(const ConfigReport& report, const Style& style, Pairs pairs) {
  std::string out = bold(style, printable(report.model.file)) + '\n' + labelled(model_facts(report), style);
  out += parts_text(report, style, pairs);
  for (const ConfigReport& tower : report.towers) {
    out += '\n' + titled(tower_title(tower.model), style) + parts_text(tower, style, pairs);
  }
  for (const ConfigWarning& warning : report.warnings) {
    if (&warning == report.warnings.data()) out += '\n';
    out += yellow(style, "warning: ") + wrapped(warning_text(warning), style.width, 9);
  }
  return out;
}

}  // namespace bearing::tool
