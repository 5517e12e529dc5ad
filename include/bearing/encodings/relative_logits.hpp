#pragma once

#include <bearing/encodings/position_temperature.hpp>
#include <bearing/export.hpp>
#include <bearing/rows_by_index.hpp>
#include <optional>

// Relative logits made by content (Inkling, Inkling 2: Thinking Machines Lab 2026): the model computes, from each
// query's token, a few numbers r for each head, which mix learned profiles over the distance into one bias,
//
//     s_ij ← s_ij + τ(m) · clip(r_i) · table[m − n]      for 0 ≤ m − n < extent, else 0
//
//     clip(r) = r · min(1, C / (‖r‖ + 10⁻⁶))              Inkling 2: C = 8; without C, r as it is
//     τ(m) = 1 + α ln(max(1, (m + 1) / n₀))               the temperature by which queries grow too
//
// r = W_r x is [heads, rank] for each token, rank 16 in both. Inkling 2 multiplies it by a learned scale [heads, rank]
// before the clip; r here is what comes after that. The bias is added to the logits as it is, after the softmax scale
// (1 / head_dim in Inkling, whose queries and keys are normalised; 1 / √head_dim in Inkling 2). Keys after the query
// get 0 and are meant to be masked. Neither model has another encoding: no rotation, nothing on the input.
//
// The models' tensor `rel_logits_proj.proj` is [rank, extent]: the table is its transpose. The extent is rel_extent in
// layers with full attention, the window's size in those with a sliding window. The latter have no temperature.

namespace bearing {

struct RelativeLogits {
  Index extent = 1024;              ///< distances from 0 to extent − 1 have a row of the table
  std::optional<double> clip = {};  ///< C, the greatest norm of r; none: r as it is
  /// τ, by which the bias is multiplied; queries are multiplied by TemperatureRows of the same spec. Not the learned
  /// form.
  std::optional<PositionTemperature> temperature = {};

  static constexpr double clip_epsilon = 1e-6;  ///< what the models' code adds to the norm

  bool operator==(const RelativeLogits&) const = default;
};

/// Its term. Positions must be whole numbers, in any order; r goes by index: query i has r[b, h, i]. A tile multiplies
/// its queries' r with the rows that its distances meet, and gathers: there is no array over queries and keys.
///
///     ∂table[δ] = Σ_{m−n=δ} dS_ij τ clip(r_i)      ∂clip_i = τ Σ_j dS_ij table[m − n]
///     ∂r_i = ∂clip_i                                               where ‖r_i‖ + 10⁻⁶ ≤ C
///     ∂r_i = C/(‖r_i‖ + 10⁻⁶) · (∂clip_i − r_i (r_i·∂clip_i) / (‖r_i‖ (‖r_i‖ + 10⁻⁶)))      elsewhere
template <class A>
class BEARING_EXPORT RelativeLogitsTerm {
 public:
  using Arithmetic = A;

  /// table [extent, rank] shared by all heads as a table of one head, [1, extent, rank], or [heads, extent, rank]; row
  /// δ is for keys δ tokens before the query, its numbers lie side by side. r [batch or 1, heads, q_len, rank], any
  /// strides. Throws RangeError for an extent that is not from 1 to 2^31, a clip that is not above 0 and finite, and a
  /// learned temperature; ShapeError for a table or r of other extents.
  RelativeLogitsTerm(const RelativeLogits& spec, Param<A, 3> table, Param<A, 4> r);

  /// Throws ShapeError for other heads, sequences or queries, RangeError for positions that are not whole, or below
  /// where the temperature begins.
  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  auto grad_block(Index batch, Index head) const {
    return ParamBlock(slice(table_.grad, 0, head), slice(slice(r_.grad, 0, batch), 0, head));
  }
  void borrows(MemoryList& to) const { to.param("RelativeLogits.table", table_), to.param("RelativeLogits.r", r_); }
  Index scratch_size(Index rows, Index cols) const;

 private:
  Index rank() const { return r_.value.shape[3]; }
  /// τ times the factor of the clip, of a query of a tile; `norm` is what the clip divides by, 0 where it does nothing.
  struct Factor {
    double all, norm;
  };
  Factor factor(const Tile<A>& tile, Index row) const;
  const A* states(const Tile<A>& tile, Index row) const;
  /// The tile with its queries' τ clip(r), at the end of the scratch, in place of queries.
  Tile<A> mixed(const Tile<A>& tile) const;
  /// ∂r of a query into d_r, from the gradient of what enters the product.
  void unmix(const Tile<A>& tile, Index row, const A* d_mixed, A* d_r) const;

  RelativeLogits spec_;
  Param<A, 3> table_;
  Param<A, 4> r_;
  RowsByIndexList<A> terms_;
};

}  // namespace bearing
