#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/term.hpp>

#include "encodings/rotary/rope_phases.hpp"

// The rotation's door for tiles: rows of one head, which are checked before. Attention comes through it, block
// by block.

namespace bearing {

/// Rows of a head that turn, their features side by side, and where each stands.
template <class C>
struct TurnedTile {
  Index rows;
  std::array<const double*, max_axes> at;  ///< [rows] positions per axis; one axis serves all
  const C* in;
  C* out;  ///< may be the same memory as `in`
  Index in_stride, out_stride;
  bool transposed = false;  ///< R(−pθ): the gradient
  double* scratch;          ///< [turn_rows_scratch]
};

/// Doubles that turn_rows() needs: to make phases, natural ones for each of up to 4 axes and their blend.
inline Index turn_rows_scratch(Index padded) { return 2 * padded + 5 * 2 * padded; }

/// out ← a·R(pθ) in, with the bits of rotate(). The table's phases are read where they lie; others are made. Allocates
/// nothing. C: float, double.
template <class C>
void turn_rows(const RopeTable<C>& table, const TurnedTile<C>& tile) noexcept;

}  // namespace bearing
