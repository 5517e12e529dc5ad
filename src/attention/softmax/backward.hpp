#pragma once

#include <bearing/attention.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/shared/packed_keys.hpp"
#include "attention/shared/row_turner.hpp"
#include "attention/shared/visibility.hpp"
#include "attention/softmax/attention_call.hpp"
#include "attention/softmax/backward_kernels.hpp"
#include "attention/softmax/softmax_forward.hpp"
#include "terms/score_call.hpp"
#include "terms/tile_work.hpp"

// The backward of attention. Queries come in blocks, of which a slab of rows meets a block of keys at a time: scores
// and probabilities are computed again,
//
//     P = exp(S − lse)    dS = P ∘ (dO Vᵀ − D)    D_i = d_o_i·o_i − d_lse_i
//
// and dQ += c dS K, dK += c dSᵀ Q, dV += Pᵀ dO. Where lse is too large to hold the logarithm of a sum, the row's
// largest score and its sum are found again before, and take its place. Every gradient is summed over the same slabs
// and blocks in the same order, whether queries' and keys' gradients are computed together or apart, so that it has the
// same bits.

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
  bool want_q, want_k, want_v;  ///< which gradients of rows must be computed, for the caller or for parameters
  bool score_params, q_params, k_params;  ///< parameters of terms, and of row encodings, want gradients
  /// Of terms; of row encodings, by what turns: queries [batch, heads], keys [batch, kv_heads].
  ParamBlocks<A> term_blocks, q_blocks, k_blocks;
  std::vector<double> d_sinks;     ///< [batch, heads, blocks of queries]; empty: not wanted
  std::vector<Anchor<A>> anchors;  ///< [batch, heads, q_len]; empty where no row is anchored

  Index row_blocks() const { return (scores.call.problem.q_len + rows - 1) / rows; }
  Index key_blocks() const { return (scores.call.problem.k_len + cols - 1) / cols; }
  bool query_side() const { return want_q || score_params || !d_sinks.empty(); }
  bool key_side() const { return want_k || want_v; }
  Anchor<A>& anchor(Index b, Index h, Index i) {
    const Problem& problem = scores.call.problem;
    return anchors[static_cast<std::size_t>((b * problem.heads + h) * problem.q_len + i)];
  }
  /// Adds the parameters' and sinks' gradients to the caller's, in one order.
  void collect();
};

/// Whether gradients of queries and keys come from the same scores, or each from its own.
enum class BackwardUnits { together, apart };

/// Where gradients of keys or values are summed.
template <class A>
struct GradRows {
  A* data = nullptr;  ///< null: not wanted
  Index stride = 0, first = 0;

  A* row(Index j) const { return data + (j - first) * stride; }
};

/// A worker's block of keys and values, made ready for products, and where their gradients are summed.
template <class A>
class BackwardKeys {
 public:
  /// Throws std::bad_alloc; nothing below does.
  BackwardKeys(BackwardPlan<A>& plan, BackwardUnits units);

  /// Makes the block ready that starts at key `first`.
  void open(Index b, Index kv_head, Index first);
  /// The open block's first key, and the panels from key j on, a multiple of the panel's width.
  Index first() const { return first_; }
  const A* packed(Index j) const { return packed_k_.data() + (j - first_) * plan_->scores.call.problem.dim; }
  const A* packed_values(Index j) const {
    return packed_v_.data() + (j - first_) * plan_->scores.call.problem.value_dim;
  }
  /// Rows as they enter products, of all blocks that were opened where terms look at whole rows.
  const A* row(Index j) const { return k_ + (j - k_first_) * k_stride_; }
  Index row_stride() const { return k_stride_; }

  /// Sums over queries start at 0, go back through the keys' encodings, and are stored.
  void open_grads(Index b, Index kv_head, Index first, Index end);
  void close_grads(Index b, Index kv_head, Index first, Index end);
  const GradRows<A>& d_k() const { return d_k_; }
  const GradRows<A>& d_v() const { return d_v_; }

 private:
  const A* ready(Index j, Index n);
  const A* unturned(Index j, Index n);

  BackwardPlan<A>* plan_;
  HiddenKeys hidden_;
  HeadRows<A> k_rows_, v_rows_;
  RowTurner<A> turner_;
  bool direct_k_, direct_v_, direct_d_k_, direct_d_v_;  ///< used where they lie
  bool keeps_keys_;                                     ///< k_turned_ has a head's keys, those of turned_blocks_ ready
  Index b_ = -1, kv_head_ = -1, first_ = -1;
  const A* k_ = nullptr;  ///< rows from key k_first_ on
  Index k_stride_ = 0, k_first_ = 0;
  std::vector<A> k_in_, k_turned_, v_in_, packed_k_, packed_v_;
  std::vector<char> turned_blocks_;
  GradRows<A> d_k_, d_v_;
  std::vector<A> d_k_sums_, d_v_sums_;
  std::vector<A> run_in_, run_out_;  ///< rows on their way back through encodings
};

/// One worker's memory, and the backward of units of work in it. Where a sum of gradients has one order over a whole
/// head, as those of parameters have, the head is the unit.
template <class A>
class BackwardWork {
 public:
  /// Throws std::bad_alloc; nothing below does.
  BackwardWork(BackwardPlan<A>& plan, BackwardUnits units);

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
  /// Rows of the block of queries that are worked on at once, and the keys that they meet; key `origin` is s[0].
  struct Slab {
    Index row, rows;
    Columns cols;
    Index origin;
  };
  /// What is computed of a tile: scores alone, or the gradients of probabilities too.
  enum class Products { scores, all };

  void open_head(Index b, Index h);
  void close_head();
  void block(Index row);
  /// Which keys each query of a block sees; returns those between the first and the last.
  Columns see(Index row);
  void open_rows();
  void clear_blind_rows();
  void open_queries();
  void close_rows();
  Anchor<A> anchor(Index i) const;
  void add_sinks();
  /// The block of keys that has column `col`.
  void open_keys(Index col) { keys_.open(b_, h_ / plan_->scores.call.group(), col / plan_->cols * plan_->cols); }
  /// The keys from `col` on that the block of queries, which sees `all`, works on at once; maybe none.
  Columns meeting(Index col, Columns all) const;

  /// The block of queries and these keys: their gradients, or what their scores add to the rows' sums.
  void meet(Columns cols, Products wanted);
  void weigh(const Slab& slab);
  /// Scores by products and diagonals alone, strip by strip.
  void strips(const Slab& slab);
  /// The same with terms that act on tiles.
  void whole_tile(const Slab& slab);
  void strip_scores(const Slab& slab, Index row, Index rows, Columns seen, Products wanted);
  Tile<A> tile_scores(const Slab& slab, Products wanted);
  template <class Body>
  void over_tile_strips(const Slab& slab, const Body& body);
  void strip_products(const Slab& slab, Index row, Index rows, Columns seen, Products wanted);
  void cap(const Slab& slab, Index row, Index rows, Columns seen);
  void apply_slopes(const Slab& slab, Index row, Index rows);
  void query_products(const Slab& slab, Index row, Index rows, Columns seen);
  void key_products(const Slab& slab);
  void add_diagonals(const Slab& slab);
  attend::ScoreRows<A> score_rows(const Slab& slab, Index row, Index rows);
  Columns seen_by(Index row, Index rows, Columns among) const;
  /// The rows of the slab between the first and the last that see any of the columns.
  Columns rows_that_see(const Slab& slab, Columns cols) const;
  A* at(std::vector<A>& scores, const Slab& slab, Index row, Index col) {
    return scores.data() + (row - slab.row) * stride_ + col - slab.origin;
  }
  bool products_alone() const { return plan_->scores.products_alone(b_); }
  bool tiled() const { return plan_->scores.by_diagonal[static_cast<std::size_t>(b_)] == 0; }
  bool sums_diagonals() const { return want_params_ && !d_diagonals_.empty() && !tiled(); }

  BackwardPlan<A>* plan_;
  HeadRows<A> q_rows_, out_rows_, d_out_rows_;
  bool direct_q_, direct_out_, direct_d_out_;  ///< used where they lie
  RowTurner<A> q_turner_;
  BackwardKeys<A> keys_;
  Diagonals<A> diagonals_;
  TileWork<A> tiles_;

  // The block of queries.
  Index b_ = -1, h_ = -1, row_ = 0, rows_ = 0;
  bool want_q_ = false, want_params_ = false;
  const A *q_in_rows_ = nullptr, *q_ = nullptr, *d_out_ = nullptr;
  bool anchored_ = false;            ///< any row of the block
  AlignedArray<A> q_in_, d_out_in_;  ///< room where rows are not used where they lie, or are cleared
  std::vector<A> q_turned_, d_q_, along_, log2_sum_, origin_;
  std::vector<Columns> sees_;

  // The slab.
  Index stride_;  ///< between rows of scores
  std::vector<A> s_, d_p_, slopes_, slab_diagonals_, d_diagonals_;
  std::vector<Index> row_first_, row_end_;
  std::vector<A> run_in_, run_out_;  ///< rows on their way back through encodings
};

}  // namespace bearing
