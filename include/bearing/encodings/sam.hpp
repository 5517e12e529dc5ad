#pragma once

#include <bearing/export.hpp>
#include <bearing/rows_by_index.hpp>

// Decomposed relative position embeddings (MViTv2: Li et al. 2022, arXiv 2112.01526, §4.1; used by ViTDet and Segment
// Anything): the vector of a displacement is one for its height plus one for its width; the query is multiplied with
// it,
//
//     s_ij ← s_ij + q_i · (R_h[y_i − y_j] + R_w[x_i − x_j])
//
// with tables R_h [2·height − 1, dim], R_w [2·width − 1, dim], which all heads share; row 0 is for −(height − 1), query
// minus key. The product is *not* multiplied by the softmax scale, as in the authors' code. Positions have two axes,
// (y, x), from 0. Tables of another size must be resized before, linearly along their rows: resize().

namespace bearing {

struct Sam {
  Index height = 0, width = 0;  ///< of the map that attention sees, in patches (a window's, in windowed layers)
  bool operator==(const Sam&) const = default;
};

/// The term with its two tables and their gradients. Throws ShapeError for tables of another shape than
/// [2·height − 1, dim] and [2·width − 1, dim] or positions without two axes; RangeError for a position outside the map.
template <class A>
class BEARING_EXPORT SamTerm {
 public:
  using Arithmetic = A;

  SamTerm(const Sam& spec, Param<A, 2> height_table, Param<A, 2> width_table);

  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  Index scratch_size(Index rows, Index cols) const;
  auto grad_block(Index, Index) const { return ParamBlock(height_.grad, width_.grad); }
  /// What the term is.
  const RowsByIndexList<A>& rows_by_index() const { return terms_; }
  void borrows(MemoryList& to) const { to.param("Sam.height_table", height_), to.param("Sam.width_table", width_); }

 private:
  Sam spec_;
  Param<A, 2> height_, width_;
  RowsByIndexList<A> terms_;
};

}  // namespace bearing
