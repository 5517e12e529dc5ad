#include <bearing/figures.hpp>

#include "lasting.hpp"

// The pictures that the founding documents show or describe: 000 the slides, 001 the blog on sinusoids, 002 the blog on
// RoPE. What they say stands beside each; whether it is so, the picture shows.

namespace bearing::inspect {
namespace {

std::vector<DocumentFigure> of_slides() {
  const char* slides = "000";
  return {
      {slides, "values", "the values across dimensions, d = 4", "curves", {"sinusoidal"}, {.dim = 4, .length = 50}},
      {slides, "values-d20", "the values with d = 20", "heatmap", {"sinusoidal"}, {.dim = 20, .length = 50}},
      {slides,
       "similarity",
       "the distance between neighbours is symmetrical and decays",
       "similarity",
       {"sinusoidal"},
       {.dim = 128, .length = 128}},
      {slides, "offset", "one matrix M for a fixed offset", "offset", {"sinusoidal", "learned"}, {.dim = 16}},
      {slides, "pairwise", "T x 2 x (T - 1) embeddings of pairs", "heatmap", {"shaw"}, {.heads = 1, .length = 32}},
      {slides, "buckets", "T5: one number for each distance and head", "buckets", {"t5", "t5_causal"}},
      {slides, "correlations", "words and positions: the four matrices of TUPE", "correlations", {"sinusoidal"}},
      {slides,
       "rotation",
       "a vector of two dimensions, turned",
       "hands",
       {"rope:pairing=interleaved"},
       {.dim = 2, .positions = {0, 1, 2, 3}}},
      {slides,
       "rotation-of-pairs",
       "d/2 vectors of two dimensions, each turned",
       "hands",
       {"rope:pairing=interleaved"},
       {.dim = 8, .positions = {0, 1, 2, 3}}},
      {slides, "decay", "the inner product decays with the distance", "decay", {"rope"}, {.dim = 128, .length = 512}},
      {slides, "elu", "the feature map elu + 1", "feature", {}},
  };
}

std::vector<DocumentFigure> of_sinusoids() {
  const char* blog = "001";
  return {
      {blog,
       "numbering",
       "positions over the length, and positions as they are",
       "curves",
       {"index_normalised", "index"},
       {.length = 80, .dims = {0}}},
      {blog,
       "pendulums",
       "pendulums in a line, a snapshot at a time t",
       "hands",
       {"sinusoidal"},
       {.dim = 16, .positions = {0, 4, 8, 12}}},
      {blog,
       "fast-and-slow",
       "slow pendulums stay aligned, fast ones are noise",
       "curves",
       {"sinusoidal"},
       {.dim = 128, .length = 256, .dims = {1, 41, 81}}},
      {blog,
       "similarity",
       "a high value for near tokens, smoothly decreasing with distance",
       "similarity",
       {"sinusoidal"},
       {.dim = 128, .length = 512}},
  };
}

std::vector<DocumentFigure> of_rope() {
  const char* blog = "002";
  return {
      {blog,
       "heat-map",
       "128 positions in rows, 256 dimensions in columns",
       "heatmap",
       {"sinusoidal"},
       {.dim = 256, .length = 128, .what = "rows"}},
      {blog,
       "wavelengths",
       "wavelengths from 2 pi to 10000 times 2 pi",
       "wavelengths",
       {"sinusoidal"},
       {.dim = 256, .length = 128}},
      {blog, "offset", "a transposed rotation for a fixed offset k", "offset", {"sinusoidal"}, {.dim = 2, .offset = 1}},
      {blog,
       "walk",
       "x = [1, 1] with sinusoids is jagged; RoPE at the same speed",
       "walk",
       {"sinusoidal", "rope"},
       {.dim = 2}},
      {blog,
       "smooth-walk",
       "RoPE is smooth; so are sinusoids in a pair that is as slow",
       "walk",
       {"sinusoidal", "rope"},
       {.dim = 8, .length = 32, .dims = {1}}},
      {blog,
       "any-distance",
       "related tokens score high at any distance, if positions are added",
       "decay",
       {"sinusoidal", "rope"},
       {.dim = 128, .length = 512}},
      {blog,
       "python-is-love",
       "Python is love, and two tokens later in Coding in Python is love",
       "hands",
       {"rope"},
       {.dim = 2, .what = "Python is love", .offset = 2}},
      {blog, "relative", "only the distance counts: R(m) and R(n) give R(n - m)", "offset", {"rope"}, {.dim = 4}},
      {blog,
       "two-pointers",
       "d = 4: two pointers, each with its speed",
       "hands",
       {"rope:base=100"},
       {.dim = 4, .positions = {0, 1, 2, 3, 4}}},
      {blog,
       "same-distance",
       "the same distance in sequences of different lengths",
       "similarity",
       {"rope"},
       {.dim = 64, .length = 128}},
      {blog,
       "base",
       "a large base for a long context: Llama 3",
       "wavelengths",
       {"rope", "rope:base=500000"},
       {.dim = 128, .length = 131'072}},
      {blog, "decay", "the decay does not hold in many situations", "decay", {"rope"}, {.dim = 128, .length = 4096}},
      {blog,
       "context-extension",
       "extending the context: the next part",
       "wavelengths",
       {"rope_linear", "rope_ntk", "rope_yarn", "rope_llama3"},
       {.dim = 128, .length = 32'768}},
  };
}

}  // namespace

const std::vector<DocumentFigure>& document_figures() {
  static const auto& all = lasting([] {
    std::vector<DocumentFigure> figures = of_slides();
    for (const auto& more : {of_sinusoids(), of_rope()}) figures.insert(figures.end(), more.begin(), more.end());
    return figures;
  }());
  return all;
}

}  // namespace bearing::inspect
