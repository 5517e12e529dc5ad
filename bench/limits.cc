#include "limits.hpp"

#include <atomic>
#include <bearing/target.hpp>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <stdexcept>

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

/// Calls body(first) for each step of n floats at x.
template <bool four_pages, bool prefetch, class Body>
HWY_INLINE void walk_in_order(const float* x, std::size_t n, const Body& body) {
  constexpr std::size_t streams = four_pages ? 4 : 1, stretch = streams * 4096 / sizeof(float);
  for (std::size_t first = 0; first < n; first += stretch) {
    const std::size_t page = HWY_MIN(stretch, n - first) / streams;
    for (std::size_t i = 0; i < page; i += step) {
      for (std::size_t stream = 0; stream < streams; ++stream) {
        const std::size_t at = first + stream * page + i;
        if constexpr (prefetch) {
          for (std::size_t line = 0; line < step; line += 16) hwy::Prefetch(x + at + stretch + line);
        }
        body(at);
      }
    }
  }
}

template <class Body>
HWY_INLINE void walk_through(const float* x, std::size_t n, Walk walk, const Body& body) {
  switch (walk) {
    case Walk::plain:
      return walk_in_order<false, false>(x, n, body);
    case Walk::prefetch:
      return walk_in_order<false, true>(x, n, body);
    case Walk::pages:
      return walk_in_order<true, false>(x, n, body);
    case Walk::pages_prefetch:
      return walk_in_order<true, true>(x, n, body);
  }
}

void FlipSigns(float* x, std::size_t n, Walk walk) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  walk_through(x, n, walk, [=](std::size_t at) HWY_ATTR {
    for (std::size_t j = 0; j < step; j += lanes) hn::Store(hn::Neg(hn::Load(d, x + at + j)), d, x + at + j);
  });
}

void StreamCopy(const float* from, float* to, std::size_t n, Walk walk) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  walk_through(from, n, walk, [=](std::size_t at) HWY_ATTR {
    for (std::size_t j = 0; j < step; j += lanes) hn::Stream(hn::Load(d, from + at + j), d, to + at + j);
  });
  hwy::FlushStream();
}

void StreamConstant(float* to, std::size_t n) {
  const hn::ScalableTag<float> d;
  const auto value = hn::Set(d, 1.0f);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) hn::Stream(value, d, to + i);
  hwy::FlushStream();
}

float SumUp(const float* x, std::size_t n, Walk walk) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  auto a = hn::Zero(d), b = a;
  walk_through(x, n, walk, [&](std::size_t at) HWY_ATTR {
    for (std::size_t j = 0; j < step; j += 2 * lanes) {
      a = hn::Add(a, hn::Load(d, x + at + j));
      b = hn::Add(b, hn::Load(d, x + at + j + lanes));
    }
  });
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
}

// Twelve chains keep two units of four or five cycles busy, and leave registers to sixteen. Each starts elsewhere, or
// the compiler would see that they are the same.
template <class T>
T fma_chains(std::size_t n) {
  const hn::ScalableTag<T> d;
  const auto half = hn::Set(d, T(0.5)), one = hn::Set(d, T(1));
  const auto from = [d](int start) { return hn::Set(d, static_cast<T>(start)); };
  auto a = from(3), b = from(4), c = from(5), e = from(6), f = from(7), g = from(8);
  auto h = from(9), i = from(10), j = from(11), k = from(12), l = from(13), m = from(14);
  for (std::size_t done = 0; done < n; done += 12 * hn::Lanes(d)) {
    a = hn::MulAdd(a, half, one), b = hn::MulAdd(b, half, one), c = hn::MulAdd(c, half, one);
    e = hn::MulAdd(e, half, one), f = hn::MulAdd(f, half, one), g = hn::MulAdd(g, half, one);
    h = hn::MulAdd(h, half, one), i = hn::MulAdd(i, half, one), j = hn::MulAdd(j, half, one);
    k = hn::MulAdd(k, half, one), l = hn::MulAdd(l, half, one), m = hn::MulAdd(m, half, one);
  }
  a = hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)), hn::Add(hn::Add(f, g), hn::Add(h, i)));
  return hn::GetLane(hn::Add(a, hn::Add(hn::Add(j, k), hn::Add(l, m))));
}

float FmaFloat(std::size_t n) { return fma_chains<float>(n); }
double FmaDouble(std::size_t n) { return fma_chains<double>(n); }

std::int64_t CompiledFor() { return HWY_TARGET; }

}  // namespace bearing::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::bench {
namespace {

HWY_EXPORT(FlipSigns);
HWY_EXPORT(StreamCopy);
HWY_EXPORT(StreamConstant);
HWY_EXPORT(SumUp);
HWY_EXPORT(FmaFloat);
HWY_EXPORT(FmaDouble);
HWY_EXPORT(CompiledFor);

std::string name_of(std::int64_t target) {
  if (((HWY_EMU128 | HWY_SCALAR) & target) != 0) return "scalar";
#ifdef HWY_NEON_WITHOUT_AES
  if (target == HWY_NEON_WITHOUT_AES) return "neon";  // as the library calls it
#endif
  std::string name = hwy::TargetName(target);
  for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
  return name;
}

/// Calls body(first, n) on equal pieces of `bytes` bytes of floats, one for each worker.
template <class Body>
void in_pieces(std::size_t bytes, const Executor& on, Body&& body) {
  const std::size_t n = bytes / sizeof(float) / static_cast<std::size_t>(on.workers);
  parallel(on, on.workers, [&](Index i) { body(static_cast<std::size_t>(i) * n, n); });
}

/// Where a result goes that nobody wants, so that it is computed.
void keep(double value) { [[maybe_unused]] volatile double kept = value; }

}  // namespace

void follow_the_library() {
  const std::string wanted(simd_target().substr(0, simd_target().find("_bf16")));
  std::int64_t left = HWY_TARGETS, found = 0;
  for (; left != 0 && found == 0; left &= left - 1) {
    if (const std::int64_t lowest = left & -left; name_of(lowest) == wanted) found = lowest;
  }
  if (wanted == "baseline") found = HWY_STATIC_TARGET;
  if (found == 0) throw std::runtime_error("limits are not compiled for " + wanted);
  hwy::GetChosenTarget().Update(found);  // Highway's own choice, which the library does not use
}

std::string limits_target() { return name_of(HWY_DYNAMIC_DISPATCH(CompiledFor)()); }

void read_modify_write(float* x, std::size_t bytes, Walk walk, const Executor& on) {
  in_pieces(bytes, on, [=](std::size_t first, std::size_t n) { HWY_DYNAMIC_DISPATCH(FlipSigns)(x + first, n, walk); });
}

void copy(const float* from, float* to, std::size_t bytes, const Executor& on) {
  in_pieces(bytes, on,
            [from, to](std::size_t first, std::size_t n) { std::memcpy(to + first, from + first, n * sizeof(float)); });
}

void copy_non_temporal(const float* from, float* to, std::size_t bytes, Walk walk, const Executor& on) {
  in_pieces(bytes, on, [=](std::size_t first, std::size_t n) {
    HWY_DYNAMIC_DISPATCH(StreamCopy)(from + first, to + first, n, walk);
  });
}

void write_non_temporal(float* to, std::size_t bytes, const Executor& on) {
  in_pieces(bytes, on, [to](std::size_t first, std::size_t n) { HWY_DYNAMIC_DISPATCH(StreamConstant)(to + first, n); });
}

double read(const float* x, std::size_t bytes, Walk walk, const Executor& on) {
  std::atomic<double> sum = 0;
  in_pieces(bytes, on,
            [&](std::size_t first, std::size_t n) { sum += HWY_DYNAMIC_DISPATCH(SumUp)(x + first, n, walk); });
  keep(sum);
  return sum;
}

template <>
void multiply_add<float>(const Executor& on) {
  parallel(on, on.workers, [](Index) { keep(HWY_DYNAMIC_DISPATCH(FmaFloat)(static_cast<std::size_t>(fma_burst))); });
}
template <>
void multiply_add<double>(const Executor& on) {
  parallel(on, on.workers, [](Index) { keep(HWY_DYNAMIC_DISPATCH(FmaDouble)(static_cast<std::size_t>(fma_burst))); });
}

}  // namespace bearing::bench
#endif
