#include <algorithm>
#include <array>
#include <bearing/error.hpp>

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

Panel matrix_panel(const Shown& shown, Index head, const FigureOptions& options) {
  const Thinned tokens = thinned(shown);
  Array all = between(shown, head, tokens.at, tokens.at, options.on);
  if (options.causal.value_or(shown.specimen.causal)) hide_later_keys(all);
  Panel panel = token_panel(shown, all, 0, tokens.step);
  panel.title = shown.name();
  panel.cells->title = has_rows(shown) ? "product" : "score";
  return panel;
}

/// Of the last token with those before it; in an image, along the first row.
std::vector<double> over_distance(const Shown& shown, Index head, const FigureOptions& options) {
  const Specimen& s = shown.specimen;
  const Index n = s.width > 0 ? s.width : s.options.length;
  const Array scores = between(shown, head, s.tokens(1, n - 1), s.tokens(n), options.on);
  return {scores.values.rbegin(), scores.values.rend()};
}

Panel curve_panel(const Shown& shown, const Decay& falls) {
  const bool image = shown.specimen.width > 0;
  const auto last = static_cast<double>(falls.curve.size() - 1);
  Panel panel{.title = shown.name() + ", over distance",
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

std::string text_of(const Shown& shown, const Decay& falls) {
  const auto last = static_cast<Index>(falls.curve.size()) - 1;
  Range range;
  range.reach(falls.curve);
  return text::concat(shown.name(), ": ", short_number(falls.curve.front()), " at distance 0, ",
                      short_number(falls.curve.back()), " at ", last, ", lowest ", short_number(range.low),
                      "; it rises at ", falls.rises, " of ", last, " steps and is negative at ", falls.negative, ". ");
}

Figure similarity_figure(std::span<const Subject> encodings, const FigureOptions& options) {
  const std::vector<Shown> shown = examples(encodings, options, {.heads = 8, .dim = 64, .length = 512});
  Figure figure{.title = "How alike positions are: " + names_of(shown), .columns = 2};
  std::array<std::vector<Panel>, 2> matrices, curves;  // of scores, of products: one scale each
  for (const Shown& one : shown) {
    const Index head = heads_to_draw(one, options, 1).front();
    matrices[has_rows(one)].push_back(matrix_panel(one, head, options));
    const Decay falls = decay(over_distance(one, head, options));
    curves[has_rows(one)].push_back(curve_panel(one, falls));
    figure.text += text_of(one, falls);
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
