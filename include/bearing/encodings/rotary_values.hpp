#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/export.hpp>
#include <bearing/term.hpp>

// RoPE on values, with the output turned back at the query's position: what attention adds up is seen by each query as
// turned by its distance,
//
//     o_i = R(−m_i) Σ_j p_ij R(n_j) v_j = Σ_j p_ij R(n_j − m_i) v_j
//
// RoPER (Georges Harik; labml.ai's annotated implementations) has it. DeepSeek-V4 (DeepSeek-AI 2026) needs it, as its
// keys are its values: they are turned for the scores, so that the sum is of turned rows. RoFormer's `rotary_value`
// turns values and does not turn back: that is rotate() on v before attention.

namespace bearing {

/// Values turned as keys are by RotaryRows, and their sum turned back as the gradient of a query is: by the transpose.
/// So an attention factor a, which multiplies cos and sin, multiplies the output by a². A value's dimension is the
/// table's head_dim; dimensions that do not turn pass through. It refers to the table, which must outlive it, and which
/// may be the one that turns queries and keys:
///
///     const RopeTable<float> table(Rope{.head_dim = 512, .rotary_dim = 64, .pairing = Pairing::interleaved,
///                                       .part = RotaryPart::last()}, 4'096);
///     const RotaryRows<float> rows(table);
///     const RotaryValues<float> values(table);
///     attention<float>({q, kv, kv}, out, lse, with(rows, values), {.mask = Mask::causal});
///
/// Values stand at the keys' positions, outputs at the queries'. Nothing is added to scores.
///
/// A call throws ShapeError for another value_dim, and for positions without the table's axes; RangeError for positions
/// that a given table does not have.
template <class A>
class BEARING_EXPORT RotaryValues {
 public:
  using Arithmetic = A;
  static constexpr bool constant = true;

  explicit RotaryValues(const RopeTable<A>& table) : table_(&table) {}
  explicit RotaryValues(RopeTable<A>&&) = delete;

  void check(const char* function, const Problem& problem) const;
  Index turn_scratch(Index dim) const;
  /// x ← a·R(pθ)x of the key side, a·R(−pθ)x of the query side; and the transposes of these.
  void turn_values(const RowTile& tile, A* x) const;
  void turn_value_grads(const RowTile& tile, A* x) const;

 private:
  void turn_in_place(const RowTile& tile, bool transposed, A* x) const;

  const RopeTable<A>* table_;
};

}  // namespace bearing
