#include <bearing/linear_attention.hpp>

#include "attention/linear/linear_call.hpp"
#include "terms/tile_kernels.hpp"

// Backward, two passes. With a_i = T φ(q_i), b_j = T φ(k_j), n_i the denominator and z_i = Σ φ(k_j) of what i sees:
//
//     in order     g_i = Σ_j (d_o_i·v_j) b_j        as o_i·n_i = Σ_j (a_i·b_j) v_j, so that d_o_i·o_i = a_i·g_i / n_i
//                  d_a_i = g_i / n_i                d_n_i = −(a_i·g_i) / n_i²        d_φ(q_i) = Tᵀ d_a_i + d_n_i z_i
//     in reverse   R_j = Σ_i a_i (d_o_i / n_i)ᵀ     y_j = Σ_i d_n_i φ(q_i)           over the queries that see j
//                  d_v_j = R_jᵀ b_j                 d_b_j = R_j v_j                  d_φ(k_j) = Tᵀ d_b_j + y_j
//
// Sums over whole blocks are carried along, the rest comes from masked products, as in the forward.

namespace bearing {

using namespace linear;

namespace {

/// What a task works with.
template <class A>
class BackwardRoom {
 public:
  /// Throws std::bad_alloc; nothing below does.
  explicit BackwardRoom(BackwardCall<A>& of)
      : of_(of),
        call_(of.call),
        dim_(call_.in_dim),
        rows_dim_(call_.problem.dim),
        value_dim_(call_.problem.value_dim),
        keys_(call_, Side::key),
        queries_(call_, Side::query),
        s_(rows_dim_ * value_dim_),
        z_(2 * dim_),
        inverse_(call_.group() * call_.problem.q_len),
        d_denominator_(call_.group() * call_.problem.q_len),
        scores_(block_tokens * block_tokens),
        sums_(block_tokens * dim_),
        d_features_(block_tokens * dim_),
        d_turned_(block_tokens * rows_dim_),
        d_values_(block_tokens * value_dim_),
        products_(block_tokens) {}

  /// One key head of one sequence, and all query heads that read it.
  void run(Index unit) {
    b_ = unit / call_.problem.kv_heads, kv_ = unit % call_.problem.kv_heads;
    run_forward();
    run_reverse();
  }

 private:
  // ---- in order: denominators and d_q. s_ is Sᵀ [value_dim, rows_dim], z_ is z.

  void run_forward() {
    open();
    if (of_.has_start) {
      for (Index e = 0; e < rows_dim_; ++e) {
        for (Index d = 0; d < value_dim_; ++d) s_[d * rows_dim_ + e] = of_.start.s(b_, kv_, e, d);
      }
      for (Index d = 0; call_.normalised() && d < dim_; ++d) z_[d] = of_.start.z(b_, kv_, d);
    }
    const Index* visible = call_.visible_of(b_);
    Index seen = 0;
    for (Index first = 0; first < call_.problem.q_len; first += block_tokens) {
      const Index rows = block_rows(first, call_.problem.q_len);
      while (seen < visible[first] && seen + block_rows(seen, call_.problem.k_len) <= visible[first])
        seen += absorb_keys(seen);
      if (call_.normalised()) sum_up(seen, rows, visible + first);
      for (Index g = 0; g < call_.group(); ++g) query_grads(g, seen, first, rows, visible + first);
    }
  }

  void open() {
    keys_.open(b_, of_.has_d_state ? Part{0, call_.problem.k_len} : seen_keys(call_, b_));
    queries_.open(b_, of_.has_start ? Part{0, call_.problem.q_len} : seeing_queries(call_, b_));
    std::fill_n(s_.data(), s_.size(), A{0});
    std::fill_n(z_.data(), dim_, A{0});
  }

  const Block<A>& key_block(Index first) {
    return keys_.get(kv_, first, [&](Block<A>& block) {
      load(call_.v, keys_.part(), b_, kv_, first, block.rows, 0, value_dim_, block.values);
    });
  }

  Index absorb_keys(Index first) {
    const Block<A>& block = key_block(first);
    tiles::add_multiply_tn(block.rows, value_dim_, rows_dim_, A{1}, block.values, value_dim_, block.turned, rows_dim_,
                           s_.data(), rows_dim_);
    if (call_.normalised()) take_up(block, dim_, z_.data());
    return block.rows;
  }

  /// sums_[i] = z_i
  void sum_up(Index seen, Index rows, const Index* visible) {
    sum_seen(rows, visible, seen, dim_, z_.data(), sums_.data(),
             [&](Index first) -> const Block<A>& { return key_block(first); });
  }

  void query_grads(Index g, Index seen, Index first, Index rows, const Index* visible) {
    const Index head = kv_ * call_.group() + g;
    const Block<A>& block = queries_.get(head, first, [&](Block<A>& made) {
      load(of_.d_out, queries_.part(), b_, head, first, made.rows, 0, value_dim_, made.values);
    });
    A* sums = d_turned_.data();  // g_i
    tiles::multiply_nn(rows, value_dim_, rows_dim_, A{1}, block.values, value_dim_, s_.data(), rows_dim_, sums,
                       rows_dim_);
    for (Index from = seen; from < visible[rows - 1]; from += block_tokens) {
      const Block<A>& keys = key_block(from);
      over_strips(rows, from, keys.rows, visible, [&](Index i, Index strip, Index cols) {
        tiles::multiply_nt(strip, cols, value_dim_, A{1}, block.values + i * value_dim_, value_dim_, keys.values,
                           value_dim_, scores_.data(), block_tokens);
        hide(strip, from, cols, visible + i, scores_.data());
        tiles::add_multiply_nn(strip, cols, rows_dim_, A{1}, scores_.data(), block_tokens, keys.turned, rows_dim_,
                               sums + i * rows_dim_, rows_dim_);
      });
    }
    divide(g, first, rows, block);
    queries_.turn_grads(block, sums, d_features_.data(), [&](Index t) { return of_.q_params.block(b_, head, t); });
    if (!of_.grads.d_q.given()) return;
    for (Index i = 0; call_.normalised() && i < rows; ++i) {
      add_scaled(dim_, d_denominator_[g * call_.problem.q_len + first + i], sums_.data() + i * dim_,
                 d_features_.data() + i * dim_);
    }
    finish(block, rows, d_features_.data());
    of_.grads.d_q.store(d_features_.data(), dim_, rows, b_, head, first);
  }

  /// 1/n_i and d_n_i of a block; d_turned_ from g_i to d_a_i.
  void divide(Index g, Index first, Index rows, const Block<A>& block) {
    A *inverse = inverse_.data() + g * call_.problem.q_len + first,
      *d_n = d_denominator_.data() + g * call_.problem.q_len + first;
    if (!call_.normalised()) {
      std::fill_n(inverse, rows, A{1});
      std::fill_n(d_n, rows, A{0});
      return;
    }
    attend::row_products(rows, dim_, block.features, dim_, sums_.data(), dim_, products_.data());
    for (Index i = 0; i < rows; ++i) {
      inverse[i] = inverse_of(products_[i] + static_cast<A>(call_.options.epsilon));
    }
    scale_rows(rows, rows_dim_, inverse, d_turned_.data(), rows_dim_);
    attend::row_products(rows, rows_dim_, block.turned, rows_dim_, d_turned_.data(), rows_dim_, products_.data());
    for (Index i = 0; i < rows; ++i) d_n[i] = -products_[i] * inverse[i];
  }

  /// Through the feature map.
  void finish(const Block<A>& block, Index rows, A* d) {
    feature_grads(call_.options.feature_map, rows * dim_, block.features, d, d);
  }

  // ---- in reverse: d_k and d_v. s_ is R [rows_dim, value_dim], z_ is y.

  void run_reverse() {
    open();
    if (of_.has_d_state) {
      for (Index e = 0; e < rows_dim_; ++e) {
        for (Index d = 0; d < value_dim_; ++d) s_[e * value_dim_ + d] = of_.grads.d_state.s(b_, kv_, e, d);
      }
      for (Index d = 0; call_.normalised() && d < dim_; ++d) z_[d] = of_.grads.d_state.z(b_, kv_, d);
    }
    const Index* visible = call_.visible_of(b_);
    Index rest = call_.problem.q_len;  // queries below it are not in R and y yet
    for (Index end = call_.problem.k_len; end > 0; end = block_start(end - 1)) {
      while (rest > 0 && visible[block_start(rest - 1)] >= end) rest = absorb_queries(block_start(rest - 1));
      key_grads(block_start(end - 1), rest, visible);
    }
    if (!of_.has_d_state) return;
    while (rest > 0) rest = absorb_queries(block_start(rest - 1));
    for (Index e = 0; e < rows_dim_; ++e) {
      for (Index d = 0; d < value_dim_; ++d) of_.grads.d_state.s(b_, kv_, e, d) = s_[e * value_dim_ + d];
    }
    for (Index d = 0; call_.normalised() && d < dim_; ++d) of_.grads.d_state.z(b_, kv_, d) = z_[d];
  }

  /// A block whose rows beside it are d_o_i / n_i.
  const Block<A>& query_block(Index g, Index first) {
    const Index head = kv_ * call_.group() + g;
    return queries_.get(head, first, [&](Block<A>& block) {
      load(of_.d_out, queries_.part(), b_, head, first, block.rows, 0, value_dim_, block.values);
      scale_rows(block.rows, value_dim_, inverse_.data() + g * call_.problem.q_len + first, block.values, value_dim_);
    });
  }

  Index absorb_queries(Index first) {
    for (Index g = 0; g < call_.group(); ++g) {
      const Block<A>& block = query_block(g, first);
      tiles::add_multiply_tn(block.rows, rows_dim_, value_dim_, A{1}, block.turned, rows_dim_, block.values, value_dim_,
                             s_.data(), value_dim_);
      if (!call_.normalised()) continue;
      A* sum = z_.data() + dim_;
      std::fill_n(sum, dim_, A{0});
      for (Index i = 0; i < block.rows; ++i) {
        add_scaled(dim_, d_denominator_[g * call_.problem.q_len + first + i], block.features + i * dim_, sum);
      }
      add_rows(1, dim_, sum, z_.data());
    }
    return first;
  }

  void key_grads(Index first, Index rest, const Index* visible) {
    const Block<A>& keys = key_block(first);
    tiles::multiply_nn(keys.rows, rows_dim_, value_dim_, A{1}, keys.turned, rows_dim_, s_.data(), value_dim_,
                       d_values_.data(), value_dim_);
    tiles::multiply_nt(keys.rows, rows_dim_, value_dim_, A{1}, keys.values, value_dim_, s_.data(), value_dim_,
                       d_turned_.data(), rows_dim_);
    for (Index j = 0; j < keys.rows; ++j) std::copy_n(z_.data(), dim_, sums_.data() + j * dim_);
    for (Index end = rest; end > 0 && visible[end - 1] > first; end = block_start(end - 1)) {
      const Index from = block_start(end - 1);
      for (Index g = 0; g < call_.group(); ++g) add_products(g, from, end - from, visible + from, keys);
    }
    keys_.turn_grads(keys, d_turned_.data(), d_features_.data(),
                     [&](Index t) { return of_.k_params.block(b_, kv_, t); });
    of_.grads.d_v.store(d_values_.data(), value_dim_, keys.rows, b_, kv_, first);
    if (!of_.grads.d_k.given()) return;
    if (call_.normalised()) add_rows(1, keys.rows * dim_, sums_.data(), d_features_.data());
    finish(keys, keys.rows, d_features_.data());
    of_.grads.d_k.store(d_features_.data(), dim_, keys.rows, b_, kv_, first);
  }

  /// What the queries of a block that see only some of a block of keys add to their gradients.
  void add_products(Index g, Index from, Index rows, const Index* visible, const Block<A>& keys) {
    const Block<A>& block = query_block(g, from);
    over_strips(rows, keys.first, keys.rows, visible, [&](Index i, Index strip, Index cols) {
      const A *turned = block.turned + i * rows_dim_, *d_o = block.values + i * value_dim_;
      tiles::multiply_nt(strip, cols, rows_dim_, A{1}, turned, rows_dim_, keys.turned, rows_dim_, scores_.data(),
                         block_tokens);
      hide(strip, keys.first, cols, visible + i, scores_.data());
      tiles::add_multiply_tn(strip, cols, value_dim_, A{1}, scores_.data(), block_tokens, d_o, value_dim_,
                             d_values_.data(), value_dim_);
      tiles::multiply_nt(strip, cols, value_dim_, A{1}, d_o, value_dim_, keys.values, value_dim_, scores_.data(),
                         block_tokens);
      hide(strip, keys.first, cols, visible + i, scores_.data());
      tiles::add_multiply_tn(strip, cols, rows_dim_, A{1}, scores_.data(), block_tokens, turned, rows_dim_,
                             d_turned_.data(), rows_dim_);
    });
    if (!call_.normalised()) return;
    A* sum = z_.data() + dim_;
    std::fill_n(sum, dim_, A{0});
    for (Index j = keys.rows, i = rows; j-- > 0;) {
      for (; i > 0 && visible[i - 1] > keys.first + j; --i) {
        add_scaled(dim_, d_denominator_[g * call_.problem.q_len + from + i - 1], block.features + (i - 1) * dim_, sum);
      }
      add_rows(1, dim_, sum, sums_.data() + j * dim_);
    }
  }

  BackwardCall<A>& of_;
  const Call<A>& call_;
  Index dim_, rows_dim_, value_dim_;
  Blocks<A> keys_, queries_;
  AlignedArray<A> s_, z_;                    // carried sums; behind z_ a sum within blocks
  AlignedArray<A> inverse_, d_denominator_;  // [group, q_len]
  AlignedArray<A> scores_, sums_, d_features_, d_turned_, d_values_, products_;
  Index b_ = 0, kv_ = 0;
};

template <class A>
void run(BackwardCall<A>& backward, Index units, const Executor& on) {
  if (backward.call.decays.size > 0) return run_decayed(backward, units, on);
  std::vector<BackwardRoom<A>> rooms = make_workers<BackwardRoom<A>>(on, units, backward);
  share_units(on, rooms, units, [](BackwardRoom<A>& room, Index unit) { room.run(unit); });
}

template <class A, class T>
void check_memory(const BackwardCall<A>& of, const TermList<A>& terms, const LinearAttentionGrads<T>& grads) {
  CallMemory memory(of.call.function);
  of.call.tell_inputs(memory);
  memory.reads("d_out", of.d_out.memory());
  const bool sums = of.call.normalised();
  if (of.has_start) memory.reads("start.s", of.start.s);
  if (of.has_start && sums) memory.reads("start.z", of.start.z);
  for (const Term<A>& term : terms) memory.backward(term);
  memory.writes("d_q", grads.d_q).writes("d_k", grads.d_k).writes("d_v", grads.d_v);
  if (of.has_d_state) memory.writes("d_state.s", grads.d_state.s);
  if (of.has_d_state && sums) memory.writes("d_state.z", grads.d_state.z);
  memory.check();
}

}  // namespace

template <class T>
void linear_attention_backward(const LinearAttentionInputs<T>& in, const std::type_identity_t<View<const T, 4>>& d_out,
                               const std::type_identity_t<LinearState<const Compute<T>>>& start,
                               const std::type_identity_t<LinearAttentionGrads<T>>& grads,
                               const std::type_identity_t<TermList<Compute<T>>>& terms,
                               const LinearAttentionOptions& options, const Executor& on) {
  using A = Compute<T>;
  Call<A> call("linear_attention_backward", in, terms, options);
  call.check_like_out("d_out", d_out);
  call.check_grad_of("q", call.q, "d_q", grads.d_q);
  call.check_grad_of("k", call.k, "d_k", grads.d_k);
  call.check_grad_of("v", call.v, "d_v", grads.d_v);
  const bool has_start = call.check_state("start", start), has_d_state = call.check_state("d_state", grads.d_state);
  const TermList<A> rows = call.rows, decays = call.decays;  // which blocks of parameters refer to
  const Index batch = call.problem.batch, heads = call.problem.heads, kv_heads = call.problem.kv_heads;
  const bool some = in.q.size() > 0 || in.k.size() > 0 || in.v.size() > 0;
  if (!some && !(has_d_state && call.has_numbers(grads.d_state))) return;
  BackwardCall<A> backward{
      .call = std::move(call),
      .d_out = HeadRows<A>(d_out),
      .start = start,
      .grads = {ResultRows<A>(grads.d_q), ResultRows<A>(grads.d_k), ResultRows<A>(grads.d_v), grads.d_state},
      .has_start = has_start,
      .has_d_state = has_d_state,
      .q_params = ParamBlocks<A>(rows, batch, heads),
      .k_params = ParamBlocks<A>(rows, batch, kv_heads),
      .decay_params = ParamBlocks<A>(decays, batch, kv_heads)};
  check_memory(backward, terms, grads);
  run(backward, batch * kv_heads, on);
  for (ParamBlocks<A>* params : {&backward.q_params, &backward.k_params, &backward.decay_params}) params->collect();
}

#define BEARING_INSTANTIATE(T)                                                                        \
  template void linear_attention_backward<T>(                                                         \
      const LinearAttentionInputs<T>&, const View<const T, 4>&, const LinearState<const Compute<T>>&, \
      const LinearAttentionGrads<T>&, const TermList<Compute<T>>&, const LinearAttentionOptions&, const Executor&);
BEARING_EACH_NUMBER(BEARING_INSTANTIATE)
#undef BEARING_INSTANTIATE

}  // namespace bearing
