#pragma once

#include <bearing/attention.hpp>
#include <bearing/error.hpp>

#include "attention/shared/head_rows.hpp"
#include "attention/shared/visibility.hpp"
#include "overlaps.hpp"
#include "terms/score_call.hpp"

// A call of attention that has been checked, and what follows from its arguments at once.

namespace bearing {

template <class A>
struct AttentionCall {
  const char* function;
  HeadRows<A> q, k, v;
  const AttentionOptions<A>& options;
  Problem problem;  ///< its dim is the turned rows', which enter the product
  Index in_dim;     ///< of q and k as they come
  A scale;
  TermList<A> rows;            ///< those that turn q and k
  TermList<A> acting;          ///< those that act on scores or values
  bool distances_only = true;  ///< scores change by distance alone, if at all, and values not
  bool whole_rows = false;

  /// Throws what attention() says. Allocates nothing but error texts.
  template <class T>
  AttentionCall(const char* name, const AttentionInputs<T>& inputs, const TermList<A>& terms,
                const AttentionOptions<A>& given);

  /// Whether scores that are products alone may be multiplied by the scale with their exponents, which spares a pass:
  /// it must keep their order, and a weight's exponent over it be no infinity.
  bool late_scale() const { return scale > A{0x1p-60}; }
  Index group() const { return problem.heads / std::max<Index>(problem.kv_heads, 1); }
  /// Tells all memory that is read; parameters as a forward or a backward takes them.
  template <class Tell>
  void tell_memory(CallMemory& memory, const Tell& tell) const {
    memory.reads("q", q.memory()).reads("k", k.memory()).reads("v", v.memory()).reads("block_table", k.table());
    memory.reads_positions("q_positions", *problem.q_positions).reads_positions("k_positions", *problem.k_positions);
    memory.reads("k_lengths", options.k_lengths).reads("key_mask", options.key_mask).reads("visible", options.visible);
    memory.reads("q_starts", options.q_starts).reads("k_starts", options.k_starts);
    for (const Term<A>& term : rows) tell(term);
    for (const Term<A>& term : acting) {
      if (term.turn == nullptr) tell(term);  // else it is among the rows
    }
  }

  /// Whether the terms' scores are a function of j − i in this sequence: positions rise by one, of queries and of keys.
  bool by_diagonal(Index b) const;

 private:
  void check_shapes();
  void check_paged() const;
  void check_numbers();
  void check_masks() const;
  void check_starts() const;
  void take(const TermList<A>& terms);
};

/// [batch, heads, q_len, value_dim]
template <class A>
std::array<Index, 4> out_shape(const AttentionCall<A>& call) {
  const Problem& p = call.problem;
  return {p.batch, p.heads, p.q_len, p.value_dim};
}
/// [batch, heads, q_len]
template <class A>
std::array<Index, 3> lse_shape(const AttentionCall<A>& call) {
  const Problem& p = call.problem;
  return {p.batch, p.heads, p.q_len};
}

}  // namespace bearing
