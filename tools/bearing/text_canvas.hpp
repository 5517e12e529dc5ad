#pragma once

#include <bearing/figures.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terminal.hpp"

namespace bearing::tool {

/// What a terminal can show.
struct TextStyle {
  std::size_t width = 80;
  enum class Colours { none, some, all } colours = Colours::none;  ///< none, 256, 24 bits
  bool unicode = true;

  bool coloured() const { return colours != Colours::none; }
};
/// Of the file `out`, or of standard output: its width and colours, and whether the locale is UTF-8.
TextStyle text_style(const std::string& out);

/// How many columns a text takes, as print() shows it in this style.
std::size_t columns_of(std::string_view text, const TextStyle& style);
/// Without Unicode: what a reader understands in place of a character, or "?".
std::string shown_text(std::string_view text, const TextStyle& style);

/// A rectangle of characters. Each can hold a letter, else up to 2 × 4 dots, else two halves of colour.
class TextCanvas {
 public:
  TextCanvas(int columns, int rows, const TextStyle& style);

  int columns() const { return columns_; }
  int rows() const { return rows_; }
  /// Dots across and down in a character: 2 and 4, without Unicode 1 and 1.
  int across() const { return style_.unicode ? 2 : 1; }
  int down() const { return style_.unicode ? 4 : 1; }
  const TextStyle& style() const { return style_; }

  /// Words from a column on; what lies outside is left out.
  void text(int column, int row, std::string_view words, std::optional<inspect::Colour> colour = {}, bool bold = false);
  /// A dot; without Unicode the mark.
  void dot(int x, int y, inspect::Colour colour, char mark);
  /// The upper or the lower half of a character.
  void half(int column, int half_row, inspect::Colour colour);
  /// What another canvas shows, from the top left on.
  void copy(const TextCanvas& from);
  bool empty(int column, int row) const;
  bool has_dots(int column, int row) const;

  /// A row with its escape sequences, as wide as the canvas.
  std::string row(int row) const;
  /// The row's last column that shows something, and one: what follows can be left away.
  int used(int row) const;

 private:
  struct Cell {
    std::string letter = {};
    unsigned dots = 0;
    std::optional<inspect::Colour> colour = {}, upper = {}, lower = {};
    bool bold = false;
  };
  bool inside(int column, int row) const { return column >= 0 && column < columns_ && row >= 0 && row < rows_; }
  Cell& at(int column, int row) { return cells_[index(column, row)]; }
  const Cell& at(int column, int row) const { return cells_[index(column, row)]; }
  std::size_t index(int column, int row) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) + static_cast<std::size_t>(column);
  }
  std::string glyph(const Cell& cell) const;
  std::string sequence(const Cell& cell) const;
  std::string colour_code(const inspect::Colour& colour, bool behind) const;

  int columns_, rows_;
  TextStyle style_;
  std::vector<Cell> cells_;
};

}  // namespace bearing::tool
