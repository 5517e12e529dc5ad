#pragma once

#include <bearing/export.hpp>
#include <bearing/rows_by_index.hpp>
#include <memory>
#include <vector>

// DeBERTa's disentangled attention (He, Liu, Gao, Chen 2021, arXiv 2006.03654; v3: 2111.09543): content meets position
// twice, as the query's content with the key's relative position (c2p) and as the key's content with the query's (p2c),
//
//     s_ij ← s_ij + scale · [ q_i·Kr[δ] + k_j·Qr[δ'] ]        δ = clamp(bucket(m − n) + span, 0, 2·span − 1)
//
// Kr and Qr [heads, 2·span, dim] are the relative embeddings after their projections; the projections themselves are
// the caller's products (with share_att_key, they are the content's own). They, the layer norm over the embeddings
// (norm_rel_ebd) and the sharing of one embedding by all layers belong to the model: add up the layers' gradients.
//
// The paper counts query minus key; a distance of this library is key minus query, and its sign is changed inside.
//
// v1 has no buckets: bucket(x) = x, span = max_relative_positions. v2 and v3 have position_buckets B: each distance up
// to B/2 has one bucket, those up to max_relative_positions share the rest by logarithm, and span = B.
//
// Implementations disagree with the paper on δ': the paper takes the distance as the key sees it, bucket(n − m); the
// authors' code and Hugging Face's take δ' = δ. Models were trained with the code.

namespace bearing {

/// Which row of Qr the p2c term takes.
enum class DebertaIndex {
  code,   ///< that of bucket(m − n), as c2p does: what models were trained with
  paper,  ///< that of bucket(n − m)
};

/// Which terms there are: a config's pos_att_type.
enum class DebertaTerms {
  both,
  c2p,  ///< content meets position as query
  p2c,  ///< content meets position as key
};

/// What a config states: relative_attention's max_relative_positions (where it is −1, max_position_embeddings),
/// position_buckets (where it is −1, 0) and pos_att_type.
struct Deberta {
  Index max_relative_positions = 512;
  Index position_buckets = 0;  ///< 0: none, as in v1; 256 in v2 and v3
  DebertaTerms terms = DebertaTerms::both;
  DebertaIndex index = DebertaIndex::code;

  bool c2p() const { return terms != DebertaTerms::p2c; }
  bool p2c() const { return terms != DebertaTerms::c2p; }
  /// Half the rows of the tables.
  Index span() const { return position_buckets > 0 ? position_buckets : max_relative_positions; }
  bool operator==(const Deberta&) const = default;
};

/// The bucket of a key at distance n − m from the query. `distance` is key minus query, as everywhere here; the bucket
/// has the other sign, as DeBERTa counts query minus key: it is positive for keys before the query. Code that called
/// make_log_bucket_position(relative_pos) passes −relative_pos. The bucket is not clamped. With mid = B/2 and M =
/// max_relative_positions,
///
///     |x| ≤ mid: x        else sign(x)·(mid + ⌈ln(|x|/mid) / ln((M − 1)/mid) · (mid − 1)⌉)        x = m − n
///
/// Throws RangeError for a spec that DebertaTerm refuses, or a distance beyond 2^32.
BEARING_EXPORT Index deberta_bucket(const Deberta& deberta, Index distance);

/// 1/√(dim·(1 + terms)): the softmax scale of every product in the score, q·k included. The caller passes it, as
/// ScoreInputs::scale or AttentionOptions::scale. Throws RangeError for dim < 1.
BEARING_EXPORT double deberta_softmax_scale(const Deberta& deberta, Index dim);

/// Both terms. `key` is Kr and `query` Qr, [heads, 2·span, dim], features side by side; the table of a term that the
/// spec switches off is left empty ({}). The term looks at q and k.
///
///     d_Kr[δ] += scale · Σ d_s_ij q_i        d_q_i += scale · Σ d_s_ij Kr[δ]        and so for Qr and k
///
/// Throws RangeError for max_relative_positions < 1, position_buckets negative, 1, or so many that
/// max_relative_positions − 1 ≤ position_buckets/2; ShapeError for tables that do not fit the spec or each other; when
/// it is used, RangeError for positions that are not whole.
template <class A>
class BEARING_EXPORT DebertaTerm {
 public:
  using Arithmetic = A;

  DebertaTerm(const Deberta& deberta, Param<A, 3> key, Param<A, 3> query);

  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  auto grad_block(Index, Index head) const {
    return ParamBlock(slice(key_.grad, 0, head), slice(query_.grad, 0, head));
  }
  /// What the term is.
  const RowsByIndexList<A>& rows_by_index() const { return terms_; }
  void borrows(MemoryList& to) const { to.param("Deberta.key", key_), to.param("Deberta.query", query_); }
  Index scratch_size(Index rows, Index cols) const;

 private:
  Deberta deberta_;
  /// The least |x| whose bucket is mid + 1 + i or more; shared by copies, whose terms refer to it.
  std::shared_ptr<const std::vector<Index>> from_;
  Param<A, 3> key_, query_;
  RowsByIndexList<A> terms_;
};

}  // namespace bearing
