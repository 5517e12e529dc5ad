#pragma once

#include <bearing/figures.hpp>
#include <string>

#include "plot_gnuplot.hpp"
#include "plot_layout.hpp"

namespace bearing::tool {

/// The colours of what is no data.
struct Inks {
  inspect::Colour ground, words, axes, grid;
  bool clear = false;  ///< there is no ground
};
Inks inks_of(const std::string& background);

/// A text as gnuplot takes it: in double quotes, what could mean more than itself there as an octal number.
std::string quoted(const std::string& text);
std::string quoted(const inspect::Colour& colour, int transparency = 0);

/// How a matrix stands in a script: as a block of text among the panel's data, or as bytes after the command that draws
/// it; fine: each cell many times, for formats whose readers smooth what they enlarge.
enum class Matrices { text, bytes, fine };

/// What a script says of a panel: its numbers, by `$p…` names, and the commands that draw it.
std::string panel_data(const inspect::Panel& panel, std::size_t number, bool bytes);
std::string panel_commands(const inspect::Panel& panel, const PanelPlace& place, std::size_t number,
                           const Layout& layout, const Inks& inks, double font_size, Matrices matrices);

}  // namespace bearing::tool
