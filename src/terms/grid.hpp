#pragma once

#include <bearing/error.hpp>
#include <bearing/term_list.hpp>
#include <cmath>

#include "text.hpp"

// What encodings on a grid of tokens ask of positions.

namespace bearing {

struct Grid {
  Index height, width;
  bool class_token;  ///< (−1, −1) stands for it
};

/// Throws ShapeError unless positions have two axes, RangeError unless every one is a cell of the grid.
inline void check_grid(const char* function, const char* argument, const Grid& grid, const Positions& at, Index batch,
                       Index time) {
  if (at.axes() != 2) {
    throw ShapeError(text::concat("[", function, "] ", argument, ": must have two axes, (y, x), got ", at.axes()));
  }
  const auto inside = [](double p, Index extent) {
    return p >= 0 && p < static_cast<double>(extent) && p == std::floor(p);
  };
  for (Index b = 0; b < batch; ++b) {
    for (Index t = 0; t < time; ++t) {
      const double y = at.real(0, b, t), x = at.real(1, b, t);
      if (inside(y, grid.height) && inside(x, grid.width)) continue;
      if (grid.class_token && y == -1 && x == -1) continue;
      throw RangeError(text::concat("[", function, "] ", argument, ": must be a token of a grid of ", grid.height,
                                    " x ", grid.width, grid.class_token ? " or (-1, -1) for the class token" : "",
                                    ", got (", y, ", ", x, ") at [batch ", b, ", time ", t, "]"));
    }
  }
}

inline void check_grid(const char* function, const Grid& grid, const Problem& problem) {
  check_grid(function, "q_positions", grid, *problem.q_positions, problem.batch, problem.q_len);
  check_grid(function, "k_positions", grid, *problem.k_positions, problem.batch, problem.k_len);
}

}  // namespace bearing
