#pragma once

#include <string>
#include <vector>

#include "plot_parts.hpp"
#include "text_canvas.hpp"

namespace bearing::tool {

/// The letter of a series where there are no colours, and the sign of a category.
char letter_of(int number);
std::string category_sign(int number, const TextStyle& style);
/// What stands for a number of a matrix where there are no colours: darker signs for larger numbers, and
/// for the least a sign too: a space is no number.
std::string shade_sign(const inspect::Cells& cells, double value, const TextStyle& style);

/// A text in lines that are no wider; a word that is too long is cut in two.
std::vector<std::string> text_lines(const std::string& text, int width, const TextStyle& style);

/// Something to draw under a picture: how many rows it takes in that width, and drawing it.
class TextLegend {
 public:
  TextLegend(const std::vector<Entry>& entries, int width, const TextStyle& style);
  int rows() const { return rows_; }
  void draw(TextCanvas& canvas, int column, int row) const;

 private:
  struct Piece {
    int column, row;
    std::string text;
    std::optional<inspect::Colour> colour;
  };
  std::vector<Piece> pieces_ = {};
  int rows_ = 0;
};

/// The scale of a matrix's colours: its title, and its colours between the numbers at its ends.
class TextScale {
 public:
  TextScale(const inspect::Cells& cells, int width, const TextStyle& style);
  int rows() const { return static_cast<int>(title_.size()) + 1; }
  void draw(TextCanvas& canvas, int column, int row) const;

 private:
  const inspect::Cells* cells_;
  int width_;
  std::vector<std::string> title_;
};

}  // namespace bearing::tool
