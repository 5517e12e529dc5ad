#include <bearing/error.hpp>
#include <cmath>

#include "figures/kinds.hpp"
#include "figures/parts.hpp"

// The offset map M of k, the same matrix for every position: M · row(p) = row(p + k). Rows are what is added to the
// input, or a random key, turned.

namespace bearing::inspect {
namespace {

constexpr double least = 1e-17;  ///< what is exact is drawn there: a logarithm has no 0

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

Mapped map_of(const Shown& shown, Index k, const Executor& on) {
  const Specimen& s = shown.specimen;
  if (!s.input_rows && !s.turn_rows) {
    nothing_to_show(shown, "must have rows: an encoding of the input or of query and key");
  }
  const Index count = s.width > 0 ? s.width : s.options.length;
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
  const Index dim = rows.shape[2];
  for (Index p = 0; p + k < count; ++p) {
    double apart = 0, norm = 0;
    for (Index c = 0; c < dim; ++c) {
      double sum = -rows(0, p + k, c);
      for (Index d = 0; d < dim; ++d) sum += rows(0, p, d) * mapped.map(0, d, c);
      apart += sum * sum, norm += rows(0, p, c) * rows(0, p, c);
    }
    mapped.position.push_back(static_cast<double>(p)), mapped.off.push_back(std::sqrt(apart));
    mapped.size += std::sqrt(norm) / static_cast<double>(count - k);
  }
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
  Panel panel{.title = shown.name() + ": one M for all p",
              .x = token_axis("position p (tokens)", 0, mapped.position.back()),
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
                                " positions, where a row is ", short_number(mapped.size), " long.");
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
