#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>
#include <span>

#include "figures/kinds.hpp"
#include "figures/matrices.hpp"

// Rows by position and dimension; scores, logits and attention's weights by query and key.

namespace bearing::inspect {
namespace {

/// Scores that are worked out at once: 256 MiB.
constexpr Index most_scores = Index{1} << 25;

/// What shows most of an encoding.
std::string by_sites(const Specimen& specimen) {
  if (specimen.input_rows || specimen.turn_rows) return "rows";
  return specimen.score_terms ? "scores" : "pattern";
}

/// What to draw of all: what was asked for, else what shows most of each, else what all of them have.
std::string what_of(const std::vector<Shown>& shown, const FigureOptions& options) {
  if (!options.what.empty()) {
    for (const char* word : {"rows", "scores", "logits", "pattern"}) {
      if (options.what == word) return word;
    }
    throw RangeError("[figure] what: must be rows, scores, logits or pattern, got " + options.what);
  }
  std::string first = by_sites(shown.front().specimen);
  for (const Shown& one : shown) {
    if (by_sites(one.specimen) != first) return "pattern";
  }
  return first;
}

/// A query whose numbers are all 1, turned, or what is added to the input.
Panel rows_panel(const Shown& shown, const FigureOptions& options) {
  const Specimen& s = shown.specimen;
  if (!s.input_rows && !s.turn_rows) {
    nothing_to_show(shown, "must have rows: an encoding of the input or of query and key");
  }
  const Thinned tokens = thinned(shown);
  Array rows;
  if (s.input_rows) {
    rows = s.inputs(tokens.at, options.on);
  } else {
    Array ones(s.options.heads, tokens.at.count(), s.options.dim);
    std::fill(ones.values.begin(), ones.values.end(), 1.0);
    rows = s.turn(Side::query, tokens.at, ones, options.on);
  }
  Panel panel{.title = shown.name(),
              .cells = cells_from_top(rows, heads_to_draw(shown, options, 1).front(), tokens.step)};
  panel.cells->title = s.input_rows ? "value" : "value of a turned query of ones";
  const double half = static_cast<double>(tokens.step) / 2;
  panel.x = {"dimension", -0.5, static_cast<double>(rows.shape[2]) - 0.5};
  panel.y = {token_title(shown, "position", tokens.step), static_cast<double>(rows.shape[1] * tokens.step) - half,
             -half};
  return panel;
}

/// What attention makes of logits; the keys that are NaN are not seen.
void to_weights(Array& logits) {
  const Index keys = logits.shape[2];
  for (std::size_t first = 0; first < logits.values.size(); first += static_cast<std::size_t>(keys)) {
    const std::span<double> row(logits.values.data() + first, static_cast<std::size_t>(keys));
    double most = -INFINITY, sum = 0;
    for (const double s : row) most = std::isnan(s) ? most : std::max(most, s);
    for (double& s : row) {
      if (std::isnan(s)) continue;
      s = std::exp(s - most);
      sum += s;
    }
    for (double& s : row) s /= sum;
  }
}

std::vector<Panel> score_panels(const Shown& shown, const std::string& what, Index most_heads,
                                const FigureOptions& options) {
  const Specimen& s = shown.specimen;
  const Index length = s.options.length;
  if (length > most_cells || s.options.heads * length * length > most_scores) {
    throw RangeError(text::concat("[figure] length: must be at most ", most_cells, " and make at most ", most_scores,
                                  " scores of all heads, got ", length));
  }
  if (what == "scores" && !s.score_terms) nothing_to_show(shown, "must add to scores, or be asked for logits");
  const Tokens at = s.tokens(length);
  // Most scores do not look at contents, and drawing them takes longest.
  const EncodingInfo* info = shown.subject->description.encoding;
  const bool looked_at = what != "scores" || info == nullptr || info->reads_content;
  const auto contents = [&](std::uint64_t which) {
    return looked_at ? half_alike_contents(s, length, which) : Array(s.options.heads, length, s.options.dim);
  };
  const Array q = contents(0), k = contents(1);
  Array scores = what == "scores" ? s.scores(at, at, q, k, options.on) : s.logits(at, at, q, k, options.on);
  if (options.causal.value_or(s.causal)) hide_later_keys(scores);
  if (what == "pattern") to_weights(scores);
  std::vector<Panel> panels;
  const bool one_head = s.options.heads == 1;
  for (const Index head : heads_to_draw(shown, options, most_heads)) {
    Panel& panel = panels.emplace_back(token_panel(shown, scores, head));
    panel.title = one_head ? shown.name() : text::concat(shown.name(), ", head ", head);
    panel.cells->title = what == "scores" ? "score" : what == "logits" ? "logit" : "attention weight";
  }
  return panels;
}

/// How many columns of a table keep their sign from top to bottom.
Index steady_columns(const Cells& cells) {
  std::vector<char> changes(static_cast<std::size_t>(cells.cols));
  for (Index row = 1; row < cells.rows; ++row) {
    for (Index col = 0; col < cells.cols; ++col) {
      if (cells(row, col) * cells(row - 1, col) < 0) changes[static_cast<std::size_t>(col)] = 1;
    }
  }
  return std::count(changes.begin(), changes.end(), 0);
}

/// How far a query looks, on average: Σ_j w_ij |i − j|.
double mean_reach(const Cells& weights) {
  double sum = 0;
  for (Index i = 0; i < weights.rows; ++i) {
    for (Index j = 0; j < weights.cols; ++j) {
      if (!std::isnan(weights(i, j))) sum += weights(i, j) * static_cast<double>(std::abs(i - j));
    }
  }
  return sum / static_cast<double>(weights.rows);
}

/// What is seen of one encoding, whose heads have a panel each.
std::string text_of(const Shown& shown, std::span<const Panel> panels, const std::string& what) {
  const Cells& first = *panels.front().cells;
  Range range;
  for (const Panel& panel : panels) range.reach(panel.cells->values);
  const std::string reach = text::concat("from ", short_number(range.low), " to ", short_number(range.high));
  if (what == "rows") {
    return text::concat(shown.name(), ": ", first.rows, " positions from the top, ", first.cols,
                        " dimensions from the left, values ", reach,
                        "; dimensions that never change their sign: ", steady_columns(first), ". ");
  }
  const std::string matrix = text::concat(shown.name(), ": ", first.rows, " queries from the top, ", first.cols,
                                          " keys from the left, ", first.title, "s ", reach);
  if (what != "pattern") return matrix + ". ";
  std::string looks = short_number(mean_reach(first));
  if (panels.size() > 1) looks += " to " + short_number(mean_reach(*panels.back().cells));
  return text::concat(matrix, "; queries look ", looks, " tokens away on average",
                      panels.size() > 1 ? " (first and last head). " : ". ");
}

/// The encodings at the sizes at which they are drawn.
std::vector<Shown> sized(std::span<const Subject> encodings, const FigureOptions& options, std::string& what) {
  std::vector<Shown> shown = examples(encodings, options, {.heads = 8, .dim = 64, .length = 64});
  what = what_of(shown, options);
  if (what != "rows") return shown;
  const bool input = shown.front().specimen.input_rows != nullptr;
  return examples(encodings, options, {.heads = 1, .dim = input ? 256 : 64, .length = 128});
}

/// A few large weights would leave all others dark: the largest 1 % have one colour.
void hold_large_weights(std::vector<Panel>& panels) {
  std::vector<double> all;
  for (const Panel& panel : panels) {
    for (const double weight : panel.cells->values) {
      if (!std::isnan(weight)) all.push_back(weight);
    }
  }
  const auto at = all.begin() + static_cast<std::ptrdiff_t>(99 * (all.size() - 1) / 100);
  std::nth_element(all.begin(), at, all.end());
  for (Panel& panel : panels) {
    panel.cells->low = 0, panel.cells->high = *at > 0 ? *at : 1;
    panel.cells->title = "attention weight (1 % are larger)";
  }
}

std::string title_of(const std::string& what) {
  if (what == "rows") return "Values by position and dimension: ";
  if (what == "scores") return "What is added to scores: ";
  return what == "logits" ? "Logits of drawn queries and keys: " : "Attention of drawn queries and keys: ";
}

Figure heatmap(std::span<const Subject> encodings, const FigureOptions& options) {
  std::string what;
  const std::vector<Shown> shown = sized(encodings, options, what);
  Figure figure{.title = title_of(what) + names_of(shown)};
  const Index most_heads = shown.size() == 1 ? 4 : shown.size() == 2 ? 2 : 1;
  for (const Shown& one : shown) {
    const std::size_t first = figure.panels.size();
    if (what == "rows") {
      figure.panels.push_back(rows_panel(one, options));
    } else {
      for (Panel& panel : score_panels(one, what, most_heads, options)) figure.panels.push_back(std::move(panel));
    }
    figure.text += text_of(one, std::span(figure.panels).subspan(first), what);
  }
  figure.text.pop_back();
  scale_colours(figure.panels);
  if (what == "pattern") hold_large_weights(figure.panels);
  figure.columns = columns_for(figure.panels.size());
  return figure;
}

}  // namespace

FigureKind heatmap_kind() {
  return {"heatmap", "the table, what is added to scores, or attention",           1,
          8,         {"heads", "dim", "length", "seed", "what", "head", "causal"}, heatmap};
}

}  // namespace bearing::inspect
