#include "limits.hpp"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "limits.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace bearing::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 256 bytes a step: four independent 64-byte vectors, one prefetch for each cache line.
constexpr std::size_t step = 64;

template <std::size_t prefetch_bytes>
void flip_signs(float* x, std::size_t n) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < n; i += step) {
    if constexpr (prefetch_bytes > 0) {
      for (std::size_t line = 0; line < step; line += 16) hwy::Prefetch(x + i + line + prefetch_bytes / sizeof(float));
    }
    for (std::size_t j = 0; j < step; j += lanes) hn::Store(hn::Neg(hn::Load(d, x + i + j)), d, x + i + j);
  }
}

void FlipSigns(float* x, std::size_t n) { flip_signs<0>(x, n); }
void FlipSignsPrefetching(float* x, std::size_t n) { flip_signs<4096>(x, n); }

void StreamCopy(const float* from, float* to, std::size_t n) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < n; i += step) {
    for (std::size_t j = 0; j < step; j += lanes) hn::Stream(hn::Load(d, from + i + j), d, to + i + j);
  }
  hwy::FlushStream();
}

void StreamConstant(float* to, std::size_t n) {
  const hn::ScalableTag<float> d;
  const auto value = hn::Set(d, 1.0f);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) hn::Stream(value, d, to + i);
  hwy::FlushStream();
}

}  // namespace bearing::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::bench {
namespace {

HWY_EXPORT(FlipSigns);
HWY_EXPORT(FlipSignsPrefetching);
HWY_EXPORT(StreamCopy);
HWY_EXPORT(StreamConstant);

/// Calls body(first, n) on equal pieces of `bytes` bytes of floats, one for each worker.
template <class Body>
void in_pieces(std::size_t bytes, const Executor& on, Body&& body) {
  const std::size_t n = bytes / sizeof(float) / static_cast<std::size_t>(on.workers);
  parallel(on, on.workers, [&](Index i) { body(static_cast<std::size_t>(i) * n, n); });
}

}  // namespace

void read_modify_write(float* x, std::size_t bytes, const Executor& on) {
  in_pieces(bytes, on, [x](std::size_t first, std::size_t n) { HWY_DYNAMIC_DISPATCH(FlipSigns)(x + first, n); });
}

void read_modify_write_prefetching(float* x, std::size_t bytes, const Executor& on) {
  in_pieces(bytes, on, [x](std::size_t first, std::size_t n) {
    HWY_DYNAMIC_DISPATCH(FlipSignsPrefetching)(x + first, n);
  });
}

void copy(const float* from, float* to, std::size_t bytes, const Executor& on) {
  in_pieces(bytes, on,
            [from, to](std::size_t first, std::size_t n) { std::memcpy(to + first, from + first, n * sizeof(float)); });
}

void copy_non_temporal(const float* from, float* to, std::size_t bytes, const Executor& on) {
  in_pieces(bytes, on, [from, to](std::size_t first, std::size_t n) {
    HWY_DYNAMIC_DISPATCH(StreamCopy)(from + first, to + first, n);
  });
}

void write_non_temporal(float* to, std::size_t bytes, const Executor& on) {
  in_pieces(bytes, on, [to](std::size_t first, std::size_t n) { HWY_DYNAMIC_DISPATCH(StreamConstant)(to + first, n); });
}

}  // namespace bearing::bench
#endif
