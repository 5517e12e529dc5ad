#pragma once

#include <bearing/attention.hpp>
#include <optional>
#include <span>
#include <vector>

// Attention in regions: one softmax over all keys that a query sees, in which the row encodings (RoPE) turn queries and
// keys at other positions from region to region. A region is a band of distances; regions follow each other, and each
// pair of a query at m and a key at n lies in one of them:
//
//     s_ij = c · (T(q_r(m_i)) q_i)·(T(k_r(n_j)) k_j) + Σ terms        r the region of (m_i, n_j)
//
// Masks and all other encodings go by the tokens' own positions. So a model reads a longer text than it was trained
// for, and no distance is new to it; no weight changes:
//
//     DualChunk     three regions by chunk      An et al. 2024, arXiv 2402.17463; Qwen2.5-1M
//     SelfExtend    near, and far in groups     Jin et al. 2024, arXiv 2401.01325
//     ReRope        near, and far at one place  Su 2023, https://kexue.fm/archives/9708

namespace bearing {

/// Where a row that stands at p is turned:
///
///     min(step · ⌊(p mod period) / group⌋ + offset, most)
struct Placing {
  Index period = 0;  ///< 0: none
  Index group = 1;   ///< 1: p is not rounded
  double step = 1, offset = 0;
  std::optional<double> most = {};  ///< empty: no limit

  BEARING_EXPORT double operator()(double p) const;
  bool operator==(const Placing&) const = default;
};

struct Region {
  Band band = {};
  Placing q = {}, k = {};  ///< of queries and of keys
  bool operator==(const Region&) const = default;
};

/// Dual chunk attention. With s = chunk_size − local_size positions in a chunk, keys are turned at n mod s, queries at
///
///     m mod s                            where the key is in the query's chunk
///     min(m mod s + s, chunk_size)       where it is in the chunk before
///     min(2s − 1, chunk_size)            where it is in any earlier chunk
///
/// as the authors' code and vLLM have it. The paper's largest position is chunk_size − 1.
struct DualChunk {
  Required<Index> chunk_size;  ///< at most the length that the model was trained for
  Required<Index> local_size;  ///< of the chunk before, how many keys at least are met at their true distances
  bool operator==(const DualChunk&) const = default;
};

/// Keys nearer than `window` are met as they are. Beyond, queries are turned at ⌊m / group⌋ + window − ⌊window / group⌋
/// and keys at ⌊n / group⌋: distances go on where the window ends, `group` times as slowly.
struct SelfExtend {
  Required<Index> group, window;
  bool operator==(const SelfExtend&) const = default;
};

/// Rectified RoPE: keys nearer than `window` are met as they are, all others as if they stood `window` behind the
/// query. Leaky, with step > 0: at window + step · (m − n − window).
struct ReRope {
  Required<Index> window;
  double step = 0;
  bool operator==(const ReRope&) const = default;
};

/// Their regions. They throw RangeError for numbers that will not do: a chunk without positions, a group below 1, a
/// window below 0, a step that is not from 0 to 1.
BEARING_EXPORT std::vector<Region> regions(const DualChunk& of);
BEARING_EXPORT std::vector<Region> regions(const SelfExtend& of);
BEARING_EXPORT std::vector<Region> regions(const ReRope& of);

/// attention() in regions:
///
///     const RotaryRows<float> rope(table);
///     attention_in_regions<float, float>({q, k, v}, regions(SelfExtend{.group = 8, .window = 1'024}), out, lse,
///                                        with(rope), {.mask = Mask::causal});
///
/// Each region is a call of attention() under its band, and the results are merged in their order. Memory beyond
/// that of these calls is linear: results of one region, and positions. Where one region alone holds what the mask
/// lets through, out is what attention() gives there. Sinks are part of the sum once.
///
/// Throws as attention() does; RangeError unless regions follow each other (the first has no `from`, the last no `to`,
/// each begins where the one before ends, by the same chunks), if options.band is given, or for an encoding that looks
/// at whole rows (CoPE), or if none turns rows, as regions would do nothing; ShapeError for positions of several axes,
/// and for q_turned_at and k_turned_at, which are the regions' own.
template <class T, class O>
BEARING_EXPORT void attention_in_regions(const AttentionInputs<T>& in, std::span<const Region> regions, View<O, 4> out,
                                         const std::type_identity_t<View<Compute<T>, 3>>& lse,
                                         const std::type_identity_t<TermList<Compute<T>>>& terms,
                                         const std::type_identity_t<AttentionOptions<Compute<T>>>& options,
                                         const Executor& on = {});

/// The gradients of attention_in_regions(), as attention_backward() gives them: of q, k, v written, of every parameter
/// and of the sinks added (+=). Each region's part comes from the whole rows' out and lse; the parts are added in the
/// regions' order. Errors as attention_in_regions(); a paged cache is refused with a ShapeError. If memory runs out in
/// a later region, the gradients of parameters and sinks have been added of those before it.
template <class T, class O = T>
BEARING_EXPORT void attention_in_regions_backward(const AttentionInputs<T>& in, std::span<const Region> regions,
                                                  const std::type_identity_t<AttentionResults<O>>& results,
                                                  const std::type_identity_t<AttentionGrads<O>>& grads,
                                                  const std::type_identity_t<TermList<Compute<T>>>& terms,
                                                  const std::type_identity_t<AttentionOptions<Compute<T>>>& options,
                                                  const Executor& on = {});

}  // namespace bearing
