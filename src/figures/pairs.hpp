#pragma once

#include <bearing/figures.hpp>
#include <vector>

#include "figures/parts.hpp"

// Pairs of columns that turn together, in what an encoding adds to rows or makes of them.

namespace bearing::inspect {

/// Two columns. At position 0 a pair of sines and cosines points along x.
struct Pair {
  Index x = 0, y = 1;
  bool operator==(const Pair&) const = default;
};

/// All pairs, in the order of their first columns. They are measured, as layouts differ: of a rotation, the columns
/// that a unit vector reaches; of rows, those whose squares have the same sum at every position. Neighbours, where
/// nothing turns. Throws as nothing_to_show() for an encoding without rows.
std::vector<Pair> pairs_of(const Shown& shown, const Executor& on);

/// Pair n. Throws RangeError "[figure] dims: …".
Pair pair_of(const std::vector<Pair>& pairs, Index n);

/// Points in order.
struct Path {
  std::vector<double> x, y;
  std::size_t size() const { return x.size(); }
};

/// Where a key whose pair is (x, y), all else 0, comes to at these positions.
Path path_of(const Shown& shown, Pair pair, double x, double y, const std::vector<Index>& positions,
             const Executor& on);

}  // namespace bearing::inspect
