#include <bearing/encodings/alibi.hpp>
#include <bearing/error.hpp>
#include <bit>
#include <cmath>

#include "describe/describer.hpp"
#include "terms/checks.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

Alibi Alibi::published(Index heads, double bias_max, double times) {
  constexpr Index most = Index{1} << 20;  // more than any model has, and worked out in no noticeable time
  if (heads < 1 || heads > most) {
    throw RangeError(concat("[Alibi::published] heads: must be from 1 to 2^20, got ", heads));
  }
  if (!std::isfinite(bias_max) || !std::isfinite(times)) {
    throw RangeError(concat("[Alibi::published] bias_max, times: must be finite, got ", bias_max, ", ", times));
  }
  // A power of two p has slopes 2^(−bias_max·h/p). What is missing beyond p comes from 2p's, odd h first to last.
  const auto power = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  Alibi alibi;
  for (Index h = 1; h <= heads; ++h) {
    const double exponent = h <= power ? static_cast<double>(h) / static_cast<double>(power)
                                       : static_cast<double>(2 * (h - power) - 1) / static_cast<double>(2 * power);
    alibi.slopes.push_back(times * std::exp2(-bias_max * exponent));
  }
  return alibi;
}

template <class A>
AlibiSlopes<A>::AlibiSlopes(const char* function, const std::vector<double>& given) {
  for (const double slope : given) {
    if (!std::isfinite(slope)) throw RangeError(concat("[", function, "] slopes: must be finite, got ", slope));
    given_.push_back(static_cast<A>(slope));
  }
}

template <class A>
void AlibiSlopes<A>::check(const char* function, const Problem& problem) const {
  if (heads() != problem.heads) {
    throw ShapeError(
        concat("[", function, "] Alibi.slopes: must be one for each of ", problem.heads, " heads, got ", heads()));
  }
  if (learned_.value.data == nullptr) return;
  check_param(function, "Alibi.slopes", learned_, {problem.heads}, "[heads]");
  check_finite(function, "Alibi.slopes", learned_.value);
}

namespace {

/// What one unit of slope does at a distance; 0 − 0 is 0, where −0 would look odd in a matrix.
double per_slope(AlibiForm form, double distance) {
  return form == AlibiForm::causal ? std::fmin(distance, 0) : 0 - std::fabs(distance);
}

}  // namespace

template <class A>
void AlibiBias<A>::bias(Index head, Index n, const double* distance, A* b) const {
  const A slope = slopes_[head];
  for (Index i = 0; i < n; ++i) b[i] = slope * static_cast<A>(per_slope(form_, distance[i]));
}

template <class A>
void AlibiBias<A>::bias_grads(Index, Index n, const double* distance, const A* d_b, A* d_params) const {
  double d_slope = 0;
  for (Index i = 0; i < n; ++i) d_slope += static_cast<double>(d_b[i]) * per_slope(form_, distance[i]);
  d_params[0] += static_cast<A>(d_slope);
}

template <class A>
void AlibiShiftedBias<A>::add_scores(const Tile<A>& tile, A* s) const {
  const A slope = slopes_[tile.head];
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index j = 0; j < tile.cols; ++j) s[i * tile.stride + j] += slope * static_cast<A>(tile.k_positions[0][j]);
  }
}

template <class A>
void AlibiShiftedBias<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (grads.params == nullptr) return;
  double d_slope = 0;
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index j = 0; j < tile.cols; ++j) {
      d_slope += static_cast<double>(d_s[i * tile.stride + j]) * tile.k_positions[0][j];
    }
  }
  grads.params[0] += static_cast<A>(d_slope);
}

#define BEARING_INSTANTIATE(A)   \
  template class AlibiSlopes<A>; \
  template class AlibiBias<A>;   \
  template class AlibiShiftedBias<A>;
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

template <>
struct describe::Words<AlibiForm> {
  static constexpr const char* all[] = {"symmetric", "causal"};
};

namespace {

struct LearnedAlibi {
  AlibiForm form = AlibiForm::symmetric;
  bool operator==(const LearnedAlibi&) const = default;
};

struct MakeAlibi {
  template <class A>
  AlibiBias<A> operator()(const std::optional<Alibi>& alibi, const LearnedAlibi& learned,
                          const Param<A, 1>& slopes) const {
    if (alibi && learned.form != LearnedAlibi{}.form && learned.form != alibi->form) {
      throw ConfigError("[AlibiBias] form: must be the spec's where one is given: spec.replace(form='causal')");
    }
    return alibi ? AlibiBias<A>(*alibi) : AlibiBias<A>(slopes, learned.form);
  }
};
struct MakeShifted {
  template <class A>
  AlibiShiftedBias<A> operator()(const std::optional<Alibi>& alibi, const Param<A, 1>& slopes) const {
    return alibi ? AlibiShiftedBias<A>(*alibi) : AlibiShiftedBias<A>(slopes);
  }
};

Parameter slopes_parameter() {
  const Rule published{"at the published slopes", [](const Filling& all) {
                         const std::vector<double> slopes = Alibi::published(all.extents[0]).slopes;
                         std::copy(slopes.begin(), slopes.end(), all.numbers.begin());
                       }};
  return Parameter("slopes", {"heads"}, "What a score loses per token, for each head.")
      .starts(published)
      .draws(positive(0.0625))
      .only_if([](const Record& spec) { return !spec; });
}

}  // namespace

void describe_alibi(Describer& to) {
  to.home("alibi", {"Press et al.", 2022, "arXiv 2108.12409"});
  to.record("Alibi", Alibi{},
            "ALiBi, attention with linear biases: a score falls in proportion to the distance, at the head's rate.\n\n"
            "    s_ij <- s_ij - slope_h |n - m|        slope_h = 2^(-8h/H), h = 1 ... H, for H a power of two\n\n"
            "Press, Smith, Lewis 2022, arXiv 2108.12409.")
      .member("slopes", &Alibi::slopes,
              "One slope per head, positive for decay; Alibi.published(heads) has those that models were trained with.")
      .member("form", &Alibi::form,
              "Keys after the query get the same as those before it ('symmetric'), or 0 ('causal').")
      .maker("published", &Alibi::published, {"heads", {"bias_max", 8.0}, {"times", 1.0}},
             "The published slopes for a number of heads, a power of two or not.\n\n"
             "bias_max is the 8 in the exponent (MPT's alibi_bias_max); times multiplies all of them: Falcon adds its\n"
             "bias before the softmax scale, so that its slopes are these times that scale.");
  to.settings("LearnedAlibi", LearnedAlibi{})
      .member("form", &LearnedAlibi::form, "As Alibi.form, for slopes that are learned.");
  const auto heads = [](const std::optional<Alibi>& alibi) {
    return alibi ? static_cast<Index>(alibi->slopes.size()) : Index{0};
  };
  to.encoding_with<std::optional<Alibi>, LearnedAlibi, 1>(
        "AlibiBias",
        "ALiBi as a bias by distance, with a spec's slopes or learned ones [heads].\n\n"
        "    s_ij <- s_ij - slope_h |n - m|        form='causal': slope_h min(n - m, 0)\n\n"
        "AlibiBias(Alibi.published(8)), or AlibiBias(slopes=array, form='causal'). Positions may be real numbers.\n\n"
        "Press, Smith, Lewis 2022, arXiv 2108.12409.",
        {slopes_parameter().elsewhere_called({"alibi_slopes"})}, MakeAlibi{})
      .form(Form::distance)
      .causal([](const std::optional<Alibi>& alibi) { return alibi && alibi->form == AlibiForm::causal; })
      .tables(heads)
      .called("alibi", "ALiBi", "a score loses in proportion to distance",
              [](const ExampleSize& size) { return Alibi::published(size.heads); })
      .called("alibi_learned", "ALiBi with learned slopes", "ALiBi at rates that are learned");
  to.encoding<std::optional<Alibi>, 1>(
        "AlibiShiftedBias",
        "ALiBi's row-shifted form of BLOOM and MPT, with a spec's slopes or learned ones [heads].\n\n"
        "    s_ij <- s_ij + slope_h n\n\n"
        "It differs from the causal form by one number along a row: softmax gives the same, but the logarithms of its\n"
        "sums differ. With left padding, give positions that count real tokens only. In float32 a score is off by up\n"
        "to slope_h n 2^-23: far into a text take AlibiBias with form='causal'.\n\n"
        "Press, Smith, Lewis 2022, arXiv 2108.12409.",
        {slopes_parameter()}, MakeShifted{})
      .form(Form::positions)
      .tables(heads)
      .called("alibi_shifted", "ALiBi, shifted by row", "ALiBi as BLOOM and MPT add it: by the key's place",
              [](const ExampleSize& size) { return Alibi::published(size.heads); });
}

}  // namespace bearing
