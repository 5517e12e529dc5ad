#pragma once

#include <bearing/attention.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/amx/amx_kernels.hpp"
#include "attention/shared/extents.hpp"
#include "attention/softmax/softmax_forward.hpp"
#include "terms/score_call.hpp"

// What a call of the backward is given, and how it is cut.

namespace bearing {

/// Rows whose |lse| is above this are anchored. Rounding it moves their probabilities by 2^-12 and more, in double by
/// 2^-33; ordinary logits and biases by distance do not come near.
template <class A>
inline constexpr A largest_lse = sizeof(A) == sizeof(float) ? A{0x1p12} : A{0x1p20};

/// Whether a row is anchored: one that a finite mask, say −1e9, hides whole.
template <class A>
bool is_anchored(A lse) {
  return std::abs(lse) > largest_lse<A> && std::abs(lse) <= std::numeric_limits<A>::max();
}

/// What takes the place of a row's lse: P = 2^(log2(e) · (S − origin) − log2_sum).
template <class A>
struct Anchor {
  A origin, log2_sum;  ///< origin in the units that scores have before they are weighed
  A sink;              ///< the sink's probability
};

/// What the forward left and what came back, of any type of numbers.
template <class A>
struct BackwardResults {
  HeadRows<A> out, d_out;
  View<const A, 3> lse, d_lse;
};
template <class A>
struct BackwardGrads {
  ResultRows<A> d_q, d_k, d_v;
};

/// What all workers of a call share.
template <class A>
struct BackwardPlan {
  /// Throws std::bad_alloc.
  BackwardPlan(const AttentionCall<A>& call, const BackwardResults<A>& from, const BackwardGrads<A>& to);

  BackwardResults<A> results;
  BackwardGrads<A> grads;
  AttentionPlan<A> scores;
  Index rows;                   ///< queries of a block
  Index slab;                   ///< rows whose scores are at hand at once
  Index cols;                   ///< keys of a block: whole panels and whole runs of rows that are turned at once
  Index tile_cols;              ///< keys that a slab meets at once: a block, or all
  bool on_tiles = false;        ///< the products are those of AmxGrads
  bool want_q, want_k, want_v;  ///< which gradients of rows must be computed, for the caller or for parameters
  bool score_params, q_params, k_params;  ///< parameters of terms, and of row encodings, want gradients
  /// Of terms; of row encodings, by what turns: queries [batch, heads], keys [batch, kv_heads].
  ParamBlocks<A> term_blocks, q_blocks, k_blocks;
  std::vector<double> d_sinks;     ///< [batch, heads, blocks of queries]; empty: not wanted
  std::vector<Anchor<A>> anchors;  ///< [batch, heads, q_len]; empty where no row is anchored

  /// n rows or columns; in whole tiles, where tiles are used.
  Index whole(Index n) const { return on_tiles ? attend::amx::padded(n) : n; }
  Index row_blocks() const { return pieces(scores.call.problem.q_len, rows); }
  Index key_blocks() const { return pieces(scores.call.problem.k_len, cols); }
  bool query_side() const { return want_q || score_params || !d_sinks.empty(); }
  bool key_side() const { return want_k || want_v; }
  Anchor<A>& anchor(Index b, Index h, Index i) {
    const Problem& problem = scores.call.problem;
    return anchors[static_cast<std::size_t>((b * problem.heads + h) * problem.q_len + i)];
  }
  /// Adds the parameters' and sinks' gradients to the caller's, in one order.
  void collect();
};

}  // namespace bearing
