#pragma once

#include <bearing/attention.hpp>
#include <bearing/executor.hpp>
#include <bearing/export.hpp>
#include <bearing/half.hpp>
#include <bearing/positions.hpp>
#include <bearing/term_list.hpp>
#include <type_traits>

// Linear attention (Katharopoulos et al. 2020, arXiv 2006.16236) with rotated rows (Su et al. 2021, arXiv 2104.09864,
// eq. 19), forward and backward, in time linear in the lengths:
//
//     o_i = Σ_j (T φ(q_i))·(T φ(k_j)) v_j / (Σ_j φ(q_i)·φ(k_j) + epsilon)      φ(x) = elu(x) + 1
//
// over the keys that query i sees. Row encodings T turn the rows that the numerator multiplies. The denominator is not
// turned, so that it cannot vanish; therefore weights do not sum to 1 and may be negative. Without encodings this is
// ordinary linear attention.
//
// Encodings with log_decay ("state" in bearing/term.hpp: Retention, Forgetting, GatedDecay) multiply what is kept of
// earlier keys by a_t before key t enters, in the sum of the denominator too. They take a causal mask. Models with such
// decays take Normaliser::none.
//
// A key of which less than 2^-48 is left (2^-440 in double) may count as 0, in the denominator too. What a query loses
// behind its last key divides out with Normaliser::sum and no epsilon, and is not multiplied in then.
//
// Keys that all later queries see are kept as two sums, S = Σ_j (T φ(k_j)) v_jᵀ and z = Σ_j φ(k_j). A head takes time
// O((q_len + k_len)·dim·value_dim). Memory beyond the arguments is O(dim·value_dim) for each worker and O(q_len) for
// each sequence, in the backward O(q_len) for each head.
//
// q [batch, heads, q_len, dim], k [batch, kv_heads, k_len, dim], v [batch, kv_heads, k_len, value_dim]; query head h
// reads key head h / (heads / kv_heads). All strides are free. Types: double, float, Bfloat16, Float16; sums are
// double for double, else float. Results have the same bits for any executor.

namespace bearing {

/// φ, element by element.
enum class FeatureMap {
  elu_plus_one,  ///< x + 1 above 0, e^x below: positive
  relu,          ///< max(x, 0), whose gradient at 0 is 0
  identity,      ///< x, products as they are; only with Normaliser::none
};

/// What a row's sum is divided by.
enum class Normaliser {
  sum,   ///< Σ_j φ(q_i)·φ(k_j) + epsilon
  none,  ///< nothing
};

template <class T>
struct LinearAttentionInputs {
  View<const T, 4> q, k, v;
  Positions q_positions = {}, k_positions = {};
};

struct LinearAttentionOptions {
  /// With Mask::causal, which goes by position, positions must never fall from token to token: the first axis decides,
  /// and where it is the same the next one.
  Required<Mask> mask;
  FeatureMap feature_map = FeatureMap::elu_plus_one;
  Normaliser normaliser = Normaliser::sum;
  double epsilon = 0;  ///< at least 0
};

/// The sums over the keys of earlier calls; a query sees all of these keys, whatever the mask. Before the first call
/// they are zeros. A is the arithmetic: double for double, else float; const where the state is only read. rows_dim is
/// the dimension of turned rows: dim, unless an encoding changes it.
template <class A>
struct LinearState {
  View<A, 4> s = {};  ///< [batch, kv_heads, rows_dim, value_dim] Σ_j (T φ(k_j)) v_jᵀ
  View<A, 3> z = {};  ///< [batch, kv_heads, dim] Σ_j φ(k_j); not used with Normaliser::none
};

/// Writes out [batch, heads, q_len, value_dim]. All keys of this call are added to `state`, unless it is left empty:
/// calls one after another, each of a token or of thousands, give what one call would have given.
///
/// out is 0 for a query that sees no key, or whose denominator is 0 because its products have underflown. `terms` may
/// hold encodings of rows, which must serve `heads` heads of queries and `kv_heads` heads of keys, and decays of the
/// state, which must serve `kv_heads` heads.
///
/// Throws ShapeError for shapes that do not fit each other, terms that act elsewhere, tensors without memory and
/// outputs that share it, RangeError for positions, options and encodings that cannot serve; nothing is written then.
template <class T>
BEARING_EXPORT void linear_attention(const LinearAttentionInputs<T>& in, View<T, 4> out,
                                     const std::type_identity_t<LinearState<Compute<T>>>& state,
                                     const std::type_identity_t<TermList<Compute<T>>>& terms,
                                     const LinearAttentionOptions& options, const Executor& on = {});

/// Where the gradients of the inputs are written (=), with their shapes; what is left null is not computed.
template <class T>
struct LinearAttentionGrads {
  View<T, 4> d_q = {}, d_k = {}, d_v = {};
  /// In: the gradient of the state after the call; out: of the state before it. Empty: 0, and not computed.
  LinearState<Compute<T>> d_state = {};
};

/// The gradients of linear_attention(): of q, k, v written, of every parameter added (+=), from d_out [batch, heads,
/// q_len, value_dim]. `start` is the state as it was before the call, or empty.
///
///     d_q by a pass over the keys in order, with S and z; d_k and d_v by one in reverse, with
///     R = Σ_i (T φ(q_i)) d_o_iᵀ / den_i and y = Σ_i d_den_i φ(q_i), d_den_i = −d_o_i·o_i / den_i
///
/// It needs no result of the forward. Errors as linear_attention().
template <class T>
BEARING_EXPORT void linear_attention_backward(const LinearAttentionInputs<T>& in,
                                              const std::type_identity_t<View<const T, 4>>& d_out,
                                              const std::type_identity_t<LinearState<const Compute<T>>>& start,
                                              const std::type_identity_t<LinearAttentionGrads<T>>& grads,
                                              const std::type_identity_t<TermList<Compute<T>>>& terms,
                                              const LinearAttentionOptions& options, const Executor& on = {});

}  // namespace bearing
