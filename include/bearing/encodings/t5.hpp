#pragma once

#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>
#include <vector>

// T5's bias (Raffel et al. 2020, arXiv 1910.10683, §2.1): distances fall into buckets, exact near the query and
// logarithmically wider further on, and each bucket has a learned number per head,
//
//     s_ij ← s_ij + table[bucket(n − m), h]
//
// Of the N' buckets of a side (half of all buckets if bidirectional, else all of them) the first e = N'/2 hold one
// distance each: exact for |n − m| < e. Distance x ≥ e falls into
//
//     min(N' − 1, e + ⌊(N' − e) · ln(x/e) / ln(max_distance/e)⌋)
//
// Buckets of keys after the query come after those of keys before it; the first of them is for distance 0 and stays
// unused. Some steps of the logarithm lie exactly on whole distances (16, 32 and 64 with T5's numbers), where a
// computed logarithm may fall to either side; here thresholds are found in whole numbers.
//
// T5 does not divide its scores by √dim: the softmax scale is 1. The first layer owns the table and all layers add it:
// call the backward for each layer, and the table's gradient is their sum.

namespace bearing {

enum class T5Direction {
  bidirectional,  ///< encoders: half of the buckets are for keys after the query
  causal,         ///< decoders: keys after the query share the bucket of distance 0, and are meant to be masked
};

struct T5 {
  Index buckets = 32;        ///< relative_attention_num_buckets
  Index max_distance = 128;  ///< relative_attention_max_distance
  Required<T5Direction> direction;

  bool operator==(const T5&) const = default;
};

/// The least |distance| of each bucket of one side, rising: [buckets/2] if bidirectional, else [buckets]. Where two are
/// equal the first of these buckets is never used.
///
/// Throws RangeError for a side without two buckets, a max_distance not past the exact half, or numbers beyond 2^20
/// buckets and 2^31 tokens.
BEARING_EXPORT std::vector<Index> t5_thresholds(const T5& t5);

/// The bucket of a distance, key minus query. Errors as t5_thresholds(), which it calls: for many distances keep a
/// T5Buckets.
BEARING_EXPORT Index t5_bucket(const T5& t5, Index distance);

/// The buckets of a spec, with the thresholds found once. Errors as t5_thresholds().
class BEARING_EXPORT T5Buckets {
 public:
  explicit T5Buckets(const T5& t5);
  T5Buckets(const T5Buckets&) = default;  // moving copies: what was moved from still serves
  T5Buckets& operator=(const T5Buckets&) = default;

  Index operator()(Index distance) const;

  /// A bucket and the distances around `distance` that share it: all of first … last.
  struct Interval {
    Index bucket, first, last;
  };
  Interval interval(Index distance) const;

  const T5& spec() const { return spec_; }
  const std::vector<Index>& thresholds() const { return thresholds_; }

 private:
  T5 spec_;
  std::vector<Index> thresholds_;
  std::vector<Index> near_;  ///< the buckets of |distance| 0, 1, …, looked up rather than searched
};

/// T5's bias, for whole positions. A call throws RangeError for positions that are not whole, and ShapeError for a
/// table that does not have one row per bucket and one column per head.
template <class A>
class BEARING_EXPORT T5Bias {
 public:
  using Arithmetic = A;

  /// table [buckets, heads]; ∂b/∂table[u, h] = 1 where the bucket is u. Errors as t5_thresholds().
  T5Bias(const T5& t5, Param<A, 2> table) : buckets_(t5), table_(table) {}

  void check(const char* function, const Problem& problem) const;
  void bias(Index head, Index n, const double* distance, A* b) const;
  void bias_grads(Index head, Index n, const double* distance, const A* d_b, A* d_params) const;
  auto grad_block(Index, Index head) const { return ParamBlock(slice(table_.grad, 1, head)); }
  void borrows(MemoryList& to) const { to.param("T5.table", table_); }

 private:
  T5Buckets buckets_;
  Param<A, 2> table_;
};

}  // namespace bearing
