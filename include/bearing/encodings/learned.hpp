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

/// How numbers between rows are found when a table is resized. Beyond an edge the row at the edge is repeated.
enum class Interpolation {
  linear,  ///< between the two neighbours
  cubic,   ///< four neighbours, a = −0.75 (Keys 1981 with PyTorch's a): what the code of ViT, DeiT and BEiT uses
};

/// Where samples lie, and what they see.
enum class Sampling {
  centres,    ///< row i of n lies at (i + ½)/n of the whole: PyTorch's align_corners=False
  corners,    ///< row i of n lies at i/(n − 1), the first and last rows stay: align_corners=True (Qwen3-VL)
  antialias,  ///< centres; a sample sees as many more rows as the table shrinks, cubic with a = −0.5, and nothing
              ///< beyond an edge: PyTorch's antialias=True (SigLIP 2, DINOv2 with registers in transformers, timm)
};

struct ResizeOptions {
  Sampling sampling = Sampling::centres;
  Index suffix = 0;  ///< so many last rows are copied: 3 of BEiT's relative table
};

/// Writes a table of another length: from [rows, dim], to [new_rows, dim], which must not overlap. The first `prefix`
/// rows (offset, padding, class token) and the last `suffix` are copied; those between are resampled to what is left
/// of new_rows. Sums are taken in double and rounded once. T: float, double. Throws ShapeError for shapes that do not
/// fit; nothing is written then.
template <class T>
BEARING_EXPORT void resize(Interpolation how, Index prefix, std::type_identity_t<View<const T, 2>> from, View<T, 2> to,
                           const ResizeOptions& options = {});

/// The extents of a grid of patches.
struct GridSize {
  Index height = 0, width = 0;
  bool operator==(const GridSize&) const = default;
};

/// The same along height and width, for a table of a grid's patches, row by row, between the prefix and the suffix:
/// from [prefix + from_grid's patches + suffix, dim], to [prefix + to_grid's patches + suffix, dim]. The ratio is
/// from/to in each direction, as with PyTorch's `size=`; code that passes `scale_factor=` (DINO's own) samples at
/// slightly other places.
template <class T>
BEARING_EXPORT void resize_grid(Interpolation how, Index prefix, std::type_identity_t<View<const T, 2>> from,
                                GridSize from_grid, View<T, 2> to, GridSize to_grid, const ResizeOptions& options = {});

}  // namespace bearing
