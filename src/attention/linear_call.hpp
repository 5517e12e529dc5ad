#pragma once

#include <algorithm>
#include <atomic>
#include <bearing/linear_attention.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "aligned.hpp"
#include "attention/linear_kernels.hpp"
#include "overlaps.hpp"
#include "terms/score_call.hpp"

// What linear attention's forward and backward share: the checked call, and rows made ready block by block.

namespace bearing::linear {

/// Tokens of a block, and rows of the strips that a causal block's products are cut into. A token costs
/// 2·dim·value_dim multiplications for the sums and about block/2·(dim + value_dim) within its block; larger blocks
/// make better products, smaller ones fewer.
inline constexpr Index block_tokens = 32;
inline constexpr Index strip_rows = 16;

template <class A>
struct Call {
  Index batch = 0, heads = 0, kv_heads = 0, q_len = 0, k_len = 0;
  Index dim = 0, rows_dim = 0, value_dim = 0;
  LinearAttentionOptions options;
  TermList<A> terms = {};
  std::array<Index, TermList<A>::most + 1> dims{};  ///< of the rows that each term is given, and of the last one's
  std::vector<Index> visible = {};                  ///< [batch, q_len] queries see keys below this; never falls

  Index group() const { return heads / kv_heads; }
  bool normalised() const { return options.normaliser == Normaliser::sum; }
  const Index* visible_of(Index b) const { return visible.data() + b * q_len; }
};

/// Rows [first, end) of a side, which take part in what a call computes; all others may hold anything. Queries that see
/// no key come first, keys that no query sees last.
struct Part {
  Index first = 0, end = 0;
};
template <class A>
Part seeing_queries(const Call<A>& call, Index b) {
  const Index* visible = call.visible_of(b);
  return {std::upper_bound(visible, visible + call.q_len, Index{0}) - visible, call.q_len};
}
template <class A>
Part seen_keys(const Call<A>& call, Index b) {
  return {0, call.q_len == 0 ? 0 : call.visible_of(b)[call.q_len - 1]};
}

/// Throws what linear_attention() throws for inputs, terms and options.
template <class T>
Call<Compute<T>> check_call(const char* function, const LinearAttentionInputs<T>& in, const TermList<Compute<T>>& terms,
                            const LinearAttentionOptions& options);

/// Throws ShapeError unless a state is empty or has its shapes and memory. Whether it is there.
template <class A, class S>
bool check_state(const char* function, const char* argument, const Call<A>& call, const LinearState<S>& state);

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

/// to [rows, cols] = columns [col, col + cols) of a tensor's rows.
template <class T>
void load(View<const T, 4> x, Index b, Index h, Index first, Index rows, Index col, Index cols, Compute<T>* to) {
  for (Index i = 0; cols > 0 && i < rows; ++i, to += cols) {
    const T* from = &x(b, h, first + i, col);
    const Index stride = x.stride[3];
    if (stride != 1 && cols > 1) {
      for (Index d = 0; d < cols; ++d) to[d] = static_cast<Compute<T>>(from[d * stride]);
    } else if constexpr (std::is_same_v<T, Compute<T>>) {
      std::copy_n(from, cols, to);
    } else {
      widen(cols, from, to);
    }
  }
}

/// … zeros for those that take no part.
template <class T>
void load(View<const T, 4> x, Part part, Index b, Index h, Index first, Index rows, Index col, Index cols,
          Compute<T>* to) {
  const Index from = std::clamp<Index>(part.first - first, 0, rows),
              end = std::clamp<Index>(part.end - first, from, rows);
  std::fill_n(to, from * cols, Compute<T>{0});
  load(x, b, h, first + from, end - from, col, cols, to + from * cols);
  std::fill_n(to + end * cols, (rows - end) * cols, Compute<T>{0});
}

/// Where rows may be read as they lie, from column col on: numbers of the arithmetic's type side by side, of rows that
/// all take part; else null.
template <class T>
const Compute<T>* in_place(View<const T, 4> x, Part part, Index b, Index h, Index first, Index rows, Index col) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    if (x.stride[3] == 1 && part.first <= first && first + rows <= part.end) return &x(b, h, first, col);
  }
  return nullptr;
}
/// … and written.
template <class T>
Compute<T>* in_place(View<T, 4> x, Index b, Index h, Index first, Index col) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    if (x.stride[3] == 1) return &x(b, h, first, col);
  }
  return nullptr;
}

/// … and back, rounded once.
template <class T>
void store(const Compute<T>* from, Index rows, Index col, Index cols, View<T, 4> x, Index b, Index h, Index first) {
  for (Index i = 0; cols > 0 && i < rows; ++i, from += cols) {
    T* to = &x(b, h, first + i, col);
    const Index stride = x.stride[3];
    if (stride != 1 && cols > 1) {
      for (Index d = 0; d < cols; ++d) to[d * stride] = T(from[d]);
    } else if constexpr (std::is_same_v<T, Compute<T>>) {
      std::copy_n(from, cols, to);
    } else {
      narrow(cols, from, to);
    }
  }
}

/// Turns blocks of rows of one side by all encodings of a list, one after the other.
template <class A>
class Turner {
 public:
  /// Throws std::bad_alloc; nothing below does.
  Turner(const Call<A>& call, const Positions& at, Side side) : call_(call), at_(at), side_(side) {
    Index scratch = 0;
    for (Index t = 0; t < call.terms.size; ++t) {
      const Term<A>& term = call.terms.terms[size(t)];
      stages_.emplace_back(block_tokens * call.dims[size(t)]);
      if (term.turn_scratch != nullptr) scratch = std::max(scratch, term.turn_scratch(term.self, call.dims[size(t)]));
    }
    grads_ = AlignedArray<A>(block_tokens * 2 * *std::max_element(call.dims.begin(), call.dims.end()));
    places_.resize(size(at.axes() * block_tokens));
    scratch_.resize(size(scratch));
  }

  /// y [rows, rows_dim] = T f, f [rows, dim].
  void turn(Index b, Index h, Index first, Index rows, const A* f, A* y) {
    if (call_.terms.size == 0) return void(std::copy_n(f, rows * call_.dim, y));
    RowTile tile = open(b, h, first, rows);
    run(tile, f, call_.terms.size - 1);
    apply(tile, call_.terms.size - 1, f, y);
  }

  /// d_f [rows, dim] = Tᵀ d_y; parameters' gradients are added to their blocks.
  void turn_grads(Index b, Index h, Index first, Index rows, const A* f, const A* d_y, A* d_f, ParamBlocks<A>& params) {
    if (call_.terms.size == 0) return void(std::copy_n(d_y, rows * call_.dim, d_f));
    RowTile tile = open(b, h, first, rows);
    run(tile, f, call_.terms.size - 1);
    A* const half[] = {grads_.data(), grads_.data() + grads_.size() / 2};
    for (Index t = call_.terms.size; t-- > 0;) {
      const Term<A>& term = call_.terms.terms[size(t)];
      A* d_x = t == 0 ? d_f : half[t % 2];
      measure(tile, t);
      term.turn_grads(term.self, tile, input(t, f), d_y, d_x, params.block(b, h, t));
      d_y = d_x;
    }
  }

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }

  const A* input(Index term, const A* f) const { return term == 0 ? f : stages_[size(term)].data(); }
  void measure(RowTile& tile, Index term) const {
    tile.dim = tile.x_stride = call_.dims[size(term)];
    tile.y_stride = call_.dims[size(term + 1)];
  }
  void apply(RowTile& tile, Index t, const A* f, A* y) {
    measure(tile, t);
    call_.terms.terms[size(t)].turn(call_.terms.terms[size(t)].self, tile, input(t, f), y);
  }
  /// The inputs of all terms up to the last one.
  void run(RowTile& tile, const A* f, Index last) {
    for (Index t = 0; t < last; ++t) apply(tile, t, f, stages_[size(t + 1)].data());
  }

  RowTile open(Index b, Index h, Index first, Index rows) {
    RowTile tile{.batch = b, .head = h, .row = first, .rows = rows};
    for (Index axis = 0; axis < max_axes; ++axis) {
      const Index from = std::min(axis, at_.axes() - 1);
      double* to = places_.data() + from * block_tokens;
      if (axis == from) {
        for (Index i = 0; i < rows; ++i) to[i] = at_.real(axis, b, first + i);
      }
      tile.at[size(axis)] = to;
    }
    tile.consecutive = at_.axes() == 1 && at_.integral();
    for (Index i = 1; i < rows && tile.consecutive; ++i) tile.consecutive = tile.at[0][i] - tile.at[0][i - 1] == 1;
    tile.side = side_;
    tile.scratch = scratch_.data();
    return tile;
  }

  const Call<A>& call_;
  const Positions& at_;
  Side side_;
  std::vector<AlignedArray<A>> stages_;  // the inputs of each term; the first one's is the caller's
  AlignedArray<A> grads_;
  std::vector<double> places_, scratch_;
};

/// One block of queries or keys, ready for products: their features, the turned features, and rows beside them.
template <class A>
struct Block {
  Index head = -1, first = -1, rows = 0;
  A *features = nullptr, *turned = nullptr, *values = nullptr;  ///< [rows, dim], [rows, rows_dim], [rows, value_dim]
  const A* values_in_place = nullptr;                           ///< `values`, or the tensor's; value_stride apart
  Index value_stride = 0;
};

/// The last two blocks of one side's rows: a causal pass asks for each block twice, and for two in turn.
template <class T>
class Blocks {
 public:
  using A = Compute<T>;

  Blocks(const Call<A>& call, View<const T, 4> x, const Positions& at, Side side)
      : call_(call), x_(x), turner_(call, at, side) {
    const Index turned_dim = call.terms.size > 0 ? call.rows_dim : 0;  // or turned rows are the features
    const Index each = call.dim + turned_dim + call.value_dim;
    memory_ = AlignedArray<A>(2 * block_tokens * each);
    for (Index s = 0; s < 2; ++s) {
      Block<A>& slot = slots_[static_cast<std::size_t>(s)];
      slot.features = memory_.data() + s * block_tokens * each;
      slot.turned = turned_dim > 0 ? slot.features + block_tokens * call.dim : slot.features;
      slot.values = slot.features + block_tokens * (call.dim + turned_dim);
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
    slot.rows = block_rows(first, x_.shape[2]);
    const A* raw = in_place(x_, part_, b_, head, first, slot.rows, 0);
    if (x_.stride[2] != call_.dim) raw = nullptr;
    if (raw == nullptr) load(x_, part_, b_, head, first, slot.rows, 0, call_.dim, slot.features);
    features(call_.options.feature_map, slot.rows * call_.dim, raw == nullptr ? slot.features : raw, slot.features);
    if (call_.terms.size > 0) turner_.turn(b_, head, first, slot.rows, slot.features, slot.turned);
    values(slot);
    return slot;
  }

  Turner<A>& turner() { return turner_; }
  Part part() const { return part_; }

 private:
  const Call<A>& call_;
  View<const T, 4> x_;
  Index b_ = 0;
  Part part_;
  Turner<A> turner_;
  AlignedArray<A> memory_;
  std::array<Block<A>, 2> slots_{};
};

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

template <class T>
void tell_memory(CallMemory& memory, const LinearAttentionInputs<T>& in) {
  memory.reads("q", in.q).reads("k", in.k).reads("v", in.v);
  memory.reads_positions("q_positions", in.q_positions).reads_positions("k_positions", in.k_positions);
}

/// Runs body(room, unit) for all units, which tasks with a room each fetch as they get to them.
template <class Rooms, class Body>
void over_units(const Executor& on, Rooms& rooms, Index units, const Body& body) {
  std::atomic<Index> next{0};
  parallel(on, static_cast<Index>(rooms.size()), [&](Index task) {
    for (Index unit = next++; unit < units; unit = next++) body(rooms[static_cast<std::size_t>(task)], unit);
  });
}
inline Index task_count(const Executor& on, Index units) {
  return on.run == nullptr ? std::min<Index>(units, 1) : std::min(units, std::max<Index>(on.workers, 1));
}

}  // namespace bearing::linear
