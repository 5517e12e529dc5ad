#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>
#include <numeric>

#include "figures/kinds.hpp"
#include "figures/parts.hpp"

// The offset map M of k, the same matrix for every position: M · row(p) = row(p + k). Rows are what is added to the
// input, or a random key, turned.

namespace bearing::inspect {
namespace {

constexpr double least = 1e-17;  ///< what is exact is drawn there: a logarithm has no 0

constexpr Index widest = 1024;  ///< more cells than a picture has

/// Row d: the unit vector along d, turned at position k.
Array turned_units(const Specimen& s, Index k, const Executor& on) {
  Array units(s.options.heads, s.options.dim, s.options.dim);
  for (Index h = 0; h < s.options.heads; ++h) {
    for (Index d = 0; d < s.options.dim; ++d) units(h, d, d) = 1;
  }
  return s.turn(Side::key, s.tokens(1, k).repeated(s.options.dim), units, on);
}

bool is_identity(const Array& x) {
  for (Index i = 0; i < x.shape[1]; ++i) {
    for (Index j = 0; j < x.shape[2]; ++j) {
      if (x(0, i, j) != (i == j ? 1 : 0)) return false;
    }
  }
  return x.shape[1] == x.shape[2];
}

/// A random key at all positions; of the input, the rows. [1, tokens, dim].
Array rows_of(const Shown& shown, Index count, const Executor& on) {
  const Specimen& s = shown.specimen;
  if (!s.turn_rows) return s.inputs(s.tokens(count), on);
  const Array one = Normal(s.options.seed).array(s.options.heads, 1, s.options.dim);
  Array all(s.options.heads, count, s.options.dim);
  for (Index h = 0; h < s.options.heads; ++h) {
    for (Index t = 0; t < count; ++t) {
      for (Index d = 0; d < s.options.dim; ++d) all(h, t, d) = one(h, 0, d);
    }
  }
  return s.turn(Side::key, s.tokens(count), all, on);
}

/// The map and how far it is off at each position.
struct Mapped {
  Array map;  ///< [1, dim, dim], y = x · map: M transposed
  bool fitted = true;
  std::vector<double> position, off;
  double size = 0;  ///< the mean length of a row
};

/// The rows of the map that are not 0: of many columns, a fit takes as many as there are rows.
std::vector<Index> rows_in_use(const Array& map) {
  std::vector<Index> used;
  for (Index d = 0; d < map.shape[1]; ++d) {
    const double* row = map.values.data() + d * map.shape[2];
    if (std::any_of(row, row + map.shape[2], [](double x) { return x != 0; })) used.push_back(d);
  }
  return used;
}

/// How far the map is off at each position, and how long rows are.
void measure(const Array& rows, Index k, Mapped& mapped) {
  const Index dim = rows.shape[2], count = rows.shape[1] - k;
  const std::vector<Index> used = rows_in_use(mapped.map);
  std::vector<double> apart(static_cast<std::size_t>(dim));
  for (Index p = 0; p < count; ++p) {
    const double *here = &rows.values[static_cast<std::size_t>(p * dim)], *there = here + k * dim;
    std::copy_n(there, dim, apart.begin());
    for (const Index d : used) {
      const double* row = mapped.map.values.data() + d * dim;
      for (std::size_t c = 0; c < apart.size(); ++c) apart[c] -= here[d] * row[c];
    }
    mapped.position.push_back(static_cast<double>(p));
    mapped.off.push_back(std::sqrt(std::inner_product(apart.begin(), apart.end(), apart.begin(), 0.0)));
    mapped.size += std::sqrt(std::inner_product(here, here + dim, here, 0.0)) / static_cast<double>(count);
  }
}

Mapped map_of(const Shown& shown, Index k, const Executor& on) {
  const Specimen& s = shown.specimen;
  if (!s.input_rows && !s.turn_rows) {
    nothing_to_show(shown, "must have rows: an encoding of the input or of query and key");
  }
  const Index count = s.line();
  if (k < 1 || k >= count) {
    throw RangeError(text::concat("[figure] offset: must be from 1 to ", count - 1, ", got ", k));
  }
  const Array rows = rows_of(shown, count, on);
  Mapped mapped;
  if (s.turn_rows && is_identity(turned_units(s, 0, on))) {
    mapped.map = turned_units(s, k, on), mapped.fitted = false;
  } else {
    mapped.map = shift_map(rows.head(0), k).map;
  }
  measure(rows, k, mapped);
  return mapped;
}

Panel matrix_panel(const Shown& shown, const Mapped& mapped, Index k) {
  const Index dim = mapped.map.shape[1];
  const double last = static_cast<double>(dim) - 0.5;
  Panel panel{.title = text::concat(shown.name(), ": M of ", k),
              .x = {"dimension at p", -0.5, last},
              .y = {text::concat("dimension at p + ", k), last, -0.5},
              .round = true};
  Cells cells{.rows = dim, .cols = dim, .map = ColourMap::diverging, .title = "value"};
  Range range;
  for (Index r = 0; r < dim; ++r) {
    for (Index c = 0; c < dim; ++c) cells.values.push_back(mapped.map(0, c, r));
  }
  range.reach(cells.values);
  cells.high = std::max({1e-9, std::abs(range.low), std::abs(range.high)}), cells.low = -cells.high;
  panel.cells = std::move(cells);
  return panel;
}

Panel error_panel(const Shown& shown, const Mapped& mapped, Index k) {
  const bool image = shown.specimen.is_image();
  Panel panel{
      .title = shown.name() + (image ? ": one M for a row" : ": one M for all p"),
      .x = token_axis(image ? "p along the first row (patches)" : "position p (tokens)", 0, mapped.position.back()),
      .y = {text::concat("|M row(p) - row(p + ", k, ")|"), least / 2, 10, Scale::log10}};
  Series series{.x = mapped.position};
  for (const double off : mapped.off) series.y.push_back(std::max(off, least));
  panel.guides.push_back({false, mapped.size, "length of a row"});
  panel.y.last = std::max(10.0, 10 * mapped.size);
  panel.series.push_back(std::move(series));
  return panel;
}

Figure offset(std::span<const Subject> encodings, const FigureOptions& options) {
  const std::vector<Shown> shown = examples(encodings, options, {.heads = 1, .dim = 16, .length = 512});
  const Index k = options.offset.value_or(5);
  for (const Shown& one : shown) {
    if (one.specimen.options.dim > widest) {
      throw RangeError(
          text::concat("[figure] dim: must be at most ", widest, " for offset, got ", one.specimen.options.dim));
    }
  }
  Figure figure{.title = text::concat("The map from position p to p + ", k, ": ", names_of(shown)), .columns = 2};
  std::vector<Panel> matrices, errors;
  for (const Shown& one : shown) {
    const Mapped mapped = map_of(one, k, options.on);
    matrices.push_back(matrix_panel(one, mapped, k)), errors.push_back(error_panel(one, mapped, k));
    Range range;
    range.reach(mapped.off);
    figure.text += text::concat(figure.text.empty() ? "" : " ", one.name(), ": ",
                                mapped.fitted ? "the best single matrix" : "the rotation of the offset",
                                " is off by at most ", short_number(range.high), " over ", std::ssize(mapped.off),
                                one.specimen.is_image() ? " patches of the first row, where what stands there is "
                                                        : " positions, where a row is ",
                                short_number(mapped.size), " long.");
  }
  share_colours(matrices), share_y(errors);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    figure.panels.push_back(std::move(matrices[i])), figure.panels.push_back(std::move(errors[i]));
  }
  return figure;
}

}  // namespace

FigureKind offset_kind() {
  return {"offset", "the matrix that leads from a position to a later one", 1, 4, {"dim", "length", "seed", "offset"},
          offset};
}

}  // namespace bearing::inspect
