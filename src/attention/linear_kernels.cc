// The kernels of linear attention's rows, once per SIMD target.

#include "attention/linear_kernels.hpp"

#include <limits>
#include <numbers>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/linear_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After it, as it must be.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "simd/lanes-inl.h"
#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::linear::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class A>
using Tag = hn::ScalableTag<A>;
template <class A>
HWY_INLINE Index lanes() {
  return static_cast<Index>(hn::Lanes(Tag<A>()));
}

/// to = body(from) vector by vector; the last one is filled up with zeros.
template <class A, class Body>
HWY_INLINE void map_row(Index n, const A* from, A* to, const Body& body) {
  const Tag<A> d;
  Index j = 0;
  for (; j + lanes<A>() <= n; j += lanes<A>()) hn::StoreU(body(j, hn::LoadU(d, from + j)), d, to + j);
  if (j == n) return;
  HWY_ALIGN A room[hn::MaxLanes(d)] = {};
  for (Index x = j; x < n; ++x) room[x - j] = from[x];
  hn::Store(body(j, hn::Load(d, room)), d, room);
  for (Index x = j; x < n; ++x) to[x] = room[x - j];
}

template <class A>
HWY_INLINE void features_impl(FeatureMap map, Index n, const A* x, A* f) {
  const Tag<A> d;
  const auto zero = hn::Zero(d), one = hn::Set(d, A{1});
  const auto least = hn::Set(d, std::numeric_limits<A>::min_exponent * std::numbers::ln2_v<A>);
  if (map == FeatureMap::identity) return map_row(n, x, f, [](Index, auto v) { return v; });
  if (map == FeatureMap::relu) {  // a NaN stays one
    return map_row(n, x, f, [&](Index, auto v) { return hn::IfThenElse(hn::Le(v, zero), zero, v); });
  }
  map_row(n, x, f, [&](Index, auto v) {
    const auto power = hn::Exp(d, hn::Max(hn::Min(v, zero), least));
    const auto below = hn::IfThenElse(hn::Ge(v, least), power, zero);
    // Neither above 0 nor below: not a number.
    return hn::IfThenElse(hn::Gt(v, zero), hn::Add(v, one), hn::IfThenElse(hn::Le(v, zero), below, v));
  });
}

template <class A>
HWY_INLINE void feature_grads_impl(FeatureMap map, Index n, const A* f, const A* d_f, A* d_x) {
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
HWY_INLINE void add_scaled_impl(Index n, A factor, const A* x, A* y) {
  const Tag<A> d;
  const auto times = hn::Set(d, factor);
  Index j = 0;
  for (; j + lanes<A>() <= n; j += lanes<A>()) {
    hn::StoreU(hn::Add(hn::LoadU(d, y + j), hn::Mul(times, hn::LoadU(d, x + j))), d, y + j);
  }
  for (; j < n; ++j) y[j] += factor * x[j];
}

template <class A>
HWY_INLINE void add_rows_impl(Index rows, Index dim, const A* x, A* sum) {
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
HWY_INLINE void row_products_impl(Index rows, Index dim, const A* a, const A* b, A* products) {
  const Tag<A> d;
  for (Index i = 0; i < rows; ++i) {
    auto sum = hn::Zero(d);
    Index j = 0;
    for (; j + lanes<A>() <= dim; j += lanes<A>()) {
      sum = hn::MulAdd(hn::LoadU(d, a + i * dim + j), hn::LoadU(d, b + i * dim + j), sum);
    }
    A total = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; j < dim; ++j) total += a[i * dim + j] * b[i * dim + j];
    products[i] = total;
  }
}

#define BEARING_LINEAR_KERNELS(SUFFIX, A)                                                                 \
  void features_##SUFFIX(FeatureMap map, Index n, const A* x, A* f) { features_impl(map, n, x, f); }      \
  void feature_grads_##SUFFIX(FeatureMap map, Index n, const A* f, const A* d_f, A* d_x) {                \
    feature_grads_impl(map, n, f, d_f, d_x);                                                              \
  }                                                                                                       \
  void add_rows_##SUFFIX(Index rows, Index dim, const A* x, A* sum) { add_rows_impl(rows, dim, x, sum); } \
  void add_scaled_##SUFFIX(Index n, A factor, const A* x, A* y) { add_scaled_impl(n, factor, x, y); }     \
  void row_products_##SUFFIX(Index rows, Index dim, const A* a, const A* b, A* products) {                \
    row_products_impl(rows, dim, a, b, products);                                                         \
  }
BEARING_LINEAR_KERNELS(f32, float)
BEARING_LINEAR_KERNELS(f64, double)
#undef BEARING_LINEAR_KERNELS

void widen_f16(Index n, const Float16* from, float* to) {
  const Tag<float> d;
  Index j = 0;
  for (; j + lanes<float>() <= n; j += lanes<float>()) {
    hn::StoreU(simd::HWY_NAMESPACE::load_f16(d, from + j), d, to + j);
  }
  for (; j < n; ++j) to[j] = static_cast<float>(from[j]);
}

void narrow_f16(Index n, const float* from, Float16* to) {
  const Tag<float> d;
  Index j = 0;
  for (; j + lanes<float>() <= n; j += lanes<float>()) {
    simd::HWY_NAMESPACE::store_f16<false>(d, hn::LoadU(d, from + j), to + j);
  }
  for (; j < n; ++j) to[j] = Float16(from[j]);
}

}  // namespace bearing::linear::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::linear {

#define BEARING_LINEAR_DISPATCH(NAME, ...)              \
  HWY_EXPORT(NAME##_f32);                               \
  HWY_EXPORT(NAME##_f64);                               \
  template <class A, class... Arguments>                \
  void dispatch_##NAME(const Arguments&... arguments) { \
    if constexpr (sizeof(A) == sizeof(float)) {         \
      BEARING_DISPATCH(NAME##_f32)(arguments...);       \
    } else {                                            \
      BEARING_DISPATCH(NAME##_f64)(arguments...);       \
    }                                                   \
  }
BEARING_LINEAR_DISPATCH(features)
BEARING_LINEAR_DISPATCH(feature_grads)
BEARING_LINEAR_DISPATCH(add_rows)
BEARING_LINEAR_DISPATCH(add_scaled)
BEARING_LINEAR_DISPATCH(row_products)
#undef BEARING_LINEAR_DISPATCH
HWY_EXPORT(widen_f16);
HWY_EXPORT(narrow_f16);

template <class A>
void features(FeatureMap map, Index n, const A* x, A* f) {
  dispatch_features<A>(map, n, x, f);
}
template <class A>
void feature_grads(FeatureMap map, Index n, const A* f, const A* d_f, A* d_x) {
  dispatch_feature_grads<A>(map, n, f, d_f, d_x);
}
template <class A>
void add_rows(Index rows, Index dim, const A* x, A* sum) {
  dispatch_add_rows<A>(rows, dim, x, sum);
}
template <class A>
void add_scaled(Index n, A factor, const A* x, A* y) {
  dispatch_add_scaled<A>(n, factor, x, y);
}
template <class A>
void row_products(Index rows, Index dim, const A* a, const A* b, A* products) {
  dispatch_row_products<A>(rows, dim, a, b, products);
}
void widen(Index n, const Float16* from, float* to) { BEARING_DISPATCH(widen_f16)(n, from, to); }
void narrow(Index n, const float* from, Float16* to) { BEARING_DISPATCH(narrow_f16)(n, from, to); }

#define BEARING_INSTANTIATE(A)                                               \
  template void features<A>(FeatureMap, Index, const A*, A*);                \
  template void feature_grads<A>(FeatureMap, Index, const A*, const A*, A*); \
  template void add_rows<A>(Index, Index, const A*, A*);                     \
  template void add_scaled<A>(Index, A, const A*, A*);                       \
  template void row_products<A>(Index, Index, const A*, const A*, A*);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

}  // namespace bearing::linear
#endif
