#pragma once

#include <vector>

#include "aligned.hpp"
#include "attention/amx/amx_packing.hpp"
#include "attention/softmax/backward_plan.hpp"

namespace bearing {

/// A worker's part of the backward on matrix tiles: the operands of its five products as bfloat16, or in pieces of it,
/// and the sums over queries, which lie feature by feature until they are asked for.
class AmxGrads {
 public:
  /// Whether the forward is on tiles, no row is anchored, and terms need no rows of keys and of their gradients.
  static bool serves(const BackwardPlan<float>& plan);

  /// `keys`: whose gradients are summed at once. Throws std::bad_alloc; nothing below does.
  AmxGrads(const BackwardPlan<float>& plan, Index keys);

  /// Goes to the block of keys that starts at `first`. Returns whether it must be packed: rows of keys as they enter
  /// products, and of values, from key j on, a multiple of 32.
  bool open_keys(Index b, Index kv_head, Index first);
  void pack(Index j, Index n, const float* keys, Index k_stride, const float* values, Index v_stride);

  /// Makes a block of queries ready, rows side by side.
  void open_queries(Index rows, const float* q, const float* d_out);
  /// s ← factor · Q Kᵀ and d_p ← dO Vᵀ of these rows of the block, for whole tiles from column cols.first on.
  void scores(Columns rows, Columns cols, float factor, float* s, float* d_p, Index stride) const;
  /// dQ += c dX K, where d_q is not null; dV += Pᵀ dO and dK += c dXᵀ Q, where they are wanted. p and d_x are 0 in
  /// hidden columns up to whole tiles.
  void add_grads(Columns rows, Columns cols, const float* p, const float* d_x, Index stride, float* d_q, bool keys,
                 bool values);

  /// Sums over queries start at 0 for keys first … end − 1; and rows of them are given out, side by side.
  void open_grads(Index first, Index end);
  void key_grads(Index j, Index n, float* d_k) const { rows_of(d_keys_, plan_->scores.call.problem.dim, j, n, d_k); }
  void value_grads(Index j, Index n, float* d_v) const {
    rows_of(d_values_, plan_->scores.call.problem.value_dim, j, n, d_v);
  }

 private:
  /// Where packed keys and values of column j start.
  Index packed_at(Index j, Index dim) const { return pack_.room(attend::amx::packed_at(j - packed_first_, dim)); }
  /// Where the sums of a block of keys have key j, feature 0.
  Index sums_at(Index dim, Index j) const;
  void rows_of(const AlignedArray<float>& sums, Index dim, Index j, Index n, float* rows) const;
  /// sums += turned · pairs_
  void add_key_product(Columns rows, Columns cols, Index dim, const AlignedArray<Bfloat16>& turned,
                       AlignedArray<float>& sums) const;

  const BackwardPlan<float>* plan_;
  attend::amx::Packing pack_;
  bool keeps_;  ///< what is packed stays for all blocks of queries
  Index b_ = -1, kv_head_ = -1;
  Index packed_first_ = 0, sums_first_ = 0;          ///< the keys where both start
  Index queries_ = 0;                                ///< rows of the block, in whole tiles
  std::vector<char> packed_;                         ///< [blocks of keys], where they are kept
  AlignedArray<Bfloat16> keys_, key_rows_, values_;  ///< packed: for Q Kᵀ, dX K and dO Vᵀ
  AlignedArray<Bfloat16> q_, d_out_;                 ///< [rows, dim]
  AlignedArray<Bfloat16> q_turned_, d_out_turned_;   ///< [dim, rows], rows i and i + 16 of 32 side by side
  AlignedArray<Bfloat16> d_x_rows_, pairs_;          ///< of a slab: dX, and dX or P
  AlignedArray<float> d_keys_, d_values_;            ///< [blocks of keys, dim, plan_->cols]
};

}  // namespace bearing
