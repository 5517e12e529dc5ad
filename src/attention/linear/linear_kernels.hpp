#pragma once

#include <bearing/linear_attention.hpp>

// What linear attention alone does to single rows, one kernel per instruction set; its products are those of
// tile_kernels.hpp. A: float or double. Calls with the same numbers have the same bits; instruction sets agree to
// rounding.

namespace bearing::linear {

/// f = φ(x). What would be below twice the least normal number is 0: denormal numbers would cost a hundred times their
/// products.
template <class A>
void features(FeatureMap map, Index n, const A* x, A* f);

/// d_x = d_f · φ'(x), which f = φ(x) tells: min(f, 1) of elu(x) + 1.
template <class A>
void feature_grads(FeatureMap map, Index n, const A* f, const A* d_f, A* d_x);

/// sum += each of the rows [rows, dim] in turn
template <class A>
void add_rows(Index rows, Index dim, const A* x, A* sum);

/// to_i = base + sum, after sum += the rows of x below ends[i]; x starts at row `next`, and ends never fall.
template <class A>
void running_sums(Index rows, Index dim, Index next, const Index* ends, const A* x, const A* base, A* sum, A* to);

/// x_i *= factor_i of rows of dim numbers; a factor of 0 makes zeros, even of infinities.
template <class A>
void scale_rows(Index rows, Index dim, const A* factors, A* x, Index stride);

/// y += factor · x
template <class A>
void add_scaled(Index n, A factor, const A* x, A* y);

}  // namespace bearing::linear
