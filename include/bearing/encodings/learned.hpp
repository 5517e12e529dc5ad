#pragma once

#include <bearing/rows.hpp>
#include <optional>

// A learned row for every position (Gehring et al. 2017, arXiv 1705.03122; BERT, GPT-2, ViT):
//
//     x_p ← x_p + table[p + offset]          d_table[p + offset] += d_x_p
//
// There is no row past the trained length: a position without a row is a RangeError.

namespace bearing {

struct Learned {
  Index length = 0;  ///< positions 0 … length − 1
  Index dim = 0;
  Index offset = 0;  ///< the row of position 0: 2 in OPT and BART, padding_idx + 1 in RoBERTa, ESM and CamemBERT
  /// A row for padding: position padding_row − offset has it, and it gets no gradient. 1 in RoBERTa.
  std::optional<Index> padding_row = {};

  /// Rows of the table, length + offset, as in a model's file: RoBERTa's 514 are two more than its length of 512.
  /// Throws RangeError unless length and offset are 0 to 2^31.
  BEARING_EXPORT Index rows() const;
  bool operator==(const Learned&) const = default;
};

template <class A>
class BEARING_EXPORT LearnedInputs {
 public:
  using Arithmetic = A;
  static constexpr bool grads_in_order = true;  // the gradient is as large as the table: no copies of it

  /// table [length + offset, dim]. Throws ShapeError for another shape of it or its gradient, RangeError for a spec
  /// that cannot be.
  LearnedInputs(const Learned& spec, Param<A, 2> table);

  Index dim() const { return spec_.dim; }
  /// Throws RangeError for a position that is not whole, or for which the table has no row.
  void check(const char* function, const Problem& problem) const;
  void inputs(const RowTile& tile, A* p) const;
  void input_grads(const RowTile& tile, const A* d_p, A* d_params) const;
  Index param_size() const { return table_.grad.data == nullptr ? 0 : 1; }
  void collect(Index, Index, const A*) const {}
  void borrows(MemoryList& to) const { to.param("Learned.table", table_); }

 private:
  Learned spec_;
  Param<A, 2> table_;
};

/// How numbers between rows are found when a table is resized. Samples lie at the rows' centres: row i of n lies at
/// (i + ½)/n of the whole (align_corners=False). Beyond an edge the row at the edge is repeated.
enum class Interpolation {
  linear,  ///< between the two neighbours
  cubic,   ///< four neighbours, a = −0.75 (Keys 1981 with PyTorch's a): what ViT, DeiT, DINO and BEiT code uses
};

/// Writes a table of another length: from [rows, dim], to [new_rows, dim], which must not overlap. The first `prefix`
/// rows (offset, padding, class token) are copied; the others are resampled from rows − prefix to new_rows − prefix.
/// Sums are taken in double and rounded once; there is no antialiasing. T: float, double. Throws ShapeError for shapes
/// that do not fit; nothing is written then.
template <class T>
BEARING_EXPORT void resize(Interpolation how, Index prefix, std::type_identity_t<View<const T, 2>> from, View<T, 2> to);

/// The extents of a grid of patches.
struct GridSize {
  Index height = 0, width = 0;
  bool operator==(const GridSize&) const = default;
};

/// The same along height and width, for a table of a grid's patches, row by row, after `prefix` rows of class and other
/// tokens: from [prefix + from_grid's patches, dim], to [prefix + to_grid's patches, dim]. The ratio is from/to in each
/// direction, as with PyTorch's `size=`; code that passes `scale_factor=` (DINO) samples at slightly other places.
template <class T>
BEARING_EXPORT void resize_grid(Interpolation how, Index prefix, std::type_identity_t<View<const T, 2>> from,
                                GridSize from_grid, View<T, 2> to, GridSize to_grid);

}  // namespace bearing
