#pragma once

#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>
#include <cstdint>

// A learned number for each head and bucket of token pairs. The buckets of pairs are given; they do not come from
// positions:
//
//     s_ij ← s_ij + table[index[i, j], h]
//
// Graphormer (Ying et al. 2021, arXiv 2106.05234) looks up the length of the shortest path between two nodes of a graph
// (§3.1.2), LeViT (Graham et al. 2021, arXiv 2104.01136) the absolute displacement of two patches; distances in trees
// and the buckets of iRPE are indices too. AlphaFold 3 (Abramson et al. 2024, Algorithm 3 of its supplement) makes the
// buckets of differences of whole attributes of the tokens, clipped: residue index, token index, copy of the chain.

namespace bearing {

/// Which pairs of tokens have a difference; the others share the last row.
enum class BucketPairs {
  all,
  same_group,   ///< those of one group: residues of one chain
  other_group,  ///< those of different groups: two chains, as a chain has no difference to itself
};

/// The row of two tokens by their attribute a:
///
///     row = clip(a_i − a_j, −clip, clip) + clip        query minus key, as AlphaFold's tables count
///     row = 2·clip + 1                                 for pairs that have no difference
struct BucketDifference {
  Index clip = 32;  ///< AlphaFold 3: 32 for residues and tokens, 2 for chains
  BucketPairs pairs = BucketPairs::all;

  /// Rows of the table: 2·clip + 1, and one more for pairs without a difference, if there can be any. Throws RangeError
  /// for a clip below 0 or past 2^31.
  BEARING_EXPORT Index rows() const;
  bool operator==(const BucketDifference&) const = default;
};

/// Attributes of the tokens of queries or of keys, [batch or 1, tokens]; groups are given only if BucketPairs needs
/// them.
struct BucketTokens {
  View<const Index, 2> attribute;
  View<const Index, 2> group = {};
};

/// The bias with its table [rows, heads]; a table [heads, rows] is passed with its strides. Tokens go by their index in
/// the sequence, never by position. Attributes and indices stay in the caller's memory, which must outlive the bias;
/// they are checked once, by the constructor.
///
///     d_table[r, h] += Σ d_s_ij over all pairs of bucket r
///
/// Throws ShapeError for a table that is missing or has other extents, for groups that are missing or not needed;
/// RangeError for an index without a row, for attributes beyond ±2^31. A call throws ShapeError for other heads,
/// batches or lengths.
template <class A>
class BEARING_EXPORT BucketBias {
 public:
  using Arithmetic = A;
  static constexpr std::int32_t none = -1;  ///< in an index: nothing is added

  /// By an index [batch or 1, heads or 1, q_len, k_len] of rows of the table, in 32 bits or in 64.
  BucketBias(View<const std::int32_t, 4> index, Param<A, 2> table);
  BucketBias(View<const Index, 4> index, Param<A, 2> table);
  /// By a difference of attributes.
  BucketBias(const BucketDifference& difference, Param<A, 2> table, const BucketTokens& queries,
             const BucketTokens& keys);

  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  auto grad_block(Index, Index head) const { return ParamBlock(slice(table_.grad, 1, head)); }
  void borrows(MemoryList& to) const;

 private:
  template <class I>
  void check_index(const View<const I, 4>& index) const;
  std::array<Index, 4> index_shape() const { return by_ == By::index ? index_.shape : wide_index_.shape; }
  void check_tokens(const char* name, const BucketTokens& tokens) const;
  Index row(Index batch, Index head, Index i, Index j) const;
  template <class Body>
  void over_rows(const Tile<A>& tile, const Body& body) const;

  enum class By { index, wide_index, difference };

  By by_;
  Param<A, 2> table_;
  View<const std::int32_t, 4> index_{};
  View<const Index, 4> wide_index_{};
  BucketDifference difference_{};
  BucketTokens queries_{}, keys_{};
};

}  // namespace bearing
