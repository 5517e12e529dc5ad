#pragma once

#include <bearing/view.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

// Text for people: widths, colours, numbers. All of it is plain ASCII, the same in every locale.

namespace bearing::tool {

/// Standard output could not be written: a full disk, a closed pipe.
struct OutputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// How to write to standard output.
struct Style {
  std::size_t width = 80;  ///< COLUMNS if it is set, else the terminal's, else 80
  bool colour = false;     ///< only on a terminal, and not with NO_COLOR
};
Style output_style();

/// "\x1b[1m…" if the style has colours.
std::string bold(const Style& style, std::string_view text);
std::string yellow(const Style& style, std::string_view text);

/// Writes everything to standard output, or throws OutputError.
void print(std::string_view text);

/// Text from a file, safe for a terminal: control characters as \xNN.
std::string printable(std::string_view text);

/// 131072 → "131,072".
std::string grouped(Index number);

/// 500000.0 → "500,000"; what is not a whole number below 10^15 in the shortest form that reads back.
std::string grouped(double number);

/// Breaks at spaces so that no line is longer than the width; lines after the first begin with `indent` spaces, and the
/// first is taken to begin at that column too. Ends with a newline.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

}  // namespace bearing::tool
