#include "attention/linear/decayed_room.hpp"

// Forward where the state decays: S takes up whole blocks of keys, and each run of queries meets it where the block
// begins in which the run's last seen keys are.

namespace bearing::linear {

namespace {

template <class A>
class ForwardRoom : DecayedRoom<A> {
 public:
  explicit ForwardRoom(ForwardCall<A>& of)
      : DecayedRoom<A>(of.call, of.call.problem.value_dim),
        of_(of),
        numerators_(block_tokens * of.call.problem.value_dim),
        inverse_(block_tokens) {}

  /// One slice of one key head of one sequence, and all query heads that read it.
  void run(Index unit) {
    const Problem& p = call_.problem;
    const Index slice = unit % of_.slices, head = unit / of_.slices, b = head / p.kv_heads;
    col_ = of_.slice_start(slice), seen_ = 0;
    const bool all = of_.keeps_state;  // every query sees what a state holds, and it takes up every key
    this->open(b, head % p.kv_heads, all ? Part{0, p.k_len} : seen_keys(call_, b),
               all ? Part{0, p.q_len} : seeing_queries(call_, b), of_.slice_start(slice + 1) - col_);
    if (of_.keeps_state) this->load_state(of_.state.s, col_);
    if (of_.keeps_state && call_.normalised()) {
      std::copy_n(of_.z_before.data() + head * dim_, dim_, this->z_.data());
    }
    for (Index first = 0; first < p.q_len; first += block_tokens) {
      const Index end = first + block_rows(first, p.q_len);
      for (Index row = first; row < end;) {
        const Run run = run_from(row, end, this->visible());
        absorb_to(run.base);
        this->meet(run);
        if (call_.normalised()) this->sum_up(run, sees_keys(run) ? &key_block(run.base) : nullptr);
        for (Index g = 0; g < call_.group(); ++g) attend(kv_ * call_.group() + g, first, run);
        row += run.rows;
      }
    }
    if (!of_.keeps_state) return;
    absorb_to(p.k_len);
    this->store_state(of_.state.s, col_);
    for (Index d = 0; slice == 0 && call_.normalised() && d < dim_; ++d) of_.state.z(b_, kv_, d) = this->z_[d];
  }

 private:
  using DecayedRoom<A>::call_, DecayedRoom<A>::dim_, DecayedRoom<A>::rows_dim_, DecayedRoom<A>::b_, DecayedRoom<A>::kv_,
      DecayedRoom<A>::cols_, DecayedRoom<A>::s_, DecayedRoom<A>::scores_, DecayedRoom<A>::decayed_;

  const Block<A>& key_block(Index first) {
    return this->keys_.get(kv_, first, [&](Block<A>& block) {
      load(call_.v, this->keys_.part(), b_, kv_, first, block.rows, col_, cols_, block.values);
      block.values_in_place = block.values, block.value_stride = cols_;
    });
  }

  /// S takes up the keys below `end`.
  void absorb_to(Index end) {
    while (seen_ < end) {
      const Block<A>& block = key_block(seen_);
      this->absorb(block);
      seen_ += block.rows;
    }
  }

  bool sees_keys(const Run& run) const { return run.base < this->visible()[run.row + run.rows - 1]; }

  void attend(Index head, Index first, const Run& run) {
    const Block<A>& block = this->queries_.get(head, first, [](Block<A>&) {});
    const A* a = block.turned + (run.row - first) * rows_dim_;
    this->decay_.to_start(a, decayed_.data());
    tiles::multiply_nn(run.rows, rows_dim_, cols_, A{1}, decayed_.data(), rows_dim_, s_.data(), cols_,
                       numerators_.data(), cols_);
    if (sees_keys(run)) {
      const Block<A>& keys = key_block(run.base);
      this->over_weights(run, a, keys, [&](Index i, Index strip, Index seen) {
        tiles::add_multiply_nn(strip, seen, cols_, A{1}, scores_.data(), block_tokens, keys.values, cols_,
                               numerators_.data() + i * cols_, cols_);
      });
    }
    if (call_.normalised()) {
      this->invert(run, block.features + (run.row - first) * dim_, inverse_.data());
      scale_rows(run.rows, cols_, inverse_.data(), numerators_.data(), cols_);
    }
    of_.out.store(numerators_.data(), cols_, run.rows, col_, cols_, b_, head, run.row);
  }

  ForwardCall<A>& of_;
  AlignedArray<A> numerators_, inverse_;
  Index col_ = 0, seen_ = 0;  // keys that S holds
};

}  // namespace

template <class A>
void run_decayed(ForwardCall<A>& forward, Index units, const Executor& on) {
  std::vector<ForwardRoom<A>> rooms = make_workers<ForwardRoom<A>>(on, units, forward);
  share_units(on, rooms, units, [](ForwardRoom<A>& room, Index unit) { room.run(unit); });
}

template void run_decayed<float>(ForwardCall<float>&, Index, const Executor&);
template void run_decayed<double>(ForwardCall<double>&, Index, const Executor&);

}  // namespace bearing::linear
