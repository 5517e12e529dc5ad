#include "terminal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>

#include "signals.hpp"
#include "utf8.hpp"

namespace bearing::tool {
namespace {

/// Too narrow a table says nothing.
constexpr std::size_t narrowest = 40;

}  // namespace

Style output_style(const std::string& out, std::size_t widest) {
  Style style;
  const bool terminal = out.empty() && ::isatty(STDOUT_FILENO) == 1;
  style.terminal = terminal;
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

void open_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    // Opened the wrong way round, it still fails when it is used.
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
  }
}

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EINTR) {
      stop_if_interrupted();
    } else if (errno == EAGAIN) {
      pollfd stream{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&stream, 1, -1);
    } else if (errno == EPIPE) {
      throw Interrupted{SIGPIPE};  // who reads has seen enough: head, a pager that was left
    } else {
      throw OutputError("standard output cannot be written: " + std::generic_category().message(errno));
    }
  }
}

void note_piece(std::string_view text) {
  // There is nobody left to tell if this fails.
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

void note_line(std::string_view text) { note_piece(fmt::format("{}\n", text)); }

void note(std::string_view text) { note_line(fmt::format("bearing: {}", text)); }

std::string printable(std::string_view text) { return utf8::printable(text); }

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

std::string counted(Index count, const char* thing) {
  return fmt::format("{} {}{}", grouped(count), thing, count == 1 ? "" : "s");
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
