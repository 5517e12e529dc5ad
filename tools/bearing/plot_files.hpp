#pragma once

#include <bearing/figures.hpp>
#include <string>
#include <vector>

namespace bearing::tool {

/// How a picture is written.
struct PlotOutput {
  std::string file;        ///< empty: standard output
  std::string format;      ///< of plot_formats()
  std::string background;  ///< "white", "dark" or "none": a picture's
  int width = 0;           ///< pixels or columns; 0: what is usual
  bool script = false;     ///< gnuplot's script and its data stay beside the picture
};

std::vector<std::string> plot_formats();

/// Draws a picture and writes it: everything or nothing. Throws UsageError where standard output cannot take it.
void write_figure(const inspect::Figure& figure, const PlotOutput& output);

}  // namespace bearing::tool
