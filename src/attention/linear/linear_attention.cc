#include <bearing/linear_attention.hpp>

#include "attention/linear/linear_call.hpp"
#include "attention/shared/extents.hpp"
#include "simd/prefetch.hpp"
#include "terms/tile_kernels.hpp"

// Forward: the keys' blocks in order. A block of queries takes from S what all of its queries see in whole blocks of
// keys, and the rest, which is about its own block in a causal call, from masked products.

namespace bearing {

using namespace linear;

namespace {

constexpr Index least_columns = 32;  ///< of a slice

/// What a task works with.
template <class A>
class ForwardRoom {
 public:
  /// Throws std::bad_alloc; nothing below does.
  explicit ForwardRoom(ForwardCall<A>& of)
      : of_(of),
        call_(of.call),
        dim_(call_.in_dim),
        rows_dim_(call_.problem.dim),
        keys_(call_, Side::key),
        queries_(call_, Side::query),
        s_(rows_dim_ * call_.problem.value_dim),
        z_(2 * dim_),
        rows_(block_tokens * (block_tokens + call_.problem.value_dim + dim_ + 1)) {
    scores_ = rows_.data();
    numerators_ = scores_ + block_tokens * block_tokens;
    sums_ = numerators_ + block_tokens * call_.problem.value_dim;
    denominators_ = sums_ + block_tokens * dim_;
  }

  /// One key head of one sequence, and all query heads that read it.
  void run(Index unit) {
    const Index slice = unit % of_.slices, head = unit / of_.slices;
    open(head / call_.problem.kv_heads, head % call_.problem.kv_heads, slice);
    const Index* visible = call_.visible_of(b_);
    for (Index first = 0; first < call_.problem.q_len; first += block_tokens) {
      const Index rows = block_rows(first, call_.problem.q_len);
      absorb(visible[first]);
      if (call_.normalised()) sum_up(rows, visible + first);
      for (Index g = 0; g < call_.group(); ++g) {
        attend(kv_ * call_.group() + g, first, rows, visible + first);
      }
    }
    if (of_.keeps_state) close(slice);
  }

 private:
  void open(Index b, Index kv, Index slice) {
    b_ = b, kv_ = kv, seen_ = 0;
    col_ = of_.slice_start(slice);
    cols_ = of_.slice_start(slice + 1) - col_;
    // Every query sees what a state holds, and it takes up every key.
    keys_.open(b, of_.keeps_state ? Part{0, call_.problem.k_len} : seen_keys(call_, b));
    queries_.open(b, of_.keeps_state ? Part{0, call_.problem.q_len} : seeing_queries(call_, b));
    std::fill_n(s_.data(), rows_dim_ * cols_, A{0});
    std::fill_n(z_.data(), dim_, A{0});
    if (!of_.keeps_state) return;
    for (Index e = 0; e < rows_dim_; ++e) {
      for (Index d = 0; d < cols_; ++d) s_[e * cols_ + d] = of_.state.s(b, kv, e, col_ + d);
    }
    if (call_.normalised())
      std::copy_n(of_.z_before.data() + (b * call_.problem.kv_heads + kv) * dim_, dim_, z_.data());
  }

  void close(Index slice) {
    absorb(call_.problem.k_len);
    for (Index e = 0; e < rows_dim_; ++e) {
      for (Index d = 0; d < cols_; ++d) of_.state.s(b_, kv_, e, col_ + d) = s_[e * cols_ + d];
    }
    if (slice > 0 || !call_.normalised()) return;
    for (Index d = 0; d < dim_; ++d) of_.state.z(b_, kv_, d) = z_[d];
  }

  const Block<A>& key_block(Index first) {
    return keys_.get(kv_, first, [&](Block<A>& block) {
      const A* direct = cols_ > 0 ? in_place(call_.v, keys_.part(), b_, kv_, first, block.rows) : nullptr;
      block.values_in_place = direct != nullptr ? direct + col_ : block.values;
      block.value_stride = direct != nullptr ? call_.v.row_stride() : cols_;
      if (direct != nullptr) {
        const Index next = block_rows(first + block.rows, call_.problem.k_len), stride = block.value_stride;
        simd::prefetch_rows(block.values_in_place, block.rows * stride, next, cols_, stride);
      }
      if (direct == nullptr) {
        load(call_.v, keys_.part(), b_, kv_, first, block.rows, col_, cols_, block.values);
      }
    });
  }

  /// S and z take up all whole blocks of keys below `end`.
  void absorb(Index end) {
    while (seen_ < end && seen_ + block_rows(seen_, call_.problem.k_len) <= end) {
      const Block<A>& block = key_block(seen_);
      tiles::add_multiply_tn(block.rows, rows_dim_, cols_, A{1}, block.turned, rows_dim_, block.values_in_place,
                             block.value_stride, s_.data(), cols_);
      if (call_.normalised()) take_up(block, dim_, z_.data());
      seen_ += block.rows;
    }
  }

  /// sums_[i] = Σ φ(k_j) over the keys that row i sees.
  void sum_up(Index rows, const Index* visible) {
    sum_seen(rows, visible, seen_, dim_, z_.data(), sums_,
             [&](Index first) -> const Block<A>& { return key_block(first); });
  }

  void attend(Index head, Index first, Index rows, const Index* visible) {
    const Block<A>& block = queries_.get(head, first, [](Block<A>&) {});
    const bool direct = cols_ > 0 && of_.out.direct();
    A* const numerators = direct ? of_.out.row(b_, head, first) + col_ : numerators_;
    const Index stride = direct ? of_.out.row_stride() : cols_;
    if (direct) {
      const Index next = block_rows(first + rows, call_.problem.q_len);
      simd::prefetch_rows<simd::Use::write>(numerators, rows * stride, next, cols_, stride);
    }
    tiles::multiply_nn(rows, rows_dim_, cols_, A{1}, block.turned, rows_dim_, s_.data(), cols_, numerators, stride);
    for (Index from = seen_; from < visible[rows - 1]; from += block_tokens) {
      const Block<A>& keys = key_block(from);
      over_strips(rows, from, keys.rows, visible, [&](Index i, Index strip, Index seen) {
        tiles::multiply_nt(strip, seen, rows_dim_, A{1}, block.turned + i * rows_dim_, rows_dim_, keys.turned,
                           rows_dim_, scores_, block_tokens);
        hide(strip, from, seen, visible + i, scores_);
        tiles::add_multiply_nn(strip, seen, cols_, A{1}, scores_, block_tokens, keys.values_in_place, keys.value_stride,
                               numerators + i * stride, stride);
      });
    }
    if (call_.normalised()) normalise(block, rows, numerators, stride);
    if (!direct) of_.out.store(numerators_, cols_, rows, col_, cols_, b_, head, first);
  }

  void normalise(const Block<A>& block, Index rows, A* numerators, Index stride) {
    attend::row_products(rows, dim_, block.features, dim_, sums_, dim_, denominators_);
    for (Index i = 0; i < rows; ++i) {
      denominators_[i] = inverse_of(denominators_[i] + static_cast<A>(call_.options.epsilon));
    }
    scale_rows(rows, cols_, denominators_, numerators, stride);
  }

  ForwardCall<A>& of_;
  const Call<A>& call_;
  Index dim_, rows_dim_;
  Blocks<A> keys_, queries_;
  AlignedArray<A> s_, z_, rows_;  // z_: z, and the sum over a block
  A *scores_, *numerators_, *sums_, *denominators_;
  Index b_ = 0, kv_ = 0, col_ = 0, cols_ = 0;
  Index seen_ = 0;  // keys that S and z hold
};

template <class A>
void run(ForwardCall<A>& forward, const Executor& on) {
  const Call<A>& call = forward.call;
  const Problem& p = call.problem;
  const Index heads = p.batch * p.kv_heads;
  forward.slices = std::clamp<Index>(pieces(workers_of(on), heads), 1, std::max<Index>(p.value_dim / least_columns, 1));
  if (forward.keeps_state && call.normalised()) {
    for (Index h = 0; h < heads; ++h) {
      for (Index d = 0; d < call.in_dim; ++d) {
        forward.z_before.push_back(forward.state.z(h / p.kv_heads, h % p.kv_heads, d));
      }
    }
  }
  const Index units = heads * forward.slices;
  if (call.decays.size > 0) return run_decayed(forward, units, on);
  std::vector<ForwardRoom<A>> rooms = make_workers<ForwardRoom<A>>(on, units, forward);
  share_units(on, rooms, units, [](ForwardRoom<A>& room, Index unit) { room.run(unit); });
}

}  // namespace

template <class T>
void linear_attention(const LinearAttentionInputs<T>& in, View<T, 4> out,
                      const std::type_identity_t<LinearState<Compute<T>>>& state,
                      const std::type_identity_t<TermList<Compute<T>>>& terms, const LinearAttentionOptions& options,
                      const Executor& on) {
  using A = Compute<T>;
  ForwardCall<A> forward{Call<A>("linear_attention", in, terms, options), ResultRows<A>(out), state, false};
  const Call<A>& call = forward.call;
  call.check_like_out("out", out);
  forward.keeps_state = call.check_state("state", state);
  CallMemory memory(call.function);
  call.tell_inputs(memory);
  for (const Term<A>& term : terms) memory.forward(term);
  memory.writes("out", out);
  if (forward.keeps_state) memory.writes("state.s", state.s);
  if (forward.keeps_state && call.normalised()) memory.writes("state.z", state.z);
  memory.check();
  if (out.size() == 0 && !(forward.keeps_state && call.has_numbers(state))) return;
  run(forward, on);
}

#define BEARING_INSTANTIATE(T)                                                                                   \
  template void linear_attention<T>(const LinearAttentionInputs<T>&, View<T, 4>, const LinearState<Compute<T>>&, \
                                    const TermList<Compute<T>>&, const LinearAttentionOptions&, const Executor&);
BEARING_EACH_NUMBER(BEARING_INSTANTIATE)
#undef BEARING_INSTANTIATE

}  // namespace bearing
