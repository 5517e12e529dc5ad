#pragma once

#include <vector>

#include "aligned.hpp"
#include "attention/amx/amx_packing.hpp"
#include "attention/softmax/softmax_forward.hpp"
#include "terms/tile_work.hpp"

namespace bearing {

/// ForwardWork on matrix tiles, of bfloat16 and of numbers in pieces of it: one worker's memory, and the forward of a
/// block of queries in it.
class AmxForward {
 public:
  /// Whether the machine has tiles and a call is one for them: nothing is added to values or turns them; no term looks
  /// at whole rows; dims are whole tiles; a cap over the scale is a normal number; and there are queries enough.
  static bool serves(const AttentionPlan<float>& plan);
  /// Of each number: one of bfloat16.
  static int pieces_of(const AttentionPlan<float>& plan);
  /// Queries that are worked on at once, for such a call.
  static Index block_rows(const AttentionPlan<float>& plan);

  /// Throws std::bad_alloc; nothing below does.
  explicit AmxForward(const AttentionPlan<float>& plan);

  /// Queries row … row + extents.rows − 1 of a head, over all the keys that they see.
  FinishedRows<float> block(Index b, Index h, Index row);

 private:
  void open_head(Index b, Index h);
  void open_queries(Index rows);
  void begin();
  Index kv_head() const { return h_ / plan_->call.group(); }
  /// Whether terms write a matrix, into room for a part of the block's rows and columns.
  bool terms_write() const { return !plan_->by_diagonal(b_) && matrix_.data == nullptr; }
  /// Whether columns are met tile by tile: where terms write, or masks have holes.
  bool by_tile() const { return plan_->visibility.holes(b_) || terms_write(); }
  void meet_at_once(Index rows, Columns all);
  void meet_by_tile(Index rows, Columns all);
  /// Rows i … i + n − 1 of the block meet columns that are ready.
  void meet(Index i, Index n, Columns cols);
  /// What they see of these, where masks have holes.
  Marks marks(Index i, Index n, Columns cols);
  /// Cuts what is not marked off both ends of each row's run; returns the columns that all rows reach over.
  Columns cut_runs(Index n, const Marks& marks);
  /// What terms add to columns that are seen, which are counted from the origin.
  attend::amx::Bias biases(Index i, Index n, Index origin, Columns seen);
  /// Packs the keys and values of these columns, if that was not done before.
  void ready(Columns cols);
  void pack_block(Index first);
  /// Keys as they enter products.
  void load_keys(Columns cols, float* to);
  /// Whether rows lie as packing takes them.
  bool as_packed(const HeadRows<float>& rows) const { return rows.plain() && (pack_.pieces == 1 || rows.same()); }
  /// Whether rows are packed where they lie: none among them must be cleared.
  bool packs_direct(const HeadRows<float>& rows, Index first, Index n);

  const AttentionPlan<float>* plan_;
  attend::amx::Packing pack_;
  HiddenKeys hidden_;
  HeadRows<float> queries_, keys_, values_;
  RowTurner<float> query_turner_, key_turner_;
  Diagonals<float> diagonals_;
  TileWork<float> tiles_;
  bool logits_ = false;          ///< scores and what is added to them are logits; else in units of log2
  View<const float, 2> matrix_;  ///< that is added as it lies; null: none
  float log2_scale_, cap_;
  AlignedArray<Bfloat16> q_, packed_keys_, packed_values_;
  AlignedArray<float> out_, scratch_;
  std::vector<float> loaded_, turned_, bias_, max_, sum_, rounded_sum_;
  std::vector<Columns> sees_;               ///< [rows]
  std::vector<Index> row_first_, row_end_;  ///< of the tile that is worked on
  std::vector<char> ready_, seen_;
  std::vector<float> q_rows_;  ///< as they enter products, where a term looks at rows
  Index b_ = -1, h_ = -1, row_ = 0;
};

}  // namespace bearing
