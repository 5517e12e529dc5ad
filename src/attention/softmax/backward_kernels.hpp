#pragma once

#include <bearing/view.hpp>

// What the backward of softmax attention is made of beside the forward's kernels, one kernel per instruction set. A:
// float or double. A row's numbers depend on its own alone, and sums have one order, so that results have the same bits
// however rows and columns are cut into calls; instruction sets agree to rounding.

namespace bearing::attend {

/// Rows of scores that become probabilities, and of the probabilities' gradients, that become the scores'. In hidden
/// columns, from the panel of `first` to that of `end`, both become 0.
template <class A>
struct ScoreRows {
  Index rows = 0;
  Index first = 0, end = 0;                              ///< columns; those that rows see are among them
  const Index *row_first = nullptr, *row_end = nullptr;  ///< [rows] the columns that each row sees
  A *s = nullptr, *d_p = nullptr;
  Index stride = 0;
  A log2_scale = 1;           ///< > 2^-100: log2(e), times what the scores lack
  const A* bias = nullptr;    ///< null, or row i takes bias[j − i] for column j, all of a seen panel
  const A* origin = nullptr;  ///< null, or [rows] what is taken from scores first: 0, or no less than any that is seen
  const A* log2_sum = nullptr;  ///< [rows] log2(e) · lse, less what `origin` took; finite where a row sees anything
  const A* along = nullptr;     ///< [rows] d_o·o − d_lse
  A* d_bias = nullptr;  ///< null, or d_bias[j − i] += the gradient of column j of row i, for all of a seen panel
};

/// s ← 2^(log2_scale · (s + bias − origin) − log2_sum), 1 at most. Those below least_exponent are 0.
template <class A>
void probabilities(const ScoreRows<A>& rows);

/// d_p ← s · (d_p − along), s now the probabilities; 0 where these are 0, and where it would not be a normal number.
template <class A>
void score_grads(const ScoreRows<A>& rows);

/// out [rows, dim] += alpha · left [rows, terms] · right [terms, dim]
template <class A>
void add_product(Index rows, Index dim, Index terms, A alpha, const A* left, Index left_stride, const A* right,
                 Index right_stride, A* out, Index out_stride);

/// out [rows, dim] += alpha · left [terms, rows]ᵀ · right [terms, dim]
template <class A>
void add_transposed_product(Index rows, Index dim, Index terms, A alpha, const A* left, Index left_stride,
                            const A* right, Index right_stride, A* out, Index out_stride);

}  // namespace bearing::attend
