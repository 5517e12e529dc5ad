#include <algorithm>
#include <bearing/encodings/forgetting.hpp>
#include <bearing/scores.hpp>
#include <cmath>

#include "describe/describer.hpp"
#include "terms/checks.hpp"
#include "terms/counted_tokens.hpp"

namespace bearing {

using text::concat;

template <class A>
ForgettingBias<A>::ForgettingBias(Param<A, 3> log_forget, std::optional<Index> past)
    : log_forget_(log_forget), past_(past), time_(log_forget.value.shape[2]) {
  check_param("ForgettingBias", "log_forget", log_forget, log_forget.value.shape, "[batch, heads, time]");
  sums_.reserve(static_cast<std::size_t>(log_forget.value.size()));
  for (Index b = 0; b < log_forget.value.shape[0]; ++b) {
    for (Index h = 0; h < log_forget.value.shape[1]; ++h) {
      double sum = 0;
      for (Index t = 0; t < time_; ++t) {
        const auto f = static_cast<double>(log_forget.value(b, h, t));
        if (!std::isfinite(f)) {
          throw RangeError(concat("[ForgettingBias] log_forget: must be finite, got ", f, " for token ", t, " of head ",
                                  h, " of sequence ", b));
        }
        sum += f;
        sums_.push_back(sum);
      }
    }
  }
}

template <class A>
void ForgettingBias<A>::check(const char* function, const Problem& problem) const {
  check_present(function, "Forgetting", std::ssize(sums_) == log_forget_.value.size());
  check_param(function, "log_forget", log_forget_, {problem.batch, problem.heads, problem.k_len},
              "[batch, heads, k_len]");
  check_past(function, past_, problem);
  const double* c = sums_.data();
  for (Index b = 0; b < problem.batch; ++b) {
    for (Index h = 0; h < problem.heads; ++h) {
      double sum = 0;
      for (Index t = 0; t < time_; ++t, ++c) {
        sum += static_cast<double>(log_forget_.value(b, h, t));
        if (sum == *c) continue;
        throw ShapeError(concat("[", function, "] log_forget: must be unchanged since ForgettingBias was made: make a ",
                                "new one for new gates, got another value for token ", t, " of head ", h,
                                " of sequence ", b));
      }
    }
  }
}

template <class A>
const double* ForgettingBias<A>::sums(const Tile<A>& tile) const {
  return sums_.data() + (tile.batch * log_forget_.value.shape[1] + tile.head) * time_;
}

template <class A>
void ForgettingBias<A>::add_scores(const Tile<A>& tile, A* s) const {
  const double* c = sums(tile);
  const Index first = first_token(past_, tile);
  for (Index i = 0; i < tile.rows; ++i) {
    const Index token = first + i, before = std::clamp<Index>(token - tile.col, 0, tile.cols);
    const double c_i = c[token];
    for (Index j = 0; j < before; ++j) s[i * tile.stride + j] += static_cast<A>(c_i - c[tile.col + j]);
  }
}

template <class A>
void ForgettingBias<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (grads.params == nullptr) return;
  // s_ij += c_i − c_j: what is kept is ∂c.
  const Index first = first_token(past_, tile);
  A* col_sum = tile.scratch;
  std::fill_n(col_sum, tile.cols, A{0});
  for (Index i = 0; i < tile.rows; ++i) {
    const Index before = std::clamp<Index>(first + i - tile.col, 0, tile.cols);
    double sum = 0;
    for (Index j = 0; j < before; ++j) {
      sum += static_cast<double>(d_s[i * tile.stride + j]);
      col_sum[j] += d_s[i * tile.stride + j];
    }
    grads.params[first + i] += static_cast<A>(sum);
  }
  for (Index j = 0; j < tile.cols; ++j) grads.params[tile.col + j] -= col_sum[j];
}

template <class A>
void ForgettingBias<A>::collect(Index batch, Index head, const A* d_params) const {
  // ln f_t is in every c from t on. The first token's is in all of them, and in no difference:
  // its gradient is what a state that stands before it leaves, which is kept behind the others.
  double sum = 0;
  for (Index t = time_ - 1; t > 0; --t) {
    sum += static_cast<double>(d_params[t]);
    log_forget_.grad(batch, head, t) += static_cast<A>(sum);
  }
  if (time_ > 0) log_forget_.grad(batch, head, 0) += d_params[time_];
}

template <class A>
void ForgettingBias<A>::log_decay(const StepTile& tile, double* log_decay) const {
  for (Index t = 0; t < tile.rows; ++t) {
    log_decay[t] += static_cast<double>(log_forget_.value(tile.batch, tile.head, tile.row + t));
  }
}

template <class A>
void ForgettingBias<A>::log_decay_grads(const StepTile& tile, const double* d_log_decay, A* d_params) const {
  if (tile.rows > 0) d_params[time_] += static_cast<A>(d_log_decay[0]);
  for (Index t = 1; t < tile.rows; ++t) {
    d_params[t] += static_cast<A>(d_log_decay[t] - (t + 1 < tile.rows ? d_log_decay[t + 1] : 0));
  }
}

template class ForgettingBias<float>;
template class ForgettingBias<double>;

namespace {

struct Past {
  std::optional<Index> past = 0;
  bool operator==(const Past&) const = default;
};

/// Gates of as many tokens as there are keys, the same for the same token; about 0.98.
inspect::Specimen forgetting_example(const ExampleSize& size, NoSpec) {
  inspect::Specimen specimen{.options = size, .causal = true, .by_index = true};
  specimen.score_terms = [size](const Positions&, const Positions&, View<const double, 4> q, View<const double, 4> k,
                                View<double, 4> scores, const Executor& on) {
    const Index time = k.shape[2];
    inspect::Array log_forget(1, size.heads, time);
    for (Index h = 0; h < size.heads; ++h) {
      inspect::Normal normal_number(size.seed + 1000 * static_cast<std::uint64_t>(h));
      for (Index t = 0; t < time; ++t) log_forget(0, h, t) = -std::log1p(std::exp(-4 - normal_number()));
    }
    const View<const double, 3> values = dense<const double>(log_forget.values.data(), 1, size.heads, time);
    const ForgettingBias<double> encoding({values}, time - q.shape[2]);
    add_scores(with(encoding), {}, scores, on);
  };
  return specimen;
}

}  // namespace

void describe_forgetting(Describer& to) {
  to.home("forgetting", {"Lin et al.", 2025, "arXiv 2503.02130"});
  to.settings("Past", Past{}).member("past", &Past::past, past_text);
  to.encoding_with<NoSpec, Past, 3>(
        "ForgettingBias",
        "Forgetting attention, or data-dependent ALiBi: a score falls by the gates of the tokens after its key.\n\n"
        "    s_ij <- s_ij + sum_{t = j+1 ... i} log_forget_t\n\n"
        "log_forget [batch, heads, time]: ln f of every key token, f in (0, 1) computed by the model. Counts tokens, "
        "not\n"
        "positions: queries are the last of them, the first one after `past` others. Keys after the query get 0.\n\n"
        "A cache may be longer than what is filled: with past=None a query is the token that its position names.\n\n"
        "Lin, Nikishin, He, Courville 2025, arXiv 2503.02130.",
        {Parameter("log_forget", {"batch", "heads", "k_len"}, "The logarithm of every token's gate.")
             .computed()
             .starts(constant(-0.0067))
             .draws(uniform(-0.5, 0))},
        []<class A>(const Past& past, const Param<A, 3>& log_forget) {
          return ForgettingBias<A>(log_forget, past.past);
        })
      .form(Form::running_sum)
      .by_index()
      .causal()
      .called("forgetting", "forgetting attention", "a score loses what tokens between forget")
      .also({"forgetting_transformer", "fox", "data_dependent_alibi"})
      .example(forgetting_example);
}

}  // namespace bearing
