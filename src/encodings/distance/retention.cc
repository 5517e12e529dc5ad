#include <bearing/encodings/retention.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "describe/describer.hpp"
#include "terms/checks.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

constexpr Index most_heads = Index{1} << 20;  // more than any model has, and worked out in no noticeable time

void check_heads(const char* maker, Index heads) {
  if (heads >= 1 && heads <= most_heads) return;
  throw RangeError(concat("[Retention::", maker, "] heads: must be from 1 to 2^20, got ", heads));
}

void check_rate(const char* function, double rate) {
  if (rate >= 0 && std::isfinite(rate)) return;
  throw RangeError(concat("[", function, "] rates: must be finite and at least 0, got ", rate));
}

}  // namespace

Retention Retention::published(Index heads) {
  check_heads("published", heads);
  Retention made;
  for (Index h = 0; h < heads; ++h) made.rates.push_back(-std::log1p(-std::exp2(-5 - static_cast<double>(h))));
  return made;
}

Retention Retention::lightning(Index heads, Index layer, Index layers) {
  check_heads("lightning", heads);
  if (layers < 1 || layer < 0 || layer >= layers) {
    throw RangeError(concat("[Retention::lightning] layer: must be from 0 to layers - 1, got ", layer, " of ", layers));
  }
  const double times = 1 - static_cast<double>(layer) / (static_cast<double>(layers - 1) + 1e-5) + 1e-5;
  Retention made;
  for (Index h = 1; h <= heads; ++h) {
    made.rates.push_back(std::exp2(-8 * static_cast<double>(h) / static_cast<double>(heads)) * times);
  }
  return made;
}

template <class A>
RetentionBias<A>::RetentionBias(const Retention& retention) : given_(retention.rates) {
  for (const double rate : given_) check_rate("RetentionBias", rate);
}

template <class A>
void RetentionBias<A>::check(const char* function, const Problem& problem) const {
  if (heads() != problem.heads) {
    throw ShapeError(
        concat("[", function, "] Retention.rates: must be one for each of ", problem.heads, " heads, got ", heads()));
  }
  if (!learns()) return;
  check_param(function, "Retention.rates", learned_, {problem.heads}, "[heads]");
  for (Index h = 0; h < heads(); ++h) check_rate(function, rate(h));
}

template <class A>
void RetentionBias<A>::bias(Index head, Index n, const double* distance, A* b) const {
  const double per_position = rate(head);
  for (Index i = 0; i < n; ++i) b[i] = static_cast<A>(per_position * std::fmin(distance[i], 0));
}

template <class A>
void RetentionBias<A>::bias_grads(Index, Index n, const double* distance, const A* d_b, A* d_params) const {
  double d_rate = 0;
  for (Index i = 0; i < n; ++i) d_rate += static_cast<double>(d_b[i]) * std::fmin(distance[i], 0);
  d_params[0] += static_cast<A>(d_rate);
}

template <class A>
void RetentionBias<A>::log_decay(const StepTile& tile, double* log_decay) const {
  const double per_position = rate(tile.head);
  for (Index t = 0; t < tile.rows; ++t) log_decay[t] -= per_position * (tile.to[t] - tile.from[t]);
}

template <class A>
void RetentionBias<A>::log_decay_grads(const StepTile& tile, const double* d_log_decay, A* d_params) const {
  double d_rate = 0;
  for (Index t = 0; t < tile.rows; ++t) d_rate -= d_log_decay[t] * (tile.to[t] - tile.from[t]);
  d_params[0] += static_cast<A>(d_rate);
}

template class RetentionBias<float>;
template class RetentionBias<double>;

namespace {

struct MakeRetention {
  template <class A>
  RetentionBias<A> operator()(const std::optional<Retention>& retention, const Param<A, 1>& rates) const {
    return retention ? RetentionBias<A>(*retention) : RetentionBias<A>(rates);
  }
};

}  // namespace

void describe_retention(Describer& to) {
  to.home("retention", {"Sun et al.", 2023, "arXiv 2307.08621"});
  to.record("Retention", Retention{},
            "Retention: what a query finds of a key falls by the same part from position to position.\n\n"
            "    weight_ij <- weight_ij e^(-rate_h (m - n))        of keys up to the query\n\n"
            "Sun et al. 2023, arXiv 2307.08621 (RetNet); Qin et al. 2024, arXiv 2401.04658 (lightning attention).")
      .member("rates", &Retention::rates,
              "One rate per head, at least 0: e^-rate is kept from one position to the next.")
      .maker("published", &Retention::published, {"heads"},
             "RetNet's rates for a number of heads: e^-rate = 1 - 2^(-5 - h), h = 0, 1, ...")
      .maker("lightning", &Retention::lightning, {"heads", "layer", "layers"},
             "Lightning attention's rates, as MiniMax-01 has them: 2^(-8 (h + 1) / heads), times\n"
             "1 - layer / (layers - 1 + 1e-5) + 1e-5. Layers are counted from 0.");
  const Rule published{"at RetNet's rates", [](const Filling& all) {
                         const std::vector<double> rates = Retention::published(all.extents[0]).rates;
                         std::copy(rates.begin(), rates.end(), all.numbers.begin());
                       }};
  to.encoding<std::optional<Retention>, 1>(
        "RetentionBias",
        "Retention, with a spec's rates or learned ones [heads]: in linear_attention() the state decays, and in\n"
        "attention() a score falls by what that takes from its weight.\n\n"
        "    S <- e^(-rate_h (n_t - n_(t-1))) S + k_t v_t^T        s_ij <- s_ij + rate_h min(n - m, 0)\n\n"
        "RetentionBias(Retention.published(8)), or RetentionBias(rates=array). Positions may be real numbers. Learned\n"
        "rates must not fall below 0: learn their logarithms.\n\n"
        "Sun et al. 2023, arXiv 2307.08621.",
        {Parameter("rates", {"heads"}, "What a weight's logarithm loses per position, for each head.")
             .starts(published)
             .draws(positive(0.0625))
             .only_if([](const Record& spec) { return !spec; })},
        MakeRetention{})
      .form(Form::distance)
      .causal()
      .tables([](const std::optional<Retention>& one) { return one ? std::ssize(one->rates) : Index{0}; })
      .called("retention", "retention", "in linear attention the state decays at the head's rate",
              [](const ExampleSize& size) { return Retention::published(size.heads); })
      .also({"retnet"})
      .called("lightning", "lightning attention's decay",
              "in linear attention the state decays, slower in deeper layers",
              [](const ExampleSize& size) { return Retention::lightning(size.heads, 0, 32); })
      .published({"Qin et al.", 2024, "arXiv 2401.04658"});
}

}  // namespace bearing
