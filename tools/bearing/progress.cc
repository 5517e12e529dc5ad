#include "progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "terminal.hpp"

namespace bearing::tool {
namespace {

/// Back to the first column, and everything from there erased.
constexpr std::string_view erase = "\r\x1b[K";

bool can_erase() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

/// The last column stays free: a line that fills it goes on in the next one, which is not erased.
std::size_t room() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (known ? size.ws_col : std::size_t{80}) - 1;
}

}  // namespace

Progress::Progress() : terminal_(can_erase()) {}

Progress::~Progress() {
  if (terminal_) note_piece(erase);
}

void Progress::show(std::string_view text) {
  if (!terminal_) return;
  const std::string safe = printable(text);  // a file may be called by anything
  const std::lock_guard lock(mutex_);
  note_piece(std::string(erase).append(safe, 0, room()));
}

}  // namespace bearing::tool
