#pragma once

#include <bearing/rows.hpp>
#include <vector>

// Fourier features of coordinates: sines and cosines of given, random or learned frequencies, each along another
// direction,
//
//     φ_f = unit · Σ_axis B[f, axis] p_axis          x ← x + scale · [sin φ | cos φ], with the coordinates themselves
//                                                    before them if the spec says so
//
// The forms in use:
//
//     NeRF (Mildenhall et al. 2020, arXiv 2003.08934)       π 2^k for each axis, sine and cosine in turn
//     random (Tancik et al. 2020, arXiv 2006.10739)         2π B, B normal; SAM's prompts (Kirillov et al. 2023, arXiv
//                                                           2304.02643) with coordinates from −1 to 1; time steps of
//                                                           diffusion models
//     Perceiver IO (Jaegle et al. 2021, arXiv 2107.14795)   π f for each axis, f from 1 to half of its resolution in
//     even
//                                                           steps; sines, cosines, coordinates first
//     learned (Li et al. 2021, arXiv 2106.02795)            B learned, cosines first, 1/√dim; an MLP follows, which is
//     the
//                                                           model's
//
// fill() writes the features where a model appends them to its input; add() adds them.

namespace bearing {

/// The unit of the product of frequency and coordinate.
enum class FourierUnit {
  radians,     ///< φ = B p
  half_turns,  ///< φ = π B p
  turns,       ///< φ = 2π B p
};

/// Columns: all sines, all cosines, or by turns.
enum class FourierLayout {
  sines_first,    ///< [sss|ccc]
  cosines_first,  ///< [ccc|sss]
  interleaved,    ///< [scscsc]
};

/// Whether the coordinates themselves are the first columns.
enum class FourierCoordinates { left_out, first };

struct Fourier {
  Index axes = 1;         ///< coordinates of a token
  Index frequencies = 0;  ///< rows of B
  Required<FourierUnit> unit;
  Required<FourierLayout> layout;
  FourierCoordinates coordinates = FourierCoordinates::left_out;
  double scale = 1;  ///< of sines and cosines

  /// Columns: 2 · frequencies, and the coordinates.
  Index dim() const { return 2 * frequencies + (coordinates == FourierCoordinates::first ? axes : 0); }
  bool operator==(const Fourier&) const = default;

  /// NeRF's, with fourier_octaves().
  static Fourier nerf(Index axes, Index octaves) {
    return {axes, axes * octaves, FourierUnit::half_turns, FourierLayout::interleaved};
  }
  /// SAM's: B from the file, transposed. Coordinates are mapped from [0, 1] to [−1, 1] before.
  static Fourier sam(Index frequencies) { return {2, frequencies, FourierUnit::turns, FourierLayout::sines_first}; }
  /// Perceiver's, with fourier_bands().
  static Fourier perceiver(Index axes, Index bands) {
    return {axes, axes * bands, FourierUnit::half_turns, FourierLayout::sines_first, FourierCoordinates::first};
  }
  /// Of Li et al.: dim/2 learned frequencies, which start normal.
  BEARING_EXPORT static Fourier learned(Index axes, Index dim);
};

/// B [axes · octaves, axes] of 1, 2, 4, … 2^(octaves − 1) for each axis, row-major, one axis after the other. Throws
/// ShapeError for axes that positions cannot have, RangeError unless octaves are 1 to 64.
BEARING_EXPORT std::vector<double> fourier_octaves(Index axes, Index octaves);

/// B [axes · bands, axes] of 1 … resolution/2 in even steps for each axis: its Nyquist frequency, where coordinates go
/// from −1 to 1. A single band is 1. Throws ShapeError for axes that positions cannot have or bands < 1, RangeError for
/// a resolution that is not finite and above 0.
BEARING_EXPORT std::vector<double> fourier_bands(const std::vector<double>& resolutions, Index bands);

/// Sums, sines and cosines are worked out in double: in turns and half turns whole turns are taken off before anything
/// is rounded, so that the error stays that of the sum.
template <class A>
class BEARING_EXPORT FourierInputs {
 public:
  using Arithmetic = A;

  /// frequencies [frequencies, axes]. Throws ShapeError for a spec that cannot be, another shape, or a gradient whose
  /// elements share memory, RangeError for a scale that is not finite; a call throws RangeError for frequencies that
  /// are not finite, or above 10^290.
  FourierInputs(const Fourier& spec, Param<A, 2> frequencies);

  Index dim() const { return spec_.dim(); }
  /// ShapeError unless positions have the spec's axes.
  void check(const char* function, const Problem& problem) const;
  void inputs(const RowTile& tile, A* p) const;
  /// dB[f, axis] = scale · unit · Σ p_axis (cos φ_f d_sin − sin φ_f d_cos)
  void input_grads(const RowTile& tile, const A* d_p, A* d_params) const;
  Index input_scratch(Index) const { return spec_.frequencies * spec_.axes; }
  Index param_size() const { return frequencies_.grad.data == nullptr ? 0 : spec_.frequencies * spec_.axes; }
  void collect(Index batch, Index head, const A* d_params) const;
  void borrows(MemoryList& to) const { to.param("Fourier.frequencies", frequencies_); }

 private:
  struct Columns {
    Index sine, cosine;
  };
  Columns columns(Index frequency) const;
  double angle(const RowTile& tile, Index row, Index frequency) const;

  Fourier spec_;
  Param<A, 2> frequencies_;
};

}  // namespace bearing
