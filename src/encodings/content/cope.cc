#include <algorithm>
#include <bearing/encodings/cope.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "describe/describer.hpp"
#include "terms/checks.hpp"
#include "terms/tile_kernels.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

template <class A>
CopeTerm<A>::CopeTerm(const Cope& cope, Param<A, 3> embeddings) : cope_(cope), embeddings_(embeddings) {
  if (cope.max_pos < 1 || cope.max_pos > max_position) {
    throw RangeError(concat("[CopeTerm] max_pos: must be from 1 to 2^31, got ", cope.max_pos));
  }
  const auto &shape = embeddings.value.shape, &stride = embeddings.value.stride;
  if (shape[0] < 1 || shape[1] != cope.max_pos || shape[2] < 1 || (stride[2] != 1 && shape[2] > 1)) {
    throw ShapeError(concat("[CopeTerm] embeddings: must be [heads or 1, max_pos = ", cope.max_pos,
                            ", dim] with features side by side, got shape ", shape, ", strides ", stride));
  }
  check_tensor("CopeTerm", "embeddings", embeddings.value);
  check_param("CopeTerm", "embeddings", embeddings, shape, "[heads or 1, max_pos, dim]");
}

template <class A>
void CopeTerm<A>::check(const char* function, const Problem& problem) const {
  const auto& shape = embeddings_.value.shape;
  if ((shape[0] != 1 && shape[0] != problem.heads) || shape[2] != problem.dim) {
    throw ShapeError(concat("[", function, "] Cope.embeddings: must be for queries and keys of ", problem.heads,
                            " heads of ", problem.dim, " features, got shape ", shape));
  }
  const Positions& at = *problem.k_positions;
  if (at.is_offset()) return;
  for (Index b = 0; b < problem.batch; ++b) {
    for (Index t = 1; t < problem.k_len; ++t) {
      const double before = at.real(0, b, t - 1), here = at.real(0, b, t);
      if (here >= before) continue;
      throw RangeError(concat("[", function, "] k_positions: must not fall along a sequence for Cope, got ", here,
                              " after ", before, " for token ", t, " of sequence ", b));
    }
  }
}

namespace {

/// Whether key j's gate is there for query i: the key is not after it, and no mask hides it.
template <class A>
bool counts(const Tile<A>& tile, Index i, Index j) {
  return tile.k_positions[0][j] <= tile.q_positions[0][i] &&
         (tile.seen == nullptr || tile.seen[i * tile.cols + j] != 0);
}

/// A gate and its slope. In double, and with nothing beyond e^±700, which no gate shows: exp() must not overflow, and a
/// slope of nearly 0 keeps its digits.
struct CopeGate {
  explicit CopeGate(double logit) {
    const double e = std::exp(-std::min(std::abs(logit), 700.0)), part = 1 / (1 + e);
    open = logit >= 0 ? part : e * part;
    slope = e * part * part;
  }
  double open, slope;
};

}  // namespace

/// What a tile's scores are made of, in its scratch.
template <class A>
struct CopeTerm<A>::Work {
  A gate_scale, score_scale;
  const A* e;
  Index e_stride;
  A *logit, *slope;  ///< [rows, cols]: of gates; of scores by position
  A *z, *d_z;        ///< [rows, max_pos], without score_scale
  Index max_pos;

  /// Where between two embeddings a position lies; beyond the last one w is 0.
  struct Between {
    Index below, above;
    A w;
    bool capped;
  };
  Between between(double position) const {
    const double last = static_cast<double>(max_pos - 1);
    if (!(position < last)) return {max_pos - 1, max_pos - 1, 0, true};
    const auto below = static_cast<Index>(position);
    return {below, below + 1, static_cast<A>(position - static_cast<double>(below)), false};
  }
};

template <class A>
auto CopeTerm<A>::work(const Tile<A>& tile) const -> Work {
  const Index size = tile.rows * tile.cols, max_pos = cope_.max_pos;
  const auto factor = [&](CopeScale scale) { return scale == CopeScale::softmax ? tile.scale : A{1}; };
  A* scratch = tile.scratch;
  const Work w{.gate_scale = factor(cope_.gate_scale),
               .score_scale = factor(cope_.score_scale),
               .e = &embeddings_.value(table(tile.head), Index{0}, Index{0}),
               .e_stride = embeddings_.value.stride[1],
               .logit = scratch,
               .slope = scratch + size,
               .z = scratch + 2 * size,
               .d_z = scratch + 2 * size + tile.rows * max_pos,
               .max_pos = max_pos};
  tiles::multiply_nt(tile.rows, tile.cols, tile.dim, w.gate_scale, tile.q, tile.q_stride, tile.k, tile.k_stride,
                     w.logit, tile.cols);
  tiles::multiply_nt(tile.rows, max_pos, tile.dim, A{1}, tile.q, tile.q_stride, w.e, w.e_stride, w.z, max_pos);
  return w;
}

template <class A>
void CopeTerm<A>::add_scores(const Tile<A>& tile, A* s) const {
  const Work w = work(tile);
  for (Index i = 0; i < tile.rows; ++i) {
    const A *logit = w.logit + i * tile.cols, *z = w.z + i * w.max_pos;
    double position = 0;
    for (Index j = tile.cols - 1; j >= 0; --j) {
      if (!counts(tile, i, j)) continue;
      position += CopeGate(static_cast<double>(logit[j])).open;
      const auto at = w.between(position);
      s[i * tile.stride + j] += w.score_scale * (z[at.below] + at.w * (z[at.above] - z[at.below]));
    }
  }
}

template <class A>
void CopeTerm<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  const Work w = work(tile);
  std::fill_n(w.d_z, tile.rows * w.max_pos, A{0});
  for (Index i = 0; i < tile.rows; ++i) {
    A *logit = w.logit + i * tile.cols, *slope = w.slope + i * tile.cols;
    const A* z = w.z + i * w.max_pos;
    A* d_z = w.d_z + i * w.max_pos;
    // s += score_scale · ((1 − w)·z[below] + w·z[above]), slope: ∂s/∂position · d_s
    double position = 0;
    for (Index j = tile.cols - 1; j >= 0; --j) {
      slope[j] = 0;
      if (!counts(tile, i, j)) continue;
      position += CopeGate(static_cast<double>(logit[j])).open;
      const auto at = w.between(position);
      const A d = w.score_scale * d_s[i * tile.stride + j];
      d_z[at.below] += (1 - at.w) * d;
      d_z[at.above] += at.w * d;
      if (!at.capped) slope[j] = d * (z[at.above] - z[at.below]);
    }
    // position_j = Σ_{t ≥ j} gate_t, gate = σ(logit): what the logit of key t does is summed over j ≤ t
    double d_gate = 0;
    for (Index t = 0; t < tile.cols; ++t) {
      d_gate += static_cast<double>(slope[t]);
      logit[t] = counts(tile, i, t) ? static_cast<A>(d_gate * CopeGate(static_cast<double>(logit[t])).slope) : A{0};
    }
  }
  const A* d_logit = w.logit;
  if (grads.d_q != nullptr) {
    // logit = gate_scale · q · kᵀ, z = q · Eᵀ
    tiles::add_multiply_nn(tile.rows, tile.cols, tile.dim, w.gate_scale, d_logit, tile.cols, tile.k, tile.k_stride,
                           grads.d_q, grads.d_q_stride);
    tiles::add_multiply_nn(tile.rows, w.max_pos, tile.dim, A{1}, w.d_z, w.max_pos, w.e, w.e_stride, grads.d_q,
                           grads.d_q_stride);
  }
  if (grads.d_k != nullptr) {
    tiles::add_multiply_tn(tile.rows, tile.cols, tile.dim, w.gate_scale, d_logit, tile.cols, tile.q, tile.q_stride,
                           grads.d_k, grads.d_k_stride);
  }
  if (grads.params != nullptr) {
    tiles::add_multiply_tn(tile.rows, w.max_pos, tile.dim, A{1}, w.d_z, w.max_pos, tile.q, tile.q_stride, grads.params,
                           tile.dim);
  }
}

template class CopeTerm<float>;
template class CopeTerm<double>;

template <>
struct describe::Words<CopeScale> {
  static constexpr const char* all[] = {"softmax", "one"};
};

void describe_cope(Describer& to) {
  to.home("cope", {"Golovneva et al.", 2024, "arXiv 2405.18719"});
  to.record("Cope", Cope{},
            "CoPE, contextual position encoding: a position counts only the tokens that matter to the query.\n\n"
            "    g_it = sigmoid(gate_scale q_i k_t)      p_ij = min(sum_{t >= j, n_t <= m} g_it, max_pos - 1)\n"
            "    s_ij <- s_ij + (1 - w) z_i[f] + w z_i[f + 1]     f = floor(p_ij), w = p_ij - f, z_i = score_scale q_i "
            "E\n\n"
            "Golovneva, Wang, Weston, Sukhbaatar 2024, arXiv 2405.18719.")
      .member("max_pos", &Cope::max_pos, "Rows of E; positions are capped at max_pos - 1.")
      .member("gate_scale", &Cope::gate_scale, "The factor of the gates' products; the default is the paper's code's.")
      .member("score_scale", &Cope::score_scale,
              "The factor of the products with E; the default is the paper's code's.");
  const auto one = [](const Record&, const Sizes&) { return Index{1}; };
  to.encoding<Cope, 3>(
        "CopeTerm",
        "CoPE's term: embeddings [heads, max_pos, dim], or [1, max_pos, dim] for all heads alike.\n\n"
        "    s_ij <- s_ij + (1 - w) z_i[f] + w z_i[f + 1]     z_i = score_scale q_i E\n\n"
        "Keys stand in order of their positions; those after the query count nothing and get 0.\n\n"
        "Golovneva, Wang, Weston, Sukhbaatar 2024, arXiv 2405.18719.",
        {Parameter("embeddings", {usually(or_one("heads"), one), "max_pos", "dim"}, "E: a vector for each count.")
             .starts(constant(0))
             .draws(
                 {"normal, of standard deviation 1/sqrt(dim)",
                  [](const Filling& all) { normal(1 / std::sqrt(static_cast<double>(all.extents[2]))).fill(all); }})},
        make_with_spec<CopeTerm>)
      .form(Form::running_sum)
      .reads_content()
      .by_index()
      .causal()
      .called("cope", "CoPE", "positions counted by gates of the content",
              [](const ExampleSize&) { return Cope{.max_pos = 64}; });
}

}  // namespace bearing
