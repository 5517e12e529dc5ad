#include "demo_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace demo {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20, line = 64, words_per_line = line / sizeof(std::uint64_t);

// The widest vectors that the machine has, as the library's kernels use.
#if defined(__x86_64__) && defined(__GNUC__)
#define DEMO_WIDEST [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define DEMO_WIDEST
#endif

DEMO_WIDEST void touch_lines(std::uint64_t* p, std::size_t lines, std::uint64_t flip) {
  for (std::size_t i = 0; i < lines; ++i) {
    __builtin_prefetch(reinterpret_cast<const char*>(p) + 4096, 1);
    for (std::size_t j = 0; j < words_per_line; ++j) p[j] ^= flip;
    p += words_per_line;
  }
}

}  // namespace

void Release::operator()(void* memory) const noexcept { std::free(memory); }

Memory allocate(std::size_t bytes) {
  const std::size_t rounded = (bytes + huge_page - 1) / huge_page * huge_page;
  void* memory = std::aligned_alloc(huge_page, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  ::madvise(memory, rounded, MADV_HUGEPAGE);  // a wish: without it the pages are 4 KiB, for both sides alike
  std::memset(memory, 0, rounded);
  return Memory(static_cast<std::byte*>(memory));
}

void touch(std::byte* memory, std::size_t bytes, const bearing::Executor& on) {
  // Known only at run time, so that the compiler cannot leave the work out.
  static volatile std::uint64_t nothing = 0;
  const std::uint64_t flip = nothing;
  const auto pieces = static_cast<std::size_t>(on.workers);
  const std::size_t lines = bytes / line, per_piece = (lines + pieces - 1) / pieces;
  bearing::parallel(on, on.workers, [&](bearing::Index i) {
    const std::size_t first = std::min(lines, static_cast<std::size_t>(i) * per_piece);
    touch_lines(reinterpret_cast<std::uint64_t*>(memory + first * line), std::min(per_piece, lines - first), flip);
  });
}

}  // namespace demo
