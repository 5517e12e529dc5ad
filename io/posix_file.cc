#include "posix_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "posix.hpp"

namespace bearing::posix {

int Descriptor::close() { return fd_ < 0 ? 0 : ::close(std::exchange(fd_, -1)); }

OpenFile open_regular(const std::string& path) {
  check_path(path);
  // O_NONBLOCK: opening a pipe without a writer would wait for ever, before we could see that it is one.
  OpenFile file{Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  if (file.descriptor.get() < 0) fail_errno(path, "cannot be opened");
  struct stat status {};
  if (::fstat(file.descriptor.get(), &status) != 0) fail_errno(path, "cannot be read");
  if (!S_ISREG(status.st_mode)) fail(path, "must be a regular file");
  file.size = static_cast<std::uint64_t>(status.st_size);
  return file;
}

void read_at(const OpenFile& file, std::uint64_t offset, void* to, std::uint64_t size, const std::string& path) {
  auto* p = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t n = ::pread(file.descriptor.get(), p, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(path, "byte " + std::to_string(offset) + ": cannot be read");
    if (n == 0) fail(path, "byte " + std::to_string(offset) + ": the file became shorter while it was read");
    p += n;
    offset += static_cast<std::uint64_t>(n);
    size -= static_cast<std::uint64_t>(n);
  }
}

}  // namespace bearing::posix
