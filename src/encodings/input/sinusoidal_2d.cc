#include <bearing/encodings/sinusoidal_2d.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "describe/describer.hpp"
#include "encodings/limits.hpp"
#include "tensor_checks.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

std::vector<double> grid_positions(const PatchGrid& grid) {
  const auto [height, width, first, span, eps] = grid;
  if (!countable_grid(height, width)) {
    throw RangeError(concat("[grid_positions] height, width: must be at least 0 and make at most 2^31 patches, got ",
                            height, ", ", width));
  }
  if (!std::isfinite(first) || !std::isfinite(span)) {
    throw RangeError(concat("[grid_positions] first, span: must be finite, got ", first, ", ", span));
  }
  if (!std::isfinite(eps) || eps < 0) {
    throw RangeError(concat("[grid_positions] eps: must be finite and at least 0, got ", eps));
  }
  const auto place = [&, first = first, span = span, eps = eps](Index i, Index extent) {
    const double p = first + static_cast<double>(i);
    return span == 0 ? p : p / (static_cast<double>(extent) + eps) * span;
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

template <>
struct describe::Words<FirstHalf> {
  static constexpr const char* all[] = {"y", "x"};
};

void describe_sinusoidal_2d(Describer& to) {
  to.home("sinusoidal_2d", {"Carion et al.", 2020, "arXiv 2005.12872"});
  to.record("Sinusoidal2d", Sinusoidal2d{.first = FirstHalf::y, .layout = SinusoidalLayout::interleaved},
            "Sinusoidal encoding of an image's patches: half of the columns encode one coordinate, half the other.\n\n"
            "    DETR  [y: s c s c ... | x: s c s c ...]        MAE  [x: s s ... c c ... | y: s s ... c c ...]\n\n"
            "Carion et al. 2020, arXiv 2005.12872; He et al. 2021, arXiv 2111.06377.")
      .member("dim", &Sinusoidal2d::dim, "How many columns a row has; a multiple of 4.")
      .member("base", &Sinusoidal2d::base, "The longest wavelength is a little less than 2 pi times this.")
      .member("first", &Sinusoidal2d::first, "The coordinate whose half comes first.")
      .member("layout", &Sinusoidal2d::layout, "The layout of each half.")
      .maker("detr", &Sinusoidal2d::detr, {"dim", {"temperature", 10'000.0}},
             "The layout of DETR and its successors: y first, interleaved.")
      .maker("mae", &Sinusoidal2d::mae, {"dim"},
             "The layout of MAE: x first, sines then cosines. MoCo v3's has y first.");
  to.encoding<Sinusoidal2d>(
        "Sinusoidal2dInputs",
        "Sinusoids of two coordinates; positions [2, batch, time], y then x, as grid_positions() makes\n"
        "them.\n\nCarion et al. 2020, arXiv 2005.12872; He et al. 2021, arXiv 2111.06377.",
        {}, make_with_spec<Sinusoidal2dInputs>)
      .grid([](const Sinusoidal2d&, Index length) { return inspect::square_grid(length); })
      .called("sinusoidal_2d", "sinusoidal on two axes", "half of the columns for each coordinate",
              [](const ExampleSize& size) { return Sinusoidal2d::detr(size.dim); })
      .also({"detr"});
  to.function(
      "grid_positions",
      [](Index height, Index width, double first, double span, double eps) {
        std::vector<double> positions =
            grid_positions({height, width, first, span, eps});  // refuses a grid that cannot be
        return Tensor{{2, 1, height * width}, std::move(positions)};
      },
      {"height", "width", {"first", 0.0}, {"span", 0.0}, {"eps", 0.0}},
      "Returns the positions of a grid's patches, row by row: float64 [2, 1, height width], y then x.\n\n"
      "first is the coordinate of the first row and column: 0 in MAE, 1 in DETR, 0.5 in Deformable DETR. With a span, "
      "coordinates\n"
      "are divided by height + eps and width + eps and multiplied by it. DETR has first 1, span 2 pi, eps 1e-6; the\n"
      "centres of patches from -1 to 1, as in DINOv3, are grid_positions(height, width, first=0.5, span=2) - 1.");
}

}  // namespace bearing
