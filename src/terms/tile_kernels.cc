// The kernels of tiles, once per SIMD target.

#include "terms/tile_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "terms/tile_kernels.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <bearing/kept.hpp>
#include <cstdint>
#include <type_traits>

#include "simd/dispatch.hpp"
#include "simd/prefetch.hpp"
#include "simd/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bearing::tiles::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using simd::HWY_NAMESPACE::lanes;
using simd::HWY_NAMESPACE::Tag;

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
void add_toeplitz(Index rows, Index cols, const A* diagonals, A* s, Index stride) {
  for (Index i = 0; i < rows; ++i) add_row(cols, diagonals + (rows - 1 - i), s + i * stride);
}

template <class A>
void add_matrix(Index rows, Index cols, const A* matrix, Index matrix_stride, Index ahead, A* s, Index stride) {
  for (Index i = 0; i < rows; ++i) {
    const A* from = matrix + i * matrix_stride;
    if (ahead != 0) simd::prefetch_rows(from, ahead, Index{1}, cols, Index{0});
    add_row(cols, from, s + i * stride);
  }
}

template <class A>
void put_toeplitz(Index rows, Index cols, const A* diagonals, A* s, Index stride, bool stream) {
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
void sum_diagonals(Index rows, Index cols, const A* s, Index stride, A* diagonals) {
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
void add_band(Index rows, Index cols, const Band& band, const A* u, Index u_stride, A* s, Index stride) {
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
void add_key_band(Index rows, Index cols, const Band& band, const A* w, Index w_stride, A* s, Index stride) {
  for (Index i = 0; i < rows; ++i) {
    const BandRow row = band_row(rows, cols, band, i);
    const A *first = w, *last = w + band.width - 1;
    A* to = s + i * stride;
    if (w_stride == 1) {  // a key has one product, for all queries
      add_row(row.end - row.begin, first + row.begin, to + row.begin);
      continue;
    }
    for (Index j = row.begin; j < row.rise; ++j) to[j] += first[j * w_stride];
    for (Index j = row.rise; j < row.fall; ++j) to[j] += w[j * w_stride + row.first + j - row.rise];
    for (Index j = row.fall; j < row.end; ++j) to[j] += last[j * w_stride];
  }
}

template <class A>
void scatter_band(Index rows, Index cols, const Band& band, const A* d_s, Index stride, A* d_u, Index u_stride) {
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
/// 2·8 sums, 2 loads and a factor fill most of 32 vector registers; half as many rows suit 16, where six were measured
/// to be no faster, and a page that loads the code.
inline constexpr int block_rows = (HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2) || !kept_whole ? 4 : 8;

template <class A>
inline constexpr Index panel_room = 2 * static_cast<Index>(hn::MaxLanes(Tag<A>()));

/// out (+)= alpha · sum
template <class A>
struct Put {
  A alpha;
  A* out;
  Index stride;
  bool add;

  template <class D, class V>
  HWY_INLINE void operator()(D d, Index i, Index x, V sum) const {
    A* to = out + i * stride + x;
    const auto scaled = hn::Mul(hn::Set(d, alpha), sum);
    hn::StoreU(add ? hn::Add(hn::LoadU(d, to), scaled) : scaled, d, to);
  }
};

/// Any number of rows and `width` columns of a panel; right's rows are that of a whole vector, or of two.
template <class Left, class A>
HWY_INLINE void multiply_panel(Index rows, Index width, Index terms, const Left& left, const A* right,
                               Index right_stride, const Put<A>& put) {
  HWY_ALIGN A room[block_rows * panel_room<A>];
  const auto block = [&](auto count, auto vectors, Index i) HWY_ATTR {
    constexpr int Rows = decltype(count)::value, Vectors = decltype(vectors)::value;
    A* to = put.out + i * put.stride;
    const auto multiply = [&](const Put<A>& finish) HWY_ATTR {
      simd::HWY_NAMESPACE::product_block<Rows, Vectors>(Tag<A>(), terms, left.from(i, 0), right, right_stride, finish);
    };
    if (width == Vectors * lanes<A>()) return multiply({put.alpha, to, put.stride, put.add});
    multiply({put.alpha, room, panel_room<A>, false});
    for (int y = 0; y < Rows; ++y) {
      for (Index x = 0; x < width; ++x) {
        A& element = to[y * put.stride + x];
        element = put.add ? element + room[y * panel_room<A> + x] : room[y * panel_room<A> + x];
      }
    }
  };
  simd::HWY_NAMESPACE::in_row_blocks<block_rows>(rows, [&](auto count, Index i) HWY_ATTR {
    if (width <= lanes<A>()) return block(count, std::integral_constant<int, 1>(), i);
    block(count, std::integral_constant<int, 2>(), i);
  });
}

/// out [rows, dim] (+)= alpha · Σ_t left.at(i, t) · right[t]: right's rows are panels as they are, except the last.
template <class Left, class A>
HWY_INLINE void combine(Index rows, Index dim, Index terms, const Left& left, const A* right, Index right_stride,
                        const Put<A>& put) {
  if (rows == 0) return;  // and out may be null
  HWY_ALIGN A panel[most_terms * panel_room<A>];
  Index first = 0;
  do {  // once at least: an empty sum is 0
    const Index run = HWY_MIN(most_terms, terms - first);
    for (Index x = 0; x < dim; x += 2 * lanes<A>()) {
      const Index width = HWY_MIN(2 * lanes<A>(), dim - x);
      const A* columns = terms == 0 ? right : right + first * right_stride + x;  // null, perhaps, where there are none
      Index stride = right_stride;
      if (width % lanes<A>() != 0) {
        for (Index t = 0; t < run; ++t) {
          for (Index y = 0; y < 2 * lanes<A>(); ++y)
            panel[t * panel_room<A> + y] = y < width ? columns[t * stride + y] : A{0};
        }
        columns = panel;
        stride = panel_room<A>;
      }
      multiply_panel(rows, width, run, left.from(0, first), columns, stride,
                     Put<A>{put.alpha, put.out + x, put.stride, put.add || first > 0});
    }
    first += run;
  } while (first < terms);
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
void multiply_nt(Index m, Index n, Index dim, A alpha, const A* a, Index a_stride, const A* b, Index b_stride, A* c,
                 Index c_stride) {
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
      simd::HWY_NAMESPACE::transpose(width, run, b + j * b_stride + first, b_stride,
                                     width <= lanes<A>() ? lanes<A>() : 2 * lanes<A>(), panel, panel_room<A>);
      multiply_panel(m, width, run, simd::HWY_NAMESPACE::Rows<A>{a + first, a_stride}, panel, panel_room<A>,
                     Put<A>{alpha, c + j, c_stride, first > 0});
      first += run;
    } while (first < dim);
  }
}

template <class A>
Index panel_width() {
  return 2 * lanes<A>();
}

template <class A>
void pack(Index n, Index dim, const A* b, Index b_stride, A* packed) {
  const Index width = panel_width<A>();
  for (Index x = 0; x < n; x += width, packed += width * dim) {
    simd::HWY_NAMESPACE::transpose(HWY_MIN(width, n - x), dim, b + x * b_stride, b_stride, width, packed, width);
  }
}

template <class A>
void multiply_packed(Index m, Index panels, Index dim, A alpha, const A* a, Index a_stride, const A* packed, A* c,
                     Index c_stride) {
  const Index width = panel_width<A>();
  for (Index p = 0; p < panels; ++p) {
    multiply_panel(m, width, dim, simd::HWY_NAMESPACE::Rows<A>{a, a_stride}, packed + p * width * dim, width,
                   Put<A>{alpha, c + p * width, c_stride, false});
  }
}

/// from[column[x] − first] for a vector of columns that do not fall: mostly they lie in one vector of `from`.
template <class A>
HWY_INLINE hn::Vec<Tag<A>> by_column(const std::int32_t* column, Index first, const A* from) {
  const Tag<A> d;
  const hn::Rebind<std::int32_t, Tag<A>> d32;
  const hn::RebindToSigned<Tag<A>> di;
  const std::int32_t least = column[0];
  if (column[lanes<A>() - 1] - least >= lanes<A>()) {
    HWY_ALIGN A room[hn::MaxLanes(d)];
    for (Index x = 0; x < lanes<A>(); ++x) room[x] = from[column[x] - first];
    return hn::Load(d, room);
  }
  const auto offsets = hn::Sub(hn::LoadU(d32, column), hn::Set(d32, least));
  const auto near = hn::LoadU(d, from + (least - first));
  if constexpr (sizeof(A) == sizeof(float)) return hn::TableLookupLanes(near, hn::IndicesFromVec(d, offsets));
  if constexpr (sizeof(A) != sizeof(float)) {
    return hn::TableLookupLanes(near, hn::IndicesFromVec(d, hn::PromoteTo(di, offsets)));
  }
}

template <class A>
void add_by_column(Index rows, Index cols, const Band& band, const std::int32_t* column, Index first, const A* u,
                   Index u_stride, A* s, Index stride) {
  const Tag<A> d;
  for (Index i = 0; i < rows; ++i) {
    const BandRow row = band_row(rows, cols, band, i);
    const std::int32_t* of = column + (rows - 1 - i);
    const A* from = u + i * u_stride;
    A* to = s + i * stride;
    Index j = row.begin;
    for (; j + lanes<A>() <= row.end; j += lanes<A>()) {
      hn::StoreU(hn::Add(hn::LoadU(d, to + j), by_column(of + j, first, from)), d, to + j);
    }
    for (; j < row.end; ++j) to[j] += from[of[j] - first];
  }
}

template <class A>
void add_by_key_column(Index rows, Index cols, const Band& band, const std::int32_t* column, Index first, const A* w,
                       Index w_stride, A* s, Index stride, A* room) {
  A* transposed = room + rows * cols;
  for (Index j = 0; j < cols; ++j) {
    const std::int32_t* of = column + (cols - 1 - j);
    const A* from = w + j * w_stride;
    A* to = room + j * rows;
    Index i = 0;
    for (; i + lanes<A>() <= rows; i += lanes<A>()) hn::StoreU(by_column(of + i, first, from), Tag<A>(), to + i);
    for (; i < rows; ++i) to[i] = from[of[i] - first];
  }
  simd::HWY_NAMESPACE::transpose(cols, rows, room, rows, cols, transposed, cols);
  for (Index i = 0; i < rows; ++i) {
    const BandRow row = band_row(rows, cols, band, i);
    add_row(row.end - row.begin, transposed + i * cols + row.begin, s + i * stride + row.begin);
  }
}

template <class A>
void multiply_nn(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* b, Index b_stride, A* a,
                 Index a_stride) {
  combine(m, dim, n, simd::HWY_NAMESPACE::Rows<A>{c, c_stride}, b, b_stride, Put<A>{alpha, a, a_stride, false});
}

template <class A>
void add_multiply_nn(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* b, Index b_stride, A* a,
                     Index a_stride) {
  if (n == 0) return;  // and c and b may be null
  combine(m, dim, n, simd::HWY_NAMESPACE::Rows<A>{c, c_stride}, b, b_stride, Put<A>{alpha, a, a_stride, true});
}

template <class A>
void add_multiply_tn(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* a, Index a_stride, A* b,
                     Index b_stride) {
  if (m == 0) return;  // and c and a may be null
  combine(n, dim, m, simd::HWY_NAMESPACE::Columns<A>{c, c_stride}, a, a_stride, Put<A>{alpha, b, b_stride, true});
}

}  // namespace bearing::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::tiles {

BEARING_KERNEL(void, add_toeplitz, (Index rows, Index cols, const A* diagonals, A* s, Index stride),
               (rows, cols, diagonals, s, stride))
BEARING_KERNEL(void, add_matrix,
               (Index rows, Index cols, const A* matrix, Index matrix_stride, Index ahead, A* s, Index stride),
               (rows, cols, matrix, matrix_stride, ahead, s, stride))
BEARING_KERNEL(void, put_toeplitz, (Index rows, Index cols, const A* diagonals, A* s, Index stride, bool stream),
               (rows, cols, diagonals, s, stride, stream))
BEARING_KERNEL(void, sum_diagonals, (Index rows, Index cols, const A* s, Index stride, A* diagonals),
               (rows, cols, s, stride, diagonals))
BEARING_KERNEL(void, add_band,
               (Index rows, Index cols, const Band& band, const A* u, Index u_stride, A* s, Index stride),
               (rows, cols, band, u, u_stride, s, stride))
BEARING_KERNEL(void, add_key_band,
               (Index rows, Index cols, const Band& band, const A* w, Index w_stride, A* s, Index stride),
               (rows, cols, band, w, w_stride, s, stride))
BEARING_KERNEL(void, scatter_band,
               (Index rows, Index cols, const Band& band, const A* d_s, Index stride, A* d_u, Index u_stride),
               (rows, cols, band, d_s, stride, d_u, u_stride))
BEARING_KERNEL(void, multiply_nt,
               (Index m, Index n, Index dim, A alpha, const A* a, Index a_stride, const A* b, Index b_stride, A* c,
                Index c_stride),
               (m, n, dim, alpha, a, a_stride, b, b_stride, c, c_stride))
BEARING_KERNEL(Index, panel_width, (), ())
BEARING_KERNEL(void, pack, (Index n, Index dim, const A* b, Index b_stride, A* packed), (n, dim, b, b_stride, packed))
BEARING_KERNEL(void, multiply_packed,
               (Index m, Index panels, Index dim, A alpha, const A* a, Index a_stride, const A* packed, A* c,
                Index c_stride),
               (m, panels, dim, alpha, a, a_stride, packed, c, c_stride))
BEARING_KERNEL(void, add_by_column,
               (Index rows, Index cols, const Band& band, const std::int32_t* column, Index first, const A* u,
                Index u_stride, A* s, Index stride),
               (rows, cols, band, column, first, u, u_stride, s, stride))
BEARING_KERNEL(void, add_by_key_column,
               (Index rows, Index cols, const Band& band, const std::int32_t* column, Index first, const A* w,
                Index w_stride, A* s, Index stride, A* room),
               (rows, cols, band, column, first, w, w_stride, s, stride, room))
BEARING_KERNEL(void, multiply_nn,
               (Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* b, Index b_stride, A* a,
                Index a_stride),
               (m, n, dim, alpha, c, c_stride, b, b_stride, a, a_stride))
BEARING_KERNEL(void, add_multiply_nn,
               (Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* b, Index b_stride, A* a,
                Index a_stride),
               (m, n, dim, alpha, c, c_stride, b, b_stride, a, a_stride))
BEARING_KERNEL(void, add_multiply_tn,
               (Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* a, Index a_stride, A* b,
                Index b_stride),
               (m, n, dim, alpha, c, c_stride, a, a_stride, b, b_stride))

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

#define BEARING_INSTANTIATE(A) template void scatter_key_band<A>(Index, Index, const Band&, const A*, Index, A*, Index);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

}  // namespace bearing::tiles
#endif
