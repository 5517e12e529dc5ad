#pragma once

#include <bearing/figures.hpp>
#include <string>

#include "json_writer.hpp"

// Pictures in words: what inspect::Picture says, as a line for a shell, as JSON and drawn.

namespace bearing::tool {

/// A word as a shell takes it: in quotes where it holds what a shell would read.
std::string shell_word(const std::string& text);

/// "bearing plot similarity sinusoidal --dim 128 --length 1024". Lines that would be wider than `width` end with a
/// backslash and go on after `indent` spaces, so that a shell takes them whole; 0: one line.
std::string plot_line(const inspect::Picture& picture, std::size_t width = 0, std::size_t indent = 0);

/// "picture": {"kind", "encodings", "options": what is given}, or null where there is none.
void write_picture(JsonWriter& json, const inspect::Picture& picture);

/// What it shows. Throws as inspect::figure().
inspect::Figure figure_of(const inspect::Picture& picture, const Executor& on);

}  // namespace bearing::tool
