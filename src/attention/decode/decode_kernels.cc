// Products of a few rows with rows in memory, once per SIMD target.

#include "attention/decode/decode_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/decode/decode_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "simd/dispatch.hpp"
#include "simd/prefetch.hpp"
#include "simd/products-inl.h"

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

using simd::HWY_NAMESPACE::in_row_blocks;
using simd::HWY_NAMESPACE::load;
using simd::HWY_NAMESPACE::store;

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

/// sum_i += q_i · key, vector by vector.
template <int Rows, class T, class A>
HWY_INLINE void multiply(Index dim, const A* q, Index q_stride, const T* key, Vector<A> (&sum)[Rows]) {
  const Tag<A> d;
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) sum[i] = hn::Zero(d);
  Index t = 0;
  for (; t + lanes<A>() <= dim; t += lanes<A>()) {
    const auto features = load(d, key + t);
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) sum[i] = hn::MulAdd(features, hn::LoadU(d, q + i * q_stride + t), sum[i]);
  }
  if (t == dim) return;
  const auto features = load_some(d, key + t, dim - t);
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) sum[i] = hn::MulAdd(features, hn::LoadU(d, q + i * q_stride + t), sum[i]);
}

/// s [Rows, 4] = alpha · q_i·k_j. One key after the other: memory is read in one stream, which is what it is fast at.
template <int Rows, class T, class A>
HWY_NOINLINE void dot_block(Index dim, A alpha, const A* q, Index q_stride, const T* k, Index k_stride, A* s,
                            Index stride) {
  Vector<A> sum0[Rows], sum1[Rows], sum2[Rows], sum3[Rows];
  multiply<Rows>(dim, q, q_stride, k, sum0);
  multiply<Rows>(dim, q, q_stride, k + k_stride, sum1);
  multiply<Rows>(dim, q, q_stride, k + 2 * k_stride, sum2);
  multiply<Rows>(dim, q, q_stride, k + 3 * k_stride, sum3);
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) store_sums<A>(sum0[i], sum1[i], sum2[i], sum3[i], alpha, s + i * stride);
}

/// s [Rows, 1], for the keys that are left.
template <int Rows, class T, class A>
HWY_NOINLINE void dot_one(Index dim, A alpha, const A* q, Index q_stride, const T* k, A* s, Index stride) {
  Vector<A> sum[Rows];
  multiply<Rows>(dim, q, q_stride, k, sum);
  for (int i = 0; i < Rows; ++i) {
    A sums[4];
    store_sums<A>(sum[i], sum[i], sum[i], sum[i], alpha, sums);
    s[i * stride] = sums[0];
  }
}

template <class T, class A = Compute<T>>
void dots(Index rows, Index keys, Index dim, Compute<T> alpha, const Compute<T>* q, Index q_stride, const T* k,
          Index k_stride, Compute<T>* s, Index stride) {
  Index j = 0;
  for (; j + 4 <= keys; j += 4) {
    in_row_blocks<most_sums / 4>(rows, [&](auto count, Index i) HWY_ATTR {
      dot_block<decltype(count)::value>(dim, alpha, q + i * q_stride, q_stride, k + j * k_stride, k_stride,
                                        s + i * stride + j, stride);
    });
  }
  for (; j < keys; ++j) {
    in_row_blocks<most_sums / 4>(rows, [&](auto count, Index i) HWY_ATTR {
      dot_one<decltype(count)::value>(dim, alpha, q + i * q_stride, q_stride, k + j * k_stride, s + i * stride + j,
                                      stride);
    });
  }
}

/// out [Rows, Vectors · lanes] += Σ_j p[i][j] · v_j; `some` < lanes numbers of the only vector if not 0.
template <int Rows, int Vectors, class T, class A>
HWY_NOINLINE void weighted_block(Index keys, Index some, const A* p, Index stride, const T* v, Index v_stride, A* out,
                                 Index out_stride) {
  const Tag<A> d;
  Vector<A> sum[Rows][Vectors];
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int x = 0; x < Vectors; ++x) sum[i][x] = hn::LoadU(d, out + i * out_stride + x * lanes<A>());
  }
  for (Index j = 0; j < keys; ++j, v += v_stride) {
    Vector<A> weight[Rows];
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) weight[i] = hn::Set(d, p[i * stride + j]);
#pragma GCC unroll 8
    for (int x = 0; x < Vectors; ++x) {
      const auto values = Vectors == 1 && some > 0 ? load_some(d, v, some) : load(d, v + x * lanes<A>());
#pragma GCC unroll 4
      for (int i = 0; i < Rows; ++i) sum[i][x] = hn::MulAdd(weight[i], values, sum[i][x]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int x = 0; x < Vectors; ++x) hn::StoreU(sum[i][x], d, out + i * out_stride + x * lanes<A>());
  }
}

/// Keys whose values are passed over again for other rows and features, while they are in the nearest cache.
inline constexpr Index values_at_once = 16;

/// Vectors of a row of values whose sums for so many rows stay in registers.
constexpr int vectors_at_once(int rows) { return std::min(8, most_sums / rows); }

/// Blocks hold the sums of whole rows of values where they can, so that these are read in one stream. Where registers
/// have no room for that, rows are read in order before, and the next ones asked for. Zen 3, one thread, rows of 128
/// numbers of float32 in memory: 0.77 of reading's speed with 8 heads, 0.70 without; 0.58 and 0.49 with 64 sequences.
template <class T, class A = Compute<T>>
void add_weighted(Index rows, Index keys, Index value_dim, const Compute<T>* p, Index stride, const T* v,
                  Index v_stride, Compute<T>* out, Index out_stride) {
  const bool in_parts = value_dim > vectors_at_once(rows == 1 ? 1 : 2) * lanes<A>();
  for (Index j = 0; j < keys; j += values_at_once, v += values_at_once * v_stride) {
    const Index n = std::min(values_at_once, keys - j);
    for (Index r = 0; in_parts && r < n; ++r) {
      const Index later = r + values_at_once;
      if (j + later < keys) simd::prefetch_rows(v, later * v_stride, 1, value_dim, v_stride);
      simd::touch_in_order(v + r * v_stride, value_dim);
    }
    in_row_blocks<2>(rows, [&](auto count, Index i) HWY_ATTR {
      constexpr int block = decltype(count)::value;
      Index x = 0;
      const auto columns = [&](auto vectors, Index some) HWY_ATTR {
        weighted_block<block, decltype(vectors)::value>(n, some, p + i * stride + j, stride, v + x, v_stride,
                                                        out + i * out_stride + x, out_stride);
        x += decltype(vectors)::value * lanes<A>();
      };
      constexpr int wide = vectors_at_once(block);
      while (x + wide * lanes<A>() <= value_dim) columns(std::integral_constant<int, wide>(), 0);
      while (x + 4 * lanes<A>() <= value_dim) columns(std::integral_constant<int, 4>(), 0);
      while (x + lanes<A>() <= value_dim) columns(std::integral_constant<int, 1>(), 0);
      if (x < value_dim) columns(std::integral_constant<int, 1>(), value_dim - x);
    });
  }
}

template <class T, class A = Compute<T>>
void blend(Index n, Compute<T> ours, T* out, Compute<T> theirs, const T* part) {
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

}  // namespace bearing::attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::attend {

BEARING_STORED_KERNEL(void, dots,
                      (Index rows, Index keys, Index dim, Compute<T> alpha, const Compute<T>* q, Index q_stride,
                       const T* k, Index k_stride, Compute<T>* s, Index stride),
                      (rows, keys, dim, alpha, q, q_stride, k, k_stride, s, stride))
BEARING_STORED_KERNEL(void, add_weighted,
                      (Index rows, Index keys, Index value_dim, const Compute<T>* p, Index stride, const T* v,
                       Index v_stride, Compute<T>* out, Index out_stride),
                      (rows, keys, value_dim, p, stride, v, v_stride, out, out_stride))
BEARING_STORED_KERNEL(void, blend, (Index n, Compute<T> ours, T* out, Compute<T> theirs, const T* part),
                      (n, ours, out, theirs, part))

}  // namespace bearing::attend
#endif
