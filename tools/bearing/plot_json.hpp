#pragma once

#include <bearing/figures.hpp>
#include <string>

namespace bearing::tool {

/// A picture's numbers and words, schema "bearing.figure/1". NaN, a gap, is null.
std::string figure_as_json(const inspect::Figure& figure);

}  // namespace bearing::tool
