#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bearing/error.hpp>
#include <bearing/npy.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "npy_header.hpp"

namespace bearing {
namespace {

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

[[noreturn]] void fail(const std::string& file, const std::string& text) { throw ConfigError(file + ": " + text); }

[[noreturn]] void fail_errno(const std::string& file, const std::string& text) {
  fail(file, text + ": " + std::generic_category().message(errno));
}

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

/// A file written beside its place. It takes its place at commit(), or disappears.
class PendingFile {
 public:
  explicit PendingFile(const std::string& path) : path_(path), target_(path) {
    std::error_code ignored;
    // Renaming onto a link would replace the link, and onto a device the device.
    for (int links = 0; links < 40 && std::filesystem::is_symlink(target_, ignored); ++links) {
      const std::filesystem::path link(target_);
      target_ = (link.parent_path() / std::filesystem::read_symlink(link, ignored)).string();
    }
    const auto status = std::filesystem::status(target_, ignored);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
      fail(path_, "cannot be written: it exists and is not a regular file");
    }
    static std::atomic<unsigned> counter{0};
    for (int attempt = 0; attempt < 100; ++attempt) {
      temporary_ = target_ + ".part" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
      fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd_ >= 0 || errno != EEXIST) break;
    }
    if (fd_ < 0) fail_errno(path_, "cannot be written");
  }
  PendingFile(PendingFile&& other) noexcept
      : path_(std::move(other.path_)),
        target_(std::move(other.target_)),
        temporary_(std::exchange(other.temporary_, {})),
        fd_(std::exchange(other.fd_, -1)) {}
  PendingFile& operator=(PendingFile&&) = delete;
  ~PendingFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  void write(const void* data, std::uint64_t size) {
    const auto* p = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t n = ::write(fd_, p, size);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_errno(path_, "cannot be written");
      p += n;
      size -= static_cast<std::uint64_t>(n);
    }
  }

  /// Some file systems report a full disk only when the file is closed.
  void close() {
    if (::close(std::exchange(fd_, -1)) != 0) fail_errno(path_, "cannot be written");
  }

  void commit() {
    if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail_errno(path_, "cannot be written");
    temporary_.clear();
  }

 private:
  std::string path_, target_, temporary_;
  int fd_ = -1;
};

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

void write_npy(const std::vector<NpyOutput>& files) {
  const KeepErrno keep;
  std::vector<std::uint64_t> sizes;
  for (const NpyOutput& file : files) {
    const std::uint64_t item = npy::item_size(file.dtype);
    if (item == 0) throw ShapeError("[write_npy] dtype: must be a NumPy type such as f4, got '" + file.dtype + "'");
    if (file.shape.size() > 32) throw ShapeError("[write_npy] shape: must have at most 32 extents");
    sizes.push_back(0);
    if (!npy::total_bytes(file.shape, item, sizes.back())) {
      throw ShapeError("[write_npy] shape: extents must be 0 or more and fit in 2^63 bytes together");
    }
    if (file.data == nullptr && sizes.back() > 0) throw ShapeError("[write_npy] data: must not be null");
  }
  std::vector<PendingFile> pending;
  pending.reserve(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string header = npy::make_header(files[i].dtype, files[i].shape);
    PendingFile& out = pending.emplace_back(files[i].path);
    out.write(header.data(), header.size());
    out.write(files[i].data, sizes[i]);
    out.close();
  }
  for (PendingFile& out : pending) out.commit();
}

void write_npy(const std::string& path, const std::string& dtype, const std::vector<Index>& shape, const void* data) {
  write_npy({NpyOutput{path, dtype, shape, data}});
}

}  // namespace bearing
