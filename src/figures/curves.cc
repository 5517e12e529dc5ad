#include <algorithm>
#include <bearing/error.hpp>

#include "figures/kinds.hpp"
#include "figures/matrices.hpp"

// A few dimensions over positions: what is added to the input, or a key whose numbers are all 1, turned.

namespace bearing::inspect {
namespace {

/// [positions, dim] of head 0.
Array rows_of(const Shown& shown, const Executor& on) {
  const Specimen& s = shown.specimen;
  const Tokens at = s.tokens(s.options.length);
  if (s.input_rows) return s.inputs(at, on);
  if (!s.turn_rows) nothing_to_show(shown, "must have rows: an encoding of the input or of query and key");
  Array ones(s.options.heads, s.options.length, s.options.dim);
  std::fill(ones.values.begin(), ones.values.end(), 1.0);
  return s.turn(Side::key, at, ones, on);
}

Panel panel_of(const Shown& shown, const FigureOptions& options) {
  const Array rows = rows_of(shown, options.on);
  const Index dim = rows.shape[2], length = rows.shape[1];
  const std::vector<Index> dims = options.dims.empty() ? some_of(dim, 5) : options.dims;
  Panel panel{.title = shown.name(),
              .x = token_axis(shown.specimen.is_image() ? token_title(shown, "position", 1) : "position (tokens)", 0,
                              static_cast<double>(length - 1)),
              .y = {shown.specimen.input_rows ? "value" : "value of a turned row of ones"}};
  Range range;
  for (std::size_t n = 0; n < dims.size(); ++n) {
    const Index d = dims[n];
    if (d < 0 || d >= dim) {
      throw RangeError(text::concat("[figure] dims: must be from 0 to ", dim - 1, ", got ", d));
    }
    Series& series = panel.series.emplace_back(Series{.label = text::concat("dimension ", d)});
    series.colour = static_cast<int>(n);
    for (Index p = 0; p < length; ++p) {
      series.x.push_back(static_cast<double>(p));
      series.y.push_back(rows(0, p, d));
    }
    range.reach(series.y);
  }
  panel.y = axis_over(panel.y.title, range);
  return panel;
}

/// How far the curves of an encoding reach, and how fast each swings.
std::string text_of(const Panel& panel) {
  Range range;
  std::string swings;
  for (const Series& series : panel.series) {
    range.reach(series.y);
    Index changes = 0;
    for (std::size_t p = 1; p < series.y.size(); ++p) changes += (series.y[p] < 0) != (series.y[p - 1] < 0) ? 1 : 0;
    swings += text::concat(swings.empty() ? "" : ", ", series.label, " ", changes, changes == 1 ? " time" : " times");
  }
  return text::concat(panel.title, ": values from ", short_number(range.low), " to ", short_number(range.high), " at ",
                      std::ssize(panel.series.front().x), " positions; the sign changes in ", swings, ".");
}

Figure curves(std::span<const Subject> encodings, const FigureOptions& options) {
  const std::vector<Shown> shown = examples(encodings, options, {.heads = 1, .dim = 64, .length = 128});
  Figure figure{.title = "Dimensions over positions: " + names_of(shown)};
  for (const Shown& one : shown) figure.panels.push_back(panel_of(one, options));
  share_y(figure.panels);
  figure.columns = columns_for(figure.panels.size());
  for (const Panel& panel : figure.panels) {
    if (!figure.text.empty()) figure.text += ' ';
    figure.text += text_of(panel);
  }
  return figure;
}

}  // namespace

FigureKind curves_kind() {
  return {"curves", "a few dimensions over positions", 1, 8, {"dim", "length", "seed", "dims"}, curves};
}

}  // namespace bearing::inspect
