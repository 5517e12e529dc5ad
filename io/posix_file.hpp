#pragma once

#include <cstdint>
#include <string>
#include <utility>

// A regular file, opened to be read.

namespace bearing::posix {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }
  /// 0, or −1 with errno.
  int close();

 private:
  int fd_;
};

struct OpenFile {
  Descriptor descriptor;
  std::uint64_t size = 0;  ///< when it was opened
};

/// Throws ConfigError for a file that is missing or not regular; never waits for a pipe's writer.
OpenFile open_regular(const std::string& path);

/// Reads exactly `size` bytes from `offset`. Throws ConfigError, which names the byte, if the file has fewer by now.
void read_at(const OpenFile& file, std::uint64_t offset, void* to, std::uint64_t size, const std::string& path);

}  // namespace bearing::posix
