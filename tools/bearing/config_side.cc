#include <fmt/format.h>

#include <algorithm>

#include "config_report.hpp"
#include "terminal.hpp"

// Several models' files beside each other: a row for each fact, a column for each file.

namespace bearing::tool {
namespace {

constexpr std::size_t side_label_width = 18, gap = 2, narrowest = 18, widest = 44;

using Lines = std::vector<std::string>;

/// What one file says, in the order in which it says it. What groups of layers differ in stands once for each, in the
/// order of the groups.
std::vector<Fact> column_of(const ConfigReport& report) {
  std::vector<Fact> facts = model_facts(report);
  std::string inputs, groups;
  for (const ModelInput& input : report.model.inputs) inputs += (inputs.empty() ? "" : " | ") + input_title(input);
  if (!inputs.empty()) facts.push_back({"input", inputs});
  std::vector<Fact> of_groups;
  for (const GroupReport& group : report.groups) {
    groups += (groups.empty() ? "" : " | ") + group_title(group.group);
    for (Fact& fact : group_facts(group, report)) {
      const auto known = std::find_if(of_groups.begin(), of_groups.end(),
                                      [&](const Fact& other) { return other.label == fact.label; });
      if (known == of_groups.end()) {
        of_groups.push_back(std::move(fact));
      } else if ((" | " + known->text + " | ").find(" | " + fact.text + " | ") == std::string::npos) {
        known->text += " | " + fact.text;
      }
    }
  }
  facts.push_back({"encoding", groups});
  facts.insert(facts.end(), of_groups.begin(), of_groups.end());
  if (!report.warnings.empty()) {
    const std::size_t more = report.warnings.size() - 1;
    facts.push_back(
        {"warnings", warning_text(report.warnings[0]) + (more == 0 ? "" : fmt::format(" (and {} more)", more))});
  }
  return facts;
}

/// The labels of all columns: each stands behind those that it follows in a file.
std::vector<std::string> labels_of(const std::vector<std::vector<Fact>>& columns) {
  std::vector<std::string> labels;
  for (const std::vector<Fact>& column : columns) {
    auto place = labels.begin();
    for (const Fact& fact : column) {
      const auto known = std::find(labels.begin(), labels.end(), fact.label);
      place = (known != labels.end() ? known : labels.insert(place, fact.label)) + 1;
    }
  }
  // Warnings are the last thing that is said.
  std::stable_partition(labels.begin(), labels.end(), [](const std::string& label) { return label != "warnings"; });
  return labels;
}

/// Broken at spaces; a word that is too long, as a path may be, is broken anywhere.
Lines lines_of(const std::string& text, std::size_t width) {
  Lines lines;
  std::string rest = wrapped(text, width, 0);
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    std::string line = rest.substr(0, end);
    rest.erase(0, end + 1);
    while (line.size() > width) {
      std::size_t cut = width;
      while (cut > 1 && (static_cast<unsigned char>(line[cut]) & 0xC0u) == 0x80) --cut;  // no piece of a character
      lines.push_back(line.substr(0, cut));
      line.erase(0, cut);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string row_text(const std::string& label, const std::vector<Lines>& cells, std::size_t width) {
  std::size_t height = 1;
  for (const Lines& cell : cells) height = std::max(height, cell.size());
  std::string out;
  for (std::size_t y = 0; y < height; ++y) {
    std::string line = fmt::format("{:<{}}", y == 0 ? label : "", side_label_width);
    for (const Lines& cell : cells) {
      line += fmt::format("{:{}}{:<{}}", "", gap, y < cell.size() ? cell[y] : "", width);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace

std::string side_by_side(const std::vector<ConfigReport>& reports, const Style& style) {
  const std::size_t room = style.width > side_label_width ? style.width - side_label_width : 0;
  const std::size_t fitting = std::clamp<std::size_t>(room / (narrowest + gap), 1, reports.size());
  const std::size_t width = std::clamp(room / fitting, narrowest + gap, widest + gap) - gap;
  std::string out;
  for (std::size_t first = 0; first < reports.size(); first += fitting) {
    const std::size_t end = std::min(first + fitting, reports.size());
    std::vector<std::vector<Fact>> columns;
    std::vector<Lines> cells;
    for (std::size_t i = first; i < end; ++i) {
      columns.push_back(column_of(reports[i]));
      cells.push_back(lines_of(printable(reports[i].model.file), width));
    }
    out += (first == 0 ? "" : "\n") + bold(style, row_text("", cells, width));
    for (const std::string& label : labels_of(columns)) {
      cells.clear();
      for (const std::vector<Fact>& column : columns) {
        const auto at = std::find_if(column.begin(), column.end(), [&](const Fact& f) { return f.label == label; });
        cells.push_back(lines_of(at == column.end() ? "-" : at->text, width));
      }
      out += row_text(label, cells, width);
    }
  }
  return out;
}

}  // namespace bearing::tool
