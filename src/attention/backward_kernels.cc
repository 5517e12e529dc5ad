// Products and gradients of attention's backward, once per SIMD target.

#include "attention/backward_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/backward_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <limits>
#include <type_traits>

#include "attention/exponential-inl.h"
#include "attention/panels-inl.h"
#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::attend::HWY_NAMESPACE {

/// Rows of a product whose sums are held in registers: 6 of 4 vectors, their operands beside them, fill 32.
inline constexpr int product_rows = 6;

/// body(row's numbers from the panel of its first seen column on, their count, row) for rows that see anything; what
/// `cleared` points to becomes 0 in all other columns, and in those that share a panel with seen ones after the body.
template <class A, class Body>
HWY_INLINE void over_seen_panels(const ScoreRows<A>& rows, A* cleared, const Body& body) {
  const Index width = panel_lanes<A>(), first = rows.first & -width, end = (rows.end + width - 1) & -width;
  for (Index i = 0; i < rows.rows; ++i) {
    A* row = cleared + i * rows.stride;
    const Index row_first = rows.row_first[i], row_end = rows.row_end[i];
    if (row_first >= row_end) {
      for (Index j = first; j < end; ++j) row[j] = 0;
      continue;
    }
    const Index seen_first = row_first & -width, seen_end = (row_end + width - 1) & -width;
    body(i, seen_first, seen_end);
    for (Index j = first; j < row_first; ++j) row[j] = 0;
    for (Index j = row_end; j < end; ++j) row[j] = 0;
  }
}

template <bool Biased, bool Anchored, class A>
HWY_NOINLINE void probability_row(A* s, const A* bias, Index first, Index end, A scale, A least, A origin, A log2_sum) {
  const Tag<A> d;
  const auto scales = hn::Set(d, scale), origins = hn::Set(d, origin), sums = hn::Set(d, log2_sum);
  const auto lowest = hn::Set(d, least);
  for (Index j = first; j < end; j += panel_lanes<A>()) {
#pragma GCC unroll 4
    for (int x = 0; x < panel_vectors; ++x) {
      const Index at = j + x * lanes<A>();
      auto score = hn::LoadU(d, s + at);
      if constexpr (Biased) score = hn::Add(score, hn::LoadU(d, bias + at));
      if constexpr (Anchored) score = hn::Min(hn::Zero(d), hn::Sub(score, origins));  // more in columns without a key
      hn::StoreU(exp2<A>(hn::Min(hn::Zero(d), hn::MulSub(scales, at_least<A>(lowest, score), sums))), d, s + at);
    }
  }
}

template <class A>
HWY_INLINE void probabilities_impl(const ScoreRows<A>& rows) {
  const A part = 1 / rows.log2_scale;
  over_seen_panels(rows, rows.s, [&](Index i, Index first, Index end) {
    const A least = part * (Exponential<A>::lowest + rows.log2_sum[i]);
    const A origin = rows.origin == nullptr ? A{0} : rows.origin[i];
    const auto row = [&](auto biased, auto anchored) HWY_ATTR {
      probability_row<biased, anchored>(rows.s + i * rows.stride, biased ? rows.bias - i : nullptr, first, end,
                                        rows.log2_scale, least, origin, rows.log2_sum[i]);
    };
    const std::true_type yes;
    const std::false_type no;
    if (rows.bias == nullptr) return origin == 0 ? row(no, no) : row(no, yes);
    origin == 0 ? row(yes, no) : row(yes, yes);
  });
}

template <bool Biased, class A>
HWY_NOINLINE void score_grad_row(const A* p, A* d_p, A* d_bias, Index first, Index end, A along) {
  const Tag<A> d;
  const auto less = hn::Set(d, along), least = hn::Set(d, std::numeric_limits<A>::min());
  for (Index j = first; j < end; j += panel_lanes<A>()) {
#pragma GCC unroll 4
    for (int x = 0; x < panel_vectors; ++x) {
      const Index at = j + x * lanes<A>();
      const auto weight = hn::LoadU(d, p + at);
      const auto grad = hn::Mul(weight, hn::Sub(hn::LoadU(d, d_p + at), less));
      // Neither below the normal range, nor what a hidden key's value may hold.
      const auto none = hn::Or(hn::Lt(hn::Abs(grad), least), hn::Eq(weight, hn::Zero(d)));
      const auto kept = hn::IfThenZeroElse(none, grad);
      hn::StoreU(kept, d, d_p + at);
      if constexpr (Biased) hn::StoreU(hn::Add(hn::LoadU(d, d_bias + at), kept), d, d_bias + at);
    }
  }
}

template <class A>
HWY_INLINE void score_grads_impl(const ScoreRows<A>& rows) {
  over_seen_panels(rows, rows.d_p, [&](Index i, Index first, Index end) {
    const A* p = rows.s + i * rows.stride;
    A* d_p = rows.d_p + i * rows.stride;
    if (rows.d_bias == nullptr) {
      score_grad_row<false>(p, d_p, rows.d_bias, first, end, rows.along[i]);
    } else {
      score_grad_row<true>(p, d_p, rows.d_bias - i, first, end, rows.along[i]);
    }
  });
}

// Of the scalar target GCC 12 makes vectors by itself, and fills their unused halves from the row after the last one,
// where memory may end.
#if HWY_TARGET == HWY_SCALAR && HWY_COMPILER_GCC_ACTUAL
#define BEARING_OWN_VECTORS __attribute__((optimize("no-tree-vectorize")))
#else
#define BEARING_OWN_VECTORS
#endif

/// out [Rows, Vectors of D] += alpha · Σ_t left(i, t) · right[t]; left(i, t) is left[i·stride + t], or its transpose.
/// Not inlined: GCC at -O3 then keeps all sums in registers.
template <bool Transposed, int Rows, int Vectors, class D, class A>
HWY_NOINLINE BEARING_OWN_VECTORS void product_block(D d, Index terms, A alpha, const A* left, Index left_stride,
                                                    const A* right, Index right_stride, A* out, Index out_stride) {
  const Index n = static_cast<Index>(hn::Lanes(d));
  hn::Vec<D> sum[Rows][Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int x = 0; x < Vectors; ++x) sum[i][x] = hn::Zero(d);
  }
  for (Index t = 0; t < terms; ++t, right += right_stride) {
    hn::Vec<D> rows[Vectors];
#pragma GCC unroll 4
    for (int x = 0; x < Vectors; ++x) rows[x] = hn::LoadU(d, right + x * n);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const auto factor = hn::Set(d, Transposed ? left[t * left_stride + i] : left[i * left_stride + t]);
#pragma GCC unroll 4
      for (int x = 0; x < Vectors; ++x) sum[i][x] = hn::MulAdd(factor, rows[x], sum[i][x]);
    }
  }
  const auto scale = hn::Set(d, alpha);
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int x = 0; x < Vectors; ++x) {
      A* to = out + i * out_stride + x * n;
      hn::StoreU(hn::MulAdd(scale, sum[i][x], hn::LoadU(d, to)), d, to);
    }
  }
}

template <bool Transposed, class A>
HWY_INLINE void add_product_impl(Index rows, Index dim, Index terms, A alpha, const A* left, Index left_stride,
                                 const A* right, Index right_stride, A* out, Index out_stride) {
  if (terms == 0) return;  // where left and right may be null
  Index first = 0;
  const auto columns = [&](auto vectors, auto d) {
    const auto block = [&](auto count, Index i) {
      product_block<Transposed, decltype(count)::value, decltype(vectors)::value>(
          d, terms, alpha, left + (Transposed ? i : i * left_stride), left_stride, right + first, right_stride,
          out + i * out_stride + first, out_stride);
    };
    Index i = 0;
    for (; i + product_rows <= rows; i += product_rows) block(std::integral_constant<int, product_rows>(), i);
    for (; i + 2 <= rows; i += 2) block(std::integral_constant<int, 2>(), i);
    if (i < rows) block(std::integral_constant<int, 1>(), i);
    first += static_cast<Index>(hn::Lanes(d)) * decltype(vectors)::value;
  };
  while (first + panel_lanes<A>() <= dim) columns(std::integral_constant<int, panel_vectors>(), Tag<A>());
  while (first + lanes<A>() <= dim) columns(std::integral_constant<int, 1>(), Tag<A>());
  while (first < dim) columns(std::integral_constant<int, 1>(), hn::CappedTag<A, 1>());
}

template <class A>
HWY_INLINE void row_products_impl(Index rows, Index dim, const A* a, Index a_stride, const A* b, Index b_stride,
                                  A* out) {
  const Tag<A> d;
  for (Index i = 0; i < rows; ++i, a += a_stride, b += b_stride) {
    auto sum = hn::Zero(d);
    Index x = 0;
    for (; x + lanes<A>() <= dim; x += lanes<A>()) sum = hn::MulAdd(hn::LoadU(d, a + x), hn::LoadU(d, b + x), sum);
    out[i] = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; x < dim; ++x) out[i] += a[x] * b[x];
  }
}

#define BEARING_BACKWARD_KERNELS(SUFFIX, A)                                                                           \
  void probabilities_##SUFFIX(const ScoreRows<A>& rows) { probabilities_impl(rows); }                                 \
  void score_grads_##SUFFIX(const ScoreRows<A>& rows) { score_grads_impl(rows); }                                     \
  void add_product_##SUFFIX(Index rows, Index dim, Index terms, A alpha, const A* left, Index left_stride,            \
                            const A* right, Index right_stride, A* out, Index out_stride) {                           \
    add_product_impl<false>(rows, dim, terms, alpha, left, left_stride, right, right_stride, out, out_stride);        \
  }                                                                                                                   \
  void add_transposed_product_##SUFFIX(Index rows, Index dim, Index terms, A alpha, const A* left, Index left_stride, \
                                       const A* right, Index right_stride, A* out, Index out_stride) {                \
    add_product_impl<true>(rows, dim, terms, alpha, left, left_stride, right, right_stride, out, out_stride);         \
  }                                                                                                                   \
  void row_products_##SUFFIX(Index rows, Index dim, const A* a, Index a_stride, const A* b, Index b_stride, A* out) { \
    row_products_impl(rows, dim, a, a_stride, b, b_stride, out);                                                      \
  }
BEARING_BACKWARD_KERNELS(f32, float)
BEARING_BACKWARD_KERNELS(f64, double)
#undef BEARING_BACKWARD_KERNELS
#undef BEARING_OWN_VECTORS

}  // namespace bearing::attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::attend {

#define BEARING_BACKWARD_DISPATCH(NAME)                 \
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
BEARING_BACKWARD_DISPATCH(probabilities)
BEARING_BACKWARD_DISPATCH(score_grads)
BEARING_BACKWARD_DISPATCH(add_product)
BEARING_BACKWARD_DISPATCH(add_transposed_product)
BEARING_BACKWARD_DISPATCH(row_products)
#undef BEARING_BACKWARD_DISPATCH

template <class A>
void probabilities(const ScoreRows<A>& rows) {
  dispatch_probabilities<A>(rows);
}
template <class A>
void score_grads(const ScoreRows<A>& rows) {
  dispatch_score_grads<A>(rows);
}
template <class A>
void add_product(Index rows, Index dim, Index terms, A alpha, const A* left, Index left_stride, const A* right,
                 Index right_stride, A* out, Index out_stride) {
  dispatch_add_product<A>(rows, dim, terms, alpha, left, left_stride, right, right_stride, out, out_stride);
}
template <class A>
void add_transposed_product(Index rows, Index dim, Index terms, A alpha, const A* left, Index left_stride,
                            const A* right, Index right_stride, A* out, Index out_stride) {
  dispatch_add_transposed_product<A>(rows, dim, terms, alpha, left, left_stride, right, right_stride, out, out_stride);
}
template <class A>
void row_products(Index rows, Index dim, const A* a, Index a_stride, const A* b, Index b_stride, A* out) {
  dispatch_row_products<A>(rows, dim, a, a_stride, b, b_stride, out);
}

#define BEARING_INSTANTIATE(A)                                                                                  \
  template void probabilities<A>(const ScoreRows<A>&);                                                          \
  template void score_grads<A>(const ScoreRows<A>&);                                                            \
  template void add_product<A>(Index, Index, Index, A, const A*, Index, const A*, Index, A*, Index);            \
  template void add_transposed_product<A>(Index, Index, Index, A, const A*, Index, const A*, Index, A*, Index); \
  template void row_products<A>(Index, Index, const A*, Index, const A*, Index, A*);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

}  // namespace bearing::attend
#endif
