#pragma once

#include <algorithm>
#include <bearing/linear_attention.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "aligned.hpp"
#include "attention/linear/linear_kernels.hpp"
#include "attention/shared/checked_inputs.hpp"
#include "attention/shared/row_kernels.hpp"
#include "attention/shared/row_turner.hpp"
#include "attention/shared/schedule.hpp"
#include "terms/score_call.hpp"

// What linear attention's forward and backward share: the checked call, and rows made ready block by block.

namespace bearing::linear {

/// Tokens of a block, and rows of the strips that a causal block's products are cut into. A token costs
/// 2·dim·value_dim multiplications for the sums and about block/2·(dim + value_dim) within its block; larger blocks
/// make better products, smaller ones fewer.
inline constexpr Index block_tokens = 32;
inline constexpr Index strip_rows = 16;

/// A call of linear attention that has been checked.
template <class A>
struct Call : CheckedInputs<A> {
  LinearAttentionOptions options;
  TermList<A> decays = {};     ///< the encodings by which the state decays
  std::vector<Index> visible;  ///< [batch, q_len] queries see keys below this; never falls

  /// Throws what linear_attention() throws for inputs, terms and options.
  template <class T>
  Call(const char* function, const LinearAttentionInputs<T>& in, const TermList<A>& terms,
       const LinearAttentionOptions& given);

  bool normalised() const { return options.normaliser == Normaliser::sum; }
  /// Of the turned rows, if each decays on its own; else 1.
  Index channels() const;
  const Index* visible_of(Index b) const { return visible.data() + b * this->problem.q_len; }
  /// Throws ShapeError unless a state is empty or has its shapes and memory. Whether it is there.
  template <class S>
  bool check_state(const char* argument, const LinearState<S>& state) const;
  /// Whether a state that is there has any elements.
  bool has_numbers(const LinearState<A>& state) const {
    return state.s.size() > 0 || (normalised() && state.z.size() > 0);
  }

 private:
  void count_visible();
  void take_decays(const TermList<A>& terms);
  bool decays_by(bool tokens) const;
  void check_steps() const;
  void check_parts(const Term<A>& term) const;
};

/// A forward call. A column of values needs no other: where heads are fewer than workers, heads are cut into slices of
/// columns. An element's sum has one order, so its bits do not depend on the cut.
template <class A>
struct ForwardCall {
  Call<A> call;
  ResultRows<A> out;
  LinearState<A> state;
  bool keeps_state;
  Index slices = 1;
  std::vector<A> z_before = {};  ///< the state's z, which the first slice writes while others may still read

  Index slice_start(Index slice) const { return slice * call.problem.value_dim / slices; }
};

/// Gradients of inputs, of any type of numbers, and of the state.
template <class A>
struct Grads {
  ResultRows<A> d_q, d_k, d_v;
  LinearState<A> d_state;
};

template <class A>
struct BackwardCall {
  Call<A> call;
  HeadRows<A> d_out;
  LinearState<const A> start;
  Grads<A> grads;
  bool has_start = false, has_d_state = false;
  ParamBlocks<A> q_params, k_params, decay_params;
};

/// Where the state decays. Once for each slice of each key head, or for each key head.
template <class A>
void run_decayed(ForwardCall<A>& forward, Index units, const Executor& on);
template <class A>
void run_decayed(BackwardCall<A>& backward, Index units, const Executor& on);

/// Rows [first, end) of a side, which take part in what a call computes; all others may hold anything. Queries that see
/// no key come first, keys that no query sees last.
struct Part {
  Index first = 0, end = 0;
};
template <class A>
Part seeing_queries(const Call<A>& call, Index b) {
  const Index *visible = call.visible_of(b), q_len = call.problem.q_len;
  return {std::upper_bound(visible, visible + q_len, Index{0}) - visible, q_len};
}
template <class A>
Part seen_keys(const Call<A>& call, Index b) {
  return {0, call.problem.q_len == 0 ? 0 : call.visible_of(b)[call.problem.q_len - 1]};
}

/// 1 over a denominator. One so small that products below the normal range took its digits, or that its inverse leaves
/// no room to multiply, counts as 0, and its inverse too.
template <class A>
A inverse_of(A denominator) {
  constexpr A least = std::numeric_limits<A>::min() / std::numeric_limits<A>::epsilon();
  return std::abs(denominator) < least ? A{0} : 1 / denominator;
}

/// The blocks of a sequence: block r has tokens [32r, 32r + 32) of it.
inline Index block_start(Index token) { return token / block_tokens * block_tokens; }
inline Index block_rows(Index first, Index time) { return std::min(block_tokens, time - first); }

/// to [rows, cols] = columns [col, col + cols) of a tensor's rows; zeros for those that take no part.
template <class A>
void load(const HeadRows<A>& x, Part part, Index b, Index h, Index first, Index rows, Index col, Index cols, A* to) {
  const Index from = std::clamp<Index>(part.first - first, 0, rows),
              end = std::clamp<Index>(part.end - first, from, rows);
  std::fill_n(to, from * cols, A{0});
  x.load(b, h, first + from, end - from, col, cols, to + from * cols);
  std::fill_n(to + end * cols, (rows - end) * cols, A{0});
}

/// Where rows may be read as they lie: numbers of the arithmetic's type side by side, of rows that all take part; else
/// null.
template <class A>
const A* in_place(const HeadRows<A>& x, Part part, Index b, Index h, Index first, Index rows) {
  const bool all = part.first <= first && first + rows <= part.end;
  return all && x.same() && x.plain() ? x.row(b, h, first) : nullptr;
}

/// One block of queries or keys, ready for products: their features, the turned features, and rows beside them.
template <class A>
struct Block {
  Index head = -1, first = -1, rows = 0;
  A *features = nullptr, *turned = nullptr, *values = nullptr;  ///< [rows, dim], [rows, rows_dim], [rows, value_dim]
  const A* values_in_place = nullptr;                           ///< `values`, or the tensor's; value_stride apart
  Index value_stride = 0;
};

/// The last two blocks of one side's rows: a causal pass asks for each block twice, and for two in turn.
template <class A>
class Blocks {
 public:
  Blocks(const Call<A>& call, Side side)
      : call_(call),
        x_(side == Side::query ? call.q : call.k),
        turner_(call.rows, side == Side::query ? *call.problem.q_positions : *call.problem.k_positions, side,
                block_tokens, call.in_dim) {
    const Index dim = call.in_dim, turned_dim = turner_.turns() ? call.problem.dim : 0;  // or they are the features
    const Index each = dim + turned_dim + call.problem.value_dim;
    memory_ = AlignedArray<A>(2 * block_tokens * each);
    for (Index s = 0; s < 2; ++s) {
      Block<A>& slot = slots_[static_cast<std::size_t>(s)];
      slot.features = memory_.data() + s * block_tokens * each;
      slot.turned = turned_dim > 0 ? slot.features + block_tokens * dim : slot.features;
      slot.values = slot.features + block_tokens * (dim + turned_dim);
    }
  }

  /// Forgets what it has: another unit begins.
  void open(Index b, Part part) {
    b_ = b, part_ = part;
    for (Block<A>& slot : slots_) slot.head = -1;
  }

  /// The block that starts at `first`; values(block) fills in the rows beside it.
  template <class Values>
  const Block<A>& get(Index head, Index first, const Values& values) {
    Block<A>& slot = slots_[static_cast<std::size_t>(first / block_tokens % 2)];
    if (slot.head == head && slot.first == first) return slot;
    slot.head = head;
    slot.first = first;
    slot.rows = block_rows(first, x_.shape()[2]);
    const A* raw = x_.contiguous() ? in_place(x_, part_, b_, head, first, slot.rows) : nullptr;
    if (raw == nullptr) load(x_, part_, b_, head, first, slot.rows, 0, call_.in_dim, slot.features);
    features(call_.options.feature_map, slot.rows * call_.in_dim, raw == nullptr ? slot.features : raw, slot.features);
    if (turner_.turns()) turner_.turn(b_, head, first, slot.rows, slot.features, call_.in_dim, slot.turned);
    values(slot);
    return slot;
  }

  /// d_features [rows, dim] from those of the block's turned rows; params(t): where term t's gradient is added.
  template <class Params>
  void turn_grads(const Block<A>& block, const A* d_turned, A* d_features, const Params& params) {
    if (!turner_.turns()) return void(std::copy_n(d_turned, block.rows * call_.in_dim, d_features));
    turner_.turn_grads(b_, block.head, block.first, block.rows, block.features, d_turned, d_features, params);
  }
  Part part() const { return part_; }

 private:
  const Call<A>& call_;
  HeadRows<A> x_;
  Index b_ = 0;
  Part part_;
  RowTurner<A> turner_;
  AlignedArray<A> memory_;
  std::array<Block<A>, 2> slots_{};
};

/// z += the features of a block's keys, which are added up first: behind z is room for their sum.
template <class A>
void take_up(const Block<A>& block, Index dim, A* z) {
  A* sum = z + dim;
  std::fill_n(sum, dim, A{0});
  add_rows(block.rows, dim, block.features, sum);
  add_rows(1, dim, sum, z);
}

/// sums_i = z_i, which is `z` and the features of the keys from `next` on that row i sees; behind z is room for a sum.
template <class A, class KeyBlock>
void sum_seen(Index rows, const Index* visible, Index next, Index dim, A* z, A* sums, const KeyBlock& key_block) {
  A* sum = z + dim;
  std::fill_n(sum, dim, A{0});
  for (Index i = 0; i < rows;) {
    const Block<A>* block = next < visible[i] ? &key_block(block_start(next)) : nullptr;
    const Index end = block == nullptr ? next : block->first + block->rows;
    const auto from = [&]() -> const A* {
      return block == nullptr ? nullptr : block->features + (next - block->first) * dim;
    };
    const Index served = std::upper_bound(visible + i, visible + rows, end) - (visible + i);
    running_sums(served, dim, next, visible + i, from(), z, sum, sums + i * dim);
    i += served;
    if (served > 0) next = std::max(next, visible[i - 1]);
    if (i < rows && next < end) add_rows(end - next, dim, from(), sum);
    if (i < rows) next = end;
  }
}

/// s[i][j] = 0 for the keys j of a block, counted from `first`, that a row does not see.
template <class A>
void hide(Index rows, Index first, Index cols, const Index* visible, A* s) {
  for (Index i = 0; i < rows; ++i) {
    const Index seen = std::clamp<Index>(visible[i] - first, 0, cols);
    std::fill(s + i * block_tokens + seen, s + i * block_tokens + cols, A{0});
  }
}

/// body(strip's first row, its rows, how many columns of the block at `first` its last row sees) for all strips that
/// see any.
template <class Body>
void over_strips(Index rows, Index first, Index cols, const Index* visible, const Body& body) {
  for (Index i = 0; i < rows; i += strip_rows) {
    const Index strip = std::min(strip_rows, rows - i);
    const Index seen = std::clamp<Index>(visible[i + strip - 1] - first, 0, cols);
    if (seen > 0) body(i, strip, seen);
  }
}

}  // namespace bearing::linear
