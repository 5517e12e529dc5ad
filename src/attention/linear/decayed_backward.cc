#include "attention/linear/decayed_room.hpp"

// Backward where the state decays, two passes, with the parts of DecayedRoom:
//
//     in order     d_a_i = E_i ∘ (S d_o_i) + Σ_j (d_o_i·v_j) (D_ij ∘ b_j)
//     in reverse   R, the gradient of S where a block of keys ends:
//                  d_b_j = rest_j ∘ (R v_j) + Σ_i (d_o_i·v_j) (D_ij ∘ a_i)      d_v_j = Rᵀ (rest_j ∘ b_j) + Σ_i w_ij
//                  d_o_i R ← total ∘ R + Σ_i (E_i ∘ a_i) d_o_iᵀ, of the queries that stand in the block
//
// Where a denominator divides, d_o_i stands for d_o_i / n_i, and
//
//     in order     d_n_i = −(a_i·d_a_i) / n_i        d_φ(q_i) = Tᵀ d_a_i + d_n_i z_i
//     in reverse   y, the gradient of z where a block of keys ends:
//                  d_φ(k_j) = Tᵀ d_b_j + rest_j ∘ y + Σ_i d_n_i (D_ij ∘ φ(q_i))
//                  y ← total ∘ y + Σ_i d_n_i (E_i ∘ φ(q_i))
//
// A step's gradient: every weight is e to the sum of the steps between, so a row times its gradient is what the
// logarithms of the parts before it get (DecayGrads).

namespace bearing::linear {

namespace {

template <class A>
class BackwardRoom : DecayedRoom<A> {
 public:
  explicit BackwardRoom(BackwardCall<A>& of)
      : DecayedRoom<A>(of.call, of.call.problem.value_dim),
        of_(of),
        value_dim_(of.call.problem.value_dim),
        steps_(of.call, wants_steps(of)),
        d_features_(block_tokens * dim_),
        d_queries_(call_.group() * block_tokens * rows_dim_),
        d_keys_(block_tokens * rows_dim_),
        d_values_(block_tokens * value_dim_),
        row_(rows_dim_),
        d_end_(wants_end() ? rows_dim_ * value_dim_ : 0),
        inverse_(call_.normalised() ? call_.group() * call_.problem.q_len : 0),
        d_denominator_(inverse_.size()),
        d_sums_(call_.normalised() ? (call_.group() + 1) * block_tokens * dim_ : 0) {}

  /// One key head of one sequence, and all query heads that read it.
  void run(Index unit) {
    const Index b = unit / call_.problem.kv_heads, kv = unit % call_.problem.kv_heads;
    steps_.open(b, kv);
    run_forward(b, kv);
    run_reverse(b, kv);
    steps_.pass_on(of_.has_start, of_.decay_params);
  }

 private:
  using DecayedRoom<A>::call_, DecayedRoom<A>::dim_, DecayedRoom<A>::rows_dim_, DecayedRoom<A>::b_, DecayedRoom<A>::kv_,
      DecayedRoom<A>::s_, DecayedRoom<A>::scores_, DecayedRoom<A>::decayed_, DecayedRoom<A>::decay_;

  static bool wants_steps(BackwardCall<A>& of) {
    bool any = false;
    for (Index t = 0; t < of.call.decays.size; ++t) any |= of.decay_params.block(0, 0, t) != nullptr;
    return any;
  }

  /// Whether steps get what the state at the call's end, S or z, gives them.
  bool wants_end() const { return steps_.wanted() && of_.has_d_state; }

  void open_pass(Index b, Index kv) {
    const Problem& p = call_.problem;
    this->open(b, kv, of_.has_d_state ? Part{0, p.k_len} : seen_keys(call_, b),
               of_.has_start ? Part{0, p.q_len} : seeing_queries(call_, b), value_dim_);
  }
  const Block<A>& key_block(Index first) {
    return this->keys_.get(kv_, first, [&](Block<A>& block) {
      load(call_.v, this->keys_.part(), b_, kv_, first, block.rows, 0, value_dim_, block.values);
      block.values_in_place = block.values, block.value_stride = value_dim_;
    });
  }
  /// A block whose rows beside it are d_o_i.
  const Block<A>& query_block(Index g, Index first) {
    const Index head = kv_ * call_.group() + g;
    return this->queries_.get(head, first, [&](Block<A>& block) {
      load(of_.d_out, this->queries_.part(), b_, head, first, block.rows, 0, value_dim_, block.values);
      if (reverse_ && call_.normalised()) {
        scale_rows(block.rows, value_dim_, inverse(g, first), block.values, value_dim_);
      }
    });
  }
  A* inverse(Index g, Index i) { return inverse_.data() + g * call_.problem.q_len + i; }
  A* d_denominator(Index g, Index i) { return d_denominator_.data() + g * call_.problem.q_len + i; }
  /// d_n_i z_i of a block of queries; behind those of all heads is room for a block.
  A* d_sums(Index g, Index i) { return d_sums_.data() + (g * block_tokens + i) * dim_; }

  // ---- in order: d_q

  void run_forward(Index b, Index kv) {
    reverse_ = false;
    open_pass(b, kv);
    if (of_.has_start) this->load_state(of_.start.s, 0);
    if (of_.has_start) load_sums(of_.start.z);
    Index seen = 0;
    const auto absorb_to = [&](Index end) {
      for (; seen < end; seen += block_rows(seen, call_.problem.k_len)) this->absorb(key_block(seen));
    };
    for (Index first = 0; first < call_.problem.q_len; first += block_tokens) {
      const Index end = first + block_rows(first, call_.problem.q_len);
      for (Index row = first; row < end;) {
        const Run run = run_from(row, end, this->visible());
        absorb_to(run.base);
        this->meet(run);
        if (call_.normalised()) this->sum_up(run, sees_keys(run) ? &key_block(run.base) : nullptr);
        for (Index g = 0; g < call_.group(); ++g) query_grads(g, first, run);
        row += run.rows;
      }
      for (Index g = 0; g < call_.group(); ++g) finish_queries(g, first);
    }
    if (!wants_end()) return;
    absorb_to(call_.problem.k_len);
    for (Index e = 0; e < rows_dim_; ++e) {
      for (Index d = 0; d < value_dim_; ++d) d_end_[e * value_dim_ + d] = of_.grads.d_state.s(b_, kv_, e, d);
    }
    steps_.end(rows_dim_, s_.data(), d_end_.data(), value_dim_);
    if (!call_.normalised()) return;
    for (Index d = 0; d < dim_; ++d) this->z_room_[d] = of_.grads.d_state.z(b_, kv_, d);
    steps_.end(dim_, this->z_.data(), this->z_room_.data(), 1);
  }

  template <class S>
  void load_sums(const View<S, 3>& from) {
    for (Index d = 0; call_.normalised() && d < dim_; ++d) this->z_[d] = from(b_, kv_, d);
  }
  bool sees_keys(const Run& run) const { return run.base < this->visible()[run.row + run.rows - 1]; }

  A* d_queries(Index g, Index i) { return d_queries_.data() + (g * block_tokens + i) * rows_dim_; }

  void query_grads(Index g, Index first, const Run& run) {
    const Block<A>& block = query_block(g, first);
    const Index at = run.row - first;
    const A *a = block.turned + at * rows_dim_, *d_o = block.values + at * value_dim_;
    A* d = d_queries(g, at);
    tiles::multiply_nt(run.rows, rows_dim_, value_dim_, A{1}, d_o, value_dim_, s_.data(), value_dim_, d, rows_dim_);
    decay_.to_start(d, d);
    if (sees_keys(run)) {
      const Block<A>& keys = key_block(run.base);
      this->over_products(run, d_o, value_dim_, keys.values, value_dim_, keys, [&](Index i, Index strip, Index seen) {
        if (!decay_.by_channel()) {
          tiles::add_multiply_nn(strip, seen, rows_dim_, A{1}, scores_.data(), block_tokens, keys.turned, rows_dim_,
                                 d + i * rows_dim_, rows_dim_);
        }
        for (Index r = 0; r < strip && decay_.by_channel(); ++r) {
          decay_.sum_keys(i + r, scores_.data() + r * block_tokens, keys.turned, d + (i + r) * rows_dim_, row_.data());
        }
      });
    }
    if (call_.normalised()) divide(g, first, run, block);
    for (Index i = 0; i < run.rows && steps_.wanted(); ++i) {
      steps_.query(g, run.row + i, this->visible()[run.row + i], rows_dim_, a + i * rows_dim_, d + i * rows_dim_);
    }
  }

  /// 1/n_i and d_n_i of a run; d_queries from what d_o_i gives to d_a_i.
  void divide(Index g, Index first, const Run& run, const Block<A>& block) {
    const Index at = run.row - first;
    const A *features = block.features + at * dim_, *a = block.turned + at * rows_dim_;
    A *d = d_queries(g, at), *of_one = inverse(g, run.row), *d_n = d_denominator(g, run.row);
    this->invert(run, features, of_one);
    scale_rows(run.rows, rows_dim_, of_one, d, rows_dim_);
    attend::row_products(run.rows, rows_dim_, a, rows_dim_, d, rows_dim_, d_n);
    std::fill_n(d_sums(g, at), run.rows * dim_, A{0});
    for (Index i = 0; i < run.rows; ++i) {
      d_n[i] *= -of_one[i];
      add_scaled(dim_, d_n[i], this->z_rows_.data() + i * dim_, d_sums(g, at + i));
      if (!steps_.wanted()) continue;
      steps_.query(g, run.row + i, this->visible()[run.row + i], dim_, features + i * dim_, d_sums(g, at + i));
    }
  }

  void finish_queries(Index g, Index first) {
    const Index head = kv_ * call_.group() + g;
    const Block<A>& block = query_block(g, first);
    this->queries_.turn_grads(block, d_queries(g, 0), d_features_.data(),
                              [&](Index t) { return of_.q_params.block(b_, head, t); });
    if (!of_.grads.d_q.given()) return;
    if (call_.normalised()) add_rows(1, block.rows * dim_, d_sums(g, 0), d_features_.data());
    finish(block, of_.grads.d_q, head);
  }

  /// Through the feature map.
  void finish(const Block<A>& block, const ResultRows<A>& to, Index head) {
    feature_grads(call_.options.feature_map, block.rows * dim_, block.features, d_features_.data(), d_features_.data());
    to.store(d_features_.data(), dim_, block.rows, b_, head, block.first);
  }

  // ---- in reverse: d_k and d_v. s_ is R, z_ is y.

  void run_reverse(Index b, Index kv) {
    reverse_ = true;
    open_pass(b, kv);
    if (of_.has_d_state) this->load_state(of_.grads.d_state.s, 0);
    if (of_.has_d_state) load_sums(of_.grads.d_state.z);
    const Problem& p = call_.problem;
    Index rest = p.q_len;  // queries below it are not in R yet
    for (Index first = block_start(p.k_len); first >= 0; first -= block_tokens) {
      const Index* begin = this->visible();
      const Index low = std::lower_bound(begin, begin + rest, first) - begin;
      if (call_.normalised()) key_sums(first, low, rest);
      if (first < p.k_len) key_grads(first, low, rest);
      decay_.block(first, block_rows(first, p.k_len));
      decay_.pass(s_.data(), value_dim_);
      over_runs(low, rest, [&](Index g, const Block<A>& block, const Run& run) {
        const Index at = run.row - block.first;
        if (g == 0) this->meet(run);
        decay_.to_start(block.turned + at * rows_dim_, decayed_.data());
        tiles::add_multiply_tn(run.rows, rows_dim_, value_dim_, A{1}, decayed_.data(), rows_dim_,
                               block.values + at * value_dim_, value_dim_, s_.data(), value_dim_);
      });
      rest = low;
    }
    if (!of_.has_d_state) return;
    this->store_state(of_.grads.d_state.s, 0);
    for (Index d = 0; call_.normalised() && d < dim_; ++d) of_.grads.d_state.z(b_, kv_, d) = this->z_[d];
  }

  /// z_rows_[j] = what the denominators leave to the features of a block's key j, and z_ goes before the block.
  void key_sums(Index first, Index low, Index end) {
    Index j = std::max<Index>(block_rows(first, call_.problem.k_len), 0);
    A *behind = this->z_room_.data(), *room = behind + dim_;  // of the queries in the block that stand behind key j
    std::fill_n(behind, dim_, A{0});
    decay_.block(first, j);
    const auto down_to = [&](Index seen) {
      while (j > seen) {
        A* to = this->z_rows_.data() + --j * dim_;
        decay_.sum_to_end(j, this->z_.data(), to);
        add_rows(1, dim_, behind, to);
        decay_.sum_steps(j, behind, behind);
      }
    };
    over_runs(low, end, [&](Index g, const Block<A>& block, const Run& run) {
      A* all = d_sums(call_.group(), 0);
      if (g == 0) this->meet(run), std::fill_n(all, run.rows * dim_, A{0});
      for (Index i = 0; i < run.rows; ++i) {
        const A* features = block.features + (run.row - block.first + i) * dim_;
        add_scaled(dim_, *d_denominator(g, run.row + i), features, all + i * dim_);
      }
      for (Index i = run.rows; g + 1 == call_.group() && i-- > 0;) {
        down_to(decay_.seen(i));
        decay_.sum_meets(i, all + i * dim_, room);
        add_rows(1, dim_, room, behind);
      }
    });
    down_to(0);
    decay_.sum_passes(this->z_.data(), this->z_.data());
    add_rows(1, dim_, behind, this->z_.data());
  }

  /// body(g, block, run) for all runs of queries [low, end), the last one first.
  template <class Body>
  void over_runs(Index low, Index end, const Body& body) {
    while (end > low) {
      const Index first = block_start(end - 1);
      const Run run = run_before(end, std::max(low, first), this->visible());
      for (Index g = 0; g < call_.group(); ++g) body(g, query_block(g, first), run);
      end = run.row;
    }
  }

  void key_grads(Index first, Index low, Index end) {
    const Block<A>& keys = key_block(first);
    decay_.block(first, keys.rows);
    decay_.to_end(keys.turned, decayed_.data());
    tiles::multiply_nn(keys.rows, rows_dim_, value_dim_, A{1}, decayed_.data(), rows_dim_, s_.data(), value_dim_,
                       d_values_.data(), value_dim_);
    tiles::multiply_nt(keys.rows, rows_dim_, value_dim_, A{1}, keys.values, value_dim_, s_.data(), value_dim_,
                       d_keys_.data(), rows_dim_);
    decay_.to_end(d_keys_.data(), d_keys_.data());
    over_runs(low, end, [&](Index g, const Block<A>& block, const Run& run) {
      if (g == 0) this->meet(run);
      add_products(block, run, keys);
    });
    for (Index j = 0; j < keys.rows && steps_.wanted(); ++j) {
      steps_.key(first + j, rows_dim_, keys.turned + j * rows_dim_, d_keys_.data() + j * rows_dim_);
      if (!call_.normalised()) continue;
      steps_.key(first + j, dim_, keys.features + j * dim_, this->z_rows_.data() + j * dim_);
    }
    this->keys_.turn_grads(keys, d_keys_.data(), d_features_.data(),
                           [&](Index t) { return of_.k_params.block(b_, kv_, t); });
    of_.grads.d_v.store(d_values_.data(), value_dim_, keys.rows, b_, kv_, first);
    if (!of_.grads.d_k.given()) return;
    if (call_.normalised()) add_rows(1, keys.rows * dim_, this->z_rows_.data(), d_features_.data());
    finish(keys, of_.grads.d_k, kv_);
  }

  /// What the queries of a run add to the gradients of the block of keys in which they stand.
  void add_products(const Block<A>& block, const Run& run, const Block<A>& keys) {
    const Index at = run.row - block.first;
    const A *a = block.turned + at * rows_dim_, *d_o = block.values + at * value_dim_;
    this->over_weights(run, a, keys, [&](Index i, Index strip, Index seen) {
      tiles::add_multiply_tn(strip, seen, value_dim_, A{1}, scores_.data(), block_tokens, d_o + i * value_dim_,
                             value_dim_, d_values_.data(), value_dim_);
    });
    this->over_products(run, d_o, value_dim_, keys.values, value_dim_, keys, [&](Index i, Index strip, Index seen) {
      if (!decay_.by_channel()) {
        tiles::add_multiply_tn(strip, seen, rows_dim_, A{1}, scores_.data(), block_tokens, a + i * rows_dim_, rows_dim_,
                               d_keys_.data(), rows_dim_);
      }
      for (Index r = 0; r < strip && decay_.by_channel(); ++r) {
        const Index met = decay_.meet_keys(i + r, a + (i + r) * rows_dim_, this->met_.data());
        for (Index j = 0; j < met; ++j) {
          add_scaled(rows_dim_, scores_[r * block_tokens + j], this->met_.data() + j * rows_dim_,
                     d_keys_.data() + j * rows_dim_);
        }
      }
    });
  }

  BackwardCall<A>& of_;
  Index value_dim_;
  DecayGrads<A> steps_;
  AlignedArray<A> d_features_, d_queries_, d_keys_, d_values_, row_, d_end_;
  AlignedArray<A> inverse_, d_denominator_, d_sums_;  // where a denominator divides: [group, q_len], and blocks
  bool reverse_ = false;                              // d_o_i is d_o_i / n_i
};

}  // namespace

template <class A>
void run_decayed(BackwardCall<A>& backward, Index units, const Executor& on) {
  std::vector<BackwardRoom<A>> rooms = make_workers<BackwardRoom<A>>(on, units, backward);
  share_units(on, rooms, units, [](BackwardRoom<A>& room, Index unit) { room.run(unit); });
}

template void run_decayed<float>(BackwardCall<float>&, Index, const Executor&);
template void run_decayed<double>(BackwardCall<double>&, Index, const Executor&);

}  // namespace bearing::linear
