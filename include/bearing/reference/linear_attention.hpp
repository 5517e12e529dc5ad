#pragma once

#include <bearing/linear_attention.hpp>

namespace bearing::reference {

/// bearing::linear_attention() in double loops over all pairs of queries and keys, O(q_len·k_len·dim), for any order
/// of positions; arguments are not checked.
BEARING_EXPORT void linear_attention(const LinearAttentionInputs<double>& in, View<double, 4> out,
                                     const LinearState<double>& state, const TermList<double>& terms,
                                     const LinearAttentionOptions& options);

/// bearing::linear_attention_backward() alike.
BEARING_EXPORT void linear_attention_backward(const LinearAttentionInputs<double>& in,
                                              const View<const double, 4>& d_out,
                                              const LinearState<const double>& start,
                                              const LinearAttentionGrads<double>& grads, const TermList<double>& terms,
                                              const LinearAttentionOptions& options);

}  // namespace bearing::reference
