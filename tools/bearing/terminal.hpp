#pragma once

#include <bearing/view.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

// Text for people: widths, colours, numbers. All of it is plain ASCII, the same in every locale.

namespace bearing::tool {

/// Standard output could not be written: a full disk, a stream that is closed.
struct OutputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// How to write text for people.
struct Style {
  std::size_t width = 80;  ///< COLUMNS if it is set, else the terminal's, else 80
  bool terminal = false;   ///< who reads sees so much at once; a file or a pipe takes everything
  bool colour = false;     ///< only on a terminal, and not with NO_COLOR
};
/// Of the file `out`, or of standard output if that is empty. Too wide a line of words is hard to follow.
Style output_style(const std::string& out = {}, std::size_t widest = 160);

/// "\x1b[1m…" if the style has colours.
std::string bold(const Style& style, std::string_view text);
std::string yellow(const Style& style, std::string_view text);

/// Opens what the caller closed, so that no file takes the place of a standard stream.
void open_standard_streams();

/// Writes everything to standard output. Throws OutputError, or Interrupted by SIGPIPE where nobody reads any more.
void print(std::string_view text);

/// Text to standard error, if it can be written: a piece of a line, a line; note() says who speaks, "bearing: …".
void note_piece(std::string_view text);
void note_line(std::string_view text);
void note(std::string_view text);

/// Text from a file, safe for a terminal: control characters, marks that turn the direction of writing and bytes that
/// are not UTF-8 as \xNN or \uNNNN.
std::string printable(std::string_view text);

/// 131072 → "131,072".
std::string grouped(Index number);

/// 500000.0 → "500,000"; what is not a whole number below 10^15 in the shortest form that reads back.
std::string grouped(double number);

/// "1 head", "8 heads"
std::string counted(Index count, const char* thing);

/// Breaks at spaces so that no line is longer than the width; lines after the first begin with `indent` spaces, and the
/// first is taken to begin at that column too. Ends with a newline.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

}  // namespace bearing::tool
