#pragma once

#include <bearing/executor.hpp>
#include <bearing/export.hpp>
#include <bearing/half.hpp>
#include <bearing/positions.hpp>
#include <bearing/term_list.hpp>
#include <optional>
#include <type_traits>

// Attention with any list of encodings, forward and backward, in memory linear in the lengths:
//
//     x_ij = c · (T q_i)·(T k_j)                        row encodings turn q and k
//     s_ij = cap(x_ij) + Σ terms                        cap(x) = x, or soft_cap · tanh(x / soft_cap)
//     p_ij = exp(s_ij − lse_i)                          over the keys that query i sees
//     o_i  = Σ_j p_ij (v_j + V[ρ(i, j)])                value encodings add to v, or o_i = B_i Σ_j p_ij (T_j v_j + …)
//
// q [batch, heads, q_len, dim], k [batch, kv_heads, k_len, dim], v [batch, kv_heads, k_len, value_dim]; query head h
// reads key head h / (heads / kv_heads). All strides are free. Types: double, float, Bfloat16, Float16; sums are
// double for double, else float. Results have the same bits for any executor.

namespace bearing {

/// Which keys a query sees, before windows, padding and packing.
enum class Mask {
  none,  ///< all of them
  /// Those at n_j ≤ m_i: by position, which is right for caches and shards. Of positions on several axes the first one
  /// decides, and where it is the same the next one: a patch sees those of its picture in the rows above and left of
  /// it.
  causal,
  causal_top_left,  ///< j ≤ i: by index, the first query sees one key
  /// j − k_end ≤ i − q_end: by index, the last query sees all keys. The keys end where k_lengths says, else at k_len;
  /// of packed sequences each has its own ends.
  causal_bottom_right,
};

/// A sliding window: a query sees keys at distances −before … after; −1 sets no limit, and less is a RangeError.
/// Distances are those of positions, on their first axis, or of indices if the mask is one by index. A model's
/// `sliding_window` of w keys, which counts the query's own place, is {.before = w − 1, .after = 0}.
struct Window {
  Index before = -1, after = -1;
};

/// Which keys a query sees by how far they lie behind it, beside mask and window: those with from ≤ m_i − n_j < to, on
/// the first axis of positions, whatever the mask goes by. Of chunks it is ⌊m_i / chunk⌋ − ⌊n_j / chunk⌋ that counts.
/// {.from = w} hides the keys that are nearer than w.
struct Band {
  std::optional<Index> from = {}, to = {};  ///< empty: no limit
  Index chunk = 0;                          ///< positions in a chunk; 0: distances count
  bool limits() const { return from || to; }
  bool operator==(const Band&) const = default;
};

template <class T>
struct AttentionInputs {
  View<const T, 4> q, k, v;
  Positions q_positions = {}, k_positions = {};  ///< with a cache of `past` keys, q_positions = Positions(past)
  /// A paged cache: k and v are [blocks, kv_heads, block_size, dim], the table is [batch, blocks of a sequence], and
  /// key j of sequence b is row j % block_size of block table(b, j / block_size). k_len is blocks of a sequence ·
  /// block_size; AttentionOptions::k_lengths must say how many keys each sequence has. The table must name a block of
  /// the cache for each of them, also for those that a mask or a window hides. Forward only.
  View<const Index, 2> block_table = {};
  /// Where row encodings turn q and k, if not at their positions, by which masks and all other encodings still go.
  std::optional<Positions> q_turned_at = {}, k_turned_at = {};
};

/// A: the arithmetic, double for double, else float.
template <class A>
struct AttentionOptions {
  Required<Mask> mask;
  Window window = {};
  Band band = {};
  std::optional<double> scale = {};     ///< c; 1/√dim if empty. T5: 1
  double soft_cap = 0;                  ///< bounds c·q·k, before terms are added; 0: no bound
  Param<A, 1> sinks = {};               ///< [heads] a logit that is part of the sum Σ_j exp(s_ij), and has no value
  View<const Index, 1> k_lengths = {};  ///< [batch] how many keys a sequence has; those after them are padding
  View<const bool, 2> key_mask = {};    ///< [batch, k_len] true: may be seen
  View<const bool, 4> visible = {};     ///< [batch, heads, q_len, k_len] true: may be seen; strides may be 0
  /// Packed sequences (cu_seqlens), the same for all of the batch: sequence s has queries q_starts[s] … q_starts[s + 1]
  /// − 1 and keys k_starts[s] … k_starts[s + 1] − 1, and its queries see no other keys. Both are [sequences + 1] and
  /// rise from 0 to q_len and k_len. Masks by index count from the sequence's starts.
  View<const Index, 1> q_starts = {}, k_starts = {};
};

/// Attention: writes out [batch, heads, q_len, value_dim] and, unless it is left empty, lse [batch, heads, q_len], the
/// natural logarithm of Σ_j exp(s_ij), sinks included. A query that sees no key has out 0, and lse −∞ or its sink. O is
/// T, or T's arithmetic type: then partial results that are to be merged lose no bits.
///
///     RopeTable<float> table(Rope{.head_dim = 64, .pairing = Pairing::half}, 4'096);
///     const RotaryRows<float> rope(table);
///     attention<float>({q, k, v}, out, lse, with(rope), {.mask = Mask::causal});
///
/// Bfloat16 on a machine with matrix tiles (AMX) may round weights and turned rows to bfloat16 for their products: out
/// is then off by at most 0.0041 of the largest |v|, lse by 1e-4, and a turned row's logits by 2^-7 of |c|·|q|·|k|.
/// Float and Float16 are multiplied there as three numbers of bfloat16 each, which is as exact as float.
///
/// Throws ShapeError for shapes that do not fit each other, tensors without memory and outputs that share it,
/// RangeError for positions, options and encodings that cannot serve; nothing is written then.
template <class T, class O>
BEARING_EXPORT void attention(const AttentionInputs<T>& in, View<O, 4> out,
                              const std::type_identity_t<View<Compute<T>, 3>>& lse,
                              const std::type_identity_t<TermList<Compute<T>>>& terms,
                              const std::type_identity_t<AttentionOptions<Compute<T>>>& options,
                              const Executor& on = {});

/// What a backward starts from: attention()'s results and their gradients; out and d_out have the type O that out had.
/// For a slice of the keys whose results were merged, give the merged results: out and lse are the sums of whole rows.
template <class O>
struct AttentionResults {
  View<const O, 4> out;
  View<const Compute<O>, 3> lse;
  View<const O, 4> d_out;
  View<const Compute<O>, 3> d_lse = {};  ///< empty: 0
};

/// Where the gradients of the inputs are written (=), with their shapes; what is left null is not computed.
template <class O>
struct AttentionGrads {
  View<O, 4> d_q = {}, d_k = {}, d_v = {};
};

/// The gradients of attention(): of q, k, v written, of every parameter and of the sinks added (+=).
///
///     d_s_ij = p_ij (d_o_i·(v_j + V[ρ]) − d_o_i·o_i + d_lse_i)     p_ij recomputed from lse
///     d_q_i  = Σ_j c·cap'(x_ij)·d_s_ij·k_j                         d_k_j, d_v_j alike, in one order of summing
///
/// O is T, or T's arithmetic type: then gradients of slices of the keys, which are to be added up, lose no bits. Errors
/// as attention(); a paged cache is refused with a ShapeError.
template <class T, class O = T>
BEARING_EXPORT void attention_backward(const AttentionInputs<T>& in,
                                       const std::type_identity_t<AttentionResults<O>>& results,
                                       const std::type_identity_t<AttentionGrads<O>>& grads,
                                       const std::type_identity_t<TermList<Compute<T>>>& terms,
                                       const std::type_identity_t<AttentionOptions<Compute<T>>>& options,
                                       const Executor& on = {});

/// Combines results over disjoint sets of keys, as if they had been one: (out, lse) ← (out, lse) ⊕ (part, part_lse),
///
///     lse' = ln(exp lse + exp part_lse),   out' = exp(lse − lse')·out + exp(part_lse − lse')·part
///
/// part and out are [batch, heads, q_len, value_dim], part_lse and lse [batch, heads, q_len]. A row without any key
/// (lse −∞) leaves the other side as it is. The same merges in the same order give the same bits. Give sinks to one of
/// the parts only. Throws ShapeError for shapes that differ or memory that is missing or shared; nothing is written
/// then.
template <class O>
BEARING_EXPORT void merge(View<const O, 4> part, const std::type_identity_t<View<const Compute<O>, 3>>& part_lse,
                          std::type_identity_t<View<O, 4>> out, const std::type_identity_t<View<Compute<O>, 3>>& lse,
                          const Executor& on = {});

}  // namespace bearing
