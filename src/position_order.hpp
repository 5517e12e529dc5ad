#pragma once

#include <algorithm>
#include <bearing/positions.hpp>

namespace bearing {

/// How position i of x lies to position j of y, in sequence b: less than 0 before it, 0 at the same place, more after
/// it. The first axis decides, and where it is the same the next one: the patches of a picture, which share a time,
/// come row by row.
inline int compare_positions(const Positions& x, Index i, const Positions& y, Index j, Index b) {
  const Index x_last = x.axes() - 1, y_last = y.axes() - 1;  // one axis serves all
  for (Index axis = 0; axis <= std::max(x_last, y_last); ++axis) {
    const double p = x.real(std::min(axis, x_last), b, i), q = y.real(std::min(axis, y_last), b, j);
    if (p != q) return p < q ? -1 : 1;
  }
  return 0;
}

}  // namespace bearing
