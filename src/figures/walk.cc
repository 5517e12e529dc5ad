#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>
#include <numbers>
#include <numeric>

#include "figures/kinds.hpp"
#include "figures/pairs.hpp"

// A 2-D vector through positions: x = (1, 1) with what is added to one pair of it, or with that pair turned.

namespace bearing::inspect {
namespace {

constexpr Index numbered = 8;  ///< positions that get their number: more would lie on each other

/// The mean angle between one step and the next, in degrees: 0 for a straight line. NaN if nothing moves.
double bend(const Path& path) {
  double sum = 0;
  Index count = 0;
  for (std::size_t i = 2; i < path.size(); ++i) {
    const double ax = path.x[i - 1] - path.x[i - 2], ay = path.y[i - 1] - path.y[i - 2];
    const double bx = path.x[i] - path.x[i - 1], by = path.y[i] - path.y[i - 1];
    if (std::hypot(ax, ay) == 0 || std::hypot(bx, by) == 0) continue;
    sum += std::abs(std::atan2(ax * by - ay * bx, ax * bx + ay * by));
    ++count;
  }
  return sum / static_cast<double>(count) * 180 / std::numbers::pi;
}

/// "rope: length 1.414 to 1.414, 57.3 degrees from step to step"
std::string measured(const Shown& shown, const Path& path) {
  Range norms;
  for (std::size_t i = 0; i < path.size(); ++i) norms.reach(std::hypot(path.x[i], path.y[i]));
  const double degrees = bend(path);
  return text::concat(shown.name(), ": its length ",
                      short_number(norms.low) == short_number(norms.high)
                          ? "stays " + short_number(norms.low)
                          : "goes from " + short_number(norms.low) + " to " + short_number(norms.high),
                      std::isnan(degrees) ? "" : ", a step bends by " + short_number(degrees) + " degrees");
}

/// The first positions' numbers, so far beside their points, away from the middle.
void add_numbers(const Path& path, double beside, Panel& panel) {
  const auto count = static_cast<double>(path.size());
  const double x = std::accumulate(path.x.begin(), path.x.end(), 0.0) / count;
  const double y = std::accumulate(path.y.begin(), path.y.end(), 0.0) / count;
  for (std::size_t i = 0; i < path.size() && i < static_cast<std::size_t>(numbered); ++i) {
    const double dx = path.x[i] - x, dy = path.y[i] - y, away = std::max(std::hypot(dx, dy), 1e-9);
    const Note note{path.x[i] + beside * dx / away, path.y[i] + beside * dy / away, std::to_string(i)};
    const bool covered = std::any_of(panel.notes.begin(), panel.notes.end(), [&](const Note& other) {
      return std::hypot(note.x - other.x, note.y - other.y) < beside;
    });
    if (!covered) panel.notes.push_back(note);
  }
}

Panel panel_of(const Shown& shown, Pair pair, const Path& path) {
  Panel panel{.title = text::concat(shown.name(), shown.specimen.input_rows ? ": x + p" : ": x turned"),
              .x = {text::concat("dimension ", pair.x)},
              .y = {text::concat("dimension ", pair.y)},
              .round = true};
  panel.guides = {{true, 0, ""}, {false, 0, ""}};
  panel.series.push_back({.x = path.x, .y = path.y});
  panel.series.push_back({.x = path.x, .y = path.y, .stroke = Stroke::dots});
  panel.series.push_back({.label = "x", .x = {1}, .y = {1}, .stroke = Stroke::hands, .colour = 1});
  return panel;
}

Figure walk(std::span<const Subject> encodings, const FigureOptions& options) {
  const std::vector<Shown> shown = examples(encodings, options, {.heads = 1, .dim = 64, .length = 16});
  if (options.dims.size() > 1) {
    throw RangeError(text::concat("[figure] dims: walk takes one pair, got ", std::ssize(options.dims)));
  }
  const Index n = options.dims.empty() ? 0 : options.dims[0];
  Figure figure{
      .title = text::concat("x = (1, 1) through ", shown[0].specimen.options.length, " positions: ", names_of(shown))};
  Range range;
  range.reach(0.0), range.reach(1.0);
  for (const Shown& one : shown) {
    const Pair found = pair_of(pairs_of(one, options.on), n);
    const Pair pair{std::min(found.x, found.y), std::max(found.x, found.y)};  // as the vector's numbers stand
    std::vector<Index> positions;
    for (Index p = 0; p < one.specimen.options.length; ++p) positions.push_back(p);
    const Path path = path_of(one, pair, 1, 1, positions, options.on);
    range.reach(path.x), range.reach(path.y);
    figure.panels.push_back(panel_of(one, pair, path));
    figure.text += (figure.text.empty() ? "" : "; ") + measured(one, path);
  }
  figure.text = "The vector (1, 1) at each position. " + figure.text + ".";
  for (Panel& panel : figure.panels) {
    panel.x = axis_over(panel.x.title, range.with_room(0.08));
    panel.y = axis_over(panel.y.title, range.with_room(0.08));
    add_numbers({panel.series[0].x, panel.series[0].y}, 0.05 * (range.high - range.low), panel);
  }
  figure.columns = columns_for(figure.panels.size());
  return figure;
}

}  // namespace

FigureKind walk_kind() {
  return {"walk", "a vector (1, 1) through positions", 1, 8, {"dim", "length", "seed", "dims"}, walk};
}

}  // namespace bearing::inspect
