#pragma once

#include <bearing/export.hpp>
#include <bearing/term.hpp>
#include <optional>
#include <vector>

// Forgetting attention (Lin, Nikishin, He, Courville 2025, arXiv 2503.02130), also called data-dependent ALiBi: each
// token has, per head, a gate f that says how much of what came before it is kept, and a score falls by the gates after
// the key,
//
//     s_ij ← s_ij + Σ_{t = j+1 … i} ln f_t = s_ij + c_i − c_j        c the running sum of ln f
//
// with f = σ(w·x + b) in (0, 1), computed by the model. Equal f everywhere is ALiBi with slope −ln f. Causal: keys
// after the query get 0, and are meant to be masked.
//
// It counts tokens, not positions: key j is token j, and the queries are the last tokens; `past` tokens come before the
// first query (those of a cache, in a decode step). A cache may be longer than what is filled: then `past` is empty,
// and a query is the token that its position names.

namespace bearing {

/// It keeps the sums of the gates that it was made with: make a new one for each batch of gates, in training for each
/// step. A call that finds other numbers in the gates throws ShapeError.
template <class A>
class BEARING_EXPORT ForgettingBias {
 public:
  using Arithmetic = A;

  /// log_forget [batch, heads, time]: ln f of every key token. ∂b_ij/∂ln f_t = 1 for j < t ≤ i. Reads the values once,
  /// here, and keeps their running sums in double: c_i − c_j is then exact to 2^-53 of what c has grown to. Throws
  /// ShapeError for a gradient of another shape, RangeError for a value that is not finite, also of tokens that are yet
  /// to come: 0 will do for these.
  explicit ForgettingBias(Param<A, 3> log_forget, std::optional<Index> past = 0);

  /// Throws ShapeError unless log_forget is one for each sequence, head and key, as it was when its sums were taken,
  /// and past + q_len is k_len; where past is empty, RangeError unless keys stand at 0, 1, 2, … and queries at some of
  /// these, one after the other.
  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  /// In linear attention the state is multiplied by f_t before key t enters, that of earlier calls too.
  void log_decay(const StepTile& tile, double* log_decay) const;
  void log_decay_grads(const StepTile& tile, const double* d_log_decay, A* d_params) const;
  static constexpr bool counts_tokens = true;
  Index param_size() const { return log_forget_.grad.data == nullptr ? 0 : time_ + 1; }
  void collect(Index batch, Index head, const A* d_params) const;
  void borrows(MemoryList& to) const { to.param("Forgetting.log_forget", log_forget_); }
  Index scratch_size(Index, Index cols) const { return cols; }

 private:
  const double* sums(const Tile<A>& tile) const;

  Param<A, 3> log_forget_;
  std::optional<Index> past_;
  Index time_ = 0;
  std::vector<double> sums_;  ///< [batch, heads, time] c
};

}  // namespace bearing
