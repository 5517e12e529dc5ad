#pragma once

#include <bearing/export.hpp>
#include <bearing/term.hpp>
#include <optional>

// The gates of gated linear attention (Yang, Wang, Shen, Panda, Kim 2023, arXiv 2312.06635): each token t has, per head
// and per channel c of the rows, a gate a_tc in [0, 1] that says how much of that channel of the state is kept,
//
//     S ← diag(a_t) S, then S ← S + k_t v_tᵀ        o_i = Σ_j Σ_c q_ic k_jc (Π_{t = j+1 … i} a_tc) v_j
//
// In softmax attention the same part is taken from the products of a score:
//
//     s_ij ← s_ij + scale · Σ_c q_ic k_jc (Π_{t = j+1 … i} a_tc − 1)        s_ij = scale · q_i·k_j before it
//
// Gates that are the same in all channels multiply a score by what ForgettingBias adds as a logarithm: in linear
// attention the two are then the same. Causal: keys after the query get 0, and are meant to be masked.
//
// It counts tokens, not positions: key j is token j, and the queries are the last tokens; `past` tokens come before the
// first query (those of a cache, in a decode step). A cache may be longer than what is filled: then `past` is empty,
// and a query is the token that its position names.

namespace bearing {

template <class A>
class BEARING_EXPORT GatedDecayTerm {
 public:
  using Arithmetic = A;
  static constexpr bool counts_tokens = true, by_channel = true;

  /// log_decay [batch, heads, time, dim]: ln a of every key token and channel, at most 0; −∞ keeps nothing. In linear
  /// attention a head is one of the keys', whose state it is. Throws ShapeError for a gradient of another shape.
  explicit GatedDecayTerm(Param<A, 4> log_decay, std::optional<Index> past = 0);

  /// Throws ShapeError unless there is a gate for each sequence, head, key and channel of rows that enter the product,
  /// and past + q_len is k_len; RangeError for gates above 0 or that are no numbers, and, where past is empty, unless
  /// keys stand at 0, 1, 2, … and queries at some of these, one after the other.
  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  void log_decay(const StepTile& tile, double* log_decay) const;
  void log_decay_grads(const StepTile& tile, const double* d_log_decay, A* d_params) const;
  Index param_size() const { return log_decay_.grad.data == nullptr ? 0 : 2 * time_ * dim_; }
  void collect(Index batch, Index head, const A* d_params) const;
  void borrows(MemoryList& to) const { to.param("GatedDecay.log_decay", log_decay_); }
  Index scratch_size(Index rows, Index cols) const { return (rows + cols + 2) * dim_; }

 private:
  struct Work;
  Work work(const Tile<A>& tile) const;

  Param<A, 4> log_decay_;
  std::optional<Index> past_;
  Index time_, dim_;
};

}  // namespace bearing
