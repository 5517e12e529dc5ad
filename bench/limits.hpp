#pragma once

#include <bearing/executor.hpp>
#include <cstddef>
#include <string>

// What this machine allows: loops that move the bytes of a rotation or a table, or do the arithmetic of an attention,
// and nothing else, with the vectors of the library's target, cut into as many pieces as the executor has workers.
// Bytes are multiples of 4 KiB per worker.

namespace bearing::bench {

/// From now on limits run on the instruction set that the library's kernels run on, so that BEARING_TARGET=avx2 shows
/// what a machine without wider vectors would. Except memcpy, whose vectors the C library chooses.
void follow_the_library();

/// What limits run on, as simd_target() names it; its bfloat16 conversions are left out, which no limit needs.
std::string limits_target();

/// Reads every vector, flips its signs and writes it back. LIMIT is this loop with a prefetch 4 KiB ahead; without
/// one it is faster where the data is near, so both are measured and the faster of the two is the bar.
void read_modify_write(float* x, std::size_t bytes, const Executor& on);
void read_modify_write_prefetching(float* x, std::size_t bytes, const Executor& on);

/// std::memcpy.
void copy(const float* from, float* to, std::size_t bytes, const Executor& on);

/// A copy and a write with stores that go past the caches.
void copy_non_temporal(const float* from, float* to, std::size_t bytes, const Executor& on);
void write_non_temporal(float* to, std::size_t bytes, const Executor& on);

/// Adds up all vectors, without and with a prefetch 4 KiB ahead.
void read(const float* x, std::size_t bytes, const Executor& on);
void read_prefetching(const float* x, std::size_t bytes, const Executor& on);

/// fma_burst multiply-adds on each worker, between registers, none waiting for another. T: float, double.
template <class T>
void multiply_add(const Executor& on);
inline constexpr double fma_burst = 1 << 28;

}  // namespace bearing::bench
