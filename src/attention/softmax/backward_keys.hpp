#pragma once

#include <vector>

#include "attention/amx/amx_grads.hpp"
#include "attention/shared/hidden_keys.hpp"
#include "attention/shared/row_turner.hpp"
#include "attention/shared/value_turner.hpp"
#include "attention/softmax/backward_plan.hpp"

namespace bearing {

/// Whether gradients of queries and keys come from the same scores, or each from its own.
enum class BackwardUnits { together, apart };

/// Where gradients of keys or values are summed.
template <class A>
struct GradRows {
  A* data = nullptr;  ///< null: not wanted
  Index stride = 0, first = 0;

  A* row(Index j) const { return data + (j - first) * stride; }
};

/// A worker's block of keys and values, made ready for products, and where their gradients are summed.
template <class A>
class BackwardKeys {
 public:
  /// `tiles`: what keys and their gradients are packed and summed by; null: this. Throws std::bad_alloc; nothing below
  /// does.
  BackwardKeys(BackwardPlan<A>& plan, BackwardUnits units, AmxGrads* tiles);

  /// Makes the block ready that starts at key `first`.
  void open(Index b, Index kv_head, Index first);
  /// The open block's first key, and the panels from key j on, a multiple of the panel's width.
  Index first() const { return first_; }
  const A* packed(Index j) const { return packed_k_.data() + (j - first_) * plan_->scores.call.problem.dim; }
  const A* packed_values(Index j) const {
    return packed_v_.data() + (j - first_) * plan_->scores.call.problem.value_dim;
  }
  /// Rows as they enter products, of all blocks that were opened where terms look at whole rows.
  const A* row(Index j) const { return k_ + (j - k_first_) * k_stride_; }
  Index row_stride() const { return k_stride_; }

  /// Sums over queries start at 0, go back through the keys' encodings, and are stored.
  void open_grads(Index b, Index kv_head, Index first, Index end);
  void close_grads(Index b, Index kv_head, Index first, Index end);
  const GradRows<A>& d_k() const { return d_k_; }
  const GradRows<A>& d_v() const { return d_v_; }

 private:
  const A* ready(Index j, Index n);
  void pack(Index j, Index n, const A* keys, const A* values, Index v_stride);
  void take_sums(Index j, Index n, Index there);
  const A* unturned(Index j, Index n);

  BackwardPlan<A>* plan_;
  AmxGrads* tiles_;
  HiddenKeys hidden_;
  HeadRows<A> k_rows_, v_rows_;
  RowTurner<A> turner_;
  ValueTurner<A> value_turner_;
  bool direct_k_, direct_v_, direct_d_k_, direct_d_v_;  ///< used where they lie
  bool keeps_keys_;                                     ///< k_turned_ has a head's keys, those of turned_blocks_ ready
  Index b_ = -1, kv_head_ = -1, first_ = -1;
  const A* k_ = nullptr;  ///< rows from key k_first_ on
  Index k_stride_ = 0, k_first_ = 0;
  std::vector<A> k_in_, k_turned_, v_in_, packed_k_, packed_v_;
  std::vector<char> turned_blocks_;
  GradRows<A> d_k_, d_v_;
  std::vector<A> d_k_sums_, d_v_sums_;
  std::vector<A> run_in_, run_out_;  ///< rows on their way back through encodings
};

}  // namespace bearing
