#pragma once

#include <algorithm>
#include <bearing/half.hpp>
#include <bearing/view.hpp>
#include <optional>

// Softmax attention on matrix tiles (AMX), which multiply numbers of bfloat16: products of 32 × 32 scores at a time,
// sums in float.
//
// Numbers of bfloat16 are one piece. Weights are rounded to bfloat16 for their product with the values, which is
// divided by the sum of what was rounded: they sum to one. The logarithm of the weights wants their sum as it was
// before. Floats are three pieces (amx_pieces-inl.hpp), and so are their weights: nothing is rounded to bfloat16.
//
// The backward has its five products on tiles too, with probabilities and gradients of scores as bfloat16, or in
// pieces.
//
// A row's numbers depend on its own scores alone: blocks of columns lie on one grid, and what is hidden adds zeros.
// Numbers below the normal range count as zero, as the instructions have it.

namespace bearing::attend::amx {

/// A float is the sum of so many numbers of bfloat16, to the bit.
inline constexpr int float_pieces = 3;
/// Rows that are worked on at once; q, out and what is kept of each row have room for whole strips.
inline constexpr Index strip_rows = 32;
/// Numbers of bfloat16 in a tile.
inline constexpr Index tile_size = 16 * 32;
/// Columns between two updates of a row's maximum, for numbers of so many pieces.
constexpr Index block_cols(int pieces) { return pieces == 1 ? 128 : 64; }

/// Whether the tiles can serve: dims in whole tiles, a scale that keeps the order of scores.
bool usable(Index dim, Index value_dim, float scale);

/// Columns or rows in whole tiles.
constexpr Index padded(Index n) { return (n + 31) / 32 * 32; }

/// Where packed keys and values of column j start; j is a multiple of 32. padded(columns) · dim numbers in all, of one
/// piece.
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

/// Rows of float that are to be pieces.
struct Splitting {
  Index rows = 0, dim = 0;
  const float* from = nullptr;
  Index stride = 0;
  Bfloat16* to = nullptr;
};

/// From here on a unit in the last place of a logit is worth much.
inline constexpr float large_logit = 0x1p20f;

/// What is added to scores.
struct Bias {
  /// none; numbers by j − i, as in_log2() has them; or logits, of any matrix or by j − i.
  enum class By { none, distance, element } by = By::none;
  const float* from = nullptr;  ///< column j of row i takes from[i · stride + j]
  Index stride = -1;
};

/// A logit or a bias in units of log2. What is finite stays finite, as the largest float then; a NaN is the quiet one.
float in_log2(float logit);

/// Queries of one head against columns [first, end), and what their rows remember of the columns before.
struct Block {
  int pieces = 1;  ///< of each number of q, keys, values and weights: 1 or float_pieces
  Index rows = 0;
  Index first = 0, end = 0;
  Index dim = 0, value_dim = 0;
  const Bfloat16 *q = nullptr, *keys = nullptr, *values = nullptr;  ///< packed, keys and values from column 0 on
  const Index *row_first = nullptr, *row_end = nullptr;             ///< [rows] the columns that each row sees
  float scale = 1;  ///< positive; log2(e) in it, unless a matrix is added
  float cap = 0;    ///< > 0: x ← cap · tanh(x / cap), before the scale
  Bias bias = {};
  /// null, or row i sees those of its columns j where seen[i · seen_stride + j] is not 0
  const char* seen = nullptr;
  Index seen_stride = 0;
  /// [padded(rows)] −∞ and 0 before the first columns. max: a whole number not below the row's scores, in units of
  /// log2, so that a change rescales by a power of two exactly; where a matrix is added, the row's largest logit.
  float *max = nullptr, *sum = nullptr;
  float* rounded_sum = nullptr;  ///< [padded(rows)] of the weights as bfloat16, 0 before the first columns; one piece
  float* out = nullptr;          ///< [padded(rows), value_dim] 0 before the first columns; not divided by the sum
  float* scratch = nullptr;      ///< [scratch_size]
};

/// From 32 scores of a row to the next 32; all pieces of their weights fit there.
constexpr Index scores_step(int pieces) { return pieces > 2 ? 16 * pieces : 32; }
/// No power of two: rows fall into different cache sets.
constexpr Index scores_stride(int pieces) { return block_cols(pieces) / 32 * scores_step(pieces) + 16; }
inline constexpr Index scratch_size = 2 * strip_rows * std::max(scores_stride(1), scores_stride(float_pieces));

/// c [rows, cols] (+)= a [rows, depth] · b [depth, cols], each of them a multiple of 32. Strides count numbers,
/// whatever their pieces.
struct TileProduct {
  int pieces = 1;
  Index rows = 0, cols = 0, depth = 0;
  const Bfloat16* a = nullptr;
  Index a_stride = 0;
  const Bfloat16* b = nullptr;      ///< tiles of 16 pairs in depth × 16 columns
  Index b_column = 0, b_depth = 0;  ///< from tile to tile
  float* c = nullptr;
  Index c_stride = 0;
  bool add = false;
};

/// scale · from [rows, cols] as bfloat16: rounded to the nearest, or in pieces; zeros from there to whole tiles.
struct Narrowing {
  int pieces = 1;
  Index rows = 0, cols = 0;  ///< cols: a multiple of 32
  const float* from = nullptr;
  Index stride = 0;
  float scale = 1;
  Bfloat16* by_row = nullptr;   ///< null, or [padded(rows), cols]: columns j and j + 16 of 32 side by side
  Bfloat16* by_pair = nullptr;  ///< [padded(rows) / 32, cols / 16, 16, 16, 2]: rows i and i + 16 of 32 side by side
};

struct Kernels {
  void (*attend)(const Block&);
  /// to: as pack_queries, pack_keys and pack_values have it, piece after piece
  void (*split_queries)(const Splitting&);
  void (*split_keys)(const Splitting&);
  void (*split_values)(const Splitting&);
  /// to [dim, padded(rows) / 32, pieces, 16, 2]: rows i and i + 16 of 32 side by side
  void (*split_turned)(const Splitting&);
  void (*multiply)(const TileProduct&);
  void (*narrow)(const Narrowing&);
  /// x [rows, cols] ← factor · x, cols a multiple of 16
  void (*scale)(Index rows, Index cols, float factor, float* x, Index stride);
};

/// Tiles and vectors of the machine: where simd::has_amx_bf16().
extern const Kernels machine;
/// Tiles in plain loops, with the instructions' own arithmetic; vectors in plain loops too, or of AVX-512 where
/// simd::has_avx512_bf16(). For tests: same bits, slowly.
extern const Kernels emulated, emulated_avx512;

/// Those for this call, null where there are none. Forced: a test's choice, until it is taken back.
const Kernels* kernels();
void force_kernels(std::optional<const Kernels*> forced);

}  // namespace bearing::attend::amx
