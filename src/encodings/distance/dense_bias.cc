#include <bearing/encodings/dense_bias.hpp>
#include <bearing/scores.hpp>

#include "describe/describer.hpp"
#include "encodings/distance/shared_axes.hpp"
#include "terms/checks.hpp"
#include "terms/tile_kernels.hpp"

namespace bearing {

using text::concat;

template <class A>
void DenseBias<A>::check(const char* function, const Problem& problem) const {
  const std::array<Index, 4> all = {problem.batch, problem.heads, problem.q_len, problem.k_len};
  const std::array<Index, 4>& shape = bias_.value.shape;
  bool fits = true;
  for (std::size_t axis = 0; axis < 4; ++axis) fits = fits && (shape[axis] == 1 || shape[axis] == all[axis]);
  if (!fits) {
    throw ShapeError(concat("[", function, "] DenseBias: must be [batch, heads, q_len, k_len] = ", all,
                            " or 1 on any axis, got shape ", shape));
  }
  check_param(function, "DenseBias", bias_, shape, "[batch or 1, heads or 1, q_len or 1, k_len or 1]");
}

template <class A>
View<const A, 2> DenseBias<A>::matrix(Index batch, Index head) const {
  const View<const A, 4>& bias = bias_.value;
  const A* first = &bias(kept_at(bias.shape[0], batch), kept_at(bias.shape[1], head), 0, 0);
  const auto step = [&](std::size_t axis) { return bias.shape[axis] == 1 ? 0 : bias.stride[axis]; };
  return {first, {bias.shape[2], bias.shape[3]}, {step(2), step(3)}};
}

template <class A>
void DenseBias<A>::add_scores(const Tile<A>& tile, A* s) const {
  const View<const A, 2> bias = matrix(tile.batch, tile.head);
  const A* first = &bias(tile.row, tile.col);
  const Index row_step = bias.stride[0], step = bias.stride[1];
  if (step == 1) return tiles::add_matrix(tile.rows, tile.cols, first, row_step, tile.cols, s, tile.stride);
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index j = 0; j < tile.cols; ++j) s[i * tile.stride + j] += first[i * row_step + j * step];
  }
}

template <class A>
void DenseBias<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (grads.params == nullptr) return;
  const Index rows = bias_.value.shape[2], cols = bias_.value.shape[3];
  for (Index i = 0; i < tile.rows; ++i) {
    A* to = grads.params + kept_at(rows, tile.row + i) * cols;
    const A* from = d_s + i * tile.stride;
    if (cols > 1) {
      for (Index j = 0; j < tile.cols; ++j) to[tile.col + j] += from[j];
      continue;
    }
    double sum = 0;
    for (Index j = 0; j < tile.cols; ++j) sum += static_cast<double>(from[j]);
    to[0] += static_cast<A>(sum);
  }
}

template class DenseBias<float>;
template class DenseBias<double>;

namespace {

/// A learned matrix [heads, length, length]; fewer queries are the last, fewer keys the first.
inspect::Specimen dense_example(const ExampleSize& size, NoSpec) {
  inspect::Specimen specimen{.options = size, .by_index = true};
  const Index length = size.length;
  if (length > (Index{1} << 27) / length / size.heads) {
    throw RangeError(text::concat("[make] heads, dim, length: must make tables of at most 2^27 numbers, got ",
                                  std::vector<Index>{1, size.heads, length, length}));
  }
  const auto numbers =
      std::make_shared<const inspect::Array>(inspect::Normal(size.seed).array(size.heads, length, length));
  specimen.parameters = specimen.held = size.heads * length * length;
  specimen.score_terms = [numbers, length, heads = size.heads](const Positions&, const Positions&,
                                                               View<const double, 4> q, View<const double, 4> k,
                                                               View<double, 4> scores, const Executor& on) {
    View<const double, 4> part = bhtd<const double>(numbers->values.data(), 1, heads, length, length);
    if (k.shape[2] <= length) {
      part.data += (k.shape[2] - q.shape[2]) * part.stride[2];
      part.shape[2] = q.shape[2], part.shape[3] = k.shape[2];
    }
    const DenseBias<double> encoding(Param<double, 4>{part});
    add_scores(with(encoding), {}, scores, on);
  };
  return specimen;
}

}  // namespace

void describe_dense_bias(Describer& to) {
  to.home("dense_bias", {"-", 0, "-"});
  to.encoding<NoSpec, 4>(
        "DenseBias",
        "A bias that is given as a matrix, computed elsewhere or learned; with -inf it may also be a mask.\n\n"
        "    s_ij <- s_ij + bias[b, h, i, j]\n\n"
        "bias [batch or 1, heads or 1, q_len or 1, k_len or 1], by indices, not positions; or without its first axes.",
        {Parameter("bias", {or_one("batch"), or_one("heads"), or_one("q_len"), or_one("k_len")},
                   "What is added to each score.")
             .starts(constant(0))
             .elsewhere_called({"attn_bias", "bias", "attn_mask", "attention_mask"})
             .draws(normal(1))
             .truth_goes_to("attention()'s visible")},
        []<class A>(const Param<A, 4>& bias) { return DenseBias<A>(bias); })
      .form(Form::dense)
      .by_index()
      .called("dense_bias", "dense bias", "any matrix")
      .also({"bias_matrix"})
      .example(dense_example);
}

}  // namespace bearing
