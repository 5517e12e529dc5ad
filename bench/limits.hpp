#pragma once

#include <bearing/executor.hpp>
#include <cstddef>
#include <string>
#include <utility>

// What this machine allows: loops that move the bytes of a rotation or a table, or do the arithmetic of an attention,
// and nothing else, with the vectors of the library's target, cut into as many pieces as the executor has workers.
// Bytes are multiples of 4 KiB per worker.

namespace bearing::bench {

/// From now on limits run on the instruction set that the library's kernels run on, so that BEARING_TARGET=avx2 shows
/// what a machine without wider vectors would. Except memcpy, whose vectors the C library chooses.
void follow_the_library();

/// What limits run on, as simd_target() names it; its bfloat16 conversions are left out, which no limit needs.
std::string limits_target();

/// How memory is walked: as one stream, or four pages of 4 KiB in turn, as the C library's memcpy does with large
/// copies; without a prefetch, which is faster where the data is near, or with one, a page or four pages ahead. All are
/// measured, and the fastest is the bar.
enum class Walk { plain, prefetch, pages, pages_prefetch };
inline constexpr std::pair<const char*, Walk> walks[] = {{"plain", Walk::plain},
                                                         {"prefetch", Walk::prefetch},
                                                         {"pages", Walk::pages},
                                                         {"pages_prefetch", Walk::pages_prefetch}};

/// LIMIT: reads every vector, flips its signs and writes it back.
void read_modify_write(float* x, std::size_t bytes, Walk walk, const Executor& on);

/// std::memcpy.
void copy(const float* from, float* to, std::size_t bytes, const Executor& on);

/// A copy and a write with stores that go past the caches.
void copy_non_temporal(const float* from, float* to, std::size_t bytes, Walk walk, const Executor& on);
void write_non_temporal(float* to, std::size_t bytes, const Executor& on);

/// Adds up all vectors, and returns the sums of the pieces together.
double read(const float* x, std::size_t bytes, Walk walk, const Executor& on);

/// fma_burst multiply-adds on each worker, between registers, none waiting for another. T: float, double.
template <class T>
void multiply_add(const Executor& on);
inline constexpr double fma_burst = 1 << 28;

}  // namespace bearing::bench
