#pragma once

#include <string>
#include <vector>

#include "plot_parts.hpp"
#include "plot_words.hpp"

namespace bearing::tool {

/// A legend's entry: where its mark lies. The words are among the others.
struct Mark {
  Entry entry;
  double x = 0, y = 0, width = 0;
};

/// Where a panel's axes, the words between them and its scale of colours lie.
struct PanelPlace {
  Places::Box axes = {};
  std::vector<inspect::Tick> x_ticks = {}, y_ticks = {}, colour_ticks = {};
  std::vector<Places::Box> words = {};
  bool has_scale = false;
  Places::Box scale = {};
};

/// A picture of a width, with a place for everything that it holds.
struct Layout {
  double width = 0, height = 0;
  std::vector<PanelPlace> panels = {};
  std::vector<Words> words = {};
  std::vector<Mark> marks = {};
};
Layout lay_out(const inspect::Figure& figure, int width);

}  // namespace bearing::tool
