#include "figures/matrices.hpp"

#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>
#include <limits>

namespace bearing::inspect {

namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
/// Seeds of contents are far from those of parameters.
constexpr std::uint64_t picture_seed = 0x7069637475726573u;

Array normal_contents(const Specimen& specimen, Index count, std::uint64_t which) {
  const SpecimenOptions& o = specimen.options;
  return Normal(picture_seed + 1000 * which + o.seed).array(o.heads, count, o.dim);
}

/// ±1/√2, [heads, 1, dim].
Array shared_signs(const Specimen& specimen) {
  Array signs = normal_contents(specimen, 1, 0);
  for (double& x : signs.values) x = std::copysign(std::sqrt(0.5), x);
  return signs;
}

}  // namespace

Array alike_contents(const Specimen& specimen, Index count) {
  const SpecimenOptions& o = specimen.options;
  Array all(o.heads, count, o.dim);
  if (specimen.input_rows && !specimen.turn_rows && !specimen.score_terms) return all;
  const Array one = shared_signs(specimen);
  for (Index h = 0; h < o.heads; ++h) {
    for (Index t = 0; t < count; ++t) {
      for (Index d = 0; d < o.dim; ++d) all(h, t, d) = one(h, 0, d);
    }
  }
  return all;
}

Array half_alike_contents(const Specimen& specimen, Index count, std::uint64_t which) {
  Array all = normal_contents(specimen, count, 1 + which);
  const Array one = shared_signs(specimen);
  for (Index h = 0; h < all.shape[0]; ++h) {
    for (Index t = 0; t < count; ++t) {
      for (Index d = 0; d < all.shape[2]; ++d) all(h, t, d) = all(h, t, d) * std::sqrt(0.5) + one(h, 0, d);
    }
  }
  return all;
}

std::vector<Index> heads_to_draw(const Shown& shown, const FigureOptions& options, Index most) {
  const Index heads = shown.specimen.options.heads;
  if (!options.head) return some_of(heads, most);
  if (*options.head < 0 || *options.head >= heads) {
    throw RangeError(text::concat("[figure] head: must be from 0 to ", heads - 1, ", got ", *options.head));
  }
  return {*options.head};
}

Thinned thinned(const Shown& shown) {
  const Specimen& specimen = shown.specimen;
  const Index length = specimen.options.length, step = (length + most_cells - 1) / most_cells;
  if (step == 1) return {specimen.tokens(length)};
  if (specimen.is_image() || specimen.by_index) {
    throw RangeError(
        text::concat("[figure] length: must be at most ", most_cells, " for ", shown.name(), ", got ", length));
  }
  std::vector<Index> positions;
  for (Index p = 0; p < length; p += step) positions.push_back(p);
  return {Tokens(std::move(positions)), step};
}

std::string token_title(const Shown& shown, const std::string& what, Index step) {
  if (shown.specimen.is_image()) return what + " (patch, row by row)";
  if (step == 1) return what + " (token)";
  return text::concat(what, " (token, every ", step, step == 2 ? "nd)" : step == 3 ? "rd)" : "th)");
}

Cells cells_from_top(const Array& numbers, Index head, Index row_step) {
  Cells cells{.rows = numbers.shape[1], .cols = numbers.shape[2], .y_step = static_cast<double>(row_step)};
  const double* first = numbers.head(head).data;
  cells.values.assign(first, first + cells.rows * cells.cols);
  for (double& value : cells.values) value = std::isfinite(value) ? value : nothing;
  return cells;
}

Panel token_panel(const Shown& shown, const Array& scores, Index head, Index step) {
  Panel panel{.round = true, .cells = cells_from_top(scores, head, step)};
  panel.cells->x_step = static_cast<double>(step);
  const double half = static_cast<double>(step) / 2;
  panel.x = {token_title(shown, "key", step), -half, static_cast<double>(panel.cells->cols * step) - half};
  panel.y = {token_title(shown, "query", step), static_cast<double>(panel.cells->rows * step) - half, -half};
  return panel;
}

void hide_later_keys(Array& scores) {
  for (Index h = 0; h < scores.shape[0]; ++h) {
    for (Index i = 0; i < scores.shape[1]; ++i) {
      for (Index j = i + 1; j < scores.shape[2]; ++j) scores(h, i, j) = nothing;
    }
  }
}

Range range_of(const Cells& cells) {
  Range range;
  range.reach(cells.values);
  return range;
}

void scale_colours(std::vector<Panel>& panels) {
  Range range;
  for (const Panel& panel : panels) {
    if (panel.cells) range.reach(panel.cells->values);
  }
  const bool both_signs = range.low < 0 && range.high > 0;
  const double most = std::max(-range.low, range.high);
  for (Panel& panel : panels) {
    if (!panel.cells) continue;
    panel.cells->map = both_signs ? ColourMap::diverging : ColourMap::sequential;
    panel.cells->low = both_signs ? -most : range.low;
    panel.cells->high = both_signs ? most : range.high > range.low ? range.high : range.low + 1;
  }
}

}  // namespace bearing::inspect
