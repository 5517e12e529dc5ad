#pragma once

#include <bearing/view.hpp>
#include <cstdint>

// What scores and values of every encoding are made of, one kernel per instruction set. A tile has `rows` rows of
// `cols` scores, `stride` apart; its rows + cols − 1 diagonals are numbered by j − i + rows − 1. A: float or double.
//
// Sums of two numbers have the same bits on every instruction set. Products (multiply_*) are fused where the machine
// can, and summed over lanes: they agree between instruction sets to rounding, and between calls to the bit.

namespace bearing::tiles {

/// s[i][j] += diagonals[j − i + rows − 1]
template <class A>
void add_toeplitz(Index rows, Index cols, const A* diagonals, A* s, Index stride);

/// s[i][j] = diagonals[j − i + rows − 1], past the caches if `stream`.
template <class A>
void put_toeplitz(Index rows, Index cols, const A* diagonals, A* s, Index stride, bool stream);

/// diagonals[j − i + rows − 1] += s[i][j]: the transpose of add_toeplitz
template <class A>
void sum_diagonals(Index rows, Index cols, const A* s, Index stride, A* diagonals);

/// s[i][j] += u[i·u_stride + column[j − i + rows − 1]]: a band of products, gathered by distance
template <class A>
void add_gathered(Index rows, Index cols, const A* u, Index u_stride, const std::int32_t* column, A* s, Index stride);

/// d_u[i·u_stride + column[j − i + rows − 1]] += d_s[i][j]: the transpose of add_gathered
template <class A>
void scatter(Index rows, Index cols, const A* d_s, Index stride, const std::int32_t* column, A* d_u, Index u_stride);

/// c [m, n] = alpha · a [m, dim] · b [n, dim]ᵀ
template <class A>
void multiply_nt(Index m, Index n, Index dim, A alpha, const A* a, Index a_stride, const A* b, Index b_stride, A* c,
                 Index c_stride);

/// a [m, dim] += alpha · c [m, n] · b [n, dim]
template <class A>
void add_multiply_nn(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* b, Index b_stride, A* a,
                     Index a_stride);

/// b [n, dim] += alpha · c [m, n]ᵀ · a [m, dim]
template <class A>
void add_multiply_tn(Index m, Index n, Index dim, A alpha, const A* c, Index c_stride, const A* a, Index a_stride, A* b,
                     Index b_stride);

}  // namespace bearing::tiles
