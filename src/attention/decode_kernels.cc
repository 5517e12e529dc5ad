// Products of a few rows with rows in memory, once per SIMD target.

#include "attention/decode_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/decode_kernels.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "simd/lanes-inl.h"
#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::attend::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Vectors of 64 bytes at most: rows are padded to that.
template <class A>
using Tag = hn::CappedTag<A, 64 / sizeof(A)>;
template <class A>
using Vector = hn::Vec<Tag<A>>;
template <class A>
HWY_INLINE Index lanes() {
  return static_cast<Index>(hn::Lanes(Tag<A>()));
}

// Sums that are held in registers: 16 of 32, 8 of 16.
inline constexpr int most_sums = HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2 ? 8 : 16;
inline constexpr int key_block = 4;

template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const hn::TFromD<D>* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const Bfloat16* from) {
  const hn::RebindToUnsigned<D> wide;
  const hn::Rebind<std::uint16_t, D> narrow;
  const auto bits = hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
}
template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const Float16* from) {
  return simd::HWY_NAMESPACE::load_f16(d, from);
}

/// n < lanes numbers and zeros; nothing past them is touched.
template <class D, class T>
HWY_INLINE hn::VFromD<D> load_some(D d, const T* from, Index n) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86  // smaller is newer; the others' masked loads may read everything
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(n)), d, from);
  } else {
    const hn::Rebind<std::uint16_t, D> narrow;
    const auto bits = hn::MaskedLoad(hn::FirstN(narrow, static_cast<std::size_t>(n)), narrow,
                                     reinterpret_cast<const std::uint16_t*>(from));
    if constexpr (std::is_same_v<T, Bfloat16>) {
      return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D>(), bits)));
    } else {
      return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
    }
  }
#else
  HWY_ALIGN T some[hn::MaxLanes(D())] = {};
  std::copy_n(from, n, some);
  return load(d, some);
#endif
}

/// The sums of four vectors' lanes, to[0 … 3]: shuffles shared by all four.
template <class A>
HWY_INLINE void store_sums(Vector<A> a, Vector<A> b, Vector<A> c, Vector<A> e, A factor, A* to) {
  const Tag<A> d;
#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE
  to[0] = factor * hn::GetLane(hn::SumOfLanes(d, a)), to[1] = factor * hn::GetLane(hn::SumOfLanes(d, b));
  to[2] = factor * hn::GetLane(hn::SumOfLanes(d, c)), to[3] = factor * hn::GetLane(hn::SumOfLanes(d, e));
#else
  const auto fold = [&](auto v, A* where) {  // adds up the blocks of 128 bits
    if constexpr (hn::MaxLanes(Tag<A>()) * sizeof(A) == 64) {
      const hn::Half<Tag<A>> half;
      const hn::Half<hn::Half<Tag<A>>> quarter;
      const auto sum = hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v));
      const auto block = hn::Add(hn::LowerHalf(quarter, sum), hn::UpperHalf(quarter, sum));
      hn::StoreU(hn::Mul(hn::Set(quarter, factor), block), quarter, where);
    } else if constexpr (hn::MaxLanes(Tag<A>()) * sizeof(A) == 32) {
      const hn::Half<Tag<A>> half;
      const auto block = hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v));
      hn::StoreU(hn::Mul(hn::Set(half, factor), block), half, where);
    } else {
      hn::StoreU(hn::Mul(hn::Set(d, factor), v), d, where);
    }
  };
  const auto ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const auto ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  if constexpr (sizeof(A) == sizeof(float)) {
    const hn::Repartition<double, Tag<A>> pairs;
    const auto ab_pairs = hn::BitCast(pairs, ab), ce_pairs = hn::BitCast(pairs, ce);
    fold(hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab_pairs, ce_pairs)),
                 hn::BitCast(d, hn::InterleaveUpper(pairs, ab_pairs, ce_pairs))),
         to);
  } else {
    fold(ab, to);
    fold(ce, to + 2);
  }
#endif
}

/// s [Rows, 4] = alpha · q_i·k_j
template <int Rows, bool prefetch, class T, class A>
HWY_NOINLINE void dot_block(Index dim, A alpha, const A* q, Index q_stride, const T* const* k, const T* const* next,
                            A* s, Index stride) {
  const Tag<A> d;
  Vector<A> sum[Rows][key_block];
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < key_block; ++j) sum[i][j] = hn::Zero(d);
  }
  const T *k0 = k[0], *k1 = k[1], *k2 = k[2], *k3 = k[3];
  const auto multiply = [&](Index t, Vector<A> key0, Vector<A> key1, Vector<A> key2, Vector<A> key3) HWY_ATTR {
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) {
      const auto query = hn::LoadU(d, q + i * q_stride + t);
      sum[i][0] = hn::MulAdd(query, key0, sum[i][0]);
      sum[i][1] = hn::MulAdd(query, key1, sum[i][1]);
      sum[i][2] = hn::MulAdd(query, key2, sum[i][2]);
      sum[i][3] = hn::MulAdd(query, key3, sum[i][3]);
    }
  };
  Index t = 0;
  for (; t + lanes<A>() <= dim; t += lanes<A>()) {
    if constexpr (prefetch) {
#pragma GCC unroll 4
      for (int j = 0; j < key_block; ++j) hwy::Prefetch(next[j] + t);
    }
    multiply(t, load(d, k0 + t), load(d, k1 + t), load(d, k2 + t), load(d, k3 + t));
  }
  if (const Index rest = dim - t; rest > 0) {
    multiply(t, load_some(d, k0 + t, rest), load_some(d, k1 + t, rest), load_some(d, k2 + t, rest),
             load_some(d, k3 + t, rest));
  }
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
    store_sums<A>(sum[i][0], sum[i][1], sum[i][2], sum[i][3], alpha, s + i * stride);
  }
}

/// body(count, i) for blocks of 4, 2 and 1 rows from row i on, as many as registers hold sums for.
template <int Most, class Body>
HWY_INLINE void in_row_blocks(Index rows, const Body& body) {
  Index i = 0;
  if constexpr (Most >= 4) {
    for (; i + 4 <= rows; i += 4) body(std::integral_constant<int, 4>(), i);
  }
  for (; i + 2 <= rows; i += 2) body(std::integral_constant<int, 2>(), i);
  if (i < rows) body(std::integral_constant<int, 1>(), i);
}

template <bool prefetch, class T, class A>
HWY_INLINE void dots_impl(Index rows, Index keys, Index dim, A alpha, const A* q, Index q_stride, const T* const* k,
                          A* s, Index stride) {
  for (Index j = 0; j < keys; j += key_block) {
    const T *block[key_block], *next[key_block];
    for (Index x = 0; x < key_block; ++x) {
      block[x] = k[std::min(j + x, keys - 1)];
      next[x] = k[std::min(j + 2 * key_block + x, keys - 1)];
    }
    in_row_blocks<most_sums / key_block>(rows, [&](auto count, Index i) HWY_ATTR {
      dot_block<decltype(count)::value, prefetch>(dim, alpha, q + i * q_stride, q_stride, block, next,
                                                  s + i * stride + j, stride);
    });
  }
}

/// out [Rows, Vectors · lanes] += Σ_j p[i][j] · v_j, features x … of the values; of the last `some` < lanes if not 0.
template <int Rows, int Vectors, bool part, class T, class A>
HWY_NOINLINE void weighted_block(Index keys, const A* p, Index stride, const T* const* v, Index x, Index some, A* out,
                                 Index out_stride) {
  const Tag<A> d;
  Vector<A> sum[Rows][Vectors];
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int y = 0; y < Vectors; ++y) sum[i][y] = hn::LoadU(d, out + i * out_stride + x + y * lanes<A>());
  }
  for (Index j = 0; j < keys; ++j) {
    const T* from = v[j] + x;
    Vector<A> values[Vectors];
#pragma GCC unroll 8
    for (int y = 0; y < Vectors; ++y) {
      values[y] = part ? load_some(d, from + y * lanes<A>(), some) : load(d, from + y * lanes<A>());
    }
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) {
      const auto weight = hn::Set(d, p[i * stride + j]);
#pragma GCC unroll 8
      for (int y = 0; y < Vectors; ++y) sum[i][y] = hn::MulAdd(weight, values[y], sum[i][y]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int y = 0; y < Vectors; ++y) hn::StoreU(sum[i][y], d, out + i * out_stride + x + y * lanes<A>());
  }
}

/// Rows, and vectors of as many features as registers hold sums for.
template <int Rows, class T, class A>
HWY_INLINE void weighted_rows(Index keys, Index value_dim, const A* p, Index stride, const T* const* v, A* out,
                              Index out_stride) {
  constexpr int wide = std::min(8, most_sums / Rows);
  Index x = 0;
  for (; x + wide * lanes<A>() <= value_dim; x += wide * lanes<A>()) {
    weighted_block<Rows, wide, false>(keys, p, stride, v, x, 0, out, out_stride);
  }
  for (; x + lanes<A>() <= value_dim; x += lanes<A>()) {
    weighted_block<Rows, 1, false>(keys, p, stride, v, x, 0, out, out_stride);
  }
  if (x < value_dim) weighted_block<Rows, 1, true>(keys, p, stride, v, x, value_dim - x, out, out_stride);
}

/// Keys whose values are passed over again for other rows and features, while they are in the nearest cache.
inline constexpr Index values_at_once = 16;

template <class T, class A>
HWY_INLINE void add_weighted_impl(Index rows, Index keys, Index value_dim, const A* p, Index stride, const T* const* v,
                                  A* out, Index out_stride) {
  for (Index j = 0; j < keys; j += values_at_once) {
    const Index some = std::min(values_at_once, keys - j);
    in_row_blocks<4>(rows, [&](auto count, Index i) HWY_ATTR {
      weighted_rows<decltype(count)::value>(some, value_dim, p + i * stride + j, stride, v + j, out + i * out_stride,
                                            out_stride);
    });
  }
}

template <class D>
HWY_INLINE void store(D d, hn::VFromD<D> value, hn::TFromD<D>* to) {
  hn::StoreU(value, d, to);
}
template <class D>
HWY_INLINE void store(D d, hn::VFromD<D> value, Bfloat16* to) {
  (void)d;
  const hn::RebindToUnsigned<D> wide;
  const hn::Rebind<std::uint16_t, D> narrow;
  const auto bits = hn::BitCast(wide, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7FFFu))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(wide, 0x40u));
  const auto number = hn::RebindMask(wide, hn::Eq(value, value));
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(hn::RebindToSigned<D>(), hn::IfThenElse(number, rounded, quiet))), narrow,
             reinterpret_cast<std::uint16_t*>(to));
}
template <class D>
HWY_INLINE void store(D d, hn::VFromD<D> value, Float16* to) {
  simd::HWY_NAMESPACE::store_f16<false>(d, value, to);
}

template <class T, class A>
HWY_INLINE void blend_impl(Index n, A ours, T* out, A theirs, const T* part) {
  const Tag<A> d;
  const auto mine = hn::Set(d, ours), other = hn::Set(d, theirs);
  Index x = 0;
  for (; x + lanes<A>() <= n; x += lanes<A>()) {
    store(d, hn::MulAdd(other, load(d, part + x), hn::Mul(mine, load(d, out + x))), out + x);
  }
  const hn::CappedTag<A, 1> one;
  for (; x < n; ++x) {
    store(one, hn::MulAdd(hn::Set(one, theirs), load(one, part + x), hn::Mul(hn::Set(one, ours), load(one, out + x))),
          out + x);
  }
}

#define BEARING_DECODE_KERNELS(SUFFIX, T, A)                                                                       \
  void dots_##SUFFIX(bool prefetch, Index rows, Index keys, Index dim, A alpha, const A* q, Index q_stride,        \
                     const T* const* k, A* s, Index stride) {                                                      \
    prefetch ? dots_impl<true>(rows, keys, dim, alpha, q, q_stride, k, s, stride)                                  \
             : dots_impl<false>(rows, keys, dim, alpha, q, q_stride, k, s, stride);                                \
  }                                                                                                                \
  void add_weighted_##SUFFIX(Index rows, Index keys, Index value_dim, const A* p, Index stride, const T* const* v, \
                             A* out, Index out_stride) {                                                           \
    add_weighted_impl(rows, keys, value_dim, p, stride, v, out, out_stride);                                       \
  }                                                                                                                \
  void blend_##SUFFIX(Index n, A ours, T* out, A theirs, const T* part) { blend_impl(n, ours, out, theirs, part); }
BEARING_DECODE_KERNELS(f64, double, double)
BEARING_DECODE_KERNELS(f32, float, float)
BEARING_DECODE_KERNELS(bf16, Bfloat16, float)
BEARING_DECODE_KERNELS(f16, Float16, float)
#undef BEARING_DECODE_KERNELS

}  // namespace bearing::attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::attend {

#define BEARING_DECODE_DISPATCH(NAME)                   \
  HWY_EXPORT(NAME##_f64);                               \
  HWY_EXPORT(NAME##_f32);                               \
  HWY_EXPORT(NAME##_bf16);                              \
  HWY_EXPORT(NAME##_f16);                               \
  template <class T, class... Arguments>                \
  void dispatch_##NAME(const Arguments&... arguments) { \
    if constexpr (std::is_same_v<T, double>) {          \
      BEARING_DISPATCH(NAME##_f64)(arguments...);       \
    } else if constexpr (std::is_same_v<T, float>) {    \
      BEARING_DISPATCH(NAME##_f32)(arguments...);       \
    } else if constexpr (std::is_same_v<T, Bfloat16>) { \
      BEARING_DISPATCH(NAME##_bf16)(arguments...);      \
    } else {                                            \
      BEARING_DISPATCH(NAME##_f16)(arguments...);       \
    }                                                   \
  }
BEARING_DECODE_DISPATCH(dots)
BEARING_DECODE_DISPATCH(add_weighted)
BEARING_DECODE_DISPATCH(blend)
#undef BEARING_DECODE_DISPATCH

template <class T>
void dots(Index rows, Index keys, Index dim, Compute<T> alpha, const Compute<T>* q, Index q_stride, const T* const* k,
          Compute<T>* s, Index stride) {
  dispatch_dots<T>(simd::prefetch_pays(), rows, keys, dim, alpha, q, q_stride, k, s, stride);
}
template <class T>
void add_weighted(Index rows, Index keys, Index value_dim, const Compute<T>* p, Index stride, const T* const* v,
                  Compute<T>* out, Index out_stride) {
  dispatch_add_weighted<T>(rows, keys, value_dim, p, stride, v, out, out_stride);
}
template <class T>
void blend(Index n, Compute<T> ours, T* out, Compute<T> theirs, const T* part) {
  dispatch_blend<T>(n, ours, out, theirs, part);
}

#define BEARING_INSTANTIATE(T)                                                                                       \
  template void dots<T>(Index, Index, Index, Compute<T>, const Compute<T>*, Index, const T* const*, Compute<T>*,     \
                        Index);                                                                                      \
  template void add_weighted<T>(Index, Index, Index, const Compute<T>*, Index, const T* const*, Compute<T>*, Index); \
  template void blend<T>(Index, Compute<T>, T*, Compute<T>, const T*);
BEARING_INSTANTIATE(double)
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(Bfloat16)
BEARING_INSTANTIATE(Float16)
#undef BEARING_INSTANTIATE

}  // namespace bearing::attend
#endif
