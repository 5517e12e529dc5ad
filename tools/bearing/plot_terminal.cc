#include "plot_terminal.hpp"

#include <algorithm>

#include "text_panel.hpp"

namespace bearing::tool {

using inspect::Figure;
using inspect::Panel;

namespace {

constexpr int space = 3;

/// Panels in a row: as the figure has it, fewer where they would be too narrow to read.
int panels_in_row(const Figure& figure, int width) {
  const bool round = std::all_of(figure.panels.begin(), figure.panels.end(),
                                 [](const Panel& panel) { return panel.round && !panel.cells; });
  const int narrowest = round ? 24 : 36;
  const int most = std::max(1, (width + space) / (narrowest + space));
  return std::clamp(static_cast<int>(figure.columns), 1, most);
}

std::string without_trailing_spaces(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

/// Lines of neighbours after each other.
std::string side_by_side(const std::vector<TextCanvas>& canvases) {
  int rows = 0;
  for (const TextCanvas& canvas : canvases) rows = std::max(rows, canvas.rows());
  std::string out;
  for (int row = 0; row < rows; ++row) {
    std::string line;
    for (std::size_t i = 0; i < canvases.size(); ++i) {
      const TextCanvas& canvas = canvases[i];
      if (i > 0) line += std::string(space, ' ');
      line += row < canvas.rows() ? canvas.row(row) : std::string(static_cast<std::size_t>(canvas.columns()), ' ');
    }
    out += without_trailing_spaces(line) + '\n';
  }
  return out;
}

std::string paragraph(const std::string& text, int width, const TextStyle& style, bool bold) {
  const std::vector<std::string> lines = text_lines(printable(text), width, style);
  TextCanvas canvas(width, static_cast<int>(lines.size()), style);
  for (std::size_t i = 0; i < lines.size(); ++i) canvas.text(0, static_cast<int>(i), lines[i], {}, bold);
  return side_by_side({canvas});
}

/// One legend and one scale of colours for all panels.
std::string shared(const Figure& figure, int width, const TextStyle& style) {
  const Panel& first = figure.panels.front();
  std::string out;
  if (figure.panels.size() > 1 && one_colour_scale(figure)) {
    const TextScale scale(*first.cells, width, style);
    TextCanvas canvas(width, scale.rows(), style);
    scale.draw(canvas, 0, 0);
    out += side_by_side({canvas});
  }
  if (one_legend(figure)) {
    const TextLegend legend(legend_of(first), width, style);
    TextCanvas canvas(width, legend.rows(), style);
    legend.draw(canvas, 0, 0);
    out += side_by_side({canvas});
  }
  return out;
}

}  // namespace

std::string figure_as_text(const Figure& figure, const TextStyle& style) {
  constexpr int widest_panel = 120;
  const int width = static_cast<int>(style.width), in_row = panels_in_row(figure, width);
  const int each = std::min((width - space * (in_row - 1)) / in_row, widest_panel);
  const bool several = figure.panels.size() > 1;
  const TextPanel::Under under{!one_legend(figure), !(several && one_colour_scale(figure))};
  std::string out = paragraph(figure.title, width, style, true);
  for (std::size_t i = 0; i < figure.panels.size(); i += static_cast<std::size_t>(in_row)) {
    std::vector<TextPanel> panels;
    int title_rows = 0;
    for (std::size_t j = i; j < std::min(i + static_cast<std::size_t>(in_row), figure.panels.size()); ++j) {
      panels.emplace_back(figure.panels[j], each, style, under);
      title_rows = std::max(title_rows, panels.back().title_rows());
    }
    std::vector<TextCanvas> canvases;
    canvases.reserve(panels.size());
    for (TextPanel& panel : panels) canvases.push_back(panel.draw(title_rows));
    out += '\n' + side_by_side(canvases);
  }
  if (!figure.panels.empty()) out += shared(figure, width, style);
  if (!figure.text.empty()) out += '\n' + paragraph(figure.text, std::min(width, 100), style, false);
  return out;
}

}  // namespace bearing::tool
