#pragma once

#include <algorithm>
#include <bearing/view.hpp>
#include <cstdint>

// What scores and values of every encoding are made of, one kernel per instruction set. A tile has `rows` rows of
// `cols` scores, `stride` apart; its rows + cols − 1 diagonals are numbered by j − i + rows − 1. A: float or double.
//
// Sums of two numbers have the same bits on every instruction set. Products (multiply_*) are fused where the machine
// can, and they and scatter_band may be summed over lanes: instruction sets agree to rounding, calls to the bit.

namespace bearing::tiles {

/// s[i][j] += diagonals[j − i + rows − 1]
template <class A>
void add_toeplitz(Index rows, Index cols, const A* diagonals, A* s, Index stride);

/// s[i][j] += matrix[i][j], rows of which lie matrix_stride apart. Unless `ahead` is 0, what lies so many numbers
/// after each of them is asked for: it may lie behind the matrix.
template <class A>
void add_matrix(Index rows, Index cols, const A* matrix, Index matrix_stride, Index ahead, A* s, Index stride);

/// s[i][j] = diagonals[j − i + rows − 1], past the caches if `stream`.
template <class A>
void put_toeplitz(Index rows, Index cols, const A* diagonals, A* s, Index stride, bool stream);

/// diagonals[j − i + rows − 1] += s[i][j]: the transpose of add_toeplitz
template <class A>
void sum_diagonals(Index rows, Index cols, const A* s, Index stride, A* diagonals);

/// Which column of a band of products each diagonal of a tile takes: column(x) for diagonal x; those before `begin` and
/// from `end` on take none. What is gathered by distance, where distances beyond the table's ends count as its ends.
struct Band {
  Index low, width, end, begin = 0;

  Index column(Index diagonal) const { return std::clamp<Index>(diagonal - low, 0, width - 1); }
};

/// The columns j of row i in three parts: [begin, rise) have the first column of the band, [rise, fall) one each from
/// `first` on, [fall, end) the last.
struct BandRow {
  Index begin, rise, fall, end, first;
};
inline BandRow band_row(Index rows, Index cols, const Band& band, Index i) {
  const Index diagonal = rows - 1 - i;
  const auto within = [](Index x, Index low, Index high) { return std::max(low, std::min(x, high)); };
  const Index end = within(band.end - diagonal, 0, cols);
  const Index begin = within(band.begin - diagonal, 0, end);
  const Index rise = within(band.low - diagonal, begin, end);
  return {begin, rise, within(band.low + band.width - diagonal, rise, end), end, diagonal + rise - band.low};
}

/// s[i][j] += u[i·u_stride + column(j − i + rows − 1)]: u holds products of queries
template <class A>
void add_band(Index rows, Index cols, const Band& band, const A* u, Index u_stride, A* s, Index stride);

/// d_u[i·u_stride + column(j − i + rows − 1)] += d_s[i][j]: the transpose of add_band
template <class A>
void scatter_band(Index rows, Index cols, const Band& band, const A* d_s, Index stride, A* d_u, Index u_stride);

/// s[i][j] += w[j·w_stride + column(j − i + rows − 1)]: w holds products of keys
template <class A>
void add_key_band(Index rows, Index cols, const Band& band, const A* w, Index w_stride, A* s, Index stride);

/// d_w[j·w_stride + column(j − i + rows − 1)] += d_s[i][j]: the transpose of add_key_band
template <class A>
void scatter_key_band(Index rows, Index cols, const Band& band, const A* d_s, Index stride, A* d_w, Index w_stride);

/// c [m, n] = alpha · a [m, dim] · b [n, dim]ᵀ
template <class A>
void multiply_nt(Index m, Index n, Index dim, A alpha, const A* a, Index a_stride, const A* b, Index b_stride, A* c,
                 Index c_stride);

/// Columns of a panel: of rows that are packed for products.
template <class A>
Index panel_width();

/// Rows of b as columns of whole panels [n rounded up / panel_width][dim][panel_width], the last filled up with zeros.
template <class A>
void pack(Index n, Index dim, const A* b, Index b_stride, A* packed);

/// c [m, panels · panel_width] = alpha · a [m, dim] · the packed rows
template <class A>
void multiply_packed(Index m, Index panels, Index dim, A alpha, const A* a, Index a_stride, const A* packed, A* c,
                     Index c_stride);

/// s[i][j] += u[i·u_stride + column[j − i + rows − 1] − first], for diagonals from band.begin to band.end: u holds
/// products of queries. Columns never fall. Behind u is room for a vector.
template <class A>
void add_by_column(Index rows, Index cols, const Band& band, const std::int32_t* column, Index first, const A* u,
                   Index u_stride, A* s, Index stride);

/// s[i][j] += w[j·w_stride + column[i − j + cols − 1] − first], for diagonals as above: w holds products of keys, and
/// columns are in falling order of the diagonals. room: [2, rows, cols].
template <class A>
void add_by_key_column(Index rows, Index cols, const Band& band, const std::int32_t* column, Index first, const A* w,
                       Index w_stride, A* s, Index stride, A* room);

/// a [m, dim] = alpha · c [m, n] · b [n, dim]
template <class A>
void multiply_nn(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* b, Index b_stride, A* a,
                 Index a_stride);

/// a [m, dim] += alpha · c [m, n] · b [n, dim]
template <class A>
void add_multiply_nn(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* b, Index b_stride, A* a,
                     Index a_stride);

/// b [n, dim] += alpha · c [m, n]ᵀ · a [m, dim]
template <class A>
void add_multiply_tn(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* a, Index a_stride, A* b,
                     Index b_stride);

}  // namespace bearing::tiles
