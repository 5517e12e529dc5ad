#pragma once

#include <algorithm>
#include <bearing/encodings/rope.hpp>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "numeric/dual.hpp"
#include "numeric/wide.hpp"

// The formulas of rotary frequencies, written once for three kinds of number N:
//
//     Wide    the exact frequencies
//     float   Angles::as_float32: every product and sum of a pair rounded to float32, in Hugging Face's order
//     Dual    the derivative with respect to the base
//
// docs/encodings/rope_scaling.md writes them out. A scaling is a function rule<N>(scaling, base, r, seq_len) that
// returns a function of (i, pair): the frequency of pair i of a run of r/2 frequencies, which is the head's `pair`.

namespace bearing::detail {

/// What the formulas compute once per head. Hugging Face does it in Python's floats, that is double, even where the
/// pairs are float32.
template <class N>
using Scalar = std::conditional_t<std::is_same_v<N, float>, double, N>;

template <class N>
N number(double x) {
  if constexpr (std::is_same_v<N, float>) {  // past the largest float is infinity, not undefined behaviour
    if (std::fabs(x) > std::numeric_limits<float>::max()) return std::numeric_limits<float>::infinity();
    return static_cast<float>(x);
  } else {
    return N(x);
  }
}
template <class N>
N number(Index n) {
  return number<N>(static_cast<double>(n));  // lengths and indices are below 2^53
}
template <class N>
N narrow(const Scalar<N>& x) {
  if constexpr (std::is_same_v<N, float>)
    return number<float>(x);
  else
    return x;
}

/// e^x, where x is taken as a float for float.
template <class N>
N narrow_exp(double x) {
  if constexpr (std::is_same_v<N, float>)
    return exp(Wide(number<float>(x))).to_float();
  else
    return exp(N(x));
}

template <class S>
S pi() {
  if constexpr (std::is_same_v<S, Wide>)
    return wide_pi();
  else
    return S(3.14159265358979323846);
}

/// The base b, kept as its logarithm: it may grow past every double.
template <class N>
class Base {
 public:
  /// slope: how it changes with what is derived by.
  explicit Base(double base, [[maybe_unused]] double slope = 1) {
    if constexpr (std::is_same_v<N, Dual>)
      ln_ = log(Dual(base, slope));
    else
      ln_ = log(N(base));
  }

  N ln() const { return ln_; }
  /// b^(n/d)
  N raised(Index n, Index d) const { return exp(ln_ * number<N>(n) / number<N>(d)); }
  /// b · x^(n/d)
  Base times(const N& x, Index n, Index d) const {
    Base grown = *this;
    grown.ln_ = ln_ + log(x) * number<N>(n) / number<N>(d);
    return grown;
  }

 private:
  N ln_;
};

/// In float32 the base is a double until it is raised, then float32; the power is rounded to nearest.
template <>
class Base<float> {
 public:
  explicit Base(double base, double = 1) : base_(base), ln_rounded_(log(Wide(number<float>(base)))) {}

  double ln() const { return std::log(base_); }
  float raised(Index n, Index d) const {
    const float exponent = number<float>(n) / number<float>(d);
    return exp(ln_rounded_ * exponent).to_float();
  }
  Base times(double x, Index n, Index d) const {
    return Base(base_ * std::pow(x, static_cast<double>(n) / static_cast<double>(d)));
  }

 private:
  double base_;
  Wide ln_rounded_;
};

template <class N>
struct PairFrequency {
  N theta;
  PairChange change = PairChange::kept;
};

/// How a pair changed whose frequency was divided by `factor`.
inline PairChange change_by(double factor) { return factor == 1 ? PairChange::kept : PairChange::scaled; }

/// A weight that is 1 below `low` and 0 above `high`, linear between, over the index of a pair.
template <class N>
struct Ramp {
  N low, width;

  N kept(Index i) const {
    N passed = (number<N>(i) - low) / width;
    if (passed < N(0)) passed = N(0);
    if (passed > N(1)) passed = N(1);
    return N(1) - passed;
  }
};

/// The index, as a real number, of the pair that makes `turns` turns in L tokens: r·ln(L / (2π·turns)) / (2 ln b).
template <class N>
Scalar<N> index_of_turns(const Base<N>& base, Index r, Index trained_length, double turns) {
  using std::log;
  using S = Scalar<N>;
  return number<S>(r) * log(number<S>(trained_length) / (S(turns) * S(2) * pi<S>())) / (S(2) * base.ln());
}

/// YaRN's ramp, from the pairs that make `fast` turns to those that make `slow`.
template <class N>
Ramp<N> ramp_of_turns(const Base<N>& base, Index r, Index trained_length, double fast, double slow, bool truncate) {
  using std::ceil, std::floor;
  using S = Scalar<N>;
  S low = index_of_turns(base, r, trained_length, fast);
  S high = index_of_turns(base, r, trained_length, slow);
  if (truncate) low = floor(low), high = ceil(high);
  if (low < S(0)) low = S(0);
  if (high > number<S>(r - 1)) high = number<S>(r - 1);
  if (low == high) high = high + S(0.001);  // a step would divide by 0
  return {narrow<N>(low), narrow<N>(high - low)};
}

template <class N>
auto rule(const NoScaling&, const Base<N>& base, Index r, Index) {
  return [=](Index i, Index) { return PairFrequency<N>{N(1) / base.raised(2 * i, r)}; };
}

template <class N>
auto rule(const LinearScaling& scaling, const Base<N>& base, Index r, Index) {
  return [=, factor = scaling.factor](Index i, Index) {
    return PairFrequency<N>{N(1) / base.raised(2 * i, r) / number<N>(factor), change_by(factor)};
  };
}

/// base · s^(r/(r−2)): pair 0 keeps its frequency and the last is divided by s.
template <class N>
auto ntk_rule(const Scalar<N>& s, const Base<N>& base, Index r) {
  const bool changes = !(s == Scalar<N>(1));
  return [=, grown = base.times(s, r, r - 2)](Index i, Index) {
    PairFrequency<N> pair{N(1) / grown.raised(2 * i, r)};
    if (changes && i > 0) pair.change = 2 * i == r - 2 ? PairChange::scaled : PairChange::blended;
    return pair;
  };
}

template <class N>
auto rule(const NtkScaling& scaling, const Base<N>& base, Index r, Index) {
  return ntk_rule<N>(Scalar<N>(scaling.factor), base, r);
}

template <class N>
auto rule(const AlphaScaling& scaling, const Base<N>& base, Index r, Index) {
  return ntk_rule<N>(Scalar<N>(scaling.alpha), base, r);
}

template <class N>
auto rule(const DynamicNtkScaling& scaling, const Base<N>& base, Index r, Index seq_len) {
  using S = Scalar<N>;
  const S length = number<S>(std::max(seq_len, scaling.trained_length)), factor(scaling.factor);
  return ntk_rule<N>(factor * length / number<S>(scaling.trained_length) - (factor - S(1)), base, r);
}

template <class N>
auto rule(const NtkByPartsScaling& scaling, const Base<N>& base, Index r, Index) {
  const double s = scaling.factor;
  const Index length = scaling.trained_length;
  const Ramp<N> beta = ramp_of_turns(base, r, length, scaling.beta_fast, scaling.beta_slow, true);
  const Ramp<N> gamma = ramp_of_turns(base, r, length, scaling.gamma_fast, scaling.gamma_slow, true);
  return [=, ntk_base = base.times(Scalar<N>(s), r, r - 2)](Index i, Index) {
    const N power = base.raised(2 * i, r);
    const N unscaled = N(1) / power, linear = N(1) / (number<N>(s) * power), ntk = N(1) / ntk_base.raised(2 * i, r);
    const N of_ntk = beta.kept(i), of_unscaled = gamma.kept(i);
    const N stretched = linear * (N(1) - of_ntk) + ntk * of_ntk;
    PairFrequency<N> pair{stretched * (N(1) - of_unscaled) + unscaled * of_unscaled, PairChange::blended};
    if (s == 1 || of_unscaled == N(1))
      pair.change = PairChange::kept;
    else if (of_unscaled == N(0) && of_ntk == N(0))
      pair.change = PairChange::scaled;
    return pair;
  };
}

template <class N>
auto yarn_rule(double s, const Ramp<N>& ramp, const Base<N>& base, Index r) {
  return [=](Index i, Index) {
    const N power = base.raised(2 * i, r);
    const N unscaled = N(1) / power, linear = N(1) / (number<N>(s) * power), kept = ramp.kept(i);
    PairFrequency<N> pair{linear * (N(1) - kept) + unscaled * kept, PairChange::blended};
    if (s == 1 || kept == N(1))
      pair.change = PairChange::kept;
    else if (kept == N(0))
      pair.change = PairChange::scaled;
    return pair;
  };
}

template <class N>
auto rule(const YarnScaling& y, const Base<N>& base, Index r, Index) {
  return yarn_rule(y.factor, ramp_of_turns(base, r, y.trained_length, y.beta_fast, y.beta_slow, y.truncate), base, r);
}

template <class N>
auto rule(const DeepseekYarnScaling& y, const Base<N>& base, Index r, Index) {
  return yarn_rule(y.factor, ramp_of_turns(base, r, y.trained_length, y.beta_fast, y.beta_slow, true), base, r);
}

template <class N>
auto rule(const LongRopeScaling& scaling, const Base<N>& base, Index r, Index seq_len) {
  const std::vector<double>* factors = seq_len > scaling.trained_length ? &scaling.long_factor : &scaling.short_factor;
  return [=](Index i, Index pair) {
    const double factor = (*factors)[static_cast<std::size_t>(pair)];
    return PairFrequency<N>{N(1) / (number<N>(factor) * base.raised(2 * i, r)), change_by(factor)};
  };
}

template <class N>
auto rule(const Llama3Scaling& scaling, const Base<N>& base, Index r, Index) {
  using S = Scalar<N>;
  const S length = number<S>(scaling.trained_length), slow(scaling.low_freq_factor), fast(scaling.high_freq_factor);
  const N longest = narrow<N>(length / slow), shortest = narrow<N>(length / fast), span = narrow<N>(fast - slow);
  const N full_turn = narrow<N>(S(2) * pi<S>()), tokens = narrow<N>(length), low = narrow<N>(slow);
  return [=, factor = scaling.factor](Index i, Index) -> PairFrequency<N> {
    const N theta = N(1) / base.raised(2 * i, r), wavelength = N(1) / theta * full_turn, s = number<N>(factor);
    if (wavelength > longest) return {theta / s, change_by(factor)};
    // With equal ends nothing lies between them, and t would be 0/0.
    if (wavelength < shortest || span == N(0)) return {theta, PairChange::kept};
    const N t = (N(1) / wavelength * tokens - low) / span;
    return {(N(1) - t) * theta / s + t * theta, factor == 1 ? PairChange::kept : PairChange::blended};
  };
}

template <class N>
auto rule(const ProportionalScaling& scaling, const Base<N>& base, Index r, Index) {
  const double factor = scaling.factor;
  const Index turning = static_cast<Index>(std::floor(scaling.fraction * static_cast<double>(r) / 2));
  return [=](Index i, Index) -> PairFrequency<N> {
    if (i >= turning) return {N(0), PairChange::scaled};  // divided by infinity
    return {N(1) / base.raised(2 * i, r) / number<N>(factor), change_by(factor)};
  };
}

template <class N>
auto rule(const ExplicitFrequencies& scaling, const Base<N>&, Index, Index) {
  const std::vector<double>* inv_freq = &scaling.inv_freq;
  return [=](Index, Index pair) { return PairFrequency<N>{number<N>((*inv_freq)[static_cast<std::size_t>(pair)])}; };
}

template <class N>
auto rule(const FrequencyDivisors& scaling, const Base<N>& base, Index r, Index) {
  const std::vector<double>* divisors = &scaling.divisors;
  return [=](Index i, Index pair) {
    const double divisor = (*divisors)[static_cast<std::size_t>(pair)];
    return PairFrequency<N>{N(1) / base.raised(2 * i, r) / number<N>(divisor), change_by(divisor)};
  };
}

/// The frequency of pair i of a run, which is the head's `pair`.
template <class N>
using PairRule = std::function<PairFrequency<N>(Index i, Index pair)>;

/// The base of an axis' run of r/2 frequencies.
template <class N>
Base<N> base_of_axis(const Rope& rope, Index axis, Index r) {
  const auto a = static_cast<std::size_t>(axis);
  const RopeAxes& axes = rope.axes;
  const bool own = !axes.bases.empty();
  Base<N> base(std::holds_alternative<ExplicitFrequencies>(rope.scaling) ? 1
               : own                                                     ? axes.bases[a]
                                                                         : rope.base,
               own ? 0 : 1);
  if (axes.ntk_factors.empty() || axes.ntk_factors[a] == 1) return base;
  return base.times(Scalar<N>(axes.ntk_factors[a]), r, r - 2);
}

/// Multiplies a frequency by e^α. α: float32 where the frequency is, as in Hugging Face's code.
template <class N>
void learn(PairFrequency<N>& frequency, double alpha) {
  if (alpha == 0) return;
  frequency.theta = frequency.theta * narrow_exp<N>(alpha);
  frequency.change = PairChange::blended;
}

/// Calls use(pair, frequency) for every pair of the head. The rope has been checked.
template <class N, class Use>
void for_each_pair(const Rope& rope, const PairAxes& axes, Index seq_len, const Use& use) {
  const bool own = !rope.axes.bases.empty() || !rope.axes.ntk_factors.empty();
  // One run of frequencies for the head, or one for each axis that starts afresh or has its own base: at most four.
  struct Run {
    Index axis, r;
    PairRule<N> rule;
  };
  std::vector<Run> runs;
  for (std::size_t pair = 0; pair < axes.axis.size(); ++pair) {
    const Index axis = own ? axes.axis[pair] : 0, r = axes.denominator[pair];
    PairFrequency<N> frequency{N(0)};
    if (r != 0) {
      auto run =
          std::find_if(runs.begin(), runs.end(), [&](const Run& known) { return known.axis == axis && known.r == r; });
      if (run == runs.end()) {
        const Base<N> base = base_of_axis<N>(rope, axis, r);
        const auto made = [&](const auto& scaling) { return PairRule<N>(rule<N>(scaling, base, r, seq_len)); };
        runs.push_back({axis, r, std::visit(made, rope.scaling)});
        run = std::prev(runs.end());
      }
      frequency = run->rule(axes.numerator[pair], static_cast<Index>(pair));
    }
    if (!rope.log_factors.empty()) learn(frequency, rope.log_factors[pair]);
    use(pair, frequency);
  }
}

/// What multiplies cos and sin, and what attention is to multiply its softmax scale with.
struct AttentionFactors {
  double attention_factor = 1, softmax_scale_factor = 1;
};

AttentionFactors attention_factors(const RopeScaling& scaling, Index seq_len);

/// A Rope whose every number was found to be possible, with what is derived from its geometry.
struct CheckedRope {
  Index rotary_dim = 0, begin = 0;
  PairAxes axes;
};

/// Throws ShapeError or RangeError; the texts begin with [resolve]. check_geometry() looks at the head alone.
CheckedRope check_geometry(const Rope& rope);
CheckedRope check_rope(const Rope& rope, Index seq_len);
void check_scaling(const RopeScaling& scaling, const PairAxes& axes, Index head_dim);
void check_positive(const char* argument, double value);

}  // namespace bearing::detail
