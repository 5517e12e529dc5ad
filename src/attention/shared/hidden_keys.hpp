#pragma once

#include <algorithm>
#include <vector>

#include "attention/shared/stored_numbers.hpp"
#include "attention/shared/visibility.hpp"

// What nobody sees may hold anything. Most of it is never read, and a weight of 0 silences what is: except numbers that
// make 0 · x, or a sum on the way there, no number. Rows with such numbers, and they alone, are worth the question
// whether anybody sees them; those that nobody does are read as zeros.

namespace bearing {

/// A worker's answer to the question whether any query sees a key of the kv head that is open.
class HiddenKeys {
 public:
  /// Throws std::bad_alloc; nothing below does.
  HiddenKeys(const Visibility& visibility, const Problem& problem)
      : visibility_(&visibility),
        group_(problem.heads / std::max<Index>(problem.kv_heads, 1)),
        seen_(static_cast<std::size_t>(visibility.conceals() ? problem.k_len : 0)) {}

  void open(Index b, Index kv_head) {
    if (b == b_ && kv_head == kv_head_) return;
    b_ = b, kv_head_ = kv_head, known_ = false;
  }

  /// What is open.
  Index batch() const { return b_; }
  Index kv_head() const { return kv_head_; }
  /// Whether there may be any among the keys that exist.
  bool any() const { return visibility_->conceals(b_); }

  /// Whether a key is one. All keys are looked through when the first is asked for.
  bool operator()(Index j) {
    if (!known_) visibility_->mark_seen(b_, kv_head_ * group_, group_, seen_.data());
    known_ = true;
    return seen_[static_cast<std::size_t>(j)] == 0;
  }

  /// rows [n, dim] of keys first … first + n − 1: wild ones of hidden keys become 0. Returns whether there were any.
  template <class A>
  bool clear(Index first, Index n, Index dim, A* rows) {
    if (!any() || !wild(rows, n * dim)) return false;
    bool cleared = false;
    for (Index i = 0; i < n; ++i, rows += dim) {
      if (!wild(rows, dim) || !(*this)(first + i)) continue;
      std::fill_n(rows, dim, A{0});
      cleared = true;
    }
    return cleared;
  }

 private:
  const Visibility* visibility_;
  Index group_, b_ = -1, kv_head_ = -1;
  bool known_ = false;
  std::vector<char> seen_;
};

}  // namespace bearing
