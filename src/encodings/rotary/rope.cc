#include <bearing/encodings/rope.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <limits>

#include "encodings/limits.hpp"
#include "encodings/rotary/resolve_errors.hpp"
#include "encodings/rotary/rope_formulas.hpp"
#include "encodings/rotary/rotary_window.hpp"
#include "tensor_checks.hpp"
#include "text.hpp"

namespace bearing {
namespace detail {
namespace {

// |θ| ≤ 2^13 keeps every angle below 2^44 quarter turns at |p| ≤ 2^31, whose rounding to a double moves it by 2^-10 of
// one, little enough to stay where the polynomials are exact; above 2^-800 three doubles hold θ's 150 bits.
constexpr double largest_frequency = 0x1p13, smallest_frequency = 0x1p-800;
// Learned factors stay near 1. Past e^512 = 2^739 a frequency that was in range before has left it.
constexpr double largest_log_factor = 512;

}  // namespace

namespace {

void check_log_factors(const std::vector<double>& alpha, Index pairs) {
  if (!alpha.empty() && std::ssize(alpha) != pairs) {
    refuse<ShapeError>("log_factors: must have one entry per pair, ", pairs, ", got ", Index{std::ssize(alpha)});
  }
  for (std::size_t i = 0; i < alpha.size(); ++i) {
    if (std::fabs(alpha[i]) <= largest_log_factor) continue;
    refuse<RangeError>("log_factors[", static_cast<Index>(i), "]: must be from -512 to 512, got ", alpha[i]);
  }
}

}  // namespace

CheckedRope check_geometry(const Rope& rope) {
  const RotaryWindow window = rotary_window("resolve", rope.head_dim, rope.rotary_dim, rope.pairing, rope.part);
  CheckedRope checked;
  checked.rotary_dim = window.dim;
  checked.begin = window.begin;
  check_positive("attention_factor", rope.attention_factor);
  checked.axes = pair_axes(rope.axes, checked.rotary_dim);
  return checked;
}

CheckedRope check_rope(const Rope& rope, Index seq_len) {
  CheckedRope checked = check_geometry(rope);
  if (seq_len < 0 || seq_len > max_position) {
    refuse<RangeError>("seq_len: must be from 0 to 2^31, got ", seq_len);
  }
  const RopeScaling& scaling = rope.scaling;
  if (!std::holds_alternative<ExplicitFrequencies>(scaling) && rope.axes.bases.empty()) {
    check_positive("base", rope.base);
  }
  check_scaling(scaling, checked.axes, rope.head_dim);
  check_log_factors(rope.log_factors, checked.rotary_dim / 2);
  const bool ramps = std::holds_alternative<YarnScaling>(scaling) ||
                     std::holds_alternative<DeepseekYarnScaling>(scaling) ||
                     std::holds_alternative<NtkByPartsScaling>(scaling);
  const auto check_ramp = [&](const char* argument, double base) {
    if (!ramps || base > 1) return;
    refuse<RangeError>(argument, ": must be greater than 1 for ", scaling_name(scaling),
                       " (its ramp divides by ln base), got ", base);
  };
  if (rope.axes.bases.empty()) check_ramp("base", rope.base);
  for (const double base : rope.axes.bases) check_ramp("axes.bases", base);
  return checked;
}

namespace {

RopeFrequencies without_frequencies(const Rope& rope, const CheckedRope& checked, Angles angles) {
  const std::size_t pairs = checked.axes.axis.size();
  return {.head_dim = rope.head_dim,
          .rotary_dim = checked.rotary_dim,
          .begin = checked.begin,
          .pairing = rope.pairing,
          .angles = angles,
          .axes = checked.axes.axes,
          .inv_freq = std::vector<double>(pairs),
          .inv_freq_rest = std::vector<double>(pairs),
          .axis = checked.axes.axis,
          .change = std::vector<PairChange>(pairs, PairChange::kept),
          .quarter_turns = std::vector<double>(3 * pairs),
          // Neighbours are the same two elements in a block as in the whole.
          .blocks = rope.pairing == Pairing::half ? checked.axes.blocks : std::vector<Index>{}};
}

void put(RopeFrequencies& out, std::size_t pair, const Wide& theta, PairChange change) {
  const ThreeDoubles radians = three_doubles(theta);
  const double size = std::fabs(radians.hi);
  if (!(size <= largest_frequency)) {
    refuse<RangeError>("inv_freq[", static_cast<Index>(pair), "]: must be at most 2^13 radians per token, got ",
                       radians.hi);
  }
  if (theta != 0 && size < smallest_frequency) {
    refuse<RangeError>("inv_freq[", static_cast<Index>(pair), "]: must be 0 or at least 2^-800 radians per token, got ",
                       radians.hi);
  }
  out.inv_freq[pair] = radians.hi;
  out.inv_freq_rest[pair] = radians.mid;
  out.change[pair] = change;
  const ThreeDoubles turns = three_doubles(theta * 2 / wide_pi());
  const std::size_t pairs = out.inv_freq.size();
  out.quarter_turns[pair] = turns.hi;
  out.quarter_turns[pairs + pair] = turns.mid;
  out.quarter_turns[2 * pairs + pair] = turns.lo;
}

/// A given or float32 frequency: checked before it becomes Wide, which is only for numbers.
void put(RopeFrequencies& out, std::size_t pair, double theta, PairChange change) {
  if (!std::isfinite(theta)) {
    refuse<RangeError>("inv_freq[", static_cast<Index>(pair), "]: must be finite, got ", theta);
  }
  put(out, pair, Wide(theta), change);
}

template <class N>
void put_all(RopeFrequencies& out, const Rope& rope, const PairAxes& axes, Index seq_len) {
  for_each_pair<N>(rope, axes, seq_len, [&](std::size_t pair, const PairFrequency<N>& frequency) {
    put(out, pair, frequency.theta, frequency.change);
  });
}

}  // namespace
}  // namespace detail

RopeFrequencies resolve(const Rope& rope, Index seq_len, Angles angles) {
  const detail::CheckedRope checked = detail::check_rope(rope, seq_len);
  RopeFrequencies out = detail::without_frequencies(rope, checked, angles);
  const detail::AttentionFactors factors = detail::attention_factors(rope.scaling, seq_len);
  out.attention_factor = rope.attention_factor * factors.attention_factor;
  out.softmax_scale_factor = factors.softmax_scale_factor;

  if (const auto* given = std::get_if<ExplicitFrequencies>(&rope.scaling)) {
    for (std::size_t pair = 0; pair < given->inv_freq.size(); ++pair) {
      const double theta = given->inv_freq[pair];
      const bool rounded = angles == Angles::as_float32 && std::isfinite(theta);
      detail::put(out, pair, rounded ? detail::number<float>(theta) : theta, PairChange::kept);
    }
    if (rope.log_factors.empty() && rope.axes.still == 0) return out;
  }
  if (angles == Angles::as_float32) {
    const auto check_base = [](const char* argument, double base) {
      if (base <= std::numeric_limits<float>::max()) return;
      detail::refuse<RangeError>(argument, ": must be a finite float32 for Angles::as_float32, got ", base);
    };
    if (rope.axes.bases.empty()) check_base("base", rope.base);
    for (const double base : rope.axes.bases) check_base("axes.bases", base);
    detail::put_all<float>(out, rope, checked.axes, seq_len);
  } else {
    detail::put_all<detail::Wide>(out, rope, checked.axes, seq_len);
  }
  return out;
}

namespace {

RopeFrequencies resolve_given(const Rope& rope, View<const double, 1> inv_freq, double attention_factor) {
  const detail::CheckedRope checked = detail::check_geometry(rope);
  const Index pairs = checked.rotary_dim / 2;
  if (inv_freq.data == nullptr || inv_freq.shape[0] != pairs) {
    detail::refuse<ShapeError>("inv_freq: must have one entry per pair, ", pairs, ", got ",
                               inv_freq.data == nullptr ? Index{0} : inv_freq.shape[0]);
  }
  check_tensor("resolve_explicit", "inv_freq", inv_freq);
  detail::check_positive("attention_factor", attention_factor);
  RopeFrequencies out = detail::without_frequencies(rope, checked, Angles::exact);
  out.attention_factor = rope.attention_factor * attention_factor;
  for (Index pair = 0; pair < pairs; ++pair) {
    detail::put(out, static_cast<std::size_t>(pair), inv_freq(pair), PairChange::kept);
  }
  return out;
}

}  // namespace

RopeFrequencies resolve_explicit(const Rope& rope, View<const double, 1> inv_freq, double attention_factor) {
  return text::in_the_name_of("resolve_explicit", [&] { return resolve_given(rope, inv_freq, attention_factor); });
}

}  // namespace bearing
