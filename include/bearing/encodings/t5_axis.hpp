#pragma once

#include <bearing/encodings/t5.hpp>

// T5's buckets on one axis of positions that have several, as in documents, whose tokens have a place in the text and a
// box on the page. Each axis has one such bias, and they add up:
//
//     s_ij ← s_ij + scale · table[bucket(⌊multiplier · (n_axis − m_axis)⌋), h]          ⌊ ⌋ cuts towards zero
//
// LayoutLMv2 and LayoutLMv3 (Xu et al. 2021, arXiv 2012.14740; Huang et al. 2022, arXiv 2204.08387): 32 buckets to 128
// for the index in the text, 64 to 256 for the left edge and 64 to 256 for the lower edge of the token's box, which are
// whole numbers from 0 to 1000, all bidirectional. LayoutLMv3 divides the sum by √head_dim, LayoutLMv2 does not. UDOP
// (Tang et al. 2023, arXiv 2212.02623): boxes from 0 to 1, the middle of their sides, differences times 100 in 32
// buckets to 100.

namespace bearing {

struct T5Axis {
  Index buckets = 32;
  Index max_distance = 128;
  Required<T5Direction> direction;
  Required<Index> axis;   ///< of the positions, 0 the first
  double multiplier = 1;  ///< of a difference of positions. UDOP: 100
  double scale = 1;       ///< of the table's numbers. LayoutLMv3: 1/√head_dim

  T5 t5() const { return {buckets, max_distance, direction}; }
  bool operator==(const T5Axis&) const = default;
};

/// A call throws ShapeError for positions that lack the axis, and for a table that does not have one row per bucket and
/// one column per head; RangeError for positions on the axis that are not whole, if the multiplier is 1.
template <class A>
class BEARING_EXPORT T5AxisBias {
 public:
  using Arithmetic = A;

  /// table [buckets, heads]; ∂s/∂table[u, h] = scale where the bucket is u. Errors as t5_thresholds(), ShapeError for
  /// an axis that positions cannot have, RangeError for a multiplier or scale that is not finite.
  T5AxisBias(const T5Axis& spec, Param<A, 2> table);

  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  Index param_size() const { return table_.grad.data == nullptr ? 0 : spec_.buckets; }
  void collect(Index batch, Index head, const A* d_params) const;
  void borrows(MemoryList& to) const { to.param("T5Axis.table", table_); }
  Index scratch_size(Index rows, Index cols) const { return 2 * (rows + cols); }

 private:
  T5Axis spec_;
  T5Buckets buckets_;
  Param<A, 2> table_;
};

}  // namespace bearing
