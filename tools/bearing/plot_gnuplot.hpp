#pragma once

#include <bearing/figures.hpp>
#include <string>
#include <vector>

namespace bearing::tool {

struct GnuplotStyle {
  std::string format = "png";        ///< "png", "svg" or "pdf"
  std::string background = "white";  ///< "white", "dark" or "none"
  int width = 900;                   ///< pixels; a picture is wider where its words need it
};

/// A script of gnuplot's with its data, which writes the picture to a file, or to standard output if none is named.
/// All is text; only where gnuplot reads it from a pipe, matrices may be bytes, which is faster.
struct ScriptOptions {
  std::string output = {};
  bool bytes = false;
};
std::string gnuplot_script(const inspect::Figure& figure, const GnuplotStyle& style, const ScriptOptions& options = {});

/// The picture's bytes. Throws std::runtime_error if gnuplot is missing or fails, with what it says.
std::string draw_with_gnuplot(const inspect::Figure& figure, const GnuplotStyle& style);

/// A picture on white as SVG.
struct SvgOrder {
  const inspect::Figure* figure = nullptr;
  int width = 900;  ///< pixels
};
/// All of them, by one process. Throws as draw_with_gnuplot().
std::vector<std::string> draw_svgs(const std::vector<SvgOrder>& orders);

}  // namespace bearing::tool
