#pragma once

#include "attention/linear/decay.hpp"
#include "terms/tile_kernels.hpp"

namespace bearing::linear {

/// What forward and backward work with where the state decays: S, which stands where a block of keys begins, and the
/// weights of the keys of that block. With the parts that Decay multiplies up,
///
///     o_i = (E_i ∘ a_i) S + Σ_j (a_i · (D_ij ∘ b_j)) v_j            S ← total ∘ S + Σ_j (rest_j ∘ b_j) v_jᵀ
///
/// over the keys j of the block that i sees, a_i = T φ(q_i), b_j = T φ(k_j). Where a denominator divides, z decays with
/// S, and z_i is what query i finds of it:
///
///     n_i = φ(q_i)·z_i + epsilon        z_i = E_i ∘ z + Σ_j D_ij ∘ φ(k_j)        z ← total ∘ z + Σ_j rest_j ∘ φ(k_j)
template <class A>
class DecayedRoom {
 public:
  /// `columns`: of S, at most. Throws std::bad_alloc; nothing below does.
  DecayedRoom(const Call<A>& call, Index columns)
      : call_(call),
        dim_(call.in_dim),
        rows_dim_(call.problem.dim),
        keys_(call, Side::key),
        queries_(call, Side::query),
        decay_(call),
        s_(rows_dim_ * columns),
        scores_(block_tokens * block_tokens),
        decayed_(block_tokens * rows_dim_),
        met_(call.channels() > 1 ? block_tokens * rows_dim_ : 0),
        z_(call.normalised() ? dim_ : 0),
        z_rows_(call.normalised() ? block_tokens * dim_ : 0),
        z_room_(call.normalised() ? 2 * dim_ : 0) {
    std::fill_n(scores_.data(), scores_.size(), A{0});
  }

 protected:
  void open(Index b, Index kv, Part keys, Part queries, Index cols) {
    b_ = b, kv_ = kv, cols_ = cols;
    keys_.open(b, keys);
    queries_.open(b, queries);
    decay_.open(b, kv);
    std::fill_n(s_.data(), rows_dim_ * cols, A{0});
    std::fill_n(z_.data(), z_.size(), A{0});
  }
  const Index* visible() const { return call_.visible_of(b_); }

  /// S, from or to columns [col, col + cols) of a state.
  template <class S>
  void load_state(const View<S, 4>& from, Index col) {
    for (Index e = 0; e < rows_dim_; ++e) {
      for (Index d = 0; d < cols_; ++d) s_[e * cols_ + d] = from(b_, kv_, e, col + d);
    }
  }
  void store_state(const View<A, 4>& to, Index col) const {
    for (Index e = 0; e < rows_dim_; ++e) {
      for (Index d = 0; d < cols_; ++d) to(b_, kv_, e, col + d) = s_[e * cols_ + d];
    }
  }

  /// S goes through a block of keys and takes them up.
  void absorb(const Block<A>& keys) {
    decay_.block(keys.first, keys.rows);
    decay_.pass(s_.data(), cols_);
    decay_.to_end(keys.turned, decayed_.data());
    tiles::add_multiply_tn(keys.rows, rows_dim_, cols_, A{1}, decayed_.data(), rows_dim_, keys.values_in_place,
                           keys.value_stride, s_.data(), cols_);
    if (call_.normalised()) absorb_features(keys);
  }

  /// Makes ready for the queries of a run.
  void meet(const Run& run) {
    decay_.block(run.base, std::max<Index>(block_rows(run.base, call_.problem.k_len), 0));
    decay_.queries(run);
  }

  /// z_rows_[i] = z_i of the run's rows; keys is the run's block, or null where none of its keys is seen.
  void sum_up(const Run& run, const Block<A>* keys) {
    A *here = z_room_.data(), *met = here + dim_;
    std::fill_n(here, dim_, A{0});
    for (Index i = 0, j = 0; i < run.rows; ++i) {
      for (; j < decay_.seen(i); ++j) {
        decay_.sum_steps(j, here, here);
        add_rows(1, dim_, keys->features + j * dim_, here);
      }
      decay_.sum_to_row(i, z_.data(), z_rows_.data() + i * dim_);
      decay_.sum_meets(i, here, met);
      add_rows(1, dim_, met, z_rows_.data() + i * dim_);
    }
  }
  /// inverse[i] = 1 / n_i of the run's rows, of queries with these features.
  void invert(const Run& run, const A* features, A* inverse) const {
    attend::row_products(run.rows, dim_, features, dim_, z_rows_.data(), dim_, inverse);
    for (Index i = 0; i < run.rows; ++i) inverse[i] = inverse_of(inverse[i] + static_cast<A>(call_.options.epsilon));
  }

  /// body(i, n, seen) for strips of n of a run's rows from i on, with scores_ [n, block_tokens] the weights of the
  /// first `seen` keys of the block: 0 for those that a row does not see. a [run.rows, rows_dim].
  template <class Body>
  void over_weights(const Run& run, const A* a, const Block<A>& keys, const Body& body) {
    if (!decay_.by_channel()) return over_products(run, a, rows_dim_, keys.turned, rows_dim_, keys, body);
    over_strips(run.rows, run.base, keys.rows, visible() + run.row, [&](Index i, Index strip, Index cols) {
      for (Index r = 0; r < strip; ++r) {
        A* s = scores_.data() + r * block_tokens;
        std::fill_n(s, cols, A{0});
        const Index seen = decay_.meet_keys(i + r, a + (i + r) * rows_dim_, met_.data());
        attend::row_products(seen, rows_dim_, met_.data(), rows_dim_, keys.turned, rows_dim_, s);
      }
      body(i, strip, cols);
    });
  }

  /// The same with plain products a_i · b_j of rows of `width` numbers, times D where all channels are alike.
  template <class Body>
  void over_products(const Run& run, const A* a, Index width, const A* b, Index b_stride, const Block<A>& keys,
                     const Body& body) {
    const Index* ends = visible() + run.row;
    over_strips(run.rows, run.base, keys.rows, ends, [&](Index i, Index strip, Index cols) {
      tiles::multiply_nt(strip, cols, width, A{1}, a + i * width, width, b, b_stride, scores_.data(), block_tokens);
      if (!decay_.by_channel()) decay_.weigh(i, strip, scores_.data());
      hide(strip, run.base, cols, ends + i, scores_.data());
      body(i, strip, cols);
    });
  }

  const Call<A>& call_;
  Index dim_, rows_dim_;
  Blocks<A> keys_, queries_;
  Decay<A> decay_;
  AlignedArray<A> s_, scores_, decayed_, met_;
  AlignedArray<A> z_, z_rows_, z_room_;  // where a denominator divides
  Index b_ = 0, kv_ = 0, cols_ = 0;

 private:
  void absorb_features(const Block<A>& keys) {
    A *sum = z_room_.data(), *rest = sum + dim_;
    std::fill_n(sum, dim_, A{0});
    for (Index j = 0; j < keys.rows; ++j) {
      decay_.sum_to_end(j, keys.features + j * dim_, rest);
      add_rows(1, dim_, rest, sum);
    }
    decay_.sum_passes(z_.data(), z_.data());
    add_rows(1, dim_, sum, z_.data());
  }
};

}  // namespace bearing::linear
