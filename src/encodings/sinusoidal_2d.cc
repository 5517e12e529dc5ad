#include <bearing/encodings/sinusoidal_2d.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "encodings/limits.hpp"
#include "tensor_checks.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

std::vector<double> grid_positions(const PatchGrid& grid) {
  const auto [height, width, first, span] = grid;
  if (!countable_grid(height, width)) {
    throw RangeError(concat("[grid_positions] height, width: must not be negative and make at most 2^31 patches, got ",
                            height, ", ", width));
  }
  if (!std::isfinite(first) || !std::isfinite(span)) {
    throw RangeError(concat("[grid_positions] first, span: must be finite, got ", first, ", ", span));
  }
  const auto place = [&, first = first, span = span](Index i, Index extent) {
    const double p = first + static_cast<double>(i);
    return span == 0 ? p : p / (static_cast<double>(extent) + 1e-6) * span;
  };
  std::vector<double> at(static_cast<std::size_t>(2 * height * width));
  for (Index y = 0; y < height; ++y) {
    for (Index x = 0; x < width; ++x) {
      at[static_cast<std::size_t>(y * width + x)] = place(y, height);
      at[static_cast<std::size_t>((height + y) * width + x)] = place(x, width);
    }
  }
  return at;
}

namespace {

Sinusoidal half_of(const Sinusoidal2d& spec) {
  if (spec.dim < 4 || spec.dim > largest_dim || spec.dim % 4 != 0) {
    throw ShapeError(
        concat("[Sinusoidal2d] dim: must be a positive multiple of 4, at most ", largest_dim, ", got ", spec.dim));
  }
  const FirstHalf first = spec.first;
  if (first != FirstHalf::y && first != FirstHalf::x) {
    throw ShapeError(concat("[Sinusoidal2d] first: must be y or x, got ", static_cast<Index>(first)));
  }
  return {.dim = spec.dim / 2, .base = spec.base, .layout = spec.layout};
}

}  // namespace

template <class A>
Sinusoidal2dInputs<A>::Sinusoidal2dInputs(const Sinusoidal2d& spec) : spec_(spec), half_(half_of(spec)) {}

template <class A>
void Sinusoidal2dInputs<A>::check(const char* function, const Problem& problem) const {
  if (problem.q_positions->axes() == 2) return;
  throw ShapeError(concat("[", function, "] positions: must have two axes, y and x, for Sinusoidal2d, got ",
                          problem.q_positions->axes()));
}

template <class A>
void Sinusoidal2dInputs<A>::inputs(const RowTile& tile, A* p) const {
  RowTile half = tile;
  half.dim = half_.dim();
  half.consecutive = false;
  const bool y_first = spec_.first == FirstHalf::y;
  half.at[0] = tile.at[y_first ? 0 : 1];
  half_.inputs(half, p);
  half.at[0] = tile.at[y_first ? 1 : 0];
  half_.inputs(half, p + half.dim);
}

template class Sinusoidal2dInputs<float>;
template class Sinusoidal2dInputs<double>;

}  // namespace bearing
