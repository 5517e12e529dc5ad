#include <bearing/encodings/swin.hpp>
#include <bearing/error.hpp>

#include "encodings/limits.hpp"
#include "tensor_checks.hpp"
#include "terms/grid.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

void check_window(const char* function, const Swin& spec) {
  if (spec.height >= 1 && spec.width >= 1 && spec.height <= largest_window && spec.width <= largest_window) return;
  throw ShapeError(concat("[", function, "] height, width: must be between 1 and ", largest_window, ", got ",
                          spec.height, ", ", spec.width));
}

}  // namespace

Index Swin::rows() const {
  check_window("Swin", *this);
  return table_rows();
}

template <class A>
SwinBias<A>::SwinBias(const Swin& spec, Param<A, 2> table) : spec_(spec), table_(table) {
  check_window("SwinBias", spec);
  if (table.value.shape[0] != spec.rows()) {
    throw ShapeError(concat("[SwinBias] table: must be [", spec.rows(), ", heads] for a window of ", spec.height, " x ",
                            spec.width, ", shape is ", table.value.shape));
  }
  check_tensor("SwinBias", "table", table.value);
  if (table.grad.data != nullptr && table.grad.shape != table.value.shape) {
    throw ShapeError(
        concat("[SwinBias] table.grad: must have the table's shape ", table.value.shape, ", got ", table.grad.shape));
  }
}

template <class A>
void SwinBias<A>::check(const char* function, const Problem& problem) const {
  if (table_.value.shape[1] != problem.heads) {
    throw ShapeError(concat("[", function, "] Swin.table: must have a column for each of ", problem.heads,
                            " heads, shape is ", table_.value.shape));
  }
  check_grid(function, {spec_.height, spec_.width, spec_.class_token == Swin::ClassToken::three_rows}, problem);
}

namespace {

/// body(i, j, row of the table) for a tile's scores.
template <class A, class Body>
void over_rows(const Swin& spec, const Tile<A>& tile, const Body& body) {
  for (Index i = 0; i < tile.rows; ++i) {
    const double q_positions[2] = {tile.q_positions[0][i], tile.q_positions[1][i]};
    for (Index j = 0; j < tile.cols; ++j) {
      const double k_positions[2] = {tile.k_positions[0][j], tile.k_positions[1][j]};
      body(i, j, spec.row(q_positions, k_positions));
    }
  }
}

}  // namespace

template <class A>
void SwinBias<A>::add_scores(const Tile<A>& tile, A* s) const {
  over_rows(spec_, tile, [&](Index i, Index j, Index row) { s[i * tile.stride + j] += table_.value(row, tile.head); });
}

template <class A>
void SwinBias<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (grads.params == nullptr) return;
  over_rows(spec_, tile, [&](Index i, Index j, Index row) { grads.params[row] += d_s[i * tile.stride + j]; });
}

template <class A>
void SwinBias<A>::collect(Index, Index head, const A* d_params) const {
  for (Index row = 0; row < spec_.rows(); ++row) table_.grad(row, head) += d_params[row];
}

template class SwinBias<float>;
template class SwinBias<double>;

}  // namespace bearing
