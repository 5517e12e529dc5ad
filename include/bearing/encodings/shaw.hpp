#pragma once

#include <bearing/export.hpp>
#include <bearing/rows_by_index.hpp>

// Relative position representations (Shaw, Uszkoreit, Vaswani 2018, arXiv 1803.02155, equations 3 and 4): a learned
// vector for each distance is added to the key, another to the value, after their projections,
//
//     s_ij ← s_ij + scale · q_i · K[ρ]      o_i ← o_i + Σ_j p_ij V[ρ]      ρ = clip(n − m, −clip, clip) + clip
//
// The distance is key minus query, as in the paper and in tensor2tensor: row 0 is for keys `clip` or more before the
// query, row clip for a key at the query's place, row 2·clip for keys `clip` or more after it. In the paper all heads
// share the tables. BERT's `relative_key`, which counts the other way, is in bert_relative.hpp.
//
// VITS has the same tables, but no vectors outside the window: ShawOutside::zero.

namespace bearing {

/// What is added for distances beyond ±clip.
enum class ShawOutside {
  clip,  ///< the first or the last row, as in the paper
  zero,  ///< nothing, as in VITS
};

struct Shaw {
  Index clip = 16;  ///< the paper's k; VITS's window_size
  ShawOutside outside = ShawOutside::clip;

  /// Rows of a table, 2·clip + 1. Throws RangeError for a clip below 0 or past 2^31.
  BEARING_EXPORT Index rows() const;
  /// The row of a distance, key minus query; −1 outside the window with ShawOutside::zero. Throws as rows().
  BEARING_EXPORT Index row(Index distance) const;
  bool operator==(const Shaw&) const = default;
};

/// Shaw's two sites. Tables are [2·clip + 1, dim], shared by all heads, or [heads, 2·clip + 1, dim] (an extent of 1:
/// shared); dim is q's for keys, v's for values; a row's features lie side by side. Either table may be left out.
///
/// Positions must be whole numbers, in any order. A tile multiplies its queries with the vectors of the distances that
/// occur in it, and gathers: there is no array over queries, keys and features.
///
///     ∂K[ρ] = scale · Σ dS_ij q_i      ∂V[ρ] = Σ p_ij dO_i      ∂q_i = scale · Σ dS_ij K[ρ]      ∂p_ij = dO_i · V[ρ]
///
/// Throws RangeError for clip < 0, ShapeError for tables of other extents; a call throws ShapeError for other heads or
/// another dim, and RangeError for positions that are not whole.
template <class A>
class BEARING_EXPORT ShawTerm {
 public:
  using Arithmetic = A;

  ShawTerm(const Shaw& shaw, Param<A, 2> key, Param<A, 2> value = {});
  ShawTerm(const Shaw& shaw, Param<A, 3> key, Param<A, 3> value = {});

  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  void add_values(const Tile<A>& tile, const A* p, Index value_dim, A* o, Index o_stride) const;
  void add_value_grads(const Tile<A>& tile, const A* p, Index value_dim, const A* d_o, Index d_o_stride, A* d_p,
                       const TileGrads<A>& grads) const;
  auto grad_block(Index, Index head) const {
    return ParamBlock(slice(key_.grad, 0, head), slice(value_.grad, 0, head));
  }
  /// What the terms are, of scores and of values.
  const RowsByIndexList<A>& rows_by_index() const { return scores_; }
  const RowsByIndexList<A>& values_by_index() const { return values_; }
  void borrows(MemoryList& to) const { to.param("Shaw.key", key_), to.param("Shaw.value", value_); }
  Index scratch_size(Index rows, Index cols) const;

 private:
  Shaw shaw_;
  Param<A, 3> key_, value_;
  RowsByIndexList<A> scores_, values_;
};

}  // namespace bearing
