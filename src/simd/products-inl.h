// The product of matrices that scores, attention and linear attention share, and a transpose for it. Included once per
// target, inside no namespace.
#if defined(BEARING_SIMD_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEARING_SIMD_PRODUCTS_INL_H_
#undef BEARING_SIMD_PRODUCTS_INL_H_
#else
#define BEARING_SIMD_PRODUCTS_INL_H_
#endif

#include <hwy/highway.h>

#include <bearing/view.hpp>
#include <type_traits>

#include "simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bearing::simd::HWY_NAMESPACE {

/// Operands that enter number by number, at(i, t) for row i of the result and term t of its sums: rows as they lie …
template <class A>
struct Rows {
  const A* data;
  Index stride;

  HWY_INLINE A at(Index i, Index t) const { return data[i * stride + t]; }
  HWY_INLINE Rows from(Index i, Index t) const { return {data + i * stride + t, stride}; }
};
/// … or columns.
template <class A>
struct Columns {
  const A* data;
  Index stride;

  HWY_INLINE A at(Index i, Index t) const { return data[i + t * stride]; }
  HWY_INLINE Columns from(Index i, Index t) const { return {data + i + t * stride, stride}; }
};

/// body(count, i) for blocks of `Most`, 4, 2 and 1 rows, count a constant, i a block's first row. Two rows wait for
/// their own sums: on AMD's Zen 3 eight rows of two vectors took a third less time as 4 and 4 than as 6 and 2.
template <int Most, class Body>
HWY_INLINE void in_row_blocks(Index rows, const Body& body) {
  Index i = 0;
  if constexpr (Most > 4) {
    const Index left = Most == 6 && rows % Most == 2 && rows > 2 ? 8 : 0;
    for (; i + Most <= rows - left; i += Most) body(std::integral_constant<int, Most>(), i);
  }
  if constexpr (Most >= 4) {
    for (; i + 4 <= rows; i += 4) body(std::integral_constant<int, 4>(), i);
  }
  for (; i + 2 <= rows; i += 2) body(std::integral_constant<int, 2>(), i);
  if (i < rows) body(std::integral_constant<int, 1>(), i);
}

// Of the scalar target GCC 12 makes vectors by itself, and fills their unused halves from the row after the last one,
// where memory may end.
#if HWY_TARGET == HWY_SCALAR && HWY_COMPILER_GCC_ACTUAL
#define BEARING_OWN_VECTORS __attribute__((optimize("no-tree-vectorize")))
#else
#define BEARING_OWN_VECTORS
#endif

/// finish(d, i, x, Σ_t left.at(i, t) · right[t][x …]) for all rows i < Rows and vectors of columns from x on. An
/// element is the sum of its products in rising order, whatever block it falls in. Not inlined: GCC at -O3 then keeps
/// all sums in registers, which is a quarter faster. Four terms in each turn of the loop: a term's 23 instructions
/// alone are fetched badly where two threads share a core. There products one by one took 8 to 17 % more time on AVX2
/// (Zen 3), and attention up to 22 %; where the core was free, the same.
template <int Rows, int Vectors, class D, class Left, class A, class Finish>
HWY_NOINLINE BEARING_OWN_VECTORS void product_block(D d, Index terms, Left left, const A* right, Index right_stride,
                                                    Finish finish) {
  const Index n = static_cast<Index>(hn::Lanes(d));
  hn::Vec<D> sum[Rows][Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int x = 0; x < Vectors; ++x) sum[i][x] = hn::Zero(d);
  }
#pragma GCC unroll 4
  for (Index t = 0; t < terms; ++t, right += right_stride) {
    hn::Vec<D> row[Vectors];
#pragma GCC unroll 4
    for (int x = 0; x < Vectors; ++x) row[x] = hn::LoadU(d, right + x * n);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const auto factor = hn::Set(d, left.at(i, t));
#pragma GCC unroll 4
      for (int x = 0; x < Vectors; ++x) sum[i][x] = hn::MulAdd(factor, row[x], sum[i][x]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int x = 0; x < Vectors; ++x) finish(d, i, x * n, sum[i][x]);
  }
}
#undef BEARING_OWN_VECTORS

#if HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE
/// The blocks of 128 bits of a vector, `step` numbers apart.
template <class D, class A>
HWY_INLINE void store_blocks(D d, hn::Vec<D> v, A* to, Index step) {
  if constexpr (hn::MaxLanes(D()) * sizeof(A) <= 16) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    constexpr Index blocks = static_cast<Index>(hn::MaxLanes(half) * sizeof(A) / 16);
    store_blocks(half, hn::LowerHalf(half, v), to, step);
    store_blocks(half, hn::UpperHalf(half, v), to + blocks * step, step);
  }
}
#endif

/// to[t][j] = from[j][t], four rows j of `terms` numbers.
template <class A>
HWY_INLINE void transpose_four(Index terms, const A* row0, const A* row1, const A* row2, const A* row3, A* to,
                               Index to_stride) {
  Index t = 0;
#if HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE
  const Tag<A> d;
  constexpr Index block = 16 / sizeof(A);
  for (; t + lanes<A>() <= terms; t += lanes<A>()) {
    const auto a = hn::LoadU(d, row0 + t), b = hn::LoadU(d, row1 + t), c = hn::LoadU(d, row2 + t),
               e = hn::LoadU(d, row3 + t);
    const auto ab_low = hn::InterleaveLower(d, a, b), ab_high = hn::InterleaveUpper(d, a, b);
    const auto ce_low = hn::InterleaveLower(d, c, e), ce_high = hn::InterleaveUpper(d, c, e);
    A* column = to + t * to_stride;
    const Index step = block * to_stride;
    if constexpr (sizeof(A) == sizeof(float)) {
      const hn::Repartition<double, Tag<A>> pairs;
      const auto store = [&](auto ab, auto ce, A* where) HWY_ATTR {
        const auto x = hn::BitCast(pairs, ab), y = hn::BitCast(pairs, ce);
        store_blocks(d, hn::BitCast(d, hn::InterleaveLower(pairs, x, y)), where, step);
        store_blocks(d, hn::BitCast(d, hn::InterleaveUpper(pairs, x, y)), where + to_stride, step);
      };
      store(ab_low, ce_low, column);
      store(ab_high, ce_high, column + 2 * to_stride);
    } else {
      store_blocks(d, ab_low, column, step);
      store_blocks(d, ce_low, column + 2, step);
      store_blocks(d, ab_high, column + to_stride, step);
      store_blocks(d, ce_high, column + to_stride + 2, step);
    }
  }
#endif
  for (; t < terms; ++t) {
    A* column = to + t * to_stride;
    column[0] = row0[t], column[1] = row1[t], column[2] = row2[t], column[3] = row3[t];
  }
}

/// to[t][j] = from[j][t], t < terms, j < width; 0 from row `rows` of `from` on.
template <class A>
HWY_INLINE void transpose(Index rows, Index terms, const A* from, Index from_stride, Index width, A* to,
                          Index to_stride) {
  const auto row = [&](Index j) { return from + HWY_MIN(j, rows - 1) * from_stride; };
  Index j = 0;
  for (; j < rows && j + 4 <= width; j += 4) {  // the last may be the last row again, which zeros replace
    transpose_four(terms, row(j), row(j + 1), row(j + 2), row(j + 3), to + j, to_stride);
  }
  for (; j < rows; ++j) {
    for (Index t = 0; t < terms; ++t) to[t * to_stride + j] = from[j * from_stride + t];
  }
  for (Index t = 0; t < terms && rows < width; ++t) {
    A* column = to + t * to_stride;
    Index x = rows;
    for (; x < width && x % lanes<A>() != 0; ++x) column[x] = A{0};
    for (; x + lanes<A>() <= width; x += lanes<A>()) hn::StoreU(hn::Zero(Tag<A>()), Tag<A>(), column + x);
    for (; x < width; ++x) column[x] = A{0};
  }
}

}  // namespace bearing::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
