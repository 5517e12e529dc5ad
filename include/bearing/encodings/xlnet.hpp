#pragma once

#include <bearing/encodings/transformer_xl.hpp>

// XLNet (Yang, Dai, Yang, Carbonell, Salakhutdinov, Le 2019, arXiv 1906.08237): Transformer-XL's encoding with offsets
// both ways, and a term by segment (§2.5):
//
//     s_ij = scale · [ q_i·k_j + u·k_j + (q_i + v)·r_{m−n} + (q_i + r_s)·seg_{σ(i,j)} ]
//
//     σ = 0: tokens i and j are of the same segment, 1: of different ones
//
// and which segments these are does not matter. The terms with u, v and r are TransformerXLTerm with the spec below.
// r_w_bias is u, r_r_bias is v, r_s_bias is r_s. XLNet's projection `r` is [d_model, heads, dim], the transpose of W_R:
// pass it with its strides.

namespace bearing {

struct Xlnet {
  Index clamp_len = 0;                                                       ///< 0: none (the config says −1)
  TransformerXLDirection direction = TransformerXLDirection::bidirectional;  ///< attn_type: `bi`; `uni` is causal

  /// The Transformer-XL spec for q_len new tokens. If bidirectional, offsets begin at 1 − q_len (the first query and
  /// the last key) and end at k_len − 1 (the last query and the oldest key): r has q_len + k_len − 1 rows. Else r has
  /// k_len rows from offset 0.
  TransformerXL relative(Index q_len) const {
    const bool both = direction == TransformerXLDirection::bidirectional;
    return {.first_offset = both ? 1 - q_len : 0, .clamp_len = clamp_len, .direction = direction};
  }
  bool operator==(const Xlnet&) const = default;
};

/// The segment term. seg_embed [2, heads, dim], r_s [heads, dim]; a row's features lie side by side. Segments are any
/// numbers, [batch, tokens] of queries and of keys (tokens of a memory are segment 0 in the published code).
///
///     ∂seg_σ = scale Σ dS_ij (q_i + r_s)      ∂r_s = ∂q summed over i      ∂q_i = scale Σ_j dS_ij seg_σ
///
/// Throws ShapeError for parameters that do not fit one another; a call throws it for other heads, another dim, other
/// batches or lengths.
template <class A>
class BEARING_EXPORT XlnetSegmentTerm {
 public:
  using Arithmetic = A;

  XlnetSegmentTerm(Param<A, 3> seg_embed, Param<A, 2> r_s, View<const Index, 2> q_segments,
                   View<const Index, 2> k_segments);

  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  auto grad_block(Index, Index head) const {
    return ParamBlock(slice(seg_embed_.grad, 1, head), slice(r_s_.grad, 0, head));
  }
  /// What the term is.
  const RowsByIndexList<A>& rows_by_index() const { return terms_; }
  void borrows(MemoryList& to) const {
    to.param("XlnetSegment.seg_embed", seg_embed_), to.param("XlnetSegment.r_s", r_s_);
    to.reads("XlnetSegment.q_segments", q_segments_), to.reads("XlnetSegment.k_segments", k_segments_);
  }
  Index scratch_size(Index rows, Index cols) const;

 private:
  Param<A, 3> seg_embed_;
  Param<A, 2> r_s_;
  View<const Index, 2> q_segments_, k_segments_;
  RowsByIndexList<A> terms_;
};

}  // namespace bearing
