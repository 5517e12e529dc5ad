#pragma once

#include <bearing/properties.hpp>
#include <string>
#include <vector>

namespace bearing::tool {

/// Draws the picture of each claim that has one into a folder, and index.html, which needs no other file and shows
/// them all: claim, verdict, what was measured, picture. Everything or nothing is written; each file is named on
/// standard output. Throws std::runtime_error if gnuplot is missing or fails.
void write_pictures(const std::vector<inspect::Claim>& claims, const std::string& summary, const std::string& folder,
                    const std::string& format, const Executor& on);

/// What a claim's picture is called: its encoding and the first words of what is said, in small letters and digits.
std::string picture_name(const inspect::Claim& claim);

}  // namespace bearing::tool
