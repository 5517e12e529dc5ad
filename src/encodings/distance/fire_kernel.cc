// Rows of FIRE's scores, once per SIMD target.

#include "encodings/distance/fire_kernel.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "encodings/distance/fire_kernel.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cstdint>

#include "simd/dispatch.hpp"
#include "simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bearing::fire::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using simd::HWY_NAMESPACE::lanes;
using simd::HWY_NAMESPACE::Tag;

template <class A>
struct Row {
  Index cols;
  const A* psi;
  A scale;
  const A *slope, *height;
  A* s;
};

/// One key on a line.
template <Write how, class A>
HWY_INLINE void write_key(const Row<A>& row, A line, Index j) {
  const auto l = static_cast<Index>(line);
  const A score = row.height[l] + row.slope[l] * (row.psi[j] * row.scale);
  row.s[j] = (how == Write::add ? row.s[j] : A{0}) + score;
}

/// A vector of keys, each on a line of its lane.
template <Write how, class A, class V>
HWY_INLINE void write_keys(const Row<A>& row, V slope, V height, Index j) {
  const Tag<A> d;
  const auto x = hn::Mul(hn::LoadU(d, row.psi + j), hn::Set(d, row.scale));
  const auto score = hn::Add(height, hn::Mul(slope, x));
  if constexpr (how == Write::put_past_caches) {
    hn::Stream(hn::Add(hn::Zero(d), score), d, row.s + j);
  } else {
    hn::StoreU(hn::Add(how == Write::add ? hn::LoadU(d, row.s + j) : hn::Zero(d), score), d, row.s + j);
  }
}

/// The keys from j on, vector by vector; returns the first that no whole vector has. A vector that runs share takes
/// its lanes' lines from them one by one.
template <Write how, class A>
HWY_INLINE Index write_vectors(const Row<A>& row, Runs<A>& runs, Index j) {
  const Tag<A> d;
  const auto numbers = hn::Iota(d, A{0});
  const Index last = row.cols - lanes<A>();
  while (j <= last) {
    const auto line = static_cast<Index>(*runs.line), end = static_cast<Index>(*runs.end);
    auto slope = hn::Set(d, row.slope[line]), height = hn::Set(d, row.height[line]);
    for (; j + lanes<A>() <= end; j += lanes<A>()) write_keys<how>(row, slope, height, j);
    if (j > last) break;
    while (*runs.end < static_cast<A>(j + lanes<A>())) {
      const auto later = hn::Ge(numbers, hn::Set(d, *runs.end - static_cast<A>(j)));
      runs.next();
      const auto next = static_cast<Index>(*runs.line);
      slope = hn::IfThenElse(later, hn::Set(d, row.slope[next]), slope);
      height = hn::IfThenElse(later, hn::Set(d, row.height[next]), height);
    }
    write_keys<how>(row, slope, height, j);
    j += lanes<A>();
  }
  return j;
}

template <Write how, class A>
HWY_INLINE void write_all(const Row<A>& row, Runs<A> runs) {
  const auto one = [&](Index j) HWY_ATTR {
    while (*runs.end <= static_cast<A>(j)) runs.next();
    write_key<how>(row, *runs.line, j);
  };
  Index j = 0;
  if constexpr (how == Write::put_past_caches) {
    const auto vector_bytes = static_cast<std::uintptr_t>(lanes<A>()) * sizeof(A);
    for (; j < row.cols && reinterpret_cast<std::uintptr_t>(row.s + j) % vector_bytes != 0; ++j) one(j);
  }
  for (j = write_vectors<how>(row, runs, j); j < row.cols; ++j) one(j);
}

template <class A>
void write_row(Index cols, const A* psi, A scale, const Runs<A>& runs, const A* slope, const A* height, Write how,
               A* s) {
  const Row<A> row{cols, psi, scale, slope, height, s};
  if (how == Write::add) return write_all<Write::add>(row, runs);
  if (how == Write::put) return write_all<Write::put>(row, runs);
  write_all<Write::put_past_caches>(row, runs);
}

}  // namespace bearing::fire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::fire {

BEARING_KERNEL(void, write_row,
               (Index cols, const A* psi, A scale, const Runs<A>& runs, const A* slope, const A* height, Write how,
                A* s),
               (cols, psi, scale, runs, slope, height, how, s))

void finish_writes() { hwy::FlushStream(); }

}  // namespace bearing::fire
#endif
