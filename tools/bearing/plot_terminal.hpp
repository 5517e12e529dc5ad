#pragma once

#include <bearing/figures.hpp>
#include <string>

#include "text_canvas.hpp"

namespace bearing::tool {

/// A picture as lines of characters, none wider than the style says: half blocks of colour or shades for matrices,
/// Braille for lines, side by side where the width allows it. Without Unicode in ASCII alone.
std::string figure_as_text(const inspect::Figure& figure, const TextStyle& style);

}  // namespace bearing::tool
