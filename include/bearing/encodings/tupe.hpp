#pragma once

#include <bearing/encodings/t5.hpp>
#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>
#include <optional>

// TUPE, untied positional encoding (Ke, He, Liu 2021, arXiv 2006.15595): words are multiplied with words, and positions
// with positions, each through separate projections,
//
//     s_ij = q_i·k_j/√(2d) + (p_m U_Q)·(p_n U_K)/√(2d) [ + b_h(bucket(n − m)) ]        TUPE-A  [TUPE-R]
//
// This adds what stands after q·k. The softmax scale of q·k is 1/√(2d) too: tupe_softmax_scale(). The bias b is not
// scaled. Nothing here depends on a layer or on the words: one matrix (bias_matrix()) serves all layers.
//
// p U_Q and p U_K are the position vectors after layer norm and projection: the caller's product.
//
// [CLS], the token at position 0, stands for the whole sequence and has no place in it. Untied, its scores are two
// numbers per head: θ1 where it is the query, θ2 where it is the key,
//
//     m = 0: θ1        else n = 0: θ2        so θ1 for [CLS] with itself
//
// As in the authors' code they come from the tables: θ1 is the product of the two rows 0, θ2 that of the two rows 1,
// and the token at position p ≥ 1 has row p + 1, so tables have one row more than there are positions. In TUPE-R the
// bias table then has one row more than buckets: its last row is for keys at 0, and row buckets/2, which T5's function
// never gives, for the query at 0. A comment in the authors' code names the two the other way round; we follow the
// code.

namespace bearing {

enum class TupeCls {
  untied,  ///< the token at position 0 is [CLS], whose scores are θ1 and θ2
  tied,    ///< the token at position 0 is a token like others
};

/// The names of the authors' code. Buckets are those of T5, in both directions.
struct Tupe {
  Index rel_pos_bins = 0;  ///< 0: TUPE-A; TUPE-R has 32
  Index max_rel_pos = 128;
  TupeCls cls = TupeCls::untied;

  bool operator==(const Tupe&) const = default;
};

/// 1/√(2·dim), for q·k as for the positions. Throws RangeError for dim < 1.
BEARING_EXPORT double tupe_softmax_scale(Index dim);

/// Serves whole positions 0 … length − 1, in any order. `query` and `key`: the projected position vectors
/// [heads, length + 1, dim] ([heads, length, dim] if [CLS] is tied), features side by side. `bias`: TUPE-R's table
/// [rel_pos_bins + 1, heads] ([rel_pos_bins, heads]); left empty for TUPE-A. Its scale is 1/√(2·dim) of these tables,
/// whatever ScoreInputs::scale is.
///
/// Throws RangeError for bins that T5 refuses, ShapeError for tables that do not fit; when it is used, RangeError for a
/// position without a vector.
template <class A>
class BEARING_EXPORT TupeBias {
 public:
  using Arithmetic = A;

  TupeBias(const Tupe& tupe, Param<A, 3> query, Param<A, 3> key, Param<A, 2> bias = {});

  /// How many positions have vectors.
  Index length() const { return query_.value.shape[1] - first_; }

  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  auto grad_block(Index, Index head) const {
    return ParamBlock(slice(query_.grad, 0, head), slice(key_.grad, 0, head), slice(bias_.grad, 1, head));
  }
  void borrows(MemoryList& to) const {
    to.param("Tupe.query", query_), to.param("Tupe.key", key_), to.param("Tupe.bias", bias_);
  }
  Index scratch_size(Index rows, Index cols) const;

 private:
  struct Rows;
  bool untied() const { return first_ == 1; }
  Index dim() const { return query_.value.shape[2]; }
  Index heads() const { return query_.value.shape[0]; }
  Rows rows_of(const Param<A, 3>& table, Index head, const double* at, Index n, bool consecutive, A* room) const;
  /// θ1 (row 0) or θ2 (row 1), and its gradient.
  A theta(Index head, Index row) const;
  void theta_grads(Index head, Index row, A d_theta, A* d_query, A* d_key) const;
  void add_cls(const Tile<A>& tile, A* added) const;
  void cls_grads(const Tile<A>& tile, A* d_added, A* d_query, A* d_key, A* d_bias) const;
  void add_bias(const Tile<A>& tile, A* added) const;
  void bias_grads(const Tile<A>& tile, const A* d_added, A* d_bias) const;

  Index first_ = 0;  ///< the row of position 0
  A scale_ = 1;
  std::optional<T5Buckets> buckets_;
  Param<A, 3> query_, key_;
  Param<A, 2> bias_;
};

}  // namespace bearing
