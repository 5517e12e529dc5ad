#include "terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace bearing::tool {
namespace {

/// Too narrow a table says nothing; too wide a line is hard to follow.
constexpr std::size_t narrowest = 40, widest = 160;

}  // namespace

Style output_style() {
  Style style;
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  style.colour =
      terminal && (no_colour == nullptr || *no_colour == '\0') && (term == nullptr || std::string_view(term) != "dumb");
  winsize size{};
  if (terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.width = size.ws_col;
  if (const char* columns = std::getenv("COLUMNS")) {
    const std::string_view text(columns);
    std::size_t value = 0;
    const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && last == text.data() + text.size() && value > 0) style.width = value;
  }
  style.width = std::clamp(style.width, narrowest, widest);
  return style;
}

std::string bold(const Style& style, std::string_view text) {
  return style.colour ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

std::string yellow(const Style& style, std::string_view text) {
  return style.colour ? fmt::format("\x1b[33m{}\x1b[0m", text) : std::string(text);
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw OutputError("standard output cannot be written: " + std::generic_category().message(errno));
  }
}

std::string printable(std::string_view text) {
  std::string out;
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7F) {
      out += fmt::format("\\x{:02x}", u);
    } else {
      out += c;
    }
  }
  return out;
}

std::string grouped(Index number) {
  std::string digits = fmt::format("{}", number);
  for (std::size_t at = digits.size(); at > (number < 0 ? 4u : 3u);) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string grouped(double number) {
  if (std::abs(number) < 1e15 && number == std::trunc(number)) return grouped(static_cast<Index>(number));
  return fmt::format("{}", number);
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  bool line_begins = true;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (!line_begins && column + 1 + word.size() > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent, line_begins = true;
    }
    if (!line_begins) out += ' ', ++column;
    out += word;
    column += word.size(), line_begins = false;
  }
  return out + '\n';
}

}  // namespace bearing::tool
