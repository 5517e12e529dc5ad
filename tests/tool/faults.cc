// Preloaded into the command: counts its calls that write, name or close files, and at the call BEARING_FAULT_AT, does
// what BEARING_FAULT says, "errno NUMBER" or "signal NUMBER", after it has left the file BEARING_FAULT_HIT. With
// BEARING_NO_TMPFILE no file system knows O_TMPFILE.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

template <class Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

long number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atol(text);
}

/// Whether this call is to fail; errno is set.
bool fails() {
  static long calls = 0;
  if (++calls != number_of("BEARING_FAULT_AT")) return false;
  const char* hit = std::getenv("BEARING_FAULT_HIT");
  const long mark = syscall(SYS_openat, AT_FDCWD, hit, O_CREAT | O_WRONLY, 0600);
  syscall(SYS_close, mark);
  const char* fault = std::getenv("BEARING_FAULT");
  const int number = std::atoi(std::strchr(fault, ' '));
  if (*fault == 's') {
    raise(number);
    return false;
  }
  errno = number;
  return true;
}

bool is_refused(int flags) { return (flags & O_TMPFILE) == O_TMPFILE && std::getenv("BEARING_NO_TMPFILE") != nullptr; }

int open_with(const char* name, const char* path, int flags, mode_t mode) {
  if (is_refused(flags)) {
    errno = EOPNOTSUPP;
    return -1;
  }
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (writes && fails()) return -1;
  return next(static_cast<int (*)(const char*, int, ...)>(nullptr), name)(path, flags, mode);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_with("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_with("open64", path, flags, mode);
}

ssize_t write(int fd, const void* data, size_t size) { return fails() ? -1 : next(&write, "write")(fd, data, size); }
int fchmod(int fd, mode_t mode) noexcept { return fails() ? -1 : next(&fchmod, "fchmod")(fd, mode); }
int fchown(int fd, uid_t user, gid_t group) noexcept { return fails() ? -1 : next(&fchown, "fchown")(fd, user, group); }
int link(const char* from, const char* to) noexcept { return fails() ? -1 : next(&link, "link")(from, to); }
int linkat(int a, const char* from, int b, const char* to, int flags) noexcept {
  return fails() ? -1 : next(&linkat, "linkat")(a, from, b, to, flags);
}
int rename(const char* from, const char* to) noexcept { return fails() ? -1 : next(&rename, "rename")(from, to); }

int close(int fd) {
  const bool failed = fails();
  const int error = errno, result = next(&close, "close")(fd);
  if (!failed) return result;
  errno = error;
  return -1;
}

}  // extern "C"
