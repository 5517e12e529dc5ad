#pragma once

#include <bearing/attention.hpp>

#include "attention/softmax/attention_call.hpp"
#include "tensor_checks.hpp"
#include "text.hpp"

// What a backward of attention asks of its results and gradients.

namespace bearing {

template <class T>
void check_not_paged(const char* function, const AttentionInputs<T>& in) {
  if (is_given(in.block_table)) {
    throw ShapeError(text::concat("[", function,
                                  "] block_table: must be empty, as a paged cache has no gradients, got shape ",
                                  in.block_table.shape));
  }
}

template <class A, class O>
void check_results(const AttentionCall<A>& call, const AttentionResults<O>& results) {
  call.check_like_out("out", results.out);
  check_shape(call.function, "lse", results.lse, call.lse_shape(), "[batch, heads, q_len]");
  call.check_like_out("d_out", results.d_out);
  if (!is_given(results.d_lse)) return;
  check_shape(call.function, "d_lse", results.d_lse, call.lse_shape(), "[batch, heads, q_len]");
}

/// Gradients are written while inputs are read: they must be none of these, nor each other.
template <class A, class O>
void check_grads(const AttentionCall<A>& call, const AttentionResults<O>& results, const AttentionGrads<O>& grads) {
  call.check_grad_of("q", call.q, "d_q", grads.d_q);
  call.check_grad_of("k", call.k, "d_k", grads.d_k);
  call.check_grad_of("v", call.v, "d_v", grads.d_v);
  CallMemory memory(call.function);
  call.tell_memory(memory, [&](const Term<A>& term) { memory.backward(term); });
  memory.reads("out", results.out).reads("lse", results.lse);
  memory.reads("d_out", results.d_out).reads("d_lse", results.d_lse).param("sinks", call.options.sinks);
  memory.writes("d_q", grads.d_q).writes("d_k", grads.d_k).writes("d_v", grads.d_v).check();
}

}  // namespace bearing
