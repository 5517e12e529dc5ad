#include <algorithm>
#include <array>
#include <bearing/error.hpp>
#include <cmath>

#include "figures/kinds.hpp"
#include "figures/matrices.hpp"
#include "inspect/probes.hpp"

// How alike positions are: the product of every two, and over distance with its envelope. Contents are the same
// everywhere, so that only positions tell rows apart.

namespace bearing::inspect {
namespace {

bool has_rows(const Shown& shown) { return shown.specimen.input_rows || shown.specimen.turn_rows; }

/// [1, queries, keys] of a head: products of rows, or scores where the encoding has none.
Array between(const Shown& shown, Index head, const Tokens& queries, const Tokens& keys, const Executor& on) {
  const Specimen& s = shown.specimen;
  const Array q = alike_contents(s, queries.count()), k = alike_contents(s, keys.count());
  if (has_rows(shown)) {
    const Array x = placed(s, Side::query, queries, q, on), y = placed(s, Side::key, keys, k, on);
    return products(x.head(head), y.head(head));
  }
  if (!s.score_terms) nothing_to_show(shown, "must have rows or add to scores");
  const Array all = s.scores(queries, keys, q, k, on);
  Array one(1, queries.count(), keys.count());
  const double* first = all.head(head).data;
  std::copy_n(first, one.values.size(), one.values.begin());
  return one;
}

/// Whether another head has other numbers, over the first distances.
bool heads_differ(const Shown& shown, Index head, const Executor& on) {
  const Specimen& s = shown.specimen;
  constexpr Index some = 256;
  const Index n = std::min(s.line(), some);
  const auto of = [&](Index h) { return between(shown, h, s.tokens(1, n - 1), s.tokens(n), on).values; };
  const std::vector<double> here = of(head);
  double most = 0;
  for (const double value : here) most = std::max(most, std::abs(value));
  const auto apart = [&](double a, double b) { return std::abs(a - b) > 1e-9 * most; };
  for (Index h = 0; h < s.options.heads; ++h) {
    if (h == head) continue;
    const std::vector<double> other = of(h);
    for (std::size_t k = 0; k < here.size(); ++k) {
      if (apart(here[k], other[k])) return true;
    }
  }
  return false;
}

/// "alibi, head 0 of 8"; the name alone where every head is the same.
std::string said_of(const Shown& shown, Index head, const Executor& on) {
  if (!heads_differ(shown, head, on)) return shown.name();
  return text::concat(shown.name(), ", head ", head, " of ", shown.specimen.options.heads);
}

Panel matrix_panel(const Shown& shown, const std::string& name, Index head, const FigureOptions& options) {
  const Thinned tokens = thinned(shown);
  Array all = between(shown, head, tokens.at, tokens.at, options.on);
  if (options.causal.value_or(shown.specimen.causal)) hide_later_keys(all);
  Panel panel = token_panel(shown, all, 0, tokens.step);
  panel.title = name;
  panel.cells->title = has_rows(shown) ? "product" : "score";
  return panel;
}

/// Of the last token with those before it; in an image, along the first row.
std::vector<double> over_distance(const Shown& shown, Index head, const FigureOptions& options) {
  const Specimen& s = shown.specimen;
  const Index n = s.line();
  const Array scores = between(shown, head, s.tokens(1, n - 1), s.tokens(n), options.on);
  return {scores.values.rbegin(), scores.values.rend()};
}

Panel curve_panel(const Shown& shown, const std::string& name, const Decay& falls) {
  const bool image = shown.specimen.is_image();
  const auto last = static_cast<double>(falls.curve.size() - 1);
  Panel panel{.title = name + ", over distance",
              .x = token_axis(image ? "distance along a row (patches)" : "distance, query - key (tokens)", 0, last)};
  Series envelope{.label = "largest from here on", .colour = 1, .faint = true};
  Series curve{.label = has_rows(shown) ? "product" : "score", .colour = 0};
  for (std::size_t k = 0; k < falls.curve.size(); ++k) {
    for (Series* series : {&envelope, &curve}) series->x.push_back(static_cast<double>(k));
  }
  envelope.y = falls.envelope, curve.y = falls.curve;
  Range range;
  range.reach(curve.y);
  panel.y = axis_over(curve.label, range);
  panel.series = {envelope, curve};
  return panel;
}

std::string text_of(const std::string& name, const Decay& falls) {
  const auto last = static_cast<Index>(falls.curve.size()) - 1;
  Range range;
  range.reach(falls.curve);
  return text::concat(name, ": ", short_number(falls.curve.front()), " at distance 0, ",
                      short_number(falls.curve.back()), " at ", last, ", lowest ", short_number(range.low),
                      "; it rises at ", falls.rises, " of ", last, " steps and is negative at ", falls.negative, ". ");
}

Figure similarity_figure(std::span<const Subject> encodings, const FigureOptions& options) {
  const std::vector<Shown> shown = examples(encodings, options, {.heads = 8, .dim = 64, .length = 512});
  Figure figure{.title = "How alike positions are: " + names_of(shown), .columns = 2};
  std::array<std::vector<Panel>, 2> matrices, curves;  // of scores, of products: one scale each
  for (const Shown& one : shown) {
    const Index head = heads_to_draw(one, options, 1).front();
    const std::string name = said_of(one, head, options.on);
    matrices[has_rows(one)].push_back(matrix_panel(one, name, head, options));
    const Decay falls = decay(over_distance(one, head, options));
    curves[has_rows(one)].push_back(curve_panel(one, name, falls));
    figure.text += text_of(name, falls);
  }
  figure.text.pop_back();
  for (std::vector<Panel>& panels : matrices) scale_colours(panels);
  for (std::vector<Panel>& panels : curves) share_y(panels);
  std::array<std::size_t, 2> next{};
  for (const Shown& one : shown) {
    const std::size_t n = next[has_rows(one)]++;
    figure.panels.push_back(std::move(matrices[has_rows(one)][n]));
    figure.panels.push_back(std::move(curves[has_rows(one)][n]));
  }
  return figure;
}

}  // namespace

FigureKind similarity_kind() {
  return {"similarity",
          "products of all positions, and over distance",
          1,
          8,
          {"heads", "dim", "length", "seed", "head", "causal"},
          similarity_figure};
}

}  // namespace bearing::inspect
