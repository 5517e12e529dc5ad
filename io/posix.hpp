#pragma once

#include <bearing/error.hpp>
#include <cerrno>
#include <string>
#include <system_error>

#include "utf8.hpp"

// What reading and writing files share.

namespace bearing::posix {

/// The library leaves errno as it found it.
class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int saved_;
};

[[noreturn]] inline void fail(const std::string& file, const std::string& text) {
  throw ConfigError(file + ": " + text);
}

[[noreturn]] inline void fail_errno(const std::string& file, const std::string& text, int error = errno) {
  fail(file, text + ": " + std::generic_category().message(error));
}

/// The system's calls would take the name before a NUL for the whole.
inline void check_path(const std::string& path) {
  if (path.find('\0') != path.npos) fail(utf8::printable(path), "must be a path without a NUL character, got one");
}

}  // namespace bearing::posix
