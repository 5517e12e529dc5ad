#pragma once

#include <memory>
#include <type_traits>

#include "attention/amx/amx_grads.hpp"
#include "attention/softmax/backward_keys.hpp"
#include "attention/softmax/backward_queries.hpp"
#include "attention/softmax/backward_slab.hpp"
#include "terms/tile_work.hpp"

// What a worker of the backward computes of a block of queries and a block of keys: scores again, their gradients,
// products.

namespace bearing {

/// What a worker works with. Each part owns its memory, and knows nothing of the others.
template <class A>
struct BackwardParts {
  /// Throws std::bad_alloc.
  BackwardParts(BackwardPlan<A>& of, BackwardUnits units);

  BackwardPlan<A>* plan;
  std::unique_ptr<AmxGrads> amx;  ///< null: products in A
  BackwardQueries<A> queries;
  BackwardKeys<A> keys;
  SlabScores<A> scores;
  Diagonals<A> biases;        ///< by distance, of the head that is worked on
  DiagonalGrads<A> d_biases;  ///< and their gradients
  TileWork<A> tiles;
  bool want_params = false;  ///< the parameters of terms want gradients from this unit

  /// The block of queries that `queries` has seen.
  void open_queries() {
    queries.open();
    queries.open_numbers();
    if constexpr (std::is_same_v<A, float>) {
      if (amx != nullptr) amx->open_queries(queries.rows(), queries.q(0), queries.d_out(0));
    }
  }
  bool tiled() const { return !plan->scores.by_diagonal(queries.b()); }
  /// The block of keys that has column `col`.
  void open_keys(Index col) {
    keys.open(queries.b(), queries.h() / plan->scores.call.group(), col / plan->cols * plan->cols);
  }
};

/// The block of queries and these keys: they add to all sums of gradients that are wanted and open.
template <class A>
void add_grads(BackwardParts<A>& of, Columns cols);

/// The block's largest scores and sums of weights take up these keys, wherever a slab has an anchored row: RowNumbers'
/// origin is the one, log2_sum the other, `along` room.
template <class A>
void add_weights(BackwardParts<A>& of, Columns cols);

}  // namespace bearing
