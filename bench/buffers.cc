#include "buffers.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

namespace bearing::bench {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t largest = std::size_t{512} << 20;  // 8 sequences of 4,096 tokens, 32 × 128 float

}  // namespace

HugeBuffer::HugeBuffer(std::size_t bytes) : mapped_(bytes + huge_page), bytes_(bytes) {
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  const std::uintptr_t aligned = (address + huge_page - 1) / huge_page * huge_page;
  data_ = static_cast<char*>(mapping_) + (aligned - address);
  madvise(data_, bytes_, MADV_HUGEPAGE);  // a kernel without huge pages refuses, for all sides alike
  std::memset(data_, 0, bytes_);
}

HugeBuffer::~HugeBuffer() { munmap(mapping_, mapped_); }

HugeBuffer& source() {
  static HugeBuffer buffer(largest);
  return buffer;
}

HugeBuffer& destination() {
  static HugeBuffer buffer(largest);
  return buffer;
}

void fill_with_numbers(HugeBuffer& buffer, std::size_t bytes) {
  static const auto pattern = [] {
    std::array<std::uint16_t, 32768> words{};
    std::uint32_t state = 1;
    for (std::uint16_t& word : words) {
      state = state * 1664525u + 1013904223u;
      word = static_cast<std::uint16_t>(0x3F80u + (state >> 25));
    }
    return words;
  }();
  for (std::size_t done = 0; done < bytes; done += sizeof pattern) {
    std::memcpy(buffer.as<char>() + done, pattern.data(), std::min(sizeof pattern, bytes - done));
  }
}

}  // namespace bearing::bench
