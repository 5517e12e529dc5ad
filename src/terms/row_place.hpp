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
inline constexpr Index block_rows = 64;

/// Positions of a block of tokens.
class RowPlace {
 public:
  RowPlace(const Positions& at, Index rows = block_rows)
      : at_(at), rows_(rows), memory_(static_cast<std::size_t>(at.axes() * rows)) {}

  RowTile open(Index b, Index h, Index first, Index time) {
    RowTile tile{b, h, first, std::min(rows_, time - first)};
    for (Index axis = 0; axis < max_axes; ++axis) {
      const Index from = std::min(axis, at_.axes() - 1);
      double* row = memory_.data() + from * rows_;
      if (axis == from) {
        for (Index i = 0; i < tile.rows; ++i) row[i] = at_.real(axis, b, first + i);
      }
      tile.at[static_cast<std::size_t>(axis)] = row;
    }
    tile.consecutive = at_.axes() == 1 && rise_by_one(tile.at[0], tile.rows);
    return tile;
  }

 private:
  static bool rise_by_one(const double* at, Index rows) {
    if (rows > 0 && at[0] != std::floor(at[0])) return false;
    for (Index i = 1; i < rows; ++i) {
      if (at[i] != at[0] + static_cast<double>(i)) return false;
    }
    return true;
  }

  const Positions& at_;
  Index rows_;
  std::vector<double> memory_;
};

}  // namespace bearing
