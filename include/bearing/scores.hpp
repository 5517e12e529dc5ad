#pragma once

#include <bearing/executor.hpp>
#include <bearing/export.hpp>
#include <bearing/half.hpp>
#include <bearing/positions.hpp>
#include <bearing/term_list.hpp>
#include <type_traits>

// What encodings add to whole matrices of scores and to values, forward and backward. Memory beyond the arguments is
// linear in the lengths. A decode step is the same call with one query, at its position.

namespace bearing {

/// What scores depend on beside the encodings. q [batch, heads, q_len, dim] and k [batch, kv_heads, k_len, dim] are
/// needed only by encodings that look at them: give both, or neither. kv_heads divides heads (grouped queries).
template <class A>
struct ScoreInputs {
  Positions q_positions = {}, k_positions = {};
  View<const A, 4> q = {}, k = {};
  A scale = 1;  ///< the softmax scale, for terms inside the product
};

/// Adds every term to scores [batch, heads, q_len, k_len]; any strides, but no two scores may share memory. Encodings
/// of rows (RoPE) have no part in this: turn q and k before you multiply them, and give the turned ones here if a term
/// looks at them, as attention() does.
///
/// Throws ShapeError or RangeError for an encoding that turns rows, if one cannot serve these heads, lengths or
/// positions, if q and k do not fit the scores, or if a tensor has elements but no memory; nothing is written then.
template <class A>
BEARING_EXPORT void add_scores(const TermList<A>& terms, const std::type_identity_t<ScoreInputs<A>>& in,
                               std::type_identity_t<View<A, 4>> scores, const Executor& on = {});

/// Where add_scores_backward() adds the gradients of queries and keys, with their shapes; what is left null is not
/// computed. They may be slices of one array; they must not overlap with q, k or each other.
template <class A>
struct QueryKeyGrads {
  View<A, 4> d_q = {}, d_k = {};
};

/// The gradients of add_scores(): of every parameter that has a `grad`, of q and of k, each +=, from d_scores
/// [batch, heads, q_len, k_len]. The same bits for any executor. Errors as add_scores().
template <class A>
BEARING_EXPORT void add_scores_backward(const TermList<A>& terms, const std::type_identity_t<ScoreInputs<A>>& in,
                                        std::type_identity_t<View<const A, 4>> d_scores,
                                        const std::type_identity_t<QueryKeyGrads<A>>& grads = {},
                                        const Executor& on = {});

/// Writes what encodings add to scores, if they look at neither queries nor keys: bias [heads, q_len, k_len], in
/// double, float, Bfloat16 or Float16 (computed in double or float, rounded once). Errors as add_scores().
template <class T>
BEARING_EXPORT void bias_matrix(const std::type_identity_t<TermList<Compute<T>>>& terms, const Positions& q_positions,
                                const Positions& k_positions, View<T, 3> bias, const Executor& on = {});

/// Adds every value term to out [batch, heads, q_len, value_dim], from probabilities p [batch, heads, q_len, k_len].
/// Terms without a value site add nothing; those that turn values are refused with a ShapeError. Errors as
/// add_scores().
template <class A>
BEARING_EXPORT void add_values(const TermList<A>& terms, const Positions& q_positions, const Positions& k_positions,
                               std::type_identity_t<View<const A, 4>> p, std::type_identity_t<View<A, 4>> out,
                               const Executor& on = {});

/// The gradients of add_values(), each +=: of the parameters and of p (d_p may be empty). Errors as add_scores().
template <class A>
BEARING_EXPORT void add_values_backward(const TermList<A>& terms, const Positions& q_positions,
                                        const Positions& k_positions, std::type_identity_t<View<const A, 4>> p,
                                        std::type_identity_t<View<const A, 4>> d_out,
                                        std::type_identity_t<View<A, 4>> d_p = {}, const Executor& on = {});

}  // namespace bearing
