#pragma once

#include <bearing/encodings/sinusoidal.hpp>

// Sinusoidal encoding of an image's patches: half of the columns encode one coordinate, half the other, each like a
// sequence of dim/2 columns.
//
//     DETR     [y: s c s c … | x: s c s c …]     (Carion et al. 2020, arXiv 2005.12872)
//     MoCo v3  [y: s s … c c … | x: s s … c c …]   (Chen, Xie, He 2021, arXiv 2104.02057)
//     MAE      [x: s s … c c … | y: s s … c c …]   (He et al. 2021, arXiv 2111.06377)
//
// MAE's code calls its first half emb_h, but fills it from the grid's first member, which is the column: x first. MoCo
// v3's code calls its first half out_w, but its grid's first member runs down the rows: y first.
// Positions have two axes, y then x, as everywhere in this library; grid_positions() makes them.

namespace bearing {

enum class FirstHalf { y, x };

struct Sinusoidal2d {
  Index dim = 0;  ///< a multiple of 4
  double base = 10'000;
  Required<FirstHalf> first;
  Required<SinusoidalLayout> layout;  ///< of each half
  bool operator==(const Sinusoidal2d&) const = default;

  /// The layout of DETR (temperature 10,000) and its successors: y first, interleaved.
  static Sinusoidal2d detr(Index dim, double temperature = 10'000) {
    return {dim, temperature, FirstHalf::y, SinusoidalLayout::interleaved};
  }
  /// The layout of MAE: x first, sines then cosines. MoCo v3's has y first: give that by hand.
  static Sinusoidal2d mae(Index dim) { return {dim, 10'000, FirstHalf::x, SinusoidalLayout::concatenated}; }
};

/// A grid's patches, row by row.
struct PatchGrid {
  Index height = 0, width = 0;
  double first = 0;  ///< the first row's and column's position: 0 in MAE, 1 in DETR, ½ in Deformable DETR
  double span = 0;   ///< not 0: coordinates are divided by height + eps and width + eps and multiplied by this
  double eps = 0;    ///< at least 0. DETR normalises with span 2π and eps 1e-6; DINOv3's centres have none
};

/// Positions of a grid's patches: [2][height·width], y then x. Throws RangeError for extents below 0, a grid of more
/// than 2^31 patches, numbers that are not finite, or an eps below 0.
BEARING_EXPORT std::vector<double> grid_positions(const PatchGrid& grid);

/// The encoding; accuracy as SinusoidalInputs. Has no parameters.
template <class A>
class BEARING_EXPORT Sinusoidal2dInputs {
 public:
  using Arithmetic = A;
  static constexpr bool constant = true;

  /// Throws ShapeError unless dim is a positive multiple of 4, RangeError for a base that cannot be.
  explicit Sinusoidal2dInputs(const Sinusoidal2d& spec);

  Index dim() const { return spec_.dim; }
  /// ShapeError unless positions have two axes.
  void check(const char* function, const Problem& problem) const;
  void inputs(const RowTile& tile, A* p) const;

 private:
  Sinusoidal2d spec_;
  SinusoidalInputs<A> half_;
};

}  // namespace bearing
