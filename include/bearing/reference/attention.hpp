#pragma once

#include <bearing/attention.hpp>
#include <functional>

namespace bearing::reference {

/// Whether a band holds the pair of a query at m and a key at n.
BEARING_EXPORT bool holds(const Band& band, double m, double n);

/// Whether key j stands at query i's place or before it: the first axis decides, and where it is the same the next one.
BEARING_EXPORT bool not_after(const Positions& k_positions, Index j, const Positions& q_positions, Index i, Index b);

/// Whether query i of head h sees key j, as the options say. Windows and bands go by the first axis of positions.
template <class A>
BEARING_EXPORT bool visible(const AttentionOptions<A>& options, const Positions& q_positions,
                            const Positions& k_positions, Index q_len, Index k_len, Index b, Index h, Index i, Index j);

/// Attention over scores and values that are written out: q and k as they enter the product (turned).
struct Attention {
  View<const double, 4> q, k, v;  ///< [batch, heads, q_len, dim], [batch, kv_heads, k_len, dim or value_dim]
  double scale = 1;
  double soft_cap = 0;                                              ///< 0: none
  View<const double, 4> scores = {};                                ///< [batch, heads, q_len, k_len] added; empty: none
  View<const double, 5> values = {};                                ///< [batch, heads, q_len, k_len, value_dim] V[ρ]
  std::function<bool(Index b, Index h, Index i, Index j)> visible;  ///< null: every key
  View<const double, 1> sinks = {};                                 ///< [heads]; empty: none
};

/// out [batch, heads, q_len, value_dim], lse [batch, heads, q_len] and the probabilities p [batch, heads, q_len,
/// k_len]:
///
///     s_ij = cap(scale · q_i·k_j) + scores_ij        lse_i = ln(Σ_j exp(s_ij) + exp(sink))
///     p_ij = exp(s_ij − lse_i)                       o_i = Σ_j p_ij (v_j + values_ij)
///
/// over visible keys. No key at all: out 0, lse −∞. What is left null is not written.
BEARING_EXPORT void attention(const Attention& in, View<double, 4> out, View<double, 3> lse = {},
                              View<double, 4> p = {});

/// What attention_backward() writes; null: not wanted.
struct AttentionGradients {
  View<double, 4> d_q = {}, d_k = {}, d_v = {};
  View<double, 4> d_scores = {};  ///< of what was added: encodings' gradients follow from it
  View<double, 1> d_sinks = {};
};

/// The gradients of Σ d_out·out + Σ d_lse·lse; d_lse may be empty:
///
///     d_s_ij = p_ij (d_o_i·(v_j + values_ij) − d_o_i·o_i + d_lse_i)        d_sink_h = Σ p_sink (d_lse_i − d_o_i·o_i)
///     d_q_i = Σ_j scale·cap'·d_s_ij·k_j      d_k_j = Σ_i scale·cap'·d_s_ij·q_i      d_v_j = Σ_i p_ij·d_o_i
BEARING_EXPORT void attention_backward(const Attention& in, View<const double, 4> d_out, View<const double, 3> d_lse,
                                       const AttentionGradients& grads);

}  // namespace bearing::reference
