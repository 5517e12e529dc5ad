#include "gguf_source.hpp"

#include <algorithm>
#include <bearing/error.hpp>

#include "mapped_file.hpp"

namespace bearing::gguf {
namespace {

constexpr std::uint64_t window_size = std::uint64_t{1} << 18;
constexpr std::uint64_t most = ~std::uint64_t{0} >> 1;

}  // namespace

Source::Source(const MappedFile& file) : size_(file.size()), name_(file.path()), file_(&file) {}

std::string_view Source::bytes(std::uint64_t offset, std::uint64_t n) {
  const bool inside = offset >= window_offset_ && offset - window_offset_ <= window_.size() &&
                      n <= window_.size() - (offset - window_offset_);
  if (!inside) {
    if (file_ == nullptr) throw ConfigError(name_ + ": byte " + std::to_string(offset) + ": must be in the file");
    read_ = file_->read(offset, std::max(n, std::min(window_size, size_ - std::min(size_, offset))));
    window_ = read_;
    window_offset_ = offset;
  }
  return window_.substr(static_cast<std::size_t>(offset - window_offset_), static_cast<std::size_t>(n));
}

void Cursor::fail(std::uint64_t at, const std::string& text) const {
  throw ConfigError(source_->name() + ": byte " + std::to_string(at) + ": " + text);
}

void Cursor::need(std::uint64_t n, const char* what) const {
  if (n > left()) {
    fail(std::string(what) + " must have " + std::to_string(n) + " bytes, got " + std::to_string(left()) +
         " to the end of the file");
  }
}

std::uint64_t Cursor::number(std::uint64_t width, const char* what) {
  const std::string_view bytes = take(width, what);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

std::string_view Cursor::take(std::uint64_t n, const char* what) {
  need(n, what);
  const std::string_view bytes = source_->bytes(at_, n);
  at_ += n;
  return bytes;
}

void Cursor::skip(std::uint64_t n, const char* what) {
  need(n, what);
  at_ += n;
}

void Cursor::skip_many(std::uint64_t count, std::uint64_t width, const char* what) {
  if (count > left() / width) {
    fail(std::string(what) + " must have " + std::to_string(count) + " elements of " + std::to_string(width) +
         " bytes, got " + std::to_string(left()) + " bytes to the end of the file");
  }
  at_ += count * width;
}

bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  if (b != 0 && a > most / b) return false;
  product = a * b;
  return true;
}

bool add(std::uint64_t a, std::uint64_t b, std::uint64_t& sum) {
  if (a > most || b > most - a) return false;
  sum = a + b;
  return true;
}

}  // namespace bearing::gguf
