#include <algorithm>
#include <bearing/encodings/gated_decay.hpp>
#include <bearing/error.hpp>
#include <bearing/scores.hpp>
#include <cmath>

#include "describe/describer.hpp"
#include "terms/checks.hpp"
#include "terms/counted_tokens.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

/// Parts below it count as 0: beside a product that is taken off whole they are nothing, and no denormal number is made
/// of them.
template <class A>
constexpr A least_part = sizeof(A) == sizeof(double) ? static_cast<A>(0x1p-440) : static_cast<A>(0x1p-48);

template <class A>
A part(double log) {
  const double kept = std::exp(log);
  return static_cast<A>(kept < static_cast<double>(least_part<A>) ? 0.0 : kept);
}

/// left ← step ∘ left
template <class A>
void pass(Index dim, const A* step, A* left) {
  for (Index c = 0; c < dim; ++c) {
    const A both = step[c] * left[c];
    left[c] = both < least_part<A> ? A{0} : both;
  }
}

/// Σ_c q_c k_c (left_c − 1), in partial sums that a compiler may take side by side.
template <class A>
A taken_off(Index dim, const A* q, const A* k, const A* left) {
  A sums[8] = {};
  Index c = 0;
  for (; c + 8 <= dim; c += 8) {
    for (Index x = 0; x < 8; ++x) sums[x] += q[c + x] * k[c + x] * (left[c + x] - 1);
  }
  for (; c < dim; ++c) sums[0] += q[c] * k[c] * (left[c] - 1);
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

}  // namespace

template <class A>
GatedDecayTerm<A>::GatedDecayTerm(Param<A, 4> log_decay, std::optional<Index> past)
    : log_decay_(log_decay), past_(past), time_(log_decay.value.shape[2]), dim_(log_decay.value.shape[3]) {
  check_param("GatedDecayTerm", "log_decay", log_decay, log_decay.value.shape, "[batch, heads, time, dim]");
}

template <class A>
void GatedDecayTerm<A>::check(const char* function, const Problem& problem) const {
  check_param(function, "GatedDecay.log_decay", log_decay_, {problem.batch, problem.heads, problem.k_len, problem.dim},
              "[batch, heads, k_len, dim]");
  check_past(function, past_, problem);
  const View<const A, 4>& log = log_decay_.value;
  for (Index b = 0; b < problem.batch; ++b) {
    for (Index h = 0; h < problem.heads; ++h) {
      for (Index x = 0; x < time_ * dim_; ++x) {
        const A here = log(b, h, x / dim_, x % dim_);
        if (here <= 0) continue;
        throw RangeError(concat("[", function, "] GatedDecay.log_decay: must be at most 0, as a gate keeps a part, ",
                                "got ", here, " for channel ", x % dim_, " of token ", x / dim_, " of head ", h,
                                " of sequence ", b));
      }
    }
  }
}

/// The steps between a tile's tokens. Row i meets key j after the steps j + 1 … i, which are multiplied from behind.
template <class A>
struct GatedDecayTerm<A>::Work {
  Index first;    ///< the first row's token
  Index cols;     ///< of the tile
  A* steps;       ///< [cols, dim] each key's own step
  A* gaps;        ///< [rows, dim] from the tile's last key to a row behind it
  A *left, *sum;  ///< [dim] for a row

  Index before(const Tile<A>& tile, Index i) const { return std::clamp<Index>(first + i - tile.col, 0, tile.cols); }
  /// What leads from key j to the one behind it, or to the row.
  const A* step(Index i, Index j, Index dim) const { return j + 1 < cols ? steps + (j + 1) * dim : gaps + i * dim; }
};

template <class A>
auto GatedDecayTerm<A>::work(const Tile<A>& tile) const -> Work {
  A* scratch = tile.scratch;
  const Work w{.first = first_token(past_, tile),
               .cols = tile.cols,
               .steps = scratch,
               .gaps = scratch + tile.cols * dim_,
               .left = scratch + (tile.cols + tile.rows) * dim_,
               .sum = scratch + (tile.cols + tile.rows + 1) * dim_};
  if (tile.rows == 0 || w.before(tile, tile.rows - 1) == 0) return w;
  const View<const A, 4>& log = log_decay_.value;
  const auto at = [&](Index t, Index c) { return static_cast<double>(log(tile.batch, tile.head, t, c)); };
  for (Index j = 0; j < tile.cols; ++j) {
    for (Index c = 0; c < dim_; ++c) w.steps[j * dim_ + c] = part<A>(at(tile.col + j, c));
  }
  const Index end = tile.col + tile.cols;
  for (Index c = 0; c < dim_; ++c) {
    double sum = 0;
    Index token = end;
    for (Index i = std::max<Index>(end - w.first, 0); i < tile.rows; ++i) {
      for (; token <= w.first + i; ++token) sum += at(token, c);
      w.gaps[i * dim_ + c] = part<A>(sum);
    }
  }
  return w;
}

template <class A>
void GatedDecayTerm<A>::add_scores(const Tile<A>& tile, A* s) const {
  const Work w = work(tile);
  for (Index i = 0; i < tile.rows; ++i) {
    std::fill_n(w.left, dim_, A{1});
    for (Index j = w.before(tile, i); j-- > 0;) {
      pass(dim_, w.step(i, j, dim_), w.left);
      s[i * tile.stride + j] +=
          tile.scale * taken_off(dim_, tile.q + i * tile.q_stride, tile.k + j * tile.k_stride, w.left);
    }
  }
}

template <class A>
void GatedDecayTerm<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  const Work w = work(tile);
  for (Index i = 0; i < tile.rows; ++i) {
    const A* q = tile.q + i * tile.q_stride;
    std::fill_n(w.left, dim_, A{1});
    std::fill_n(w.sum, dim_, A{0});
    for (Index j = w.before(tile, i); j-- > 0;) {
      pass(dim_, w.step(i, j, dim_), w.left);
      const A d = tile.scale * d_s[i * tile.stride + j];
      const A* k = tile.k + j * tile.k_stride;
      if (grads.d_q != nullptr) {
        A* to = grads.d_q + i * grads.d_q_stride;
        for (Index c = 0; c < dim_; ++c) to[c] += d * k[c] * (w.left[c] - 1);
      }
      if (grads.d_k != nullptr) {
        A* to = grads.d_k + j * grads.d_k_stride;
        for (Index c = 0; c < dim_; ++c) to[c] += d * q[c] * (w.left[c] - 1);
      }
      if (grads.params == nullptr) continue;
      // ln(left) is a sum C_i − C_j of gates: what is kept is ∂C.
      A* to = grads.params + (tile.col + j) * dim_;
      for (Index c = 0; c < dim_; ++c) {
        const A one = d * q[c] * k[c] * w.left[c];
        to[c] -= one;
        w.sum[c] += one;
      }
    }
    if (grads.params == nullptr) continue;
    for (Index c = 0; c < dim_; ++c) grads.params[(w.first + i) * dim_ + c] += w.sum[c];
  }
}

template <class A>
void GatedDecayTerm<A>::collect(Index batch, Index head, const A* d_params) const {
  // Of scores, a token's gate is in every C from it on; the first token's is in no difference. Behind these stand the
  // gradients of the state's steps, one for each gate.
  for (Index c = 0; c < dim_; ++c) {
    double sum = 0;
    for (Index t = time_; t-- > 0;) {
      sum += static_cast<double>(d_params[t * dim_ + c]);
      const double of_state = static_cast<double>(d_params[(time_ + t) * dim_ + c]);
      log_decay_.grad(batch, head, t, c) += static_cast<A>((t > 0 ? sum : 0) + of_state);
    }
  }
}

template <class A>
void GatedDecayTerm<A>::log_decay(const StepTile& tile, double* log_decay) const {
  for (Index x = 0; x < tile.rows * dim_; ++x) {
    log_decay[x] += static_cast<double>(log_decay_.value(tile.batch, tile.head, tile.row + x / dim_, x % dim_));
  }
}

template <class A>
void GatedDecayTerm<A>::log_decay_grads(const StepTile& tile, const double* d_log_decay, A* d_params) const {
  for (Index x = 0; x < tile.rows * dim_; ++x) {
    d_params[(time_ + tile.row) * dim_ + x] += static_cast<A>(d_log_decay[x]);
  }
}

template class GatedDecayTerm<float>;
template class GatedDecayTerm<double>;

namespace {

struct GatedDecayPast {
  std::optional<Index> past = 0;
  bool operator==(const GatedDecayPast&) const = default;
};

/// Gates of as many tokens as there are keys, the same for the same token; channels forget at rates from 1/8 to 1/512.
inspect::Specimen gated_decay_example(const ExampleSize& size, NoSpec) {
  inspect::Specimen specimen{.options = size, .causal = true, .by_index = true};
  specimen.score_terms = [size](const Positions& q_positions, const Positions& k_positions, View<const double, 4> q,
                                View<const double, 4> k, View<double, 4> scores, const Executor& on) {
    const Index time = k.shape[2], dim = k.shape[3];
    std::vector<double> gates;
    for (Index h = 0; h < size.heads; ++h) {
      inspect::Normal normal_number(size.seed + 1000 * static_cast<std::uint64_t>(h));
      for (Index t = 0; t < time; ++t) {
        const double drawn = std::exp(normal_number() / 2);
        for (Index c = 0; c < dim; ++c) {
          gates.push_back(-drawn * std::exp2(-3 - 6 * static_cast<double>(c) / static_cast<double>(dim)));
        }
      }
    }
    const View<const double, 4> values = bhtd<const double>(gates.data(), 1, size.heads, time, dim);
    const GatedDecayTerm<double> encoding({values}, time - q.shape[2]);
    ScoreInputs<double> in{q_positions, k_positions, q, k};
    in.scale = 1 / std::sqrt(static_cast<double>(dim));
    add_scores(with(encoding), in, scores, on);
  };
  return specimen;
}

}  // namespace

void describe_gated_decay(Describer& to) {
  to.home("gated_decay", {"Yang et al.", 2023, "arXiv 2312.06635"});
  to.settings("GatedDecayPast", GatedDecayPast{}).member("past", &GatedDecayPast::past, past_text);
  to.encoding_with<NoSpec, GatedDecayPast, 4>(
        "GatedDecayTerm",
        "Gated linear attention's gates: each token says, per head and channel, what is kept of all before it.\n\n"
        "    S <- diag(a_t) S + k_t v_t^T        s_ij <- s_ij + scale sum_c q_ic k_jc (prod_{t = j+1 ... i} a_tc - 1)\n"
        "\n"
        "log_decay [batch, heads, time, dim]: ln a of every key token and channel, at most 0, computed by the model.\n"
        "In linear_attention() the state decays, and a head is one of the keys'; in attention() products decay.\n"
        "Counts tokens, not positions: queries are the last of them, the first one after `past` others. Keys after\n"
        "the query get 0.\n\n"
        "A cache may be longer than what is filled: with past=None a query is the token that its position names.\n\n"
        "Yang, Wang, Shen, Panda, Kim 2023, arXiv 2312.06635.",
        {Parameter("log_decay", {"batch", "heads", "k_len", "dim"}, "The logarithm of every token's gates.")
             .computed()
             .starts(constant(-0.0433))
             .draws(uniform(-0.5, 0))},
        []<class A>(const GatedDecayPast& past, const Param<A, 4>& log_decay) {
          return GatedDecayTerm<A>(log_decay, past.past);
        })
      .form(Form::running_sum)
      .reads_content()
      .by_index()
      .causal()
      .called("gated_decay", "gated linear attention's decay",
              "each channel of the state decays by gates of the tokens")
      .also({"gla", "gated_linear_attention"})
      .example(gated_decay_example);
}

}  // namespace bearing
