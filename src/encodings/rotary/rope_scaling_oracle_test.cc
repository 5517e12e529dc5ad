#include <gtest/gtest.h>
#include <bearing/encodings/rope.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/real.hpp"

// Every formula again, in MPFR at 320 bits, written from the papers and not from the library: the frequencies must
// agree in all the bits that three doubles hold.

namespace bearing {
namespace {

using test::Real;
using test::real;

/// What a scaling is tested with.
struct Head {
  Index r;
  double base;
  Index L = 4096;
};

constexpr double s = 6.5;

Real theta(const Head& head, Index i, const Real& base) { return pow(base, real(-2 * i) / real(head.r)); }
Real theta(const Head& head, Index i) { return theta(head, i, head.base); }
Real ntk_base(const Head& head, const Real& factor) { return head.base * pow(factor, real(head.r) / real(head.r - 2)); }

/// The weight of the unscaled frequency: 1 for pairs before `low`, 0 after `high`.
Real before(const Head& head, Index i, double fast, double slow, bool truncate) {
  const auto index = [&](double turns) {
    return real(head.r) * log(real(head.L) / (Real(2) * Real::pi() * turns)) / (Real(2) * log(Real(head.base)));
  };
  Real low = index(fast), high = index(slow);
  if (truncate) low = std::floor(low.rounded()), high = std::ceil(high.rounded());
  if (low < 0) low = 0;
  if (real(head.r - 1) < high) high = real(head.r - 1);
  const Real passed = (real(i) - low) / (high - low);
  return passed < 0 ? Real(1) : Real(1) < passed ? Real(0) : Real(1) - passed;
}

Real yarn(const Head& head, Index i, bool truncate) {
  const Real keep = before(head, i, 32, 1, truncate);
  return theta(head, i) * keep + theta(head, i) / s * (Real(1) - keep);
}

Real by_parts(const Head& head, Index i) {
  const Real ntk = theta(head, i, ntk_base(head, s)), of_ntk = before(head, i, 1.25, 0.75, true);
  const Real keep = before(head, i, 16, 2, true);
  return theta(head, i) * keep + (ntk * of_ntk + theta(head, i) / s * (Real(1) - of_ntk)) * (Real(1) - keep);
}

Real llama3(const Head& head, Index i) {
  const Real plain = theta(head, i), turns = real(head.L) * plain / (Real(2) * Real::pi());  // L/λ
  if (Real(4) < turns) return plain;
  if (turns < 1) return plain / s;
  const Real t = (turns - 1) / 3;
  return (Real(1) - t) * plain / s + t * plain;
}

double divisor(Index pair) { return 1 + 0.37 * static_cast<double>(pair); }

std::vector<double> divisors(const Head& head) {
  std::vector<double> all;
  for (Index i = 0; i < head.r / 2; ++i) all.push_back(divisor(i));
  return all;
}

struct Formula {
  std::function<RopeScaling(const Head&)> scaling;
  std::function<Real(const Head&, Index)> truth;
  Index seq_len = 0;
};

std::vector<Formula> formulas() {
  const auto always = [](RopeScaling scaling) { return [scaling](const Head&) { return scaling; }; };
  const auto longrope = [](const Head& h) {
    return LongRopeScaling{.short_factor = std::vector<double>(divisors(h).size(), 1),
                           .long_factor = divisors(h),
                           .trained_length = 4096,
                           .factor = s};
  };
  return {
      {always(NoScaling{}), [](const Head& h, Index i) { return theta(h, i); }},
      {always(LinearScaling{s}), [](const Head& h, Index i) { return theta(h, i) / s; }},
      {always(NtkScaling{s}), [](const Head& h, Index i) { return theta(h, i, ntk_base(h, s)); }},
      {always(AlphaScaling{s}), [](const Head& h, Index i) { return theta(h, i, ntk_base(h, s)); }},
      {[](const Head& h) {
         return DynamicNtkScaling{s, h.L};
       },
       [](const Head& h, Index i) { return theta(h, i, ntk_base(h, Real(s) * real(9001) / real(h.L) - (s - 1))); },
       9001},
      {[](const Head& h) { return NtkByPartsScaling{.factor = s, .trained_length = h.L}; }, by_parts},
      {[](const Head& h) { return YarnScaling{.factor = s, .trained_length = h.L}; },
       [](const Head& h, Index i) { return yarn(h, i, true); }},
      {[](const Head& h) { return YarnScaling{.factor = s, .trained_length = h.L, .truncate = false}; },
       [](const Head& h, Index i) { return yarn(h, i, false); }},
      {[](const Head& h) { return DeepseekYarnScaling{.factor = s, .trained_length = h.L}; },
       [](const Head& h, Index i) { return yarn(h, i, true); }},
      {longrope, [](const Head& h, Index i) { return theta(h, i) / divisor(i); }, 4097},
      {longrope, [](const Head& h, Index i) { return theta(h, i); }, 4096},
      {[](const Head& h) { return Llama3Scaling{.factor = s, .trained_length = h.L}; }, llama3},
      {always(ProportionalScaling{.fraction = 0.5, .factor = s}),
       [](const Head& h, Index i) { return i < h.r / 4 ? theta(h, i) / s : Real(0); }},
      {[](const Head& h) { return FrequencyDivisors{divisors(h)}; },
       [](const Head& h, Index i) { return theta(h, i) / divisor(i); }},
  };
}

double relative_error(const Real& got, const Real& truth) {
  if (truth.rounded() == 0) return got.rounded() == 0 ? 0 : 1;
  return std::fabs(((got - truth) / truth).rounded());
}

// Three roundings to nearest leave at most 2^-53·3 = 2^-159 of θ; the 192 bits lose some 2^-180 before that.
constexpr double three_doubles_error = 0x1.01p-159, two_doubles_error = 0x1.01p-106;

TEST(RopeScalingOracle, EveryFormulaHasTheBitsThatThreeDoublesHold) {
  for (const Head& head : {Head{128, 10'000}, Head{64, 150'000}, Head{96, 500'000}, Head{24, 1e6}, Head{6, 100},
                           Head{16, 4, 200}}) {  // the last: both ends of YaRN's ramp are clamped
    for (const Formula& formula : formulas()) {
      const Rope rope{
          .head_dim = head.r, .base = head.base, .pairing = Pairing::half, .scaling = formula.scaling(head)};
      SCOPED_TRACE(scaling_name(rope.scaling) + (", r = " + std::to_string(head.r)));
      const RopeFrequencies f = resolve(rope, formula.seq_len);
      const std::size_t pairs = f.inv_freq.size();
      for (std::size_t i = 0; i < pairs; ++i) {
        const Real truth = formula.truth(head, static_cast<Index>(i));
        EXPECT_EQ(f.inv_freq[i], truth.rounded()) << "pair " << i;
        EXPECT_LE(relative_error(Real(f.inv_freq[i]) + f.inv_freq_rest[i], truth), two_doubles_error) << "pair " << i;
        const double hi = f.quarter_turns[i], mid = f.quarter_turns[pairs + i], lo = f.quarter_turns[2 * pairs + i];
        const Real turns = truth * 2 / Real::pi();
        EXPECT_LE(relative_error(Real(hi) + mid + lo, turns), three_doubles_error) << "pair " << i;
        EXPECT_EQ(hi + mid, hi) << "the doubles do not overlap";
        EXPECT_EQ(mid + lo, mid);
      }
    }
  }
}

TEST(RopeScalingOracle, SmallestAndLargestFrequenciesKeepTheirBits) {
  for (const Head& head : {Head{4, 1e300}, Head{8, 1e-5}, Head{4, 0x1p-26}}) {
    const RopeFrequencies f = resolve(Rope{.head_dim = head.r, .base = head.base, .pairing = Pairing::half});
    for (std::size_t i = 0; i < f.inv_freq.size(); ++i) {
      const Real turns = theta(head, static_cast<Index>(i)) * 2 / Real::pi();
      const std::size_t pairs = f.inv_freq.size();
      const Real got = Real(f.quarter_turns[i]) + f.quarter_turns[pairs + i] + f.quarter_turns[2 * pairs + i];
      EXPECT_LE(relative_error(got, turns), three_doubles_error);
    }
  }
}

TEST(RopeScalingOracle, Float32QuarterTurnsAreThoseOfTheFloat) {
  const RopeFrequencies f =
      resolve(Rope{.head_dim = 64, .base = 150'000, .pairing = Pairing::half}, 0, Angles::as_float32);
  for (std::size_t i = 0; i < 32; ++i) {
    const Real got = Real(f.quarter_turns[i]) + f.quarter_turns[32 + i] + f.quarter_turns[64 + i];
    EXPECT_LE(relative_error(got, Real(f.inv_freq[i]) * 2 / Real::pi()), three_doubles_error);
  }
}

}  // namespace
}  // namespace bearing
