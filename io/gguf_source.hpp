#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bearing {
class MappedFile;
}

// Where a GGUF file's bytes come from. What is left of them is the only truth about sizes: no number of the file is
// added to another one or multiplied before it was compared with it.

namespace bearing::gguf {

/// A file, read in windows, or bytes in memory.
class Source {
 public:
  Source(std::string_view bytes, std::string name) : size_(bytes.size()), name_(std::move(name)), window_(bytes) {}
  explicit Source(const MappedFile& file);
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  std::uint64_t size() const { return size_; }
  const std::string& name() const { return name_; }

  /// n bytes from an offset, which must be there (see Cursor); valid until the next call.
  std::string_view bytes(std::uint64_t offset, std::uint64_t n);

 private:
  std::uint64_t size_;
  std::string name_;
  std::string_view window_;
  std::uint64_t window_offset_ = 0;
  const MappedFile* file_ = nullptr;
  std::string read_;
};

/// A place in a source, which cannot leave it.
class Cursor {
 public:
  explicit Cursor(Source& source, std::uint64_t at = 0) : source_(&source), at_(at) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return source_->size() - at_; }

  /// To an offset that the cursor has been at.
  void go_to(std::uint64_t at) { at_ = at; }

  /// "FILE: byte N: …"
  [[noreturn]] void fail(std::uint64_t at, const std::string& text) const;
  [[noreturn]] void fail(const std::string& text) const { fail(at_, text); }

  std::uint32_t u32(const char* what) { return static_cast<std::uint32_t>(number(4, what)); }
  std::uint64_t u64(const char* what) { return number(8, what); }
  /// An unsigned little-endian number of 1, 2, 4 or 8 bytes.
  std::uint64_t number(std::uint64_t width, const char* what);
  /// n bytes as they are; valid until the next call.
  std::string_view take(std::uint64_t n, const char* what);
  void skip(std::uint64_t n, const char* what);
  /// `count` things of at least `width` bytes each.
  void skip_many(std::uint64_t count, std::uint64_t width, const char* what);

 private:
  void need(std::uint64_t n, const char* what) const;

  Source* source_;
  std::uint64_t at_;
};

/// a · b and a + b, or false where they do not fit in 63 bits.
bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product);
bool add(std::uint64_t a, std::uint64_t b, std::uint64_t& sum);

}  // namespace bearing::gguf
