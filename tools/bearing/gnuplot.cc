#include "gnuplot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "signals.hpp"
#include "terminal.hpp"

namespace bearing::tool {
namespace {

std::runtime_error failed(const std::string& what, int error) {
  return std::runtime_error(fmt::format("gnuplot: {}: {}", what, std::generic_category().message(error)));
}

/// Two ends, closed where they are left.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw failed("no pipe", errno);
  }
  ~Pipe() { close(0), close(1); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int end(std::size_t which) const { return ends_[which]; }
  void close(std::size_t which) {
    if (ends_[which] >= 0) ::close(ends_[which]);
    ends_[which] = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

/// gnuplot with pipes for its streams. It ends with this object at the latest.
class Process {
 public:
  Process() {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&files, in.end(0), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out.end(1), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, error.end(1), STDERR_FILENO);
    sigset_t usual;  // what this process ignores would stay ignored there
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE), sigaddset(&usual, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    // -d: nothing is read from the user's .gnuplot. -: the script comes from standard input, and no shell is asked.
    std::array<char*, 4> words{const_cast<char*>("gnuplot"), const_cast<char*>("-d"), const_cast<char*>("-"), nullptr};
    const int status = ::posix_spawnp(&id_, words[0], &files, &attributes, words.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (status == ENOENT) {
      throw GnuplotMissing("gnuplot is missing: apt-get install gnuplot-nox, or use --format text, or bearing.plot in Python");
    }
    if (status != 0) throw failed("cannot be started", status);
    in.close(0), out.close(1), error.close(1);
    ::fcntl(in.end(1), F_SETFL, O_NONBLOCK);
  }
  ~Process() {
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    wait();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int wait() {
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = 0;
    return status;
  }

  Pipe in, out, error;

 private:
  pid_t id_ = 0;
};

/// Reads what is there; false at the end.
bool read_some(int stream, std::string& into) {
  std::array<char, 65536> piece;
  const ssize_t n = ::read(stream, piece.data(), piece.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (n <= 0) return false;
  into.append(piece.data(), static_cast<std::size_t>(n));
  return true;
}

/// Writes what there is room for; false once all is written, or nobody reads.
bool write_some(int stream, std::string_view& text) {
  const ssize_t n = ::write(stream, text.data(), text.size());
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  text.remove_prefix(static_cast<std::size_t>(n));
  return !text.empty();
}

}  // namespace

std::string run_gnuplot(const std::string& script) {
  const HoldSignals hold;
  Process gnuplot;
  std::string picture, said;
  std::string_view left = script;
  while (gnuplot.out.end(0) >= 0 || gnuplot.error.end(0) >= 0) {
    stop_if_interrupted();
    std::array<pollfd, 3> streams{{{gnuplot.in.end(1), POLLOUT, 0},  // −1 is passed over
                                   {gnuplot.out.end(0), POLLIN, 0},
                                   {gnuplot.error.end(0), POLLIN, 0}}};
    constexpr int moment = 100;  // ms: a signal between the question and the waiting is seen then
    if (::poll(streams.data(), streams.size(), moment) <= 0) continue;
    if (streams[0].revents != 0 && !write_some(gnuplot.in.end(1), left)) gnuplot.in.close(1);
    if (streams[1].revents != 0 && !read_some(gnuplot.out.end(0), picture)) gnuplot.out.close(0);
    if (streams[2].revents != 0 && !read_some(gnuplot.error.end(0), said)) gnuplot.error.close(0);
  }
  const int status = gnuplot.wait();
  stop_if_interrupted();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !picture.empty()) return picture;
  std::replace(said.begin(), said.end(), '\n', ' ');
  const std::size_t begin = said.find_first_not_of(' '), end = said.find_last_not_of(' ');
  const std::string why = begin == said.npos ? "nothing was drawn" : printable(said.substr(begin, end - begin + 1));
  throw std::runtime_error("gnuplot failed: " + why);
}

}  // namespace bearing::tool
