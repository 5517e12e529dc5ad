// Products and gradients of attention's backward, once per SIMD target.

#include "attention/softmax/backward_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/softmax/backward_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <limits>
#include <type_traits>

#include "attention/shared/exponential-inl.h"
#include "attention/shared/panels-inl.h"
#include "simd/dispatch.hpp"
#include "simd/products-inl.h"

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
void probabilities(const ScoreRows<A>& rows) {
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
void score_grads(const ScoreRows<A>& rows) {
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

/// out += alpha · sum
template <class A>
struct Added {
  A alpha;
  A* out;
  Index stride;

  template <class D, class V>
  HWY_INLINE void operator()(D d, Index i, Index x, V sum) const {
    A* to = out + i * stride + x;
    hn::StoreU(hn::MulAdd(hn::Set(d, alpha), sum, hn::LoadU(d, to)), d, to);
  }
};

/// left: Rows or Columns
template <class Left, class A>
HWY_INLINE void add_any_product(Index rows, Index dim, Index terms, A alpha, const Left& left, const A* right,
                                Index right_stride, A* out, Index out_stride) {
  if (terms == 0) return;  // where left and right may be null
  Index first = 0;
  const auto columns = [&](auto vectors, auto d) HWY_ATTR {
    simd::HWY_NAMESPACE::in_row_blocks<product_rows>(rows, [&](auto count, Index i) HWY_ATTR {
      simd::HWY_NAMESPACE::product_block<decltype(count)::value, decltype(vectors)::value>(
          d, terms, left.from(i, 0), right + first, right_stride,
          Added<A>{alpha, out + i * out_stride + first, out_stride});
    });
    first += static_cast<Index>(hn::Lanes(d)) * decltype(vectors)::value;
  };
  while (first + panel_lanes<A>() <= dim) columns(std::integral_constant<int, panel_vectors>(), Tag<A>());
  while (first + lanes<A>() <= dim) columns(std::integral_constant<int, 1>(), Tag<A>());
  while (first < dim) columns(std::integral_constant<int, 1>(), hn::CappedTag<A, 1>());
}

template <class A>
void add_product(Index rows, Index dim, Index terms, A alpha, const A* left, Index left_stride, const A* right,
                 Index right_stride, A* out, Index out_stride) {
  add_any_product(rows, dim, terms, alpha, simd::HWY_NAMESPACE::Rows<A>{left, left_stride}, right, right_stride, out,
                  out_stride);
}

template <class A>
void add_transposed_product(Index rows, Index dim, Index terms, A alpha, const A* left, Index left_stride,
                            const A* right, Index right_stride, A* out, Index out_stride) {
  add_any_product(rows, dim, terms, alpha, simd::HWY_NAMESPACE::Columns<A>{left, left_stride}, right, right_stride, out,
                  out_stride);
}

}  // namespace bearing::attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::attend {

BEARING_KERNEL(void, probabilities, (const ScoreRows<A>& rows), (rows))
BEARING_KERNEL(void, score_grads, (const ScoreRows<A>& rows), (rows))
BEARING_KERNEL(void, add_product,
               (Index rows, Index dim, Index terms, A alpha, const A* left, Index left_stride, const A* right,
                Index right_stride, A* out, Index out_stride),
               (rows, dim, terms, alpha, left, left_stride, right, right_stride, out, out_stride))
BEARING_KERNEL(void, add_transposed_product,
               (Index rows, Index dim, Index terms, A alpha, const A* left, Index left_stride, const A* right,
                Index right_stride, A* out, Index out_stride),
               (rows, dim, terms, alpha, left, left_stride, right, right_stride, out, out_stride))

}  // namespace bearing::attend
#endif
