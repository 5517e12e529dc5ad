// The kernels of linear attention's rows, once per SIMD target.

#include "attention/linear/linear_kernels.hpp"

#include <iterator>
#include <limits>
#include <numbers>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/linear/linear_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After it, as it must be.
#include <hwy/highway.h>

#include "attention/shared/exponential-inl.h"
#include "simd/dispatch.hpp"
#include "simd/lanes-inl.h"
#include "simd/prefetch.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::linear::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using simd::HWY_NAMESPACE::lanes;
using simd::HWY_NAMESPACE::Tag;

/// to = body(from) vector by vector; the last one is filled up with zeros. The n numbers after these, mostly the next
/// block's, are asked for: without that, half of the time of φ is spent waiting for memory.
template <class A, class Body>
HWY_INLINE void map_row(Index n, const A* from, A* to, const Body& body) {
  const Tag<A> d;
  Index j = 0;
  for (; j + lanes<A>() <= n; j += lanes<A>()) {
    simd::prefetch(from, n + j);
    hn::StoreU(body(j, hn::LoadU(d, from + j)), d, to + j);
  }
  if (j == n) return;
  HWY_ALIGN A room[hn::MaxLanes(d)] = {};
  for (Index x = j; x < n; ++x) room[x - j] = from[x];
  hn::Store(body(j, hn::Load(d, room)), d, room);
  for (Index x = j; x < n; ++x) to[x] = room[x - j];
}

/// e^x for x in [least, 128·ln 2): 2^n · e^r with n the integer nearest to x / ln 2, r the rest. n·ln 2 is taken from x
/// in two parts, the first of them exact.
template <class A>
struct Natural;
template <>
struct Natural<float> {
  static constexpr float shift = 0x1.8p23f + 127, ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
};
template <>
struct Natural<double> {
  static constexpr double shift = 0x1.8p52 + 1023, ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
};

/// e^r = 1 + r · polynomial(r): the polynomial of 2^f, f = r / ln 2.
template <class A>
struct NaturalFactors {
  static constexpr int terms = static_cast<int>(std::size(attend::HWY_NAMESPACE::Exponential<A>::exp2));
  A of[terms];

  constexpr NaturalFactors() : of() {
    double power = std::numbers::log2e / 2;
    for (int i = 0; i < terms; ++i, power *= std::numbers::log2e) {
      of[i] = static_cast<A>(power * static_cast<double>(attend::HWY_NAMESPACE::Exponential<A>::exp2[i]));
    }
  }
};

template <class A>
HWY_INLINE hn::Vec<Tag<A>> exponential(hn::Vec<Tag<A>> x) {
  using N = Natural<A>;
  static constexpr NaturalFactors<A> factors;
  const Tag<A> d;
  const hn::RebindToUnsigned<Tag<A>> du;
  const auto shift = hn::Set(d, N::shift);
  const auto shifted = hn::MulAdd(x, hn::Set(d, std::numbers::log2e_v<A>), shift);
  const auto n = hn::Sub(shifted, shift);
  const auto r = hn::NegMulAdd(n, hn::Set(d, N::ln2_low), hn::NegMulAdd(n, hn::Set(d, N::ln2_high), x));
  const auto power =
      hn::BitCast(d, hn::ShiftLeft<attend::HWY_NAMESPACE::Exponential<A>::mantissa_bits>(hn::BitCast(du, shifted)));
  const auto rest = attend::HWY_NAMESPACE::polynomial<A>(r, factors.of);
  return hn::Mul(power, hn::MulAdd(r, rest, hn::Set(d, A{1})));
}

template <class A>
void features(FeatureMap map, Index n, const A* x, A* f) {
  const Tag<A> d;
  const auto zero = hn::Zero(d), one = hn::Set(d, A{1});
  const auto least = hn::Set(d, std::numeric_limits<A>::min_exponent * std::numbers::ln2_v<A>);
  if (map == FeatureMap::identity) return map_row(n, x, f, [](Index, auto v) { return v; });
  if (map == FeatureMap::relu) {  // a NaN stays one
    return map_row(n, x, f, [&](Index, auto v) { return hn::IfThenElse(hn::Le(v, zero), zero, v); });
  }
  map_row(n, x, f, [&](Index, auto v) HWY_ATTR {  // a NaN stays one, as no comparison with it holds
    const auto power = exponential<A>(attend::HWY_NAMESPACE::at_least<A>(least, v));  // above 0 whatever it may be
    const auto below = hn::IfThenZeroElse(hn::Lt(v, least), power);
    return hn::IfThenElse(hn::Gt(v, zero), hn::Add(v, one), below);
  });
}

template <class A>
void feature_grads(FeatureMap map, Index n, const A* f, const A* d_f, A* d_x) {
  const Tag<A> d;
  const auto zero = hn::Zero(d), one = hn::Set(d, A{1});
  HWY_ALIGN A room[hn::MaxLanes(d)] = {};
  const auto slope_of = [&](Index j) {
    if (j + lanes<A>() <= n) return hn::LoadU(d, f + j);
    for (Index x = j; x < n; ++x) room[x - j] = f[x];
    return hn::Load(d, room);
  };
  if (map == FeatureMap::identity) return map_row(n, d_f, d_x, [](Index, auto v) { return v; });
  if (map == FeatureMap::relu) {
    return map_row(n, d_f, d_x, [&](Index j, auto v) { return hn::IfThenElse(hn::Gt(slope_of(j), zero), v, zero); });
  }
  map_row(n, d_f, d_x, [&](Index j, auto v) { return hn::Mul(v, hn::Min(slope_of(j), one)); });
}

template <class A>
void add_scaled(Index n, A factor, const A* x, A* y) {
  const Tag<A> d;
  const auto times = hn::Set(d, factor);
  Index j = 0;
  for (; j + lanes<A>() <= n; j += lanes<A>()) {
    hn::StoreU(hn::Add(hn::LoadU(d, y + j), hn::Mul(times, hn::LoadU(d, x + j))), d, y + j);
  }
  for (; j < n; ++j) y[j] += factor * x[j];
}

template <class A>
void add_rows(Index rows, Index dim, const A* x, A* sum) {
  const Tag<A> d;
  Index j = 0;
  for (; j + lanes<A>() <= dim; j += lanes<A>()) {
    auto column = hn::LoadU(d, sum + j);
    for (Index i = 0; i < rows; ++i) column = hn::Add(column, hn::LoadU(d, x + i * dim + j));
    hn::StoreU(column, d, sum + j);
  }
  for (; j < dim; ++j) {
    for (Index i = 0; i < rows; ++i) sum[j] += x[i * dim + j];
  }
}

template <class A>
void running_sums(Index rows, Index dim, Index next, const Index* ends, const A* x, const A* base, A* sum, A* to) {
  Index j = 0;
  const auto columns = [&](auto d, auto vectors) HWY_ATTR {
    constexpr int Vectors = decltype(vectors)::value;
    const Index n = static_cast<Index>(hn::Lanes(d));
    hn::Vec<decltype(d)> here[Vectors], before[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      here[v] = hn::LoadU(d, sum + j + v * n), before[v] = hn::LoadU(d, base + j + v * n);
    const A* row = x == nullptr ? x : x + j;  // without any key there are no features
    Index at = next;
    for (Index i = 0; i < rows; ++i) {
      for (; at < ends[i]; ++at, row += dim) {
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) here[v] = hn::Add(here[v], hn::LoadU(d, row + v * n));
      }
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) hn::StoreU(hn::Add(before[v], here[v]), d, to + i * dim + j + v * n);
    }
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) hn::StoreU(here[v], d, sum + j + v * n);
    j += Vectors * n;
  };
  const std::integral_constant<int, 1> one;
  while (j + 4 * lanes<A>() <= dim) columns(Tag<A>(), std::integral_constant<int, 4>());
  while (j + lanes<A>() <= dim) columns(Tag<A>(), one);
  while (j < dim) columns(hn::CappedTag<A, 1>(), one);
}

template <class A>
void scale_rows(Index rows, Index dim, const A* factors, A* x, Index stride) {
  const Tag<A> d;
  for (Index i = 0; i < rows; ++i, x += stride) {
    const A factor = factors[i];
    const auto times = hn::Set(d, factor);
    const auto none = hn::Eq(times, hn::Zero(d));
    Index j = 0;
    for (; j + lanes<A>() <= dim; j += lanes<A>()) {
      hn::StoreU(hn::IfThenZeroElse(none, hn::Mul(times, hn::LoadU(d, x + j))), d, x + j);
    }
    for (; j < dim; ++j) x[j] = factor == 0 ? A{0} : factor * x[j];
  }
}

}  // namespace bearing::linear::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::linear {

BEARING_KERNEL(void, features, (FeatureMap map, Index n, const A* x, A* f), (map, n, x, f))
BEARING_KERNEL(void, feature_grads, (FeatureMap map, Index n, const A* f, const A* d_f, A* d_x), (map, n, f, d_f, d_x))
BEARING_KERNEL(void, add_rows, (Index rows, Index dim, const A* x, A* sum), (rows, dim, x, sum))
BEARING_KERNEL(void, running_sums,
               (Index rows, Index dim, Index next, const Index* ends, const A* x, const A* base, A* sum, A* to),
               (rows, dim, next, ends, x, base, sum, to))
BEARING_KERNEL(void, add_scaled, (Index n, A factor, const A* x, A* y), (n, factor, x, y))
BEARING_KERNEL(void, scale_rows, (Index rows, Index dim, const A* factors, A* x, Index stride),
               (rows, dim, factors, x, stride))

}  // namespace bearing::linear
#endif
