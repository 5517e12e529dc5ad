#pragma once

#include <bearing/figures.hpp>
#include <string>
#include <vector>

#include "inspect_options.hpp"

namespace bearing::tool {

/// An encoding as a command takes it, for a picture.
inspect::Subject subject_of_picture(const Subject& said);

/// A picture of encodings as a command takes them, at the sizes of their models where the options say none. Throws as
/// inspect::figure().
inspect::Figure subjects_figure(const std::string& kind, const std::vector<Subject>& said,
                                const inspect::FigureOptions& options);

}  // namespace bearing::tool
