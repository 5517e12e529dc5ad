#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "posix_file.hpp"

namespace bearing {

/// A regular file's bytes, read only, at an address that is a multiple of a page's size where they are mapped, and of
/// 64 elsewhere. They are mapped; where the file system cannot map them, they are read. The size is that of the moment
/// when the file was opened.
///
/// Who makes a mapped file shorter while it is used gets the system's signal (SIGBUS) where the map is read: what can
/// be read at once, headers above all, is better read with read(), where that is an error.
class MappedFile {
 public:
  /// Throws ConfigError for a file that is missing, is not regular or cannot be read; never waits for a pipe's writer.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return file_.size; }

  /// A copy of `size` bytes from `offset`, by a read. Throws ConfigError, which names the byte, if they are not there.
  std::string read(std::uint64_t offset, std::uint64_t size) const;

  /// All bytes. The first call maps them; it is not to be made by two threads at once.
  std::span<const std::byte> bytes();
  std::string_view text();

 private:
  std::string path_;
  posix::OpenFile file_;
  void* map_ = nullptr;
  std::unique_ptr<std::byte, void (*)(void*)> copy_;  // where there is no map
};

}  // namespace bearing
