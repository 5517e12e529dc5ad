#pragma once

#include <bearing/view.hpp>

// What softmax attention is made of, one kernel per instruction set. A: float or double.
//
// Keys are packed into panels of panel_width() columns: packed[panel][feature][column], zeros where there is no key, so
// that a product reads whole vectors. Rows are worked on in strips of a few, whose scores stay in the nearest cache:
// scores() of a strip, then weigh(), then accumulate().
//
// A row's numbers depend on its own scores alone, so that results have the same bits however rows are cut into strips;
// panels and the order of a row's keys are fixed. Products are fused where the machine can: instruction sets agree to
// rounding.

namespace bearing::attend {

/// Weights, probabilities and shares below 2^least_exponent, or √2 times that, count as 0: half of the exponents that a
/// normal number can have. Nothing is lost: of 2^31 keys, together less than 2^-33 of the largest value, where float
/// has a unit of 2^-24 (double: 2^-481). And no sum is denormal, which would cost 150 times another on some machines: a
/// weight that is kept is a multiple of 2^(-64 - 23); values that are multiples of 2^-39, as all from 2^-16 on are,
/// make products and sums that are multiples of 2^-126: 0, or normal. (double: 2^(-512 - 52) and 2^-458.) Of smaller
/// values such a sum takes 2^46 products that cancel.
template <class A>
inline constexpr int least_exponent = sizeof(A) == sizeof(float) ? -64 : -512;

/// Columns of a panel: a power of two, at most 64.
template <class A>
Index panel_width();

/// Rows of a strip: a multiple of the rows that a product holds in registers.
template <class A>
Index strip_rows();

/// packed [⌈cols / width⌉, dim, width] ← rows [cols, dim]
template <class A>
void pack(Index cols, Index dim, const A* rows, Index stride, A* packed);

/// s[i][j] = alpha · q_i·k_j for j in [first, end), which starts on a panel; s has room for whole panels. An alpha of
/// 1 costs nothing.
template <class A>
void scores(Index rows, Index first, Index end, Index dim, A alpha, const A* q, Index q_stride, const A* packed, A* s,
            Index stride);

/// s ← cap · tanh(s / cap) for columns [first, end), and for the rest of the last panel.
template <class A>
void cap(Index rows, Index first, Index end, A cap, A* s, Index stride);

/// A strip of scores, and what its rows remember of the keys before. A weight is 2^(log2_scale · (s + bias − max)):
/// max is counted in the units of s and bias, the natural logarithm of a row's sum is ln 2 · log2_scale · max + ln sum.
template <class A>
struct Strip {
  Index rows = 0;
  Index first = 0, end = 0;                              ///< columns of s that hold scores; first starts a panel
  const Index *row_first = nullptr, *row_end = nullptr;  ///< [rows] the columns that each row sees, within these
  A* s = nullptr;
  Index stride = 0;
  A log2_scale = 1;         ///< > 2^-100: log2(e), times what alpha left out
  const A* bias = nullptr;  ///< null, or row i takes bias[j − i] for column j; finite or −∞ in all of a seen panel
  A *max = nullptr, *sum = nullptr;  ///< [rows] −∞ and 0 before the first keys
  A* rescale = nullptr;              ///< [rows] out: 2^(log2_scale · (old max − new max)), 1 where nothing changed
};

/// s ← weights, 0 in hidden columns, for [first, end) and the rest of the last panel; max, sum and rescale follow.
/// Those below least_exponent are 0.
template <class A>
void weigh(const Strip<A>& strip);

/// Values, feature by feature in panels of panel_width(), or fewer in the last. Whole rows are panels side by side.
template <class A>
struct Values {
  const A* data;
  Index row;           ///< that of column 0
  Index stride, rest;  ///< from row to row of a panel, and of the last, if it is narrower
  Index panel;         ///< from panel to panel
};

/// out_i ← rescale_i · out_i + Σ_j p_ij v_j, j in [first, end), for rows of value_dim numbers.
template <class A>
void accumulate(Index rows, Index first, Index end, Index value_dim, const A* p, Index stride, const A* rescale,
                const Values<A>& v, A* out, Index out_stride);

}  // namespace bearing::attend
