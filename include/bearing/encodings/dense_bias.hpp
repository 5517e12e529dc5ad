#pragma once

#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>

// A bias that is given as a matrix, computed elsewhere or learned entry by entry: s_ij ← s_ij + bias[b, h, i, j].

namespace bearing {

/// It goes by indices, not positions. An extent of 1 serves all sequences, heads, queries or keys. −inf is added as it
/// is, so that a bias may also be a mask. For its gradient a call keeps [q_len, k_len] numbers (1 where the bias has 1)
/// for each sequence and head.
template <class A>
class BEARING_EXPORT DenseBias {
 public:
  using Arithmetic = A;

  /// bias [batch or 1, heads or 1, q_len or 1, k_len or 1], any strides. Its gradient is that of the scores, summed
  /// over the scores that share an entry.
  explicit DenseBias(Param<A, 4> bias) : bias_(bias) {}

  /// Throws ShapeError for another shape, of the bias or its gradient.
  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  /// Strides are 0 along an axis of 1.
  View<const A, 2> matrix(Index batch, Index head) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  auto grad_block(Index batch, Index head) const { return ParamBlock(slice(slice(bias_.grad, 0, batch), 0, head)); }
  void borrows(MemoryList& to) const { to.param("DenseBias.bias", bias_); }

 private:
  Param<A, 4> bias_;
};

}  // namespace bearing
