#pragma once

#include <string>
#include <vector>

#include "plot_parts.hpp"

namespace bearing::tool {

/// Words of a picture, in pixels from the top left; y is the middle of the letters.
struct Words {
  enum class Align { left, middle, right } align = Align::left;
  enum class Size { small, usual, bold, title } size = Size::usual;
  double x = 0, y = 0;
  std::string text = {};
  bool upwards = false;   ///< turned, to be read from below
  bool on_cells = false;  ///< over a matrix: they need a ground of their own
};

double height_of(Words::Size size);
/// About how wide a text is: rather too much than too little.
double width_of(const std::string& text, Words::Size size);
/// What words from the left take, with a little room.
Places::Box box_of(const Words& words);
/// From one line to the next.
double line_of(Words::Size size);

/// Texts of a panel's guides and notes: where they lie over no others, and over as little of what is drawn as can be.
/// `right` is how far they may reach.
std::vector<Words> words_inside(const inspect::Panel& panel, const Places::Box& axes, double right);

}  // namespace bearing::tool
