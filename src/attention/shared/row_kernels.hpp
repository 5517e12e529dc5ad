#pragma once

#include <bearing/half.hpp>
#include <bearing/view.hpp>

// What every kind of attention does to single rows, one kernel per instruction set. A: float or double.

namespace bearing::attend {

/// out_i = a_i · b_i, rows of dim numbers. Instruction sets agree to rounding.
template <class A>
void row_products(Index rows, Index dim, const A* a, Index a_stride, const A* b, Index b_stride, A* out);

/// s_j = −∞ where seen_j is 0.
template <class A>
void hide(Index n, const char* seen, A* s);

/// x_d /= divisor, rounded as a division is: every instruction set finds the same.
template <class A>
void divide(Index n, A divisor, A* x);

/// Numbers side by side, exactly.
void widen(Index n, const Float16* from, float* to);
void widen(Index n, const Bfloat16* from, float* to);
/// … rounded to nearest even
void narrow(Index n, const float* from, Float16* to);
void narrow(Index n, const float* from, Bfloat16* to);

}  // namespace bearing::attend
