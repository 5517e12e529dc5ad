#include "text_legend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace bearing::tool {

using inspect::Cells;
using inspect::Stroke;

char letter_of(int number) { return static_cast<char>('a' + number % 26); }

std::string category_sign(int number, const TextStyle& style) {
  static const std::array<std::string, 8> full{"█", "░", "▒", "·", "▓", "+", "○", "◆"};
  static const std::array<std::string, 8> ascii{"#", ".", "+", "o", "x", "*", "=", "%"};
  return (style.unicode ? full : ascii)[static_cast<std::size_t>(std::abs(number)) % 8];
}

std::string shade_sign(const Cells& cells, double value, const TextStyle& style) {
  static const std::vector<std::string> full{"·", "░", "▒", "▓", "█"};
  static const std::vector<std::string> ascii{".", ":", "-", "=", "+", "*", "#", "%", "@"};
  const std::vector<std::string>& signs = style.unicode ? full : ascii;
  const double part = cells.high > cells.low ? (value - cells.low) / (cells.high - cells.low) : 0.5;
  const auto n = static_cast<double>(signs.size());
  return signs[static_cast<std::size_t>(std::clamp(std::floor(part * n), 0.0, n - 1))];
}

std::vector<std::string> text_lines(const std::string& text, int width, const TextStyle& style) {
  const auto wide = [&](const std::string& one) { return static_cast<double>(columns_of(one, style)); };
  return lines_of(shown_text(text, style), std::max(width, 4), wide);
}

namespace {

std::string mark_of(const Entry& entry, const TextStyle& style) {
  if (entry.mark == Entry::Mark::category) {
    if (style.coloured()) return style.unicode ? "██" : "##";
    const std::string sign = category_sign(entry.number, style);
    return sign + sign;
  }
  if (entry.mark == Entry::Mark::band) return style.unicode ? "⠕⠅" : "..";
  if (!style.coloured()) return {letter_of(entry.number), ' '};
  const Stroke stroke = entry.series->stroke;
  if (stroke == Stroke::dots) return style.unicode ? "• " : "o ";
  return style.unicode ? "━━" : "--";
}

}  // namespace

TextLegend::TextLegend(const std::vector<Entry>& entries, int width, const TextStyle& style) {
  constexpr int mark = 3, gap = 3;
  int column = 0;
  for (const Entry& entry : entries) {
    const std::vector<std::string> lines = text_lines(entry.text, width - mark, style);
    int wide = 0;
    for (const std::string& line : lines) wide = std::max(wide, mark + static_cast<int>(columns_of(line, style)));
    if (column > 0 && column + wide > width) column = 0;
    if (column == 0) ++rows_;
    const bool faint = entry.series != nullptr && entry.series->faint;
    const std::optional<inspect::Colour> colour = faint ? std::nullopt : std::optional(entry.colour);
    pieces_.push_back({column, rows_ - 1, mark_of(entry, style), colour});
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (i > 0) ++rows_;
      pieces_.push_back({column + mark, rows_ - 1, lines[i], {}});
    }
    column += wide + gap;
  }
}

void TextLegend::draw(TextCanvas& canvas, int column, int row) const {
  for (const Piece& piece : pieces_) canvas.text(column + piece.column, row + piece.row, piece.text, piece.colour);
}

TextScale::TextScale(const Cells& cells, int width, const TextStyle& style)
    : cells_(&cells), width_(width), title_(text_lines(printable(cells.title), width, style)) {}

void TextScale::draw(TextCanvas& canvas, int column, int row) const {
  for (const std::string& line : title_) canvas.text(column, row++, line);
  const inspect::Axis axis = colour_axis(*cells_);
  const std::string low = fmt::format("{:.4g} ", axis.first), high = fmt::format(" {:.4g}", axis.last);
  const int wide = std::clamp(width_ - static_cast<int>(low.size() + high.size()), 1, 40);
  canvas.text(column, row, low);
  const int first = column + static_cast<int>(low.size());
  for (int i = 0; i < wide; ++i) {
    const double value = axis.first + (i + 0.5) / wide * (axis.last - axis.first);
    if (canvas.style().coloured()) {
      canvas.half(first + i, 2 * row, inspect::colour_of(*cells_, value));
      canvas.half(first + i, 2 * row + 1, inspect::colour_of(*cells_, value));
    } else {
      canvas.text(first + i, row, shade_sign(*cells_, value, canvas.style()));
    }
  }
  canvas.text(first + wide, row, high);
}

}  // namespace bearing::tool
