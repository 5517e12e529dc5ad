#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>

#include "figures/kinds.hpp"
#include "figures/parts.hpp"

// The four parts of a score where positions are added to words: word to word, word to position, position to word,
// position to position. Words and weights are given, or drawn from the seed. The parts differ in size a thousandfold,
// so each has its scale of colours, and says its size.

namespace bearing::inspect {
namespace {

/// What is multiplied: rows [time, dim], weights [dim, head_dim].
struct Weights {
  Array words, w_q, w_k;
};

void check_shape(const char* name, const Array& array, Index rows, Index cols) {
  if (array.shape[0] == 1 && array.shape[1] == rows && (cols == 0 || array.shape[2] == cols)) return;
  throw ShapeError(text::concat("[figure] ", name, ": must have shape [1, ", rows, ", ",
                                cols == 0 ? "head_dim" : std::to_string(cols), "], got ", array.shape));
}

/// Of one head: normal numbers of variance 1/dim, so that projected rows have numbers as large as rows.
Array drawn_weight(Normal& normal, Index dim) {
  Array weight = normal.array(1, dim, std::min<Index>(dim, 64));
  for (double& value : weight.values) value /= std::sqrt(static_cast<double>(dim));
  return weight;
}

Weights weights_of(const FigureOptions& options, Index time, Index dim) {
  if (options.w_q.has_value() != options.w_k.has_value()) {
    throw ShapeError(text::concat("[figure] ", options.w_q ? "w_k" : "w_q", ": must be given with the other one"));
  }
  Normal normal(options.seed);
  normal.skip(Index{1} << 32);  // a learned table's rows are the first numbers of the seed
  Weights weights{options.words ? *options.words : normal.array(1, time, dim), {}, {}};
  weights.w_q = options.w_q ? *options.w_q : drawn_weight(normal, dim);
  weights.w_k = options.w_k ? *options.w_k : drawn_weight(normal, dim);
  check_shape("words", weights.words, time, dim);
  check_shape("w_q", weights.w_q, dim, 0);
  check_shape("w_k", weights.w_k, dim, weights.w_q.shape[2]);
  return weights;
}

double root_mean_square(const Array& x) {
  double sum = 0;
  for (const double value : x.values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(x.values.size()));
}

Panel panel_of(const char* query, const char* key, const Array& products) {
  const Index time = products.shape[1];
  const double last = static_cast<double>(time) - 0.5;
  const double size = root_mean_square(products);
  Panel panel{.title = text::concat(query, " to ", key, " (rms ", short_number(size), ")"),
              .x = {text::concat(key, " of the key"), -0.5, last},
              .y = {text::concat(query, " of the query"), last, -0.5},
              .round = true};
  const double most = 2 * size;  // few numbers are larger, and they would hide the others
  panel.cells = Cells{.rows = time,
                      .cols = time,
                      .values = products.values,
                      .map = ColourMap::diverging,
                      .low = -most,
                      .high = most,
                      .title = "product"};
  return panel;
}

Figure correlations_figure(std::span<const Subject> encodings, const FigureOptions& options) {
  FigureOptions sizes = options;
  if (options.words) {
    const Array& words = *options.words;
    if ((options.length > 0 && options.length != words.shape[1]) ||
        (options.dim > 0 && options.dim != words.shape[2])) {
      throw ShapeError(text::concat("[figure] words: must have shape [1, length, dim] = [1, ", options.length, ", ",
                                    options.dim, "], got ", words.shape));
    }
    sizes.length = words.shape[1], sizes.dim = words.shape[2];
  }
  const std::vector<Shown> shown = examples(encodings, sizes, {.heads = 1, .dim = 64, .length = 64});
  const Specimen& s = shown[0].specimen;
  if (!s.input_rows) nothing_to_show(shown[0], "must be an encoding of the input");
  const Array positions = s.inputs(s.tokens(s.options.length), options.on);
  const Weights weights = weights_of(options, s.options.length, s.options.dim);
  const Correlations all =
      correlations(weights.words.head(0), positions.head(0), weights.w_q.head(0), weights.w_k.head(0));
  Figure figure{.title = "Who meets whom in a score: words and positions of " + shown[0].name(), .columns = 2};
  figure.panels.push_back(panel_of("word", "word", all.word_word));
  figure.panels.push_back(panel_of("word", "position", all.word_position));
  figure.panels.push_back(panel_of("position", "word", all.position_word));
  figure.panels.push_back(panel_of("position", "position", all.position_position));
  figure.text = text::concat("The four parts of the product of query and key, ", s.options.length, " tokens, with ",
                             options.w_q ? "given" : "random", " weights. Root mean squares: word to word ",
                             short_number(root_mean_square(all.word_word)), ", word to position ",
                             short_number(root_mean_square(all.word_position)), ", position to word ",
                             short_number(root_mean_square(all.position_word)), ", position to position ",
                             short_number(root_mean_square(all.position_position)), ".");
  return figure;
}

}  // namespace

FigureKind correlations_kind() {
  return {"correlations",
          "words and positions in a score: four parts, as TUPE draws them",
          1,
          1,
          {"dim", "length", "seed", "words", "w_q", "w_k"},
          correlations_figure};
}

}  // namespace bearing::inspect
