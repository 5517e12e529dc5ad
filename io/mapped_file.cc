#include "mapped_file.hpp"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <limits>
#include <utility>

#include "posix.hpp"

namespace bearing {

using posix::fail;
using posix::fail_errno;
using posix::KeepErrno;

static_assert(std::endian::native == std::endian::little,
              "bearing::io needs a little-endian machine: mapped numbers are as they lie");

MappedFile::MappedFile(const std::string& path)
    : path_(path),
      file_([&path] {
        const KeepErrno keep;
        return posix::open_regular(path);
      }()),
      copy_(nullptr, &std::free) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_{std::move(other.file_.descriptor), std::exchange(other.file_.size, 0)},
      map_(std::exchange(other.map_, nullptr)),
      copy_(std::move(other.copy_)) {}

MappedFile::~MappedFile() {
  const KeepErrno keep;
  if (map_ != nullptr) ::munmap(map_, static_cast<std::size_t>(file_.size));
}

std::string MappedFile::read(std::uint64_t offset, std::uint64_t size) const {
  const KeepErrno keep;
  const std::uint64_t left = offset <= file_.size ? file_.size - offset : 0;
  if (size > left) {
    fail(path_, "byte " + std::to_string(offset) + ": must have " + std::to_string(size) +
                    (size == 1 ? " byte" : " bytes") + " more, got " + std::to_string(left));
  }
  std::string out(static_cast<std::size_t>(size), '\0');
  posix::read_at(file_, offset, out.data(), size, path_);
  return out;
}

std::span<const std::byte> MappedFile::bytes() {
  const KeepErrno keep;
  if (file_.size > static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max())) {
    fail(path_, "must fit in this machine's memory, got " + std::to_string(file_.size) + " bytes");
  }
  const auto size = static_cast<std::size_t>(file_.size);
  if (size == 0) return {};
  if (map_ == nullptr && !copy_) {
    void* map = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file_.descriptor.get(), 0);
    if (map != MAP_FAILED) {
      map_ = map;
    } else if (errno == ENODEV || errno == EINVAL || errno == EACCES || errno == ENOSYS) {
      constexpr std::size_t line = 64;
      if (size > std::numeric_limits<std::size_t>::max() - line) fail_errno(path_, "cannot be read", ENOMEM);
      copy_.reset(static_cast<std::byte*>(std::aligned_alloc(line, (size + line - 1) / line * line)));
      if (!copy_) fail_errno(path_, "cannot be read", ENOMEM);
      posix::read_at(file_, 0, copy_.get(), size, path_);
    } else {
      fail_errno(path_, "cannot be mapped");
    }
  }
  return {map_ != nullptr ? static_cast<const std::byte*>(map_) : copy_.get(), size};
}

std::string_view MappedFile::text() {
  const std::span<const std::byte> all = bytes();
  return {reinterpret_cast<const char*>(all.data()), all.size()};
}

}  // namespace bearing
