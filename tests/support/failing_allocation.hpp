#pragma once

#include <gtest/gtest.h>
#include <cstddef>
#include <cstdlib>
#include <new>

// Whichever allocation fails, a call throws std::bad_alloc, leaks nothing, writes nothing, and everything can be used
// again. This replaces the global operator new: for one source of a program of its own.

namespace {

constexpr long never = -1;
long allocations_left = never;  // the next but this many fails
long living = 0;                // blocks that are allocated now

void* allocate(std::size_t size, std::size_t alignment) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  void* memory = alignment <= alignof(std::max_align_t) ? std::malloc(size == 0 ? 1 : size)
                                                        : std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
  if (memory == nullptr) throw std::bad_alloc();
  ++living;
  return memory;
}

void release(void* memory) {
  if (memory == nullptr) return;
  --living;
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, 1); }
void* operator new[](std::size_t size) { return allocate(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) { return allocate(size, std::size_t(alignment)); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return allocate(size, std::size_t(alignment)); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace bearing::test {

/// Calls body() with the first allocation failing, then the second, … until it succeeds. After each failure,
/// untouched() must hold. Returns how many allocations the body makes.
template <class Body, class Untouched>
long fail_each_allocation(const char* name, Body&& body, Untouched&& untouched) {
  for (long n = 0;; ++n) {
    const long before = living;
    bool threw = false;
    allocations_left = n;
    try {
      body();
    } catch (const std::bad_alloc&) {
      threw = true;
    } catch (...) {
      allocations_left = never;
      ADD_FAILURE() << name << ": another exception than bad_alloc from allocation " << n;
      return n;
    }
    allocations_left = never;
    if (!threw) return n;
    EXPECT_EQ(living, before) << name << ": allocation " << n << " failed and something leaked";
    EXPECT_TRUE(untouched()) << name << ": allocation " << n << " failed and something was written";
    if (n > 10'000) return n;
  }
}
template <class Body>
long fail_each_allocation(const char* name, Body&& body) {
  return fail_each_allocation(name, body, [] { return true; });
}

}  // namespace bearing::test
