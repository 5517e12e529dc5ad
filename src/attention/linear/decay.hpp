#pragma once

#include <vector>

#include "aligned.hpp"
#include "attention/linear/linear_call.hpp"

// What the state loses on its way, block of keys by block. A step leads from one key to the next and keeps the part a
// of the state, 0 to 1, of all of it or of each channel of the keys' rows. Parts are multiplied up in double within a
// block of keys and never divided, so that nothing overflows and nothing cancels; from block to block the state itself
// is multiplied.

namespace bearing::linear {

/// Parts below it count as 0: what meets them is so much smaller than what does not decay, and two of them in one
/// product stay above the least normal number.
template <class A>
inline constexpr double least_part = sizeof(A) == sizeof(double) ? 0x1p-440 : 0x1p-48;

/// Rows of a block of queries whose last seen keys are in one block of keys, or right before it.
struct Run {
  Index row = 0, rows = 0;  ///< the first one's index in the sequence, and how many
  Index base = 0;           ///< where the block of keys begins
};
/// The run from `row` on, up to `end` at most.
Run run_from(Index row, Index end, const Index* visible);
/// The run before `end`, down to `row` at most.
Run run_before(Index end, Index row, const Index* visible);

/// The parts that one block of keys keeps, and where queries in it stand.
template <class A>
class Decay {
 public:
  /// Throws std::bad_alloc; nothing below does.
  explicit Decay(const Call<A>& call);

  /// Of one key head. The block comes next.
  void open(Index b, Index kv) { b_ = b, kv_ = kv, first_ = -1; }
  /// Keys [first, first + rows); rows may be 0.
  void block(Index first, Index rows);
  /// Queries of a run whose base is the block's first key.
  void queries(const Run& run);
  bool by_channel() const { return channels_ > 1; }
  Index channels() const { return channels_; }

  /// y [rows, rows_dim] = what is left of the block's keys at its end.
  void to_end(const A* x, A* y) const;
  /// y [rows, rows_dim] = the run's rows as they meet the state that stands before the block.
  void to_start(const A* x, A* y) const;
  /// s [rows_dim, cols] goes through the block.
  void pass(A* s, Index cols) const;

  // The same for sums of features, x and y [dim]: y = what is left of x
  void sum_passes(const A* x, A* y) const { by(total_.data(), x, y); }            ///< … behind the block
  void sum_to_end(Index j, const A* x, A* y) const { by(at(to_end_, j), x, y); }  ///< … from key j to the block's end
  void sum_steps(Index j, const A* x, A* y) const { by(at(steps_, j), x, y); }    ///< … of key j's step
  void sum_to_row(Index i, const A* x, A* y) const { by(at(to_start_, i), x, y); }  ///< … before the block, for row i
  /// … from the last key that row i sees to the row.
  void sum_meets(Index i, const A* x, A* y) const;
  Index seen(Index i) const { return seen_[static_cast<std::size_t>(i)]; }  ///< keys of the block that row i sees

  /// Where all channels are alike: s [rows, block_tokens] of the run's rows from i on, times what lies between the keys
  /// of the block and the rows.
  void weigh(Index i, Index rows, A* s) const;
  /// Else: u_j = row i as it meets the block's key j, for the keys that it sees. How many these are.
  Index meet_keys(Index i, const A* x, A* u) const;
  /// y += Σ_j weight_j · key_j as it meets row i. room: [rows_dim].
  void sum_keys(Index i, const A* weights, const A* keys, A* y, A* room) const;

 private:
  void multiply_up();
  const A* at(const AlignedArray<A>& parts, Index row) const { return parts.data() + row * channels_; }
  void by(const A* parts, const A* x, A* y) const;

  const Call<A>& call_;
  Index dim_, channels_, b_ = 0, kv_ = 0;
  Index first_ = -1, rows_ = 0;  ///< the block
  Index queries_ = 0;            ///< rows of the run
  Index known_ = -1;             ///< rows whose parts are worked out, from known_logs_
  std::array<Index, static_cast<std::size_t>(block_tokens)> seen_{};  ///< of the run: keys of the block that a row sees
  std::vector<double> logs_, known_logs_, parts_, prefix_, between_, own_, room_;
  AlignedArray<A> to_end_, total_, steps_, to_start_, within_;
};

/// The gradients of a head's steps, gathered by where rows stand: a row that has seen n keys has gone through all steps
/// before n, and a key through none up to its own. So a step's gradient is a sum over all rows behind it.
template <class A>
class DecayGrads {
 public:
  /// Throws std::bad_alloc; nothing below does.
  DecayGrads(const Call<A>& call, bool wanted);

  bool wanted() const { return wanted_; }
  void open(Index b, Index kv);
  /// A query that sees `seen` keys: its row [dim] and its gradient, before which the decay came. Turned rows, and the
  /// features where a denominator decays too.
  void query(Index g, Index i, Index seen, Index dim, const A* row, const A* d_row);
  void key(Index j, Index dim, const A* row, const A* d_row);
  /// The state at the call's end and its gradient, [dim, cols].
  void end(Index dim, const A* s, const A* d_s, Index cols);
  /// To the blocks of the encodings' parameters.
  void pass_on(bool has_start, ParamBlocks<A>& params);

 private:
  void sum_up(bool has_start);
  void tell(const Term<A>& term, Side side, Index rows, const double* d_log, A* params);
  double add(Index at, double sign, Index dim, const A* row, const A* d_row);

  const Call<A>& call_;
  bool wanted_;
  Index channels_, b_ = 0, kv_ = 0;
  std::vector<double> steps_, queries_, from_, to_, sums_;
};

}  // namespace bearing::linear
