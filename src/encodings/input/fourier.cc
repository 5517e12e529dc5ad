#include <algorithm>
#include <bearing/encodings/fourier.hpp>
#include <cmath>
#include <numbers>

#include "describe/describer.hpp"
#include "encodings/head_sets.hpp"

namespace bearing {

using text::concat;

Fourier Fourier::learned(Index axes, Index dim) {
  if (dim < 2 || dim % 2 != 0) throw ShapeError(concat("[Fourier] dim: must be even and at least 2, got ", dim));
  return {.axes = axes,
          .frequencies = dim / 2,
          .unit = FourierUnit::radians,
          .layout = FourierLayout::cosines_first,
          .scale = 1 / std::sqrt(static_cast<double>(dim))};
}

namespace {

/// B [axes · each, axes] whose row axis · each + k looks along one axis: of(axis, k).
template <class Of>
std::vector<double> along_axes(Index axes, Index each, const Of& of) {
  std::vector<double> b(static_cast<std::size_t>(axes * each * axes));
  for (Index axis = 0; axis < axes; ++axis) {
    for (Index k = 0; k < each; ++k) b[static_cast<std::size_t>((axis * each + k) * axes + axis)] = of(axis, k);
  }
  return b;
}

}  // namespace

std::vector<double> fourier_octaves(Index axes, Index octaves) {
  check_axes("fourier_octaves", axes);
  if (octaves < 1 || octaves > 64) {
    throw RangeError(concat("[fourier_octaves] octaves: must be from 1 to 64, got ", octaves));
  }
  return along_axes(axes, octaves, [](Index, Index k) { return std::ldexp(1.0, static_cast<int>(k)); });
}

std::vector<double> fourier_bands(const std::vector<double>& resolutions, Index bands) {
  check_axes("fourier_bands", std::ssize(resolutions));
  if (bands < 1 || bands > largest_dim) {
    throw ShapeError(concat("[fourier_bands] bands: must be from 1 to ", largest_dim, ", got ", bands));
  }
  for (const double resolution : resolutions) {
    if (std::isfinite(resolution) && resolution > 0) continue;
    throw RangeError(concat("[fourier_bands] resolutions: must be finite and above 0, got ", resolution));
  }
  return along_axes(std::ssize(resolutions), bands, [&](Index axis, Index k) {
    const double last = resolutions[static_cast<std::size_t>(axis)] / 2;
    return bands == 1 ? 1 : 1 + (last - 1) * static_cast<double>(k) / static_cast<double>(bands - 1);
  });
}

template <class A>
FourierInputs<A>::FourierInputs(const Fourier& spec, Param<A, 2> frequencies) : spec_(spec), frequencies_(frequencies) {
  check_axes("FourierInputs", spec.axes);
  if (spec.frequencies < 1 || spec.frequencies > largest_dim) {
    throw ShapeError(
        concat("[FourierInputs] frequencies: must be from 1 to ", largest_dim, ", got ", spec.frequencies));
  }
  const auto check_word = [](const char* member, auto word, auto last, const char* words) {
    const auto number = static_cast<Index>(word);
    if (number >= 0 && number <= static_cast<Index>(last)) return;
    throw ShapeError(concat("[FourierInputs] ", member, ": must be ", words, ", got ", number));
  };
  const FourierUnit unit = spec.unit;
  const FourierLayout layout = spec.layout;
  check_word("unit", unit, FourierUnit::turns, "radians, half_turns or turns");
  check_word("layout", layout, FourierLayout::interleaved, "sines_first, cosines_first or interleaved");
  check_word("coordinates", spec.coordinates, FourierCoordinates::first, "left_out or first");
  if (!std::isfinite(spec.scale)) {
    throw RangeError(concat("[FourierInputs] scale: must be finite, got ", spec.scale));
  }
  check_set("FourierInputs", "frequencies", frequencies, {spec.frequencies, spec.axes}, "[frequencies, axes]");
}

template <class A>
void FourierInputs<A>::check(const char* function, const Problem& problem) const {
  const Index axes = problem.q_positions->axes();
  if (axes != spec_.axes) {
    throw ShapeError(concat("[", function, "] positions: must have Fourier.axes = ", spec_.axes, " axes, got ", axes));
  }
  check_finite(function, "Fourier.frequencies", frequencies_.value, largest_rate);
}

template <class A>
typename FourierInputs<A>::Columns FourierInputs<A>::columns(Index frequency) const {
  const Index first = spec_.dim() - 2 * spec_.frequencies, f = first + frequency, half = spec_.frequencies;
  switch (static_cast<FourierLayout>(spec_.layout)) {
    case FourierLayout::sines_first:
      return {f, f + half};
    case FourierLayout::cosines_first:
      return {f + half, f};
    case FourierLayout::interleaved:
      break;
  }
  return {f + frequency, f + frequency + 1};
}

template <class A>
double FourierInputs<A>::angle(const RowTile& tile, Index row, Index frequency) const {
  double product = 0;
  for (Index axis = 0; axis < spec_.axes; ++axis) {
    product += tile.at[static_cast<std::size_t>(axis)][row] * static_cast<double>(frequencies_.value(frequency, axis));
  }
  const FourierUnit unit = spec_.unit;
  if (unit == FourierUnit::radians) return product;
  const double turns = unit == FourierUnit::turns ? product : product / 2;
  return 2 * std::numbers::pi * (turns - std::nearbyint(turns));
}

template <class A>
void FourierInputs<A>::inputs(const RowTile& tile, A* p) const {
  const Index coordinates = spec_.dim() - 2 * spec_.frequencies;
  for (Index r = 0; r < tile.rows; ++r) {
    A* row = p + r * tile.y_stride;
    for (Index axis = 0; axis < coordinates; ++axis) {
      row[axis] = static_cast<A>(tile.at[static_cast<std::size_t>(axis)][r]);
    }
    for (Index f = 0; f < spec_.frequencies; ++f) {
      const double phi = angle(tile, r, f);
      const auto [sine, cosine] = columns(f);
      row[sine] = static_cast<A>(spec_.scale * std::sin(phi));
      row[cosine] = static_cast<A>(spec_.scale * std::cos(phi));
    }
  }
}

template <class A>
void FourierInputs<A>::input_grads(const RowTile& tile, const A* d_p, A* d_params) const {
  if (d_params == nullptr) return;
  const FourierUnit unit = spec_.unit;
  const double turn = unit == FourierUnit::radians ? 1 : std::numbers::pi * (unit == FourierUnit::turns ? 2 : 1);
  const Index size = spec_.frequencies * spec_.axes;
  double* d_b = tile.scratch;
  std::fill_n(d_b, size, 0.0);
  for (Index r = 0; r < tile.rows; ++r) {
    const A* d_row = d_p + r * tile.y_stride;
    for (Index f = 0; f < spec_.frequencies; ++f) {
      const double phi = angle(tile, r, f);
      const auto [sine, cosine] = columns(f);
      const double d_phi =
          std::cos(phi) * static_cast<double>(d_row[sine]) - std::sin(phi) * static_cast<double>(d_row[cosine]);
      for (Index axis = 0; axis < spec_.axes; ++axis) {
        d_b[f * spec_.axes + axis] += tile.at[static_cast<std::size_t>(axis)][r] * d_phi;
      }
    }
  }
  for (Index i = 0; i < size; ++i) d_params[i] += static_cast<A>(spec_.scale * turn * d_b[i]);
}

template <class A>
void FourierInputs<A>::collect(Index, Index, const A* d_params) const {
  for (Index f = 0; f < spec_.frequencies; ++f) {
    for (Index axis = 0; axis < spec_.axes; ++axis) frequencies_.grad(f, axis) += d_params[f * spec_.axes + axis];
  }
}

template class FourierInputs<float>;
template class FourierInputs<double>;

template <>
struct describe::Words<FourierUnit> {
  static constexpr const char* all[] = {"radians", "half_turns", "turns"};
};
template <>
struct describe::Words<FourierLayout> {
  static constexpr const char* all[] = {"sines_first", "cosines_first", "interleaved"};
};
template <>
struct describe::Words<FourierCoordinates> {
  static constexpr const char* all[] = {"left_out", "first"};
};

void describe_fourier(Describer& to) {
  to.home("fourier", {"Tancik et al.", 2020, "arXiv 2006.10739"});
  to.record("Fourier", Fourier{.unit = FourierUnit::turns, .layout = FourierLayout::sines_first},
            "Fourier features: sines and cosines of a token's coordinates in given, random or learned directions.\n\n"
            "    phi_f = unit sum_axis B[f, axis] p_axis          x <- x + scale [sin phi | cos phi]\n\n"
            "Mildenhall et al. 2020, arXiv 2003.08934 (NeRF); Tancik et al. 2020, arXiv 2006.10739; Kirillov et al. "
            "2023, arXiv 2304.02643 (SAM); Jaegle et al. 2021, arXiv 2107.14795 (Perceiver IO); Li et al. 2021, arXiv "
            "2106.02795.")
      .member("axes", &Fourier::axes, "How many coordinates a token has.")
      .member("frequencies", &Fourier::frequencies, "How many rows B has.")
      .member("unit", &Fourier::unit, "The unit of a product of frequency and coordinate.")
      .member("layout", &Fourier::layout, "The order of the columns: all sines first, all cosines first, or by turns.")
      .member("coordinates", &Fourier::coordinates, "Whether the coordinates themselves are the first columns.")
      .member("scale", &Fourier::scale, "Multiplies sines and cosines.")
      .method("dim", &Fourier::dim, {},
              "How many columns there are: 2 frequencies, and the coordinates if they are columns.")
      .maker("nerf", &Fourier::nerf, {"axes", "octaves"}, "The spec of NeRF; fourier_octaves() makes its frequencies.")
      .maker("sam", &Fourier::sam, {"frequencies"},
             "The spec of SAM's prompts: B is the file's matrix transposed, coordinates go from -1 to 1.")
      .maker("perceiver", &Fourier::perceiver, {"axes", "bands"},
             "The spec of Perceiver; fourier_bands() makes its frequencies.")
      .maker("learned", &Fourier::learned, {"axes", "dim"}, "The spec of Li et al., with dim/2 learned frequencies.");
  to.encoding<Fourier, 2>("FourierInputs",
                          "Fourier features with their frequencies B [frequencies, axes].\n\n"
                          "    phi_f = unit sum_axis B[f, axis] p_axis          x <- x + scale [sin phi | cos phi]\n\n"
                          "Tancik et al. 2020, arXiv 2006.10739; Li et al. 2021, arXiv 2106.02795.",
                          {Parameter("frequencies", {"frequencies", "axes"}, "A direction for each sine and cosine.")
                               .starts(normal(1))
                               .draws(normal(1))},
                          make_with_spec<FourierInputs>)
      .grid(
          [](const Fourier& spec, Index length) { return spec.axes == 2 ? inspect::square_grid(length) : GridSize{}; })
      .called("fourier", "Fourier features", "sines and cosines of coordinates in many directions",
              [](const ExampleSize& size) { return Fourier::learned(2, size.dim); })
      .also({"fourier_features", "random_fourier_features", "learnable_fourier_features", "nerf"});
  to.function(
      "fourier_octaves",
      [](Index axes, Index octaves) {
        return Tensor{{axes * octaves, axes}, fourier_octaves(axes, octaves)};
      },
      {"axes", "octaves"}, "Returns NeRF's frequencies [axes octaves, axes]: 1, 2, 4, ... for each axis; float64.");
  to.function(
      "fourier_bands",
      [](const std::vector<double>& resolutions, Index bands) {
        const auto axes = static_cast<Index>(resolutions.size());
        return Tensor{{axes * bands, axes}, fourier_bands(resolutions, bands)};
      },
      {"resolutions", "bands"},
      "Returns Perceiver's frequencies [axes bands, axes]: from 1 to half of its resolution for each axis, in even "
      "steps; float64.");
}

}  // namespace bearing
