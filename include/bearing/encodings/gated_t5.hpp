#pragma once

#include <bearing/encodings/t5.hpp>

// T5's bias with a gate for each query and head, which the model computes from the query's token (WavLM, Chen et al.
// 2022, arXiv 2110.13900):
//
//     s_ij ← s_ij + gate[b, h, i] · table[bucket(n − m), h]
//
// WavLM has 320 buckets to distance 800, bidirectional; all layers share one table, and each has its gate. The gate is
// computed from the layer's input x before the projection, from the head's slice of the features:
//
//     r = σ(Σ_{u < 4} (W x + w)_u),  s = σ(Σ_{4 ≤ u < 8} (W x + w)_u)          W [8, head_dim], shared by the heads
//     gate = r (s c_h − 1) + 2

namespace bearing {

struct GatedT5 {
  Index buckets = 320;
  Index max_distance = 800;
  Required<T5Direction> direction;  ///< bidirectional in WavLM

  T5 t5() const { return {buckets, max_distance, direction}; }
  bool operator==(const GatedT5&) const = default;
};

/// Positions as for T5Bias. Gates go by index: query i has gate i.
template <class A>
class BEARING_EXPORT GatedT5Bias {
 public:
  using Arithmetic = A;

  /// table [buckets, heads], gate [batch or 1, heads, q_len]. ∂s/∂table = gate, ∂s/∂gate = the table's number. Errors
  /// as t5_thresholds().
  GatedT5Bias(const GatedT5& spec, Param<A, 2> table, Param<A, 3> gate);

  /// Throws ShapeError for a table or gates of another shape, RangeError for positions that are not whole.
  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  Index param_size() const { return table_size() + (gate_.grad.data == nullptr ? 0 : gate_.value.shape[2]); }
  void collect(Index batch, Index head, const A* d_params) const;
  void borrows(MemoryList& to) const {
    to.param("GatedT5.table", table_);
    to.param("GatedT5.gate", gate_);
  }
  Index scratch_size(Index rows, Index cols) const { return 2 * (rows + cols); }

 private:
  Index table_size() const { return table_.grad.data == nullptr ? 0 : buckets_.spec().buckets; }
  /// A tile's first gate.
  const A* gates(const Tile<A>& tile) const;

  T5Buckets buckets_;
  Param<A, 2> table_;
  Param<A, 3> gate_;
};

/// The parameters of WavLM's gate: gru_rel_pos_linear's weight and bias, gru_rel_pos_const.
template <class A>
struct WavlmGate {
  Param<A, 2> weight;    ///< [8, head_dim]
  Param<A, 1> bias;      ///< [8]
  Param<A, 1> constant;  ///< [heads]
};

/// gate [batch, heads, time] ← WavLM's formula of x [batch, heads, time, head_dim], any strides: the layer's input
/// [batch, time, heads · head_dim], seen as heads. Sums are double. Throws ShapeError for shapes that do not fit and
/// memory that is missing or shared; nothing is written then.
template <class A>
BEARING_EXPORT void wavlm_gate(const WavlmGate<A>& by, std::type_identity_t<View<const A, 4>> x, View<A, 3> gate);

/// The gradients of wavlm_gate(), each +=: of the parameters and of x, d_x [batch, heads, time, head_dim] (null: not
/// computed), from d_gate [batch, heads, time]. Errors as wavlm_gate().
template <class A>
BEARING_EXPORT void wavlm_gate_backward(const WavlmGate<A>& by, std::type_identity_t<View<const A, 4>> x,
                                        std::type_identity_t<View<const A, 3>> d_gate, View<A, 4> d_x);

}  // namespace bearing
