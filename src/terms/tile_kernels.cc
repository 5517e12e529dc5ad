// The kernels of tiles, once per SIMD target.

#include "terms/tile_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "terms/tile_kernels.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cstdint>

#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::tiles::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class A>
using Tag = hn::ScalableTag<A>;
template <class A>
HWY_INLINE Index lanes() {
  return static_cast<Index>(hn::Lanes(Tag<A>()));
}

/// to[j] += from[j]
template <class A>
HWY_INLINE void add_row(Index n, const A* from, A* to) {
  const Tag<A> d;
  Index j = 0;
  for (; j + lanes<A>() <= n; j += lanes<A>())
    hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::LoadU(d, from + j)), d, to + j);
  for (; j < n; ++j) to[j] += from[j];
}

template <class A>
HWY_INLINE void add_toeplitz_impl(Index rows, Index cols, const A* diagonals, A* s, Index stride) {
  for (Index i = 0; i < rows; ++i) add_row(cols, diagonals + (rows - 1 - i), s + i * stride);
}

template <class A>
HWY_INLINE void put_toeplitz_impl(Index rows, Index cols, const A* diagonals, A* s, Index stride, bool stream) {
  const Tag<A> d;
  for (Index i = 0; i < rows; ++i) {
    const A* from = diagonals + (rows - 1 - i);
    A* to = s + i * stride;
    Index j = 0;
    if (stream) {
      const auto vector_bytes = static_cast<std::uintptr_t>(lanes<A>()) * sizeof(A);
      for (; j < cols && reinterpret_cast<std::uintptr_t>(to + j) % vector_bytes != 0; ++j) to[j] = from[j];
      for (; j + lanes<A>() <= cols; j += lanes<A>()) hn::Stream(hn::LoadU(d, from + j), d, to + j);
    }
    for (; j + lanes<A>() <= cols; j += lanes<A>()) hn::StoreU(hn::LoadU(d, from + j), d, to + j);
    for (; j < cols; ++j) to[j] = from[j];
  }
  if (stream) hwy::FlushStream();
}

template <class A>
HWY_INLINE void sum_diagonals_impl(Index rows, Index cols, const A* s, Index stride, A* diagonals) {
  for (Index i = 0; i < rows; ++i) add_row(cols, s + i * stride, diagonals + (rows - 1 - i));
}

/// The sum of a vector's lanes, in pairs: always the same order.
template <class A, class V>
HWY_INLINE A sum_of_lanes(V v) {
  const Tag<A> d;
  HWY_ALIGN A lane[hn::MaxLanes(Tag<A>())];
  hn::Store(v, d, lane);
  for (Index half = lanes<A>() / 2; half > 0; half /= 2) {
    for (Index i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}

/// RowsA × RowsB products of rows that are `dim` long.
template <int RowsA, int RowsB, class A>
HWY_INLINE void dots(Index dim, A alpha, const A* a, Index a_stride, const A* b, Index b_stride, A* c, Index c_stride) {
  const Tag<A> d;
  hn::Vec<Tag<A>> sum[RowsA][RowsB];
  for (auto& row : sum) {
    for (auto& v : row) v = hn::Zero(d);
  }
  Index x = 0;
  for (; x + lanes<A>() <= dim; x += lanes<A>()) {
    hn::Vec<Tag<A>> from_b[RowsB];
    for (int j = 0; j < RowsB; ++j) from_b[j] = hn::LoadU(d, b + j * b_stride + x);
    for (int i = 0; i < RowsA; ++i) {
      const auto from_a = hn::LoadU(d, a + i * a_stride + x);
      for (int j = 0; j < RowsB; ++j) sum[i][j] = hn::MulAdd(from_a, from_b[j], sum[i][j]);
    }
  }
  for (int i = 0; i < RowsA; ++i) {
    for (int j = 0; j < RowsB; ++j) {
      A total = sum_of_lanes<A>(sum[i][j]);
      for (Index y = x; y < dim; ++y) total += a[i * a_stride + y] * b[j * b_stride + y];
      c[i * c_stride + j] = alpha * total;
    }
  }
}

template <class A>
HWY_INLINE void multiply_nt_impl(Index m, Index n, Index dim, A alpha, const A* a, Index a_stride, const A* b,
                                 Index b_stride, A* c, Index c_stride) {
  // An element's sum does not depend on which block it falls in: blocks only share loads.
  for (Index i = 0; i < m; i += 4) {
    for (Index j = 0; j < n; j += 4) {
      const A *row_a = a + i * a_stride, *row_b = b + j * b_stride;
      A* to = c + i * c_stride + j;
      if (i + 4 <= m && j + 4 <= n) {
        dots<4, 4>(dim, alpha, row_a, a_stride, row_b, b_stride, to, c_stride);
        continue;
      }
      for (Index y = i; y < m && y < i + 4; ++y) {
        for (Index x = j; x < n && x < j + 4; ++x) {
          dots<1, 1>(dim, alpha, a + y * a_stride, a_stride, b + x * b_stride, b_stride, c + y * c_stride + x,
                     c_stride);
        }
      }
    }
  }
}

/// to[0 … RowsTo) [dim] += Σ_t factor(row, t) · from[t], t < terms, in rising order of t.
template <int RowsTo, class A, class Factor>
HWY_INLINE void add_combinations(Index terms, Index dim, const Factor& factor, const A* from, Index from_stride, A* to,
                                 Index to_stride) {
  const Tag<A> d;
  Index x = 0;
  for (; x + lanes<A>() <= dim; x += lanes<A>()) {
    hn::Vec<Tag<A>> sum[RowsTo];
    for (int r = 0; r < RowsTo; ++r) sum[r] = hn::LoadU(d, to + r * to_stride + x);
    for (Index t = 0; t < terms; ++t) {
      const auto row = hn::LoadU(d, from + t * from_stride + x);
      for (int r = 0; r < RowsTo; ++r) sum[r] = hn::MulAdd(hn::Set(d, factor(r, t)), row, sum[r]);
    }
    for (int r = 0; r < RowsTo; ++r) hn::StoreU(sum[r], d, to + r * to_stride + x);
  }
  for (; x < dim; ++x) {
    for (int r = 0; r < RowsTo; ++r) {
      A sum = to[r * to_stride + x];
      for (Index t = 0; t < terms; ++t) sum += factor(r, t) * from[t * from_stride + x];
      to[r * to_stride + x] = sum;
    }
  }
}

template <class A, class Factor>
HWY_INLINE void add_all_combinations(Index outputs, Index terms, Index dim, const Factor& factor, const A* from,
                                     Index from_stride, A* to, Index to_stride) {
  Index r = 0;
  for (; r + 4 <= outputs; r += 4) {
    add_combinations<4>(
        terms, dim, [&](int row, Index t) { return factor(r + row, t); }, from, from_stride, to + r * to_stride,
        to_stride);
  }
  for (; r < outputs; ++r) {
    add_combinations<1>(
        terms, dim, [&](int row, Index t) { return factor(r + row, t); }, from, from_stride, to + r * to_stride,
        to_stride);
  }
}

template <class A>
HWY_INLINE void add_multiply_nn_impl(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* b,
                                     Index b_stride, A* a, Index a_stride) {
  add_all_combinations(
      m, n, dim, [=](Index i, Index j) { return alpha * c[i * c_stride + j]; }, b, b_stride, a, a_stride);
}

template <class A>
HWY_INLINE void add_multiply_tn_impl(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* a,
                                     Index a_stride, A* b, Index b_stride) {
  add_all_combinations(
      n, m, dim, [=](Index j, Index i) { return alpha * c[i * c_stride + j]; }, a, a_stride, b, b_stride);
}

#define BEARING_TILE_KERNELS(SUFFIX, A)                                                                       \
  void add_toeplitz_##SUFFIX(Index rows, Index cols, const A* diagonals, A* s, Index stride) {                \
    add_toeplitz_impl(rows, cols, diagonals, s, stride);                                                      \
  }                                                                                                           \
  void put_toeplitz_##SUFFIX(Index rows, Index cols, const A* diagonals, A* s, Index stride, bool stream) {   \
    put_toeplitz_impl(rows, cols, diagonals, s, stride, stream);                                              \
  }                                                                                                           \
  void sum_diagonals_##SUFFIX(Index rows, Index cols, const A* s, Index stride, A* diagonals) {               \
    sum_diagonals_impl(rows, cols, s, stride, diagonals);                                                     \
  }                                                                                                           \
  void multiply_nt_##SUFFIX(Index m, Index n, Index dim, A alpha, const A* a, Index a_stride, const A* b,     \
                            Index b_stride, A* c, Index c_stride) {                                           \
    multiply_nt_impl(m, n, dim, alpha, a, a_stride, b, b_stride, c, c_stride);                                \
  }                                                                                                           \
  void add_multiply_nn_##SUFFIX(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* b, \
                                Index b_stride, A* a, Index a_stride) {                                       \
    add_multiply_nn_impl(m, n, dim, alpha, c, c_stride, b, b_stride, a, a_stride);                            \
  }                                                                                                           \
  void add_multiply_tn_##SUFFIX(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* a, \
                                Index a_stride, A* b, Index b_stride) {                                       \
    add_multiply_tn_impl(m, n, dim, alpha, c, c_stride, a, a_stride, b, b_stride);                            \
  }
BEARING_TILE_KERNELS(f32, float)
BEARING_TILE_KERNELS(f64, double)
#undef BEARING_TILE_KERNELS

}  // namespace bearing::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::tiles {

#define BEARING_TILE_DISPATCH(NAME, ...)          \
  HWY_EXPORT(NAME##_f32);                         \
  HWY_EXPORT(NAME##_f64);                         \
  template <class A, class... Arguments>          \
  void dispatch_##NAME(Arguments... arguments) {  \
    if constexpr (sizeof(A) == sizeof(float)) {   \
      BEARING_DISPATCH(NAME##_f32)(arguments...); \
    } else {                                      \
      BEARING_DISPATCH(NAME##_f64)(arguments...); \
    }                                             \
  }
BEARING_TILE_DISPATCH(add_toeplitz)
BEARING_TILE_DISPATCH(put_toeplitz)
BEARING_TILE_DISPATCH(sum_diagonals)
BEARING_TILE_DISPATCH(multiply_nt)
BEARING_TILE_DISPATCH(add_multiply_nn)
BEARING_TILE_DISPATCH(add_multiply_tn)
#undef BEARING_TILE_DISPATCH

template <class A>
void add_toeplitz(Index rows, Index cols, const A* diagonals, A* s, Index stride) {
  dispatch_add_toeplitz<A>(rows, cols, diagonals, s, stride);
}
template <class A>
void put_toeplitz(Index rows, Index cols, const A* diagonals, A* s, Index stride, bool stream) {
  dispatch_put_toeplitz<A>(rows, cols, diagonals, s, stride, stream);
}
template <class A>
void sum_diagonals(Index rows, Index cols, const A* s, Index stride, A* diagonals) {
  dispatch_sum_diagonals<A>(rows, cols, s, stride, diagonals);
}
template <class A>
void multiply_nt(Index m, Index n, Index dim, A alpha, const A* a, Index a_stride, const A* b, Index b_stride, A* c,
                 Index c_stride) {
  dispatch_multiply_nt<A>(m, n, dim, alpha, a, a_stride, b, b_stride, c, c_stride);
}
template <class A>
void add_multiply_nn(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* b, Index b_stride, A* a,
                     Index a_stride) {
  dispatch_add_multiply_nn<A>(m, n, dim, alpha, c, c_stride, b, b_stride, a, a_stride);
}
template <class A>
void add_multiply_tn(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* a, Index a_stride, A* b,
                     Index b_stride) {
  dispatch_add_multiply_tn<A>(m, n, dim, alpha, c, c_stride, a, a_stride, b, b_stride);
}

template <class A>
void add_gathered(Index rows, Index cols, const A* u, Index u_stride, const std::int32_t* column, A* s, Index stride) {
  for (Index i = 0; i < rows; ++i) {
    const std::int32_t* at = column + (rows - 1 - i);
    for (Index j = 0; j < cols; ++j) s[i * stride + j] += u[i * u_stride + at[j]];
  }
}
template <class A>
void scatter(Index rows, Index cols, const A* d_s, Index stride, const std::int32_t* column, A* d_u, Index u_stride) {
  for (Index i = 0; i < rows; ++i) {
    const std::int32_t* at = column + (rows - 1 - i);
    for (Index j = 0; j < cols; ++j) d_u[i * u_stride + at[j]] += d_s[i * stride + j];
  }
}

#define BEARING_INSTANTIATE(A)                                                                           \
  template void add_toeplitz<A>(Index, Index, const A*, A*, Index);                                      \
  template void put_toeplitz<A>(Index, Index, const A*, A*, Index, bool);                                \
  template void sum_diagonals<A>(Index, Index, const A*, Index, A*);                                     \
  template void add_gathered<A>(Index, Index, const A*, Index, const std::int32_t*, A*, Index);          \
  template void scatter<A>(Index, Index, const A*, Index, const std::int32_t*, A*, Index);               \
  template void multiply_nt<A>(Index, Index, Index, A, const A*, Index, const A*, Index, A*, Index);     \
  template void add_multiply_nn<A>(Index, Index, Index, A, const A*, Index, const A*, Index, A*, Index); \
  template void add_multiply_tn<A>(Index, Index, Index, A, const A*, Index, const A*, Index, A*, Index);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

}  // namespace bearing::tiles
#endif
