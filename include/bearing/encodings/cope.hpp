#pragma once

#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>

// CoPE, contextual position encoding (Golovneva, Wang, Weston, Sukhbaatar 2024, arXiv 2405.18719): a position does not
// count all tokens, but only those that matter to the query (words, sentences, …). For a query at m,
//
//     g_it = σ(gate_scale · q_i·k_t)                       how much key t counts, for keys at n_t ≤ m
//     p_ij = min(Σ_{t ≥ j, n_t ≤ m} g_it, max_pos − 1)     the key's position: all that counts from it to the query
//     s_ij ← s_ij + (1 − w)·z_i[f] + w·z_i[f + 1]          f = ⌊p_ij⌋, w = p_ij − f, z_i = score_scale · q_i·E
//
// E [max_pos, dim] are learned embeddings of whole positions. Keys after the query (n > m) count nothing and get 0:
// they are meant to be masked. attention() closes the gates of all keys that it hides from a query, by whatever mask:
// they count no more than if they were not there. add_scores() has no mask except the causal one.
//
// The paper's equations leave all scales out; its code (appendix B) takes the gates from q·k after the softmax scale,
// and adds z without it. That is the default here. The code also lets every mask close gates, as attention() does here.

namespace bearing {

enum class CopeScale {
  softmax,  ///< the softmax scale, ScoreInputs::scale
  one,
};

struct Cope {
  Index max_pos = 0;  ///< rows of E; positions are capped at max_pos − 1
  CopeScale gate_scale = CopeScale::softmax;
  CopeScale score_scale = CopeScale::one;

  bool operator==(const Cope&) const = default;
};

/// `embeddings`: E [heads, max_pos, dim], or [1, max_pos, dim] for all heads alike (the authors' code), features side
/// by side. Looks at q and k. Keys stand in order of their positions: k_positions may repeat a position, not fall.
///
///     d_p_ij = d_s_ij · (z_i[f + 1] − z_i[f])     0 where p_ij is capped     d_E += d_z_i · q_i
///     d_g_it = Σ_{j ≤ t} d_p_ij                   into q_i and k_t through the sigmoid
///
/// At a whole p_ij, where the score has a kink, the slope is the one to the right. Throws ShapeError for embeddings
/// that do not fit the spec, RangeError for max_pos < 1, and when it is used for keys that fall.
template <class A>
class BEARING_EXPORT CopeTerm {
 public:
  using Arithmetic = A;
  static constexpr bool whole_rows = true;

  CopeTerm(const Cope& cope, Param<A, 3> embeddings);

  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  auto grad_block(Index, Index head) const { return ParamBlock(slice(embeddings_.grad, 0, head)); }
  void borrows(MemoryList& to) const { to.param("Cope.embeddings", embeddings_); }
  /// Gates and slopes of every score, z and its gradient.
  Index scratch_size(Index rows, Index cols) const { return 2 * rows * (cols + cope_.max_pos); }

 private:
  struct Work;
  Work work(const Tile<A>& tile) const;
  Index table(Index head) const { return embeddings_.value.shape[0] == 1 ? 0 : head; }

  Cope cope_;
  Param<A, 3> embeddings_;
};

}  // namespace bearing
