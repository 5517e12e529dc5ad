#pragma once

#include <bearing/view.hpp>

// How rows decay, one kernel per instruction set. Where a factor is 0 the result is 0, even of infinities, and so is
// one below twice the least normal number: what is left of a key would else be denormal for long, and cost a hundred
// times as much. A: float or double.

namespace bearing::linear {

/// y_i = factor_i · x_i, rows of dim numbers; y may be x.
template <class A>
void decay_rows(Index rows, Index dim, const A* factors, const A* x, A* y);

/// y = factors · x, number by number; y may be x.
template <class A>
void decay_numbers(Index n, const A* factors, const A* x, A* y);

}  // namespace bearing::linear
