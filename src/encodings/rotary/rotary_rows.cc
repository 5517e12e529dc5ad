#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/error.hpp>

#include "encodings/rotary/rope_call.hpp"
#include "encodings/rotary/rope_tile.hpp"
#include "text.hpp"

namespace bearing {

template <class A>
void RotaryRows<A>::check(const char* function, const Problem& problem) const {
  const Index head_dim = table_->frequencies().head_dim;
  if (problem.dim != head_dim) {
    throw ShapeError(text::concat("[", function, "] RotaryRows.head_dim: must be the last extent of the rows, ",
                                  problem.dim, ", got ", head_dim));
  }
  check_table(function, "positions", *table_, *problem.q_positions, problem.batch, problem.q_len);
}

template <class A>
Index RotaryRows<A>::turn_scratch(Index dim) const {
  return turn_rows_scratch(padded_pairs(dim / 2));
}

template <class A>
void RotaryRows<A>::turn(const RowTile& tile, const A* x, A* y) const {
  turn_rows<A>(*table_, {.rows = tile.rows,
                         .at = tile.at,
                         .in = x,
                         .out = y,
                         .in_stride = tile.x_stride,
                         .out_stride = tile.y_stride,
                         .scratch = tile.scratch});
}

template <class A>
void RotaryRows<A>::turn_grads(const RowTile& tile, const A*, const A* d_y, A* d_x, A*) const {
  turn_rows<A>(*table_, {.rows = tile.rows,
                         .at = tile.at,
                         .in = d_y,
                         .out = d_x,
                         .in_stride = tile.y_stride,
                         .out_stride = tile.x_stride,
                         .transposed = true,
                         .scratch = tile.scratch});
}

template <class A>
void XposRows<A>::check(const char* function, const Problem& problem) const {
  q_.check(function, problem);
  k_.check(function, problem);
}

template class RotaryRows<float>;
template class RotaryRows<double>;
template class XposRows<float>;
template class XposRows<double>;

}  // namespace bearing
