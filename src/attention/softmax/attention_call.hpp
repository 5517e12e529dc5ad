#pragma once

#include <bearing/attention.hpp>

#include "attention/shared/checked_inputs.hpp"
#include "attention/shared/visibility.hpp"
#include "terms/score_call.hpp"

// A call of attention that has been checked, and what follows from its arguments at once.

namespace bearing {

template <class A>
struct AttentionCall : CheckedInputs<A> {
  using CheckedInputs<A>::function, CheckedInputs<A>::problem, CheckedInputs<A>::k, CheckedInputs<A>::rows;

  const AttentionOptions<A>& options;
  A scale;
  TermList<A> acting;          ///< those that act on scores, or add to values
  TermList<A> value_rows;      ///< those that turn values, and back what they add up to
  bool distances_only = true;  ///< scores change by distance alone, if at all, and values not
  bool whole_rows = false;

  /// Throws what attention() says. Allocates nothing but error texts.
  template <class T>
  AttentionCall(const char* name, const AttentionInputs<T>& inputs, const TermList<A>& terms,
                const AttentionOptions<A>& given);

  /// Whether scores that are products alone may be multiplied by the scale with their exponents, which spares a pass:
  /// it must keep their order, and a weight's exponent over it be no infinity.
  bool late_scale() const { return scale > A{0x1p-60}; }
  /// Tells all memory that is read; parameters as a forward or a backward takes them.
  template <class Tell>
  void tell_memory(CallMemory& memory, const Tell& tell) const {
    this->tell_inputs(memory);
    memory.reads("k_lengths", options.k_lengths).reads("key_mask", options.key_mask).reads("visible", options.visible);
    memory.reads("q_starts", options.q_starts).reads("k_starts", options.k_starts);
    for (const Term<A>& term : rows) tell(term);
    for (const Term<A>& term : acting) {
      if (term.turn == nullptr) tell(term);  // else it is among the rows
    }
    for (const Term<A>& term : value_rows) {
      if (term.turn == nullptr && !acts(term)) tell(term);
    }
  }

  /// Throws ShapeError unless out and lse, if it is wanted, can be written.
  template <class O>
  void check_outputs(View<O, 4> out, View<A, 3> lse) const {
    this->check_like_out("out", out);
    if (is_given(lse)) {
      check_shape(function, "lse", lse, lse_shape(), "[batch, heads, q_len]");
      check_output(function, "lse", lse);
    }
    CallMemory memory(function);
    tell_memory(memory, [&](const Term<A>& term) { memory.forward(term); });
    memory.reads("sinks", options.sinks.value).writes("out", out).writes("lse", lse).check();
  }

  /// [batch, heads, q_len]
  std::array<Index, 3> lse_shape() const { return {problem.batch, problem.heads, problem.q_len}; }

  /// Whether the terms' scores are a function of j − i in this sequence: positions rise by one, of queries and of keys.
  bool by_diagonal(Index b) const;

 private:
  static bool acts(const Term<A>& term) {
    return term.bias != nullptr || term.add_scores != nullptr || term.add_values != nullptr;
  }
  void check_blocks() const;
  void check_numbers();
  void check_band() const;
  void check_masks() const;
  void check_starts() const;
  void take(const TermList<A>& terms);
};

}  // namespace bearing
