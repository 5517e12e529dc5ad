#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

// malloc() and its kin in a twentieth of the code of wasi-libc's. Small blocks go from list to list, one for each size;
// large ones lie in the order of their addresses, are taken where they first fit and grow together again.

namespace {

struct Block {
  std::size_t bytes;  // with this header
  Block* next;        // while it is free
};

constexpr std::size_t grain = 16, header = 16, most_small = 512, page = 65536;
static_assert(sizeof(Block) <= header);

Block* small_blocks[most_small / grain + 1];
Block* large_blocks;

std::size_t rounded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

Block* after(Block* block) { return reinterpret_cast<Block*>(reinterpret_cast<char*>(block) + block->bytes); }
Block* block_of(void* memory) { return reinterpret_cast<Block*>(static_cast<char*>(memory) - header); }
void* memory_of(Block* block) { return reinterpret_cast<char*>(block) + header; }

void put_large(Block* block) {
  Block** at = &large_blocks;
  while (*at != nullptr && after(*at) < block) at = &(*at)->next;
  if (*at != nullptr && after(*at) == block) {
    (*at)->bytes += block->bytes;
    block = *at;
  } else {
    block->next = *at;
    *at = block;
  }
  if (block->next != nullptr && after(block) == block->next) {
    block->bytes += block->next->bytes;
    block->next = block->next->next;
  }
}

/// Null if the page has no more memory.
Block* take_large(std::size_t bytes) {
  for (Block** at = &large_blocks;; at = &(*at)->next) {
    if (*at == nullptr) {
      const std::size_t pages = (bytes + page - 1) / page, before = __builtin_wasm_memory_grow(0, pages);
      if (before == SIZE_MAX) return nullptr;
      auto* const grown = reinterpret_cast<Block*>(before * page);  // NOLINT(performance-no-int-to-ptr)
      grown->bytes = pages * page;
      put_large(grown);
      at = &large_blocks;
    }
    Block* const block = *at;
    if (block->bytes < bytes) continue;
    if (block->bytes - bytes <= most_small) {
      *at = block->next;
      return block;
    }
    block->bytes -= bytes;
    Block* const end = after(block);
    end->bytes = bytes;
    return end;
  }
}

/// A small block; where there is none, 4 KiB of them.
Block* take_small(std::size_t bytes) {
  Block*& list = small_blocks[bytes / grain];
  if (list == nullptr) {
    constexpr std::size_t at_once = 4096;
    Block* block = take_large(at_once);
    if (block == nullptr) return nullptr;
    for (std::size_t left = block->bytes; left >= bytes; left -= bytes, block = after(block)) {
      block->bytes = bytes;
      block->next = list;
      list = block;
    }
  }
  Block* const block = list;
  list = block->next;
  return block;
}

}  // namespace

extern "C" {

void* malloc(std::size_t bytes) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  const std::size_t all = rounded(bytes + header, grain);
  Block* const block = all <= most_small ? take_small(all) : take_large(all);
  return block == nullptr ? nullptr : memory_of(block);
}

void free(void* memory) {
  if (memory == nullptr) return;
  Block* const block = block_of(memory);
  if (block->bytes > most_small) return put_large(block);
  block->next = small_blocks[block->bytes / grain];
  small_blocks[block->bytes / grain] = block;
}

void* realloc(void* memory, std::size_t bytes) {
  void* const grown = malloc(bytes);
  if (memory == nullptr || grown == nullptr) return grown;
  const std::size_t held = block_of(memory)->bytes - header;
  std::memcpy(grown, memory, held < bytes ? held : bytes);
  free(memory);
  return grown;
}

void* calloc(std::size_t count, std::size_t bytes) {
  if (bytes != 0 && count > SIZE_MAX / bytes) return nullptr;
  void* const memory = malloc(count * bytes);
  return memory == nullptr ? nullptr : std::memset(memory, 0, count * bytes);
}

// WebAssembly reads numbers anywhere: an alignment is a wish.
void* aligned_alloc(std::size_t, std::size_t bytes) { return malloc(bytes); }
int posix_memalign(void** to, std::size_t, std::size_t bytes) {
  *to = malloc(bytes);
  return *to == nullptr ? ENOMEM : 0;
}

}  // extern "C"
