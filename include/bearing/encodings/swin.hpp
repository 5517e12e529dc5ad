#pragma once

#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>

// Swin's relative position bias (Liu et al. 2021, arXiv 2103.14030, eq. 4): inside a window of height × width tokens
// every displacement has a learned number per head,
//
//     s_ij ← s_ij + B_h[y_i − y_j, x_i − x_j],
//
// kept as a table [(2·height − 1)·(2·width − 1), heads] whose row is (Δy + height − 1)·(2·width − 1) + Δx + width − 1,
// with Δ = query − key. Positions have two axes, (y, x), counted from 0 within the window.
//
// BEiT (Bao et al. 2022, arXiv 2106.08254) has the same table over the whole image, with three more rows for its class
// token: query class and key token, query token and key class, both class, in this order.

namespace bearing {

struct Swin {
  Index height = 0, width = 0;  ///< of a window, in tokens; BEiT: of the image, in patches
  /// Whether the table ends in BEiT's three rows. The class token then has the position (−1, −1).
  enum class ClassToken { none, three_rows } class_token = ClassToken::none;

  /// Rows of the table. Throws ShapeError for a window that is not between 1 and 1,024 tokens high and wide.
  BEARING_EXPORT Index rows() const;
  /// The table's row for a query at (y, x) and a key at (y, x), both in the window.
  Index row(const double* q_positions, const double* k_positions) const {
    if (class_token == ClassToken::three_rows && (q_positions[0] < 0 || k_positions[0] < 0)) {
      return table_rows() - (q_positions[0] >= 0 ? 2 : k_positions[0] >= 0 ? 3 : 1);
    }
    const auto up = static_cast<Index>(q_positions[0] - k_positions[0]),
               across = static_cast<Index>(q_positions[1] - k_positions[1]);
    return (up + height - 1) * (2 * width - 1) + across + width - 1;
  }
  bool operator==(const Swin&) const = default;

 private:
  Index table_rows() const {
    return (2 * height - 1) * (2 * width - 1) + (class_token == ClassToken::three_rows ? 3 : 0);
  }
};

/// The bias with its table [spec.rows(), heads] and its gradient. Throws ShapeError for another shape, a window that
/// rows() refuses, or positions without two axes; RangeError for a position outside the window.
template <class A>
class BEARING_EXPORT SwinBias {
 public:
  using Arithmetic = A;

  SwinBias(const Swin& spec, Param<A, 2> table);

  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  auto grad_block(Index, Index head) const { return ParamBlock(slice(table_.grad, 1, head)); }
  void borrows(MemoryList& to) const { to.param("Swin.table", table_); }

 private:
  Swin spec_;
  Param<A, 2> table_;
};

}  // namespace bearing
