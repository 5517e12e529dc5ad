// The kernels of tiles, once per SIMD target.

#include "terms/tile_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "terms/tile_kernels.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

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

template <class A>
HWY_INLINE void add_number(Index n, A number, A* to) {
  const Tag<A> d;
  const auto all = hn::Set(d, number);
  Index j = 0;
  for (; j + lanes<A>() <= n; j += lanes<A>()) hn::StoreU(hn::Add(hn::LoadU(d, to + j), all), d, to + j);
  for (; j < n; ++j) to[j] += number;
}

template <class A>
HWY_INLINE A sum_row(Index n, const A* from) {
  const Tag<A> d;
  auto lanes_sum = hn::Zero(d);
  Index j = 0;
  for (; j + lanes<A>() <= n; j += lanes<A>()) lanes_sum = hn::Add(lanes_sum, hn::LoadU(d, from + j));
  A sum = hn::GetLane(hn::SumOfLanes(d, lanes_sum));
  for (; j < n; ++j) sum += from[j];
  return sum;
}

template <class A>
HWY_INLINE void add_band_impl(Index rows, Index cols, const Band& band, const A* u, Index u_stride, A* s,
                              Index stride) {
  for (Index i = 0; i < rows; ++i) {
    const BandRow row = band_row(rows, cols, band, i);
    const A* from = u + i * u_stride;
    A* to = s + i * stride;
    if (row.rise > row.begin) add_number(row.rise - row.begin, from[0], to + row.begin);
    if (row.fall > row.rise) add_row(row.fall - row.rise, from + row.first, to + row.rise);
    if (row.end > row.fall) add_number(row.end - row.fall, from[band.width - 1], to + row.fall);
  }
}

template <class A>
HWY_INLINE void scatter_band_impl(Index rows, Index cols, const Band& band, const A* d_s, Index stride, A* d_u,
                                  Index u_stride) {
  for (Index i = 0; i < rows; ++i) {
    const BandRow row = band_row(rows, cols, band, i);
    const A* from = d_s + i * stride;
    A* to = d_u + i * u_stride;
    if (row.rise > row.begin) to[0] += sum_row(row.rise - row.begin, from + row.begin);
    if (row.fall > row.rise) add_row(row.fall - row.rise, from + row.rise, to + row.first);
    if (row.end > row.fall) to[band.width - 1] += sum_row(row.end - row.fall, from + row.fall);
  }
}

// Products. Columns of the result are cut into panels of two vectors, rows into blocks that share a panel's loads, and
// sums into runs of `most_terms` that stay in the first cache. An element is the sum of its products in rising order,
// run by run, whatever panel or block it falls in; results of few rows or columns are summed over lanes instead.

inline constexpr Index most_terms = 128;
/// 2·8 sums, 2 loads and a factor fill most of 32 vector registers; half as many rows suit 16.
inline constexpr int block_rows = HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2 ? 4 : 8;

template <class A>
inline constexpr Index panel_room = 2 * static_cast<Index>(hn::MaxLanes(Tag<A>()));

/// An operand that enters element by element: factor(i, t) = data[i·row + t·term].
template <class A>
struct Factors {
  const A* data;
  Index row, term;
};

/// out [Rows, 2 vectors] (+)= alpha · Σ_t factor(i, t) · right[t], t < terms. Not inlined: GCC at -O3 then keeps all
/// of it in registers, which is a quarter faster.
template <int Rows, class A>
HWY_NOINLINE void multiply_block(Index terms, A alpha, const Factors<A>& left, const A* right, Index right_stride,
                                 A* out, Index out_stride, bool add) {
  const Tag<A> d;
  hn::Vec<Tag<A>> low[Rows], high[Rows];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) low[i] = high[i] = hn::Zero(d);
  for (Index t = 0; t < terms; ++t) {
    const auto right_low = hn::LoadU(d, right + t * right_stride);
    const auto right_high = hn::LoadU(d, right + t * right_stride + lanes<A>());
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const auto factor = hn::Set(d, left.data[i * left.row + t * left.term]);
      low[i] = hn::MulAdd(factor, right_low, low[i]);
      high[i] = hn::MulAdd(factor, right_high, high[i]);
    }
  }
  const auto scale = hn::Set(d, alpha);
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
    A *to_low = out + i * out_stride, *to_high = to_low + lanes<A>();
    const auto from_low = hn::Mul(scale, low[i]), from_high = hn::Mul(scale, high[i]);
    hn::StoreU(add ? hn::Add(hn::LoadU(d, to_low), from_low) : from_low, d, to_low);
    hn::StoreU(add ? hn::Add(hn::LoadU(d, to_high), from_high) : from_high, d, to_high);
  }
}

/// The same for any number of rows and `width` columns of a panel, which may lack some of two vectors.
template <class A>
HWY_INLINE void multiply_panel(Index rows, Index width, Index terms, A alpha, Factors<A> left, const A* right,
                               Index right_stride, A* out, Index out_stride, bool add) {
  const bool whole = width == 2 * lanes<A>();
  HWY_ALIGN A room[block_rows * panel_room<A>];
  const auto block = [&](auto count, Index i) {
    constexpr int Rows = decltype(count)::value;
    const Factors<A> from{left.data + i * left.row, left.row, left.term};
    A* to = out + i * out_stride;
    if (whole) return multiply_block<Rows>(terms, alpha, from, right, right_stride, to, out_stride, add);
    multiply_block<Rows>(terms, alpha, from, right, right_stride, room, panel_room<A>, false);
    for (int y = 0; y < Rows; ++y) {
      for (Index x = 0; x < width; ++x) {
        A& element = to[y * out_stride + x];
        element = add ? element + room[y * panel_room<A> + x] : room[y * panel_room<A> + x];
      }
    }
  };
  Index i = 0;
  for (; i + block_rows <= rows; i += block_rows) block(std::integral_constant<int, block_rows>(), i);
  for (; i + 2 <= rows; i += 2) block(std::integral_constant<int, 2>(), i);
  if (i < rows) block(std::integral_constant<int, 1>(), i);
}

/// out [rows, dim] += alpha · Σ_t factor(i, t) · right[t]: right's rows are panels as they are, but for the last.
template <class A>
HWY_INLINE void add_combinations(Index rows, Index dim, Index terms, A alpha, const Factors<A>& left, const A* right,
                                 Index right_stride, A* out, Index out_stride) {
  if (rows == 0) return;  // and out may be null
  HWY_ALIGN A panel[most_terms * panel_room<A>];
  for (Index first = 0; first < terms; first += most_terms) {
    const Index run = HWY_MIN(most_terms, terms - first);
    const Factors<A> from{left.data + first * left.term, left.row, left.term};
    for (Index x = 0; x < dim; x += 2 * lanes<A>()) {
      const Index width = HWY_MIN(2 * lanes<A>(), dim - x);
      const A* columns = right + first * right_stride + x;
      Index stride = right_stride;
      if (width < 2 * lanes<A>()) {
        for (Index t = 0; t < run; ++t) {
          for (Index y = 0; y < 2 * lanes<A>(); ++y)
            panel[t * panel_room<A> + y] = y < width ? columns[t * stride + y] : A{0};
        }
        columns = panel;
        stride = panel_room<A>;
      }
      multiply_panel(rows, width, run, alpha, from, columns, stride, out + x, out_stride, true);
    }
  }
}

/// panel[t][j] = b[j][t], zeros where b has no more rows.
template <class A>
HWY_INLINE void transpose_panel(Index width, Index terms, const A* b, Index b_stride, A* panel) {
  Index j = 0;
  for (; j + 4 <= width; j += 4) {
    const A *b0 = b + j * b_stride, *b1 = b0 + b_stride, *b2 = b1 + b_stride, *b3 = b2 + b_stride;
    for (Index t = 0; t < terms; ++t) {
      A* to = panel + t * panel_room<A> + j;
      to[0] = b0[t], to[1] = b1[t], to[2] = b2[t], to[3] = b3[t];
    }
  }
  for (; j < 2 * lanes<A>(); ++j) {
    for (Index t = 0; t < terms; ++t) panel[t * panel_room<A> + j] = j < width ? b[j * b_stride + t] : A{0};
  }
}

/// Products of one row with `Columns` rows that are `dim` long.
template <int Columns, class A>
HWY_INLINE void dots(Index dim, A alpha, const A* a, const A* b, Index b_stride, A* c) {
  const Tag<A> d;
  hn::Vec<Tag<A>> sum[Columns];
#pragma GCC unroll 4
  for (int j = 0; j < Columns; ++j) sum[j] = hn::Zero(d);
  Index x = 0;
  for (; x + lanes<A>() <= dim; x += lanes<A>()) {
    const auto from_a = hn::LoadU(d, a + x);
#pragma GCC unroll 4
    for (int j = 0; j < Columns; ++j) sum[j] = hn::MulAdd(from_a, hn::LoadU(d, b + j * b_stride + x), sum[j]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < Columns; ++j) {
    A total = hn::GetLane(hn::SumOfLanes(d, sum[j]));
    for (Index y = x; y < dim; ++y) total += a[y] * b[j * b_stride + y];
    c[j] = alpha * total;
  }
}

/// Fewer rows or columns than this do not pay for a transpose.
inline constexpr Index few = 4;

template <class A>
HWY_INLINE void multiply_few(Index m, Index n, Index dim, A alpha, const A* a, Index a_stride, const A* b,
                             Index b_stride, A* c, Index c_stride) {
  for (Index i = 0; i < m; ++i) {
    Index j = 0;
    for (; j + 4 <= n; j += 4) dots<4>(dim, alpha, a + i * a_stride, b + j * b_stride, b_stride, c + i * c_stride + j);
    for (; j < n; ++j) dots<1>(dim, alpha, a + i * a_stride, b + j * b_stride, b_stride, c + i * c_stride + j);
  }
}

template <class A>
HWY_INLINE void multiply_nt_impl(Index m, Index n, Index dim, A alpha, const A* a, Index a_stride, const A* b,
                                 Index b_stride, A* c, Index c_stride) {
  if (m < few || n < few) return multiply_few(m, n, dim, alpha, a, a_stride, b, b_stride, c, c_stride);
  HWY_ALIGN A panel[most_terms * panel_room<A>];
  for (Index j = 0; j < n; j += 2 * lanes<A>()) {
    const Index width = HWY_MIN(2 * lanes<A>(), n - j);
    if (width < HWY_MIN(few, 2 * lanes<A>())) {
      multiply_few(m, width, dim, alpha, a, a_stride, b + j * b_stride, b_stride, c + j, c_stride);
      continue;
    }
    Index first = 0;
    do {  // once at least: an empty sum is 0
      const Index run = HWY_MIN(most_terms, dim - first);
      transpose_panel(width, run, b + j * b_stride + first, b_stride, panel);
      multiply_panel(m, width, run, alpha, Factors<A>{a + first, a_stride, 1}, panel, panel_room<A>, c + j, c_stride,
                     first > 0);
      first += run;
    } while (first < dim);
  }
}

template <class A>
HWY_INLINE void add_multiply_nn_impl(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* b,
                                     Index b_stride, A* a, Index a_stride) {
  add_combinations(m, dim, n, alpha, Factors<A>{c, c_stride, 1}, b, b_stride, a, a_stride);
}

template <class A>
HWY_INLINE void add_multiply_tn_impl(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* a,
                                     Index a_stride, A* b, Index b_stride) {
  add_combinations(n, dim, m, alpha, Factors<A>{c, 1, c_stride}, a, a_stride, b, b_stride);
}

#define BEARING_TILE_KERNELS(SUFFIX, A)                                                                              \
  void add_toeplitz_##SUFFIX(Index rows, Index cols, const A* diagonals, A* s, Index stride) {                       \
    add_toeplitz_impl(rows, cols, diagonals, s, stride);                                                             \
  }                                                                                                                  \
  void put_toeplitz_##SUFFIX(Index rows, Index cols, const A* diagonals, A* s, Index stride, bool stream) {          \
    put_toeplitz_impl(rows, cols, diagonals, s, stride, stream);                                                     \
  }                                                                                                                  \
  void sum_diagonals_##SUFFIX(Index rows, Index cols, const A* s, Index stride, A* diagonals) {                      \
    sum_diagonals_impl(rows, cols, s, stride, diagonals);                                                            \
  }                                                                                                                  \
  void add_band_##SUFFIX(Index rows, Index cols, const Band& band, const A* u, Index u_stride, A* s, Index stride) { \
    add_band_impl(rows, cols, band, u, u_stride, s, stride);                                                         \
  }                                                                                                                  \
  void scatter_band_##SUFFIX(Index rows, Index cols, const Band& band, const A* d_s, Index stride, A* d_u,           \
                             Index u_stride) {                                                                       \
    scatter_band_impl(rows, cols, band, d_s, stride, d_u, u_stride);                                                 \
  }                                                                                                                  \
  void multiply_nt_##SUFFIX(Index m, Index n, Index dim, A alpha, const A* a, Index a_stride, const A* b,            \
                            Index b_stride, A* c, Index c_stride) {                                                  \
    multiply_nt_impl(m, n, dim, alpha, a, a_stride, b, b_stride, c, c_stride);                                       \
  }                                                                                                                  \
  void add_multiply_nn_##SUFFIX(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* b,        \
                                Index b_stride, A* a, Index a_stride) {                                              \
    add_multiply_nn_impl(m, n, dim, alpha, c, c_stride, b, b_stride, a, a_stride);                                   \
  }                                                                                                                  \
  void add_multiply_tn_##SUFFIX(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* a,        \
                                Index a_stride, A* b, Index b_stride) {                                              \
    add_multiply_tn_impl(m, n, dim, alpha, c, c_stride, a, a_stride, b, b_stride);                                   \
  }
BEARING_TILE_KERNELS(f32, float)
BEARING_TILE_KERNELS(f64, double)
#undef BEARING_TILE_KERNELS

}  // namespace bearing::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::tiles {

#define BEARING_TILE_DISPATCH(NAME, ...)                \
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
BEARING_TILE_DISPATCH(add_toeplitz)
BEARING_TILE_DISPATCH(put_toeplitz)
BEARING_TILE_DISPATCH(sum_diagonals)
BEARING_TILE_DISPATCH(add_band)
BEARING_TILE_DISPATCH(scatter_band)
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
void add_band(Index rows, Index cols, const Band& band, const A* u, Index u_stride, A* s, Index stride) {
  dispatch_add_band<A>(rows, cols, band, u, u_stride, s, stride);
}
template <class A>
void scatter_band(Index rows, Index cols, const Band& band, const A* d_s, Index stride, A* d_u, Index u_stride) {
  dispatch_scatter_band<A>(rows, cols, band, d_s, stride, d_u, u_stride);
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
void add_key_band(Index rows, Index cols, const Band& band, const A* w, Index w_stride, A* s, Index stride) {
  for (Index i = 0; i < rows; ++i) {
    const BandRow row = band_row(rows, cols, band, i);
    const A *first = w, *last = w + band.width - 1;
    A* to = s + i * stride;
    for (Index j = row.begin; j < row.rise; ++j) to[j] += first[j * w_stride];
    for (Index j = row.rise; j < row.fall; ++j) to[j] += w[j * w_stride + row.first + j - row.rise];
    for (Index j = row.fall; j < row.end; ++j) to[j] += last[j * w_stride];
  }
}
template <class A>
void scatter_key_band(Index rows, Index cols, const Band& band, const A* d_s, Index stride, A* d_w, Index w_stride) {
  for (Index i = 0; i < rows; ++i) {
    const BandRow row = band_row(rows, cols, band, i);
    const A* from = d_s + i * stride;
    A *first = d_w, *last = d_w + band.width - 1;
    for (Index j = row.begin; j < row.rise; ++j) first[j * w_stride] += from[j];
    for (Index j = row.rise; j < row.fall; ++j) d_w[j * w_stride + row.first + j - row.rise] += from[j];
    for (Index j = row.fall; j < row.end; ++j) last[j * w_stride] += from[j];
  }
}

#define BEARING_INSTANTIATE(A)                                                                           \
  template void add_toeplitz<A>(Index, Index, const A*, A*, Index);                                      \
  template void put_toeplitz<A>(Index, Index, const A*, A*, Index, bool);                                \
  template void sum_diagonals<A>(Index, Index, const A*, Index, A*);                                     \
  template void add_band<A>(Index, Index, const Band&, const A*, Index, A*, Index);                      \
  template void scatter_band<A>(Index, Index, const Band&, const A*, Index, A*, Index);                  \
  template void add_key_band<A>(Index, Index, const Band&, const A*, Index, A*, Index);                  \
  template void scatter_key_band<A>(Index, Index, const Band&, const A*, Index, A*, Index);              \
  template void multiply_nt<A>(Index, Index, Index, A, const A*, Index, const A*, Index, A*, Index);     \
  template void add_multiply_nn<A>(Index, Index, Index, A, const A*, Index, const A*, Index, A*, Index); \
  template void add_multiply_tn<A>(Index, Index, Index, A, const A*, Index, const A*, Index, A*, Index);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

}  // namespace bearing::tiles
#endif
