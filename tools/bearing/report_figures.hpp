#pragma once

#include <string>
#include <vector>

#include "report_page.hpp"
#include "report_sources.hpp"

namespace bearing::tool {

/// The pictures of a report that these encodings can be drawn in, side by side, of a short list of kinds. `drawn` are
/// to be finished by draw_pictures().
std::vector<PagePicture> report_pictures(const std::vector<const ReportPart*>& parts, const SizeOptions& sizes,
                                         const Executor& on);

/// Draws them all, by one process of gnuplot. Throws std::runtime_error.
void draw_pictures(const std::vector<PagePicture*>& pictures);

}  // namespace bearing::tool
