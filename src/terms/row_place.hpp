#pragma once

#include <algorithm>
#include <bearing/positions.hpp>
#include <bearing/term.hpp>
#include <cmath>
#include <vector>

// Where a block of rows stands: what every call that turns rows or adds to them asks first.

namespace bearing {

/// Rows that a task holds at once: 64 of some hundred numbers stay in the nearest cache. A multiple of every panel's
/// width.
inline constexpr Index rows_at_once = 64;

/// Where tokens stand, one array per axis; axes past the last repeat it.
using PlaceAxes = std::array<const double*, max_axes>;

/// Tokens first … first + n − 1 of sequence b; `memory` has `most` numbers for each axis.
inline PlaceAxes place_tokens(const Positions& at, Index b, Index first, Index n, Index most, double* memory) {
  PlaceAxes axes{};
  for (Index axis = 0; axis < max_axes; ++axis) {
    const Index from = std::min(axis, at.axes() - 1);
    double* to = memory + from * most;
    for (Index i = 0; axis == from && i < n; ++i) to[i] = at.real(axis, b, first + i);
    axes[static_cast<std::size_t>(axis)] = to;
  }
  return axes;
}

/// Whether positions rise by one from token to token.
inline bool rise_by_one(const double* at, Index n) {
  for (Index i = 1; i < n; ++i) {
    if (at[i] - at[i - 1] != 1) return false;
  }
  return true;
}
/// … of a whole sequence, on the first axis
inline bool rise_by_one(const Positions& at, Index b, Index time) {
  for (Index t = 1; !at.is_offset() && t < time; ++t) {
    if (at.real(0, b, t) - at.real(0, b, t - 1) != 1) return false;
  }
  return true;
}

/// Positions of a block of tokens.
class RowPlace {
 public:
  RowPlace(const Positions& at, Index rows = rows_at_once)
      : at_(at), rows_(rows), memory_(static_cast<std::size_t>(at.axes() * rows)) {}

  RowTile open(Index b, Index h, Index first, Index time) {
    RowTile tile{b, h, first, std::min(rows_, time - first)};
    tile.at = place_tokens(at_, b, first, tile.rows, rows_, memory_.data());
    const bool whole = tile.rows == 0 || tile.at[0][0] == std::floor(tile.at[0][0]);
    tile.consecutive = at_.axes() == 1 && whole && rise_by_one(tile.at[0], tile.rows);
    return tile;
  }

 private:
  const Positions& at_;
  Index rows_;
  std::vector<double> memory_;
};

}  // namespace bearing
