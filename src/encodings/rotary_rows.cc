#include <algorithm>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/error.hpp>

#include "encodings/rope_call.hpp"
#include "text.hpp"

namespace bearing {

namespace {

/// Rows whose positions are gathered at once.
constexpr Index block_rows = 64;

/// rotate(in, out, at) on the rows of a tile, as one head of one sequence.
template <class A, class Rotate>
void on_rows(const RowTile& tile, Index axes, const A* in, Index in_stride, A* out, Index out_stride,
             const Rotate& rotate) {
  double at[max_axes * block_rows];
  for (Index first = 0; first < tile.rows; first += block_rows) {
    const Index rows = std::min(block_rows, tile.rows - first);
    for (Index axis = 0; axis < axes; ++axis) {
      std::copy_n(tile.at[static_cast<std::size_t>(axis)] + first, rows, at + axis * rows);
    }
    rotate(View<const A, 4>{in + first * in_stride, {1, 1, rows, tile.dim}, {rows * in_stride, 0, in_stride, 1}},
           View<A, 4>{out + first * out_stride, {1, 1, rows, tile.dim}, {rows * out_stride, 0, out_stride, 1}},
           Positions(dense<const double>(at, axes, 1, rows)));
  }
}

}  // namespace

template <class A>
void RotaryRows<A>::check(const char* function, const Problem& problem) const {
  const Index head_dim = table_->frequencies().head_dim;
  if (problem.dim != head_dim) {
    throw ShapeError(
        text::concat("[", function, "] RotaryRows: must be for rows of head_dim = ", head_dim, ", got ", problem.dim));
  }
  check_table(function, "positions", *table_, *problem.q_positions, problem.batch, problem.q_len);
}

template <class A>
void RotaryRows<A>::turn(const RowTile& tile, const A* x, A* y) const {
  on_rows(tile, table_->frequencies().axes, x, tile.x_stride, y, tile.y_stride,
          [&](View<const A, 4> in, View<A, 4> out, const Positions& at) { rotate_to<A>(*table_, in, out, at); });
}

template <class A>
void RotaryRows<A>::turn_grads(const RowTile& tile, const A*, const A* d_y, A* d_x, A*) const {
  on_rows(
      tile, table_->frequencies().axes, d_y, tile.y_stride, d_x, tile.x_stride,
      [&](View<const A, 4> in, View<A, 4> out, const Positions& at) { rotate_backward_to<A>(*table_, in, out, at); });
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
