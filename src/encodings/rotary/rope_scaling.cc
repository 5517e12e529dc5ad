#include <array>
#include <bearing/encodings/rope_scaling.hpp>
#include <bearing/error.hpp>
#include <bearing/positions.hpp>
#include <cmath>

#include "encodings/rotary/resolve_errors.hpp"
#include "encodings/rotary/rope_formulas.hpp"
#include "text.hpp"

namespace bearing {

const char* scaling_name(const RopeScaling& scaling) {
  // In the order of the variant.
  constexpr std::array<const char*, std::variant_size_v<RopeScaling>> names{
      "default",       "linear",   "ntk",    "dynamic",      "alpha",    "ntk-by-parts", "yarn",
      "deepseek-yarn", "longrope", "llama3", "proportional", "explicit", "divisors"};
  return names[scaling.index()];
}

Index trained_length(const RopeScaling& scaling) {
  return std::visit(
      [](const auto& s) {
        if constexpr (requires { s.trained_length; })
          return s.trained_length;
        else
          return Index{0};
      },
      scaling);
}

bool depends_on_length(const RopeScaling& scaling) {
  return std::holds_alternative<DynamicNtkScaling>(scaling) || std::holds_alternative<LongRopeScaling>(scaling);
}

namespace detail {
namespace {

/// m(t) = slope·t·ln s + 1, and 1 where nothing is stretched.
Wide magnitude(double s, double t, double slope = 0.1) { return s <= 1 ? Wide(1) : Wide(slope) * t * log(Wide(s)) + 1; }

struct AttentionOf {
  Index seq_len;

  template <class S>
  AttentionFactors operator()(const S&) const {
    return {};
  }
  AttentionFactors operator()(const YarnScaling& y) const {
    if (y.attention_factor) return {*y.attention_factor};
    const auto m = [&](double t) { return magnitude(y.factor, t, y.mscale_slope); };
    const bool both = y.mscale.value_or(0) != 0 && y.mscale_all_dim.value_or(0) != 0;
    return {(both ? m(*y.mscale) / m(*y.mscale_all_dim) : m(1)).to_double()};
  }
  AttentionFactors operator()(const DeepseekYarnScaling& y) const {
    const Wide all = magnitude(y.factor, y.mscale_all_dim);
    const double given = y.attention_factor.value_or((magnitude(y.factor, y.mscale) / all).to_double());
    return {given, (all * all).to_double()};
  }
  AttentionFactors operator()(const LongRopeScaling& l) const {
    if (l.attention_factor) return {*l.attention_factor};
    const auto& mscale = seq_len > l.trained_length ? l.long_mscale : l.short_mscale;
    if (mscale) return {*mscale};
    if (l.factor <= 1) return {};
    const Wide ratio = log(Wide(l.factor)) / log(Wide(l.trained_length));
    return {sqrt(1 + ratio).to_double()};
  }
};

void check_finite(const char* argument, double value) {
  if (!std::isfinite(value)) refuse(argument, ": must be finite, got ", value);
}

void check_length(Index length) {
  if (length < 1 || length > max_position) {
    refuse("trained_length: must be from 1 to 2^31, got ", length);
  }
}

/// A range of turns that the ramp goes through, from fast pairs to slow ones.
void check_turns(const char* fast_name, double fast, const char* slow_name, double slow) {
  check_positive(fast_name, fast);
  check_positive(slow_name, slow);
  if (fast < slow) refuse(fast_name, ": must be at least ", slow_name, " = ", slow, ", got ", fast);
}

void check_one_per_pair(const char* argument, const std::vector<double>& values, Index pairs) {
  if (std::ssize(values) != pairs) {
    refuse<ShapeError>(argument, ": must have one entry per pair, ", pairs, ", got ", Index{std::ssize(values)});
  }
}

void check_divisors(const char* argument, const std::vector<double>& values, Index pairs) {
  check_one_per_pair(argument, values, pairs);
  for (std::size_t i = 0; i < values.size(); ++i) {
    check_positive(text::concat(argument, "[", static_cast<Index>(i), "]").c_str(), values[i]);
  }
}

struct ScalingCheck {
  const PairAxes& axes;
  Index head_dim;
  const char* name;

  Index pairs() const { return std::ssize(axes.axis); }

  /// base · s^(r/(r−2)) needs a run of at least two pairs.
  void check_ntk_runs() const {
    for (Index r : axes.denominator) {
      if (r > 2 || r == 0) continue;
      refuse<ShapeError>("rotary_dim: must be at least 4 for each run of frequencies under ", name,
                         " (r/(r-2) divides by zero), got ", r);
    }
  }

  void operator()(const NoScaling&) const {}
  void operator()(const LinearScaling& s) const { check_positive("factor", s.factor); }
  void operator()(const NtkScaling& s) const {
    check_positive("factor", s.factor);
    check_ntk_runs();
  }
  void operator()(const DynamicNtkScaling& s) const {
    check_positive("factor", s.factor);
    check_length(s.trained_length);
    check_ntk_runs();
  }
  void operator()(const AlphaScaling& s) const {
    check_positive("alpha", s.alpha);
    check_ntk_runs();
  }
  void operator()(const NtkByPartsScaling& s) const {
    check_positive("factor", s.factor);
    check_length(s.trained_length);
    check_turns("beta_fast", s.beta_fast, "beta_slow", s.beta_slow);
    check_turns("gamma_fast", s.gamma_fast, "gamma_slow", s.gamma_slow);
    check_ntk_runs();
  }
  void operator()(const YarnScaling& s) const {
    check_positive("factor", s.factor);
    check_length(s.trained_length);
    check_turns("beta_fast", s.beta_fast, "beta_slow", s.beta_slow);
    if (s.attention_factor) check_positive("attention_factor", *s.attention_factor);
    if (s.mscale) check_finite("mscale", *s.mscale);
    if (s.mscale_all_dim) check_finite("mscale_all_dim", *s.mscale_all_dim);
    check_finite("mscale_slope", s.mscale_slope);
  }
  void operator()(const DeepseekYarnScaling& s) const {
    check_positive("factor", s.factor);
    check_length(s.trained_length);
    check_turns("beta_fast", s.beta_fast, "beta_slow", s.beta_slow);
    check_finite("mscale", s.mscale);
    check_finite("mscale_all_dim", s.mscale_all_dim);
    if (s.attention_factor) check_positive("attention_factor", *s.attention_factor);
  }
  void operator()(const LongRopeScaling& s) const {
    check_length(s.trained_length);
    check_positive("factor", s.factor);
    check_divisors("short_factor", s.short_factor, pairs());
    check_divisors("long_factor", s.long_factor, pairs());
    if (s.attention_factor) check_positive("attention_factor", *s.attention_factor);
    if (s.short_mscale) check_positive("short_mscale", *s.short_mscale);
    if (s.long_mscale) check_positive("long_mscale", *s.long_mscale);
    if (s.factor > 1 && s.trained_length == 1) {
      refuse("trained_length: must be at least 2 for longrope (its attention factor divides by ln L), got ",
             s.trained_length);
    }
  }
  void operator()(const Llama3Scaling& s) const {
    check_positive("factor", s.factor);
    check_length(s.trained_length);
    check_turns("high_freq_factor", s.high_freq_factor, "low_freq_factor", s.low_freq_factor);
  }
  void operator()(const ProportionalScaling& s) const {
    check_positive("factor", s.factor);
    if (!(s.fraction >= 0 && s.fraction <= 1)) refuse("fraction: must be from 0 to 1, got ", s.fraction);
    if (2 * pairs() != head_dim) {
      refuse<ShapeError>("rotary_dim: must be head_dim = ", head_dim,
                         " under proportional (its fraction says how much turns), got ", 2 * pairs());
    }
  }
  void operator()(const ExplicitFrequencies& s) const { check_one_per_pair("inv_freq", s.inv_freq, pairs()); }
  void operator()(const FrequencyDivisors& s) const { check_divisors("divisors", s.divisors, pairs()); }
};

}  // namespace

AttentionFactors attention_factors(const RopeScaling& scaling, Index seq_len) {
  const AttentionFactors factors = std::visit(AttentionOf{seq_len}, scaling);
  // A negative mscale, or one as large as 1e300, can spoil what is made of it.
  check_positive("attention_factor", factors.attention_factor);
  check_positive("softmax_scale_factor", factors.softmax_scale_factor);
  return factors;
}

void check_positive(const char* argument, double value) {
  if (!(std::isfinite(value) && value > 0)) refuse(argument, ": must be finite and above 0, got ", value);
}

void check_scaling(const RopeScaling& scaling, const PairAxes& axes, Index head_dim) {
  std::visit(ScalingCheck{axes, head_dim, scaling_name(scaling)}, scaling);
}

}  // namespace detail
}  // namespace bearing
