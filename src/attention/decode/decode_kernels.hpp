#pragma once

#include <bearing/half.hpp>
#include <bearing/view.hpp>

// Kernels of attention for a few rows of queries against keys and values where they lie in memory, each read once.
// 16-bit numbers are widened in registers. T: as stored; A = Compute<T>: float or double.
//
// Rows of the cache come as a first one and a stride. Pointers to each row would serve pages as well, but then a row's
// address waits for a load among others that wait for memory: that alone cost a third of the bandwidth.

namespace bearing::attend {

/// Rows of queries and of results fill whole vectors: their strides are padded to this, and the padding holds zeros.
template <class A>
constexpr Index padded(Index n) {
  constexpr Index numbers = 64 / static_cast<Index>(sizeof(A));
  return (n + numbers - 1) / numbers * numbers;
}

/// s[i][j] = alpha · q_i·k_j
template <class T>
void dots(Index rows, Index keys, Index dim, Compute<T> alpha, const Compute<T>* q, Index q_stride, const T* k,
          Index k_stride, Compute<T>* s, Index stride);

/// out_i += Σ_j p[i][j] · v_j, for rows of value_dim numbers, j rising.
template <class T>
void add_weighted(Index rows, Index keys, Index value_dim, const Compute<T>* p, Index stride, const T* v,
                  Index v_stride, Compute<T>* out, Index out_stride);

/// out ← ours · out + theirs · part, n numbers of each side by side, rounded once to T.
template <class T>
void blend(Index n, Compute<T> ours, T* out, Compute<T> theirs, const T* part);

}  // namespace bearing::attend
