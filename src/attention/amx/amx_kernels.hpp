#pragma once

#include <bearing/half.hpp>
#include <bearing/view.hpp>
#include <optional>

// Softmax attention of bfloat16 on matrix tiles (AMX): products of 32 × 32 scores at a time, sums in float. Weights are
// rounded to bfloat16 for their product with the values, which is divided by the sum of what was rounded: they sum to
// one. The logarithm of the weights wants their sum as it was before.
//
// A row's numbers depend on its own scores alone: blocks of columns lie on one grid, and what is hidden adds zeros.
// Numbers below the normal range count as zero, as the instructions have it.

namespace bearing::attend::amx {

/// Rows that are worked on at once; q, out and what is kept of each row have room for whole strips.
inline constexpr Index strip_rows = 32;
/// Columns between two updates of a row's maximum.
inline constexpr Index block_cols = 128;

/// Whether the tiles can serve: dims in whole tiles, a scale that keeps the order of scores.
bool usable(Index dim, Index value_dim, float scale);

/// Columns or rows in whole tiles.
constexpr Index padded(Index n) { return (n + 31) / 32 * 32; }

/// Where packed keys and values of column j start; j is a multiple of 32. padded(columns) · dim numbers in all.
constexpr Index packed_at(Index j, Index dim) { return j * dim; }

/// packed [⌈cols / 16⌉, dim / 32, 16, 16, 2]: 16 columns, 32 features, pairs of features side by side; zeros where
/// there is no column. T: Bfloat16, or float, which is rounded.
template <class T>
void pack_keys(Index cols, Index dim, const T* rows, Index stride, Bfloat16* packed);

/// packed [⌈cols / 32⌉, dim / 16, 16, 16, 2]: 32 columns, 16 features, columns j and j + 16 side by side, as weights
/// are.
template <class T>
void pack_values(Index cols, Index dim, const T* rows, Index stride, Bfloat16* packed);

/// packed [padded(rows), dim]
template <class T>
void pack_queries(Index rows, Index dim, const T* q, Index stride, Bfloat16* packed);

/// Queries of one head against columns [first, end), and what their rows remember of the columns before.
struct Block {
  Index rows = 0;
  Index first = 0, end = 0;
  Index dim = 0, value_dim = 0;
  const Bfloat16 *q = nullptr, *keys = nullptr, *values = nullptr;  ///< packed, keys and values from column 0 on
  const Index *row_first = nullptr, *row_end = nullptr;             ///< [rows] the columns that each row sees
  float scale = 1;                                                  ///< positive, log2(e) in it
  const float* bias =
      nullptr;  ///< null, or row i takes bias[j − i] for column j; log2(e) in it; a NaN is the quiet one
  /// [padded(rows)] −∞ and 0 before the first columns. max: a whole number not below the row's scores, in units of
  /// log2, so that a change rescales by a power of two exactly.
  float *max = nullptr, *sum = nullptr;
  float* rounded_sum = nullptr;  ///< [padded(rows)] of the weights as bfloat16, 0 before the first columns
  float* out = nullptr;          ///< [padded(rows), value_dim] 0 before the first columns; not divided by rounded_sum
  float* scratch = nullptr;      ///< [scratch_size]
};

inline constexpr Index scores_stride = block_cols + 16;  ///< no power of two: rows fall into different cache sets
inline constexpr Index scratch_size = 2 * strip_rows * scores_stride;

using Kernel = void (*)(const Block&);

/// Tiles and vectors of the machine: where simd::has_amx_bf16().
void attend_block(const Block& block);
/// Tiles in plain loops, with the instructions' own arithmetic; vectors in plain loops too, or of AVX-512 where
/// simd::has_avx512_bf16(). For tests: same bits, slowly.
void attend_block_emulated(const Block& block);
void attend_block_emulated_avx512(const Block& block);

/// The kernel for this call, null where there is none. Forced: a test's choice, until it is taken back.
Kernel kernel();
void force_kernel(std::optional<Kernel> forced);

}  // namespace bearing::attend::amx
