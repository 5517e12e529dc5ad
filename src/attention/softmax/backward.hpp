#pragma once

#include "attention/softmax/backward_tiles.hpp"

// The backward of attention. Queries come in blocks, of which a slab of rows meets a block of keys at a time: scores
// and probabilities are computed again,
//
//     P = exp(S − lse)    dS = P ∘ (dO Vᵀ − D)    D_i = d_o_i·o_i − d_lse_i
//
// and dQ += c dS K, dK += c dSᵀ Q, dV += Pᵀ dO. Where lse is too large to hold the logarithm of a sum, the row's
// largest score and its sum are found again before, and take its place. Every gradient is summed over the same slabs
// and blocks in the same order, whether queries' and keys' gradients are computed together or apart, so that it has the
// same bits.
//
//     backward_plan     what a call is given, and how it is cut
//     backward_queries  a worker's block of queries: rows in, sums of d_q out
//     backward_keys     a worker's block of keys and values: rows in, sums of d_k and d_v out
//     backward_slab     a worker's room for scores, and sums along their diagonals
//     backward_tiles    what is computed of these
//     backward_anchors  rows whose lse is too large

namespace bearing {

/// One worker, and the backward of units of work by it. Where a sum of gradients has one order over a whole head, as
/// those of parameters have, the head is the unit.
template <class A>
class BackwardWork {
 public:
  /// Throws std::bad_alloc; nothing below does.
  BackwardWork(BackwardPlan<A>& plan, BackwardUnits units) : parts_(plan, units) {}

  /// Finds the anchors of a block of queries, where they are wanted. All come before any of what follows.
  void anchors(Index b, Index h, Index row);
  /// All gradients of a kv head, and of the queries that look at it.
  void head(Index b, Index kv_head);
  /// The gradients of all queries of a head, and of parameters.
  void queries(Index b, Index h);
  /// The gradients of one block of queries.
  void query_block(Index b, Index h, Index row);
  /// The gradients of all keys and values of a kv head.
  void keys(Index b, Index kv_head);
  /// The gradients of one block of keys and values, which starts at key `col`.
  void key_block(Index b, Index kv_head, Index col);

 private:
  void open_head(Index b, Index h, bool want_params);
  void block(Index b, Index h, Index row);

  BackwardParts<A> parts_;
};

}  // namespace bearing
