#include "buffers.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <new>

namespace bearing::bench {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t largest = std::size_t{512} << 20;  // 8 sequences of 4,096 tokens, 32 × 128 float

struct Side {
  HugeBuffer source{largest}, destination{largest};
};

std::deque<Side>& sides() {
  static std::deque<Side> all(1);
  return all;
}
std::size_t chosen = 0;

}  // namespace

HugeBuffer::HugeBuffer(std::size_t bytes) : mapped_(bytes + huge_page), bytes_(bytes) {
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  const std::uintptr_t aligned = (address + huge_page - 1) / huge_page * huge_page;
  data_ = static_cast<char*>(mapping_) + (aligned - address);
  madvise(data_, bytes_, MADV_HUGEPAGE);  // a kernel without huge pages refuses, for all sides alike
}

HugeBuffer::~HugeBuffer() { munmap(mapping_, mapped_); }

HugeBuffer& source() { return sides()[chosen].source; }
HugeBuffer& destination() { return sides()[chosen].destination; }

void choose_side(std::size_t side) {
  while (sides().size() <= side) sides().emplace_back();
  chosen = side;
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
