#pragma once

#include <bearing/view.hpp>

// The exponential of a matrix and its derivative, in double, by scaling and squaring. Matrices are [n, n], row by row.

namespace bearing {

/// exp(M) − I for M's norm up to about 2^50. Overwrites m with M over a power of two; `work` is [n²].
///
/// The identity is kept apart, F = exp − I, so that squaring (F ← 2F + F²) does not lose what rounding of numbers near
/// 1 would: the error stays at a few 2^-53 times M's norm, which is also what rounding M itself costs.
void exp_minus_identity(Index n, double* m, double* f, double* work);

/// The same, and the Fréchet derivative l of exp at M in the direction D: exp(M + tD) = exp(M) + t·l + …; d is
/// overwritten too. `work` is [2n²].
void exp_minus_identity(Index n, double* m, double* d, double* f, double* l, double* work);

/// out = inverse of a, by elimination with row pivots; a is overwritten. It must not be singular.
void invert(Index n, double* a, double* out);

}  // namespace bearing
