// Products of attention, once per SIMD target.

#include "attention/kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <type_traits>

#include "attention/panels-inl.h"
#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::attend::HWY_NAMESPACE {

/// Rows of a block whose sums are held in registers.
inline constexpr int block_rows = 6;

template <class A>
HWY_INLINE void pack_impl(Index cols, Index dim, const A* rows, Index stride, A* packed) {
  const Index width = panel_lanes<A>();
  if (dim == 0) return;  // and rows may be null
  for (Index first = 0; first < cols; first += width, packed += width * dim) {
    Index j = 0;
    for (; j + 4 <= width && first + j + 4 <= cols; j += 4) {
      const A *row0 = rows + (first + j) * stride, *row1 = row0 + stride, *row2 = row1 + stride, *row3 = row2 + stride;
      for (Index t = 0; t < dim; ++t) {
        A* to = packed + t * width + j;
        to[0] = row0[t], to[1] = row1[t], to[2] = row2[t], to[3] = row3[t];
      }
    }
    for (; j < width; ++j) {
      for (Index t = 0; t < dim; ++t) packed[t * width + j] = first + j < cols ? rows[(first + j) * stride + t] : A{0};
    }
  }
}

/// s [Rows, panel] = alpha · Σ_t q_i[t] · panel[t]. Not inlined: GCC at -O3 then keeps all sums in registers.
template <int Rows, class A>
HWY_NOINLINE void score_block(Index dim, A alpha, const A* q, Index q_stride, const A* panel, A* s, Index stride) {
  const Tag<A> d;
  hn::Vec<Tag<A>> sum[Rows][panel_vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int x = 0; x < panel_vectors; ++x) sum[i][x] = hn::Zero(d);
  }
  for (Index t = 0; t < dim; ++t, panel += panel_lanes<A>()) {
    hn::Vec<Tag<A>> keys[panel_vectors];
#pragma GCC unroll 4
    for (int x = 0; x < panel_vectors; ++x) keys[x] = hn::LoadU(d, panel + x * lanes<A>());
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const auto factor = hn::Set(d, q[i * q_stride + t]);
#pragma GCC unroll 4
      for (int x = 0; x < panel_vectors; ++x) sum[i][x] = hn::MulAdd(factor, keys[x], sum[i][x]);
    }
  }
  if (alpha != A{1}) {
    const auto scale = hn::Set(d, alpha);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
      for (int x = 0; x < panel_vectors; ++x) sum[i][x] = hn::Mul(scale, sum[i][x]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int x = 0; x < panel_vectors; ++x) hn::StoreU(sum[i][x], d, s + i * stride + x * lanes<A>());
  }
}

/// body(count, i) for blocks of `count` rows from row i on, count a constant.
template <class Body>
HWY_INLINE void in_row_blocks(Index rows, const Body& body) {
  Index i = 0;
  for (; i + block_rows <= rows; i += block_rows) body(std::integral_constant<int, block_rows>(), i);
  for (; i + 2 <= rows; i += 2) body(std::integral_constant<int, 2>(), i);
  if (i < rows) body(std::integral_constant<int, 1>(), i);
}

template <class A>
HWY_INLINE void scores_impl(Index rows, Index first, Index end, Index dim, A alpha, const A* q, Index q_stride,
                            const A* packed, A* s, Index stride) {
  for (Index j = first & -panel_lanes<A>(); j < end; j += panel_lanes<A>()) {
    in_row_blocks(rows, [&](auto count, Index i) {
      score_block<decltype(count)::value>(dim, alpha, q + i * q_stride, q_stride, packed + j * dim, s + i * stride + j,
                                          stride);
    });
  }
}

/// Columns of the output that are computed at once: `Vectors` vectors of lanes of D.
template <int Rows, int Vectors, class D, class A>
HWY_NOINLINE void accumulate_block(D d, Index terms, const A* p, Index stride, const A* rescale, const A* v,
                                   Index v_stride, A* out, Index out_stride) {
  const Index n = static_cast<Index>(hn::Lanes(d));
  hn::Vec<D> sum[Rows][Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int x = 0; x < Vectors; ++x) sum[i][x] = hn::Zero(d);
  }
  for (Index t = 0; t < terms; ++t, v += v_stride) {
    hn::Vec<D> values[Vectors];
#pragma GCC unroll 4
    for (int x = 0; x < Vectors; ++x) values[x] = hn::LoadU(d, v + x * n);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const auto weight = hn::Set(d, p[i * stride + t]);
#pragma GCC unroll 4
      for (int x = 0; x < Vectors; ++x) sum[i][x] = hn::MulAdd(weight, values[x], sum[i][x]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
    const auto factor = hn::Set(d, rescale[i]);
#pragma GCC unroll 4
    for (int x = 0; x < Vectors; ++x) {
      A* to = out + i * out_stride + x * n;
      hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, to), sum[i][x]), d, to);
    }
  }
}

/// Columns x … x + n − 1 for all rows, as long as there are n of them, n = Vectors · lanes; x moves on.
template <int Vectors, class D, class A>
HWY_INLINE void accumulate_columns(D d, Index& x, Index rows, Index terms, Index value_dim, const A* p, Index stride,
                                   const A* rescale, const A* v, Index v_stride, A* out, Index out_stride) {
  const Index n = Vectors * static_cast<Index>(hn::Lanes(d));
  for (; x + n <= value_dim; x += n) {
    in_row_blocks(rows, [&](auto count, Index i) {
      accumulate_block<decltype(count)::value, Vectors>(d, terms, p + i * stride, stride, rescale + i, v + x, v_stride,
                                                        out + i * out_stride + x, out_stride);
    });
  }
}

template <class A>
HWY_INLINE void accumulate_impl(Index rows, Index first, Index end, Index value_dim, const A* p, Index stride,
                                const A* rescale, const A* v, Index v_stride, A* out, Index out_stride) {
  Index x = 0;
  const auto columns = [&](auto vectors, auto d) {
    accumulate_columns<decltype(vectors)::value>(d, x, rows, end - first, value_dim, p + first, stride, rescale,
                                                 v + first * v_stride, v_stride, out, out_stride);
  };
  columns(std::integral_constant<int, panel_vectors>(), Tag<A>());
  const std::integral_constant<int, 1> one;
  columns(one, Tag<A>());
  columns(one, hn::CappedTag<A, 8>());
  columns(one, hn::CappedTag<A, 4>());
  columns(one, hn::CappedTag<A, 1>());
}

#define BEARING_ATTEND_KERNELS(SUFFIX, A)                                                                  \
  Index panel_width_##SUFFIX() { return panel_lanes<A>(); }                                                \
  Index strip_rows_##SUFFIX() { return 2 * block_rows; }                                                   \
  void pack_##SUFFIX(Index cols, Index dim, const A* rows, Index stride, A* packed) {                      \
    pack_impl(cols, dim, rows, stride, packed);                                                            \
  }                                                                                                        \
  void scores_##SUFFIX(Index rows, Index first, Index end, Index dim, A alpha, const A* q, Index q_stride, \
                       const A* packed, A* s, Index stride) {                                              \
    scores_impl(rows, first, end, dim, alpha, q, q_stride, packed, s, stride);                             \
  }                                                                                                        \
  void accumulate_##SUFFIX(Index rows, Index first, Index end, Index value_dim, const A* p, Index stride,  \
                           const A* rescale, const A* v, Index v_stride, A* out, Index out_stride) {       \
    accumulate_impl(rows, first, end, value_dim, p, stride, rescale, v, v_stride, out, out_stride);        \
  }
BEARING_ATTEND_KERNELS(f32, float)
BEARING_ATTEND_KERNELS(f64, double)
#undef BEARING_ATTEND_KERNELS

}  // namespace bearing::attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::attend {

#define BEARING_ATTEND_DISPATCH(NAME)                    \
  HWY_EXPORT(NAME##_f32);                                \
  HWY_EXPORT(NAME##_f64);                                \
  template <class A, class... Arguments>                 \
  auto dispatch_##NAME(const Arguments&... arguments) {  \
    if constexpr (sizeof(A) == sizeof(float)) {          \
      return BEARING_DISPATCH(NAME##_f32)(arguments...); \
    } else {                                             \
      return BEARING_DISPATCH(NAME##_f64)(arguments...); \
    }                                                    \
  }
BEARING_ATTEND_DISPATCH(panel_width)
BEARING_ATTEND_DISPATCH(strip_rows)
BEARING_ATTEND_DISPATCH(pack)
BEARING_ATTEND_DISPATCH(scores)
BEARING_ATTEND_DISPATCH(accumulate)
#undef BEARING_ATTEND_DISPATCH

template <class A>
Index panel_width() {
  return dispatch_panel_width<A>();
}
template <class A>
Index strip_rows() {
  return dispatch_strip_rows<A>();
}
template <class A>
void pack(Index cols, Index dim, const A* rows, Index stride, A* packed) {
  dispatch_pack<A>(cols, dim, rows, stride, packed);
}
template <class A>
void scores(Index rows, Index first, Index end, Index dim, A alpha, const A* q, Index q_stride, const A* packed, A* s,
            Index stride) {
  dispatch_scores<A>(rows, first, end, dim, alpha, q, q_stride, packed, s, stride);
}
template <class A>
void accumulate(Index rows, Index first, Index end, Index value_dim, const A* p, Index stride, const A* rescale,
                const A* v, Index v_stride, A* out, Index out_stride) {
  dispatch_accumulate<A>(rows, first, end, value_dim, p, stride, rescale, v, v_stride, out, out_stride);
}

#define BEARING_INSTANTIATE(A)                                                                  \
  template Index panel_width<A>();                                                              \
  template Index strip_rows<A>();                                                               \
  template void pack<A>(Index, Index, const A*, Index, A*);                                     \
  template void scores<A>(Index, Index, Index, Index, A, const A*, Index, const A*, A*, Index); \
  template void accumulate<A>(Index, Index, Index, Index, const A*, Index, const A*, const A*, Index, A*, Index);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

}  // namespace bearing::attend
#endif
