#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bearing/npy.hpp>
#include <utility>

#include "npy_header.hpp"
#include "posix.hpp"

namespace bearing {
namespace {

using posix::fail;
using posix::fail_errno;
using posix::KeepErrno;

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }
  /// 0, or −1 with errno: some file systems report a full disk only here.
  int close() { return fd_ < 0 ? 0 : ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

/// Reads exactly `size` bytes from `offset`.
void read_at(int fd, std::uint64_t offset, void* to, std::uint64_t size, const std::string& file) {
  auto* p = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t n = ::pread(fd, p, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(file, "byte " + std::to_string(offset) + ": cannot be read");
    if (n == 0) fail(file, "byte " + std::to_string(offset) + ": the file became shorter while it was read");
    p += n;
    offset += static_cast<std::uint64_t>(n);
    size -= static_cast<std::uint64_t>(n);
  }
}

/// The bytes of a file's elements; throws ShapeError unless a .npy file can have them.
std::uint64_t checked_size(const NpyOutput& file) {
  const std::uint64_t item = npy::item_size(file.dtype);
  if (item == 0) throw ShapeError("[write_npy] dtype: must be a NumPy type such as f4, got '" + file.dtype + "'");
  if (file.shape.size() > 32) throw ShapeError("[write_npy] shape: must have at most 32 extents");
  std::uint64_t size = 0;
  if (!npy::total_bytes(file.shape, item, size)) {
    throw ShapeError("[write_npy] shape: extents must be at least 0 and fit in 2^63 bytes together");
  }
  if (file.data == nullptr && size > 0) throw ShapeError("[write_npy] data: must not be null");
  return size;
}

}  // namespace

NpyArray read_npy(const std::string& path) {
  const KeepErrno keep;
  // O_NONBLOCK: opening a pipe without a writer would wait for ever, before we could see that it is one.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail_errno(path, "cannot be opened");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_errno(path, "cannot be read");
  if (!S_ISREG(status.st_mode)) fail(path, "must be a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);

  std::string head(std::min(size, npy::max_preamble + npy::max_header_length), '\0');
  read_at(file.get(), 0, head.data(), head.size(), path);
  npy::Header header = npy::parse_header(head, size, path);

  NpyArray array{std::move(header.dtype), std::move(header.shape), {}};
  array.bytes.resize(header.data_bytes);
  read_at(file.get(), header.data_offset, array.bytes.data(), header.data_bytes, path);
  return array;
}

void add_npy(WholeFiles& files, const NpyOutput& file) {
  const KeepErrno keep;
  const std::uint64_t size = checked_size(file);
  const std::string header = npy::make_header(file.dtype, file.shape);
  files.add(file.path, {header, {static_cast<const char*>(file.data), static_cast<std::size_t>(size)}});
}

void write_npy(const std::vector<NpyOutput>& files) {
  const KeepErrno keep;
  for (const NpyOutput& file : files) checked_size(file);
  WholeFiles pending;
  for (const NpyOutput& file : files) add_npy(pending, file);
  pending.commit();
}

void write_npy(const std::string& path, const std::string& dtype, const std::vector<Index>& shape, const void* data) {
  write_npy({NpyOutput{path, dtype, shape, data}});
}

}  // namespace bearing
