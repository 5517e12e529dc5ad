#pragma once

#include <bearing/export.hpp>
#include <bearing/rows_by_index.hpp>

// Vectors by distance for keys alone, as Hugging Face's BERT has them (position_embedding_type `relative_key`, after
// Shaw et al. 2018, and `relative_key_query`, method 4 of Huang, Liang, Xu, Xiang 2020, arXiv 2009.13658) and, with
// clipped distances, Wav2Vec2-BERT:
//
//     s_ij ← s_ij + scale · q_i · E[ρ]   ( + scale · k_j · E[ρ]  for relative_key_query )
//
//     BERT                ρ = m − n + max_position_embeddings − 1      query minus key; nothing is clipped
//     Wav2Vec2-BERT       ρ = clip(n − m, −left, right) + left         key minus query
//
// One table serves all heads. BERT's rows count query minus key: tables of model files are taken as they are, and read
// backwards here. BERT has no row for a distance of max_position_embeddings or more: that is a RangeError, not clipped.

namespace bearing {

enum class BertRelativeType { relative_key, relative_key_query };

struct BertRelative {
  Index max_position_embeddings = 512;
  BertRelativeType position_embedding_type = BertRelativeType::relative_key;

  /// Rows of the table, 2·max_position_embeddings − 1. Throws RangeError unless max_position_embeddings is 1 to 2^31.
  BEARING_EXPORT Index rows() const;
  /// The row of a distance, key minus query. Throws as rows(), RangeError for a distance that has no row.
  BEARING_EXPORT Index row(Index distance) const;
  bool operator==(const BertRelative&) const = default;
};

/// position_embeddings_type `relative_key` of Wav2Vec2-BERT: left_max_position_embeddings, right_max_….
struct Wav2Vec2BertRelative {
  Index left = 64, right = 8;

  /// Rows of the table, left + right + 1. Throws RangeError unless both are 0 to 2^31.
  BEARING_EXPORT Index rows() const;
  /// The row of a distance, key minus query: farther ones share the ends. Throws as rows().
  BEARING_EXPORT Index row(Index distance) const;
  bool operator==(const Wav2Vec2BertRelative&) const = default;
};

/// The term of either spec, with its table [rows(), dim], which all heads share; a row's features lie side by side.
/// Positions must be whole numbers, in any order.
///
///     ∂E[ρ] = scale · Σ dS_ij (q_i + k_j)      ∂q_i = scale · Σ_j dS_ij E[ρ]      ∂k_j = scale · Σ_i dS_ij E[ρ]
///
/// without k for relative_key. Throws RangeError for max_position_embeddings < 1 or a negative side, ShapeError for a
/// table of another extent; check() adds dim, and RangeError for positions too far apart for BERT.
template <class A>
class BEARING_EXPORT BertRelativeTerm {
 public:
  using Arithmetic = A;

  BertRelativeTerm(const BertRelative& bert, Param<A, 2> table);
  BertRelativeTerm(const Wav2Vec2BertRelative& wav2vec2_bert, Param<A, 2> table);

  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  auto grad_block(Index, Index) const { return ParamBlock(table_.grad); }
  /// What the term is.
  const RowsByIndexList<A>& rows_by_index() const { return terms_; }
  void borrows(MemoryList& to) const { to.param("BertRelative.table", table_); }
  Index scratch_size(Index rows, Index cols) const;

 private:
  Index least_ = 0, most_ = 0;  // distances, key minus query, of the table's ends
  bool clipped_;
  Param<A, 2> table_;
  RowsByIndexList<A> terms_;
};

}  // namespace bearing
