#include <gtest/gtest.h>
#include <bearing/encodings/rope_gradients.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <string>
#include <vector>

namespace bearing {
namespace {

std::vector<Rope> ropes() {
  const std::vector<double> eight{1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5};
  const std::vector<RopeScaling> scalings{
      NoScaling{},
      LinearScaling{.factor = 4},
      NtkScaling{.factor = 4},
      DynamicNtkScaling{.factor = 2, .trained_length = 1000},
      AlphaScaling{.alpha = 50},
      NtkByPartsScaling{.factor = 4, .trained_length = 4096},
      YarnScaling{.factor = 8, .trained_length = 4096},
      YarnScaling{.factor = 8, .trained_length = 4096, .truncate = false},
      DeepseekYarnScaling{.factor = 40, .trained_length = 4096},
      LongRopeScaling{.short_factor = eight, .long_factor = eight, .trained_length = 100, .factor = 4},
      Llama3Scaling{},
      ProportionalScaling{.fraction = 0.5, .factor = 2},
      FrequencyDivisors{.divisors = eight},
  };
  std::vector<Rope> all;
  for (const RopeScaling& scaling : scalings) {
    all.push_back({.head_dim = 16, .base = 500'000, .pairing = Pairing::half, .scaling = scaling});
  }
  all.push_back({.head_dim = 16, .base = 100, .pairing = Pairing::half, .axes = RopeAxes::axial({5, 3})});
  all.push_back(
      {.head_dim = 16,
       .base = 100,
       .pairing = Pairing::half,
       .axes = {.pairs = {4, 3}, .frequencies = RopeAxes::Frequencies::restarted, .ntk_factors = {3, 1}, .still = 1},
       .log_factors = {0.1, -0.2, 0, 0.3, -0.01, 0.5, 1, 2}});
  return all;
}

/// (θ(b + h) − θ(b − h)) / 2h, from frequencies of 106 bits: no digits are lost in the difference.
std::vector<double> central_difference(Rope rope, double h, Index seq_len) {
  Rope above = rope, below = rope;
  above.base += h;
  below.base -= h;
  const RopeFrequencies a = resolve(above, seq_len), b = resolve(below, seq_len);
  EXPECT_EQ(a.change, b.change) << "a pair crosses an end of the ramp, where there is no derivative";
  std::vector<double> slope;
  for (std::size_t i = 0; i < a.inv_freq.size(); ++i) {
    slope.push_back(((a.inv_freq[i] - b.inv_freq[i]) + (a.inv_freq_rest[i] - b.inv_freq_rest[i])) / (2 * h));
  }
  return slope;
}

TEST(RopeBaseGradient, IsTheCentralDifferenceOfEveryFrequency) {
  constexpr Index seq_len = 3000;
  for (const Rope& rope : ropes()) {
    const double h = rope.base * 0x1p-20;
    const std::vector<double> near = central_difference(rope, h, seq_len);
    const std::vector<double> far = central_difference(rope, 2 * h, seq_len);
    for (std::size_t i = 0; i < near.size(); ++i) {
      SCOPED_TRACE(scaling_name(rope.scaling) + (", pair " + std::to_string(i)));
      std::vector<double> d_theta(near.size());
      d_theta[i] = 1;
      const double got = base_gradient(rope, dense<const double>(d_theta.data(), 8), seq_len);
      // The far difference errs four times as much as the near one, so the two lie three times its error apart. The
      // gradient's own arithmetic: exp of up to ln b = 13, and a ramp of slope s < 64, in doubles: 13·64·2^-53.
      EXPECT_NEAR(got, near[i], std::fabs(far[i] - near[i]) + 0x1p-43 * std::fabs(near[i]));
    }
  }
}

TEST(RopeBaseGradient, AddsThePairsUp) {
  const Rope rope{.head_dim = 6, .base = 100, .pairing = Pairing::interleaved};
  // θ_i = 100^(−i/3), ∂θ_i/∂b = −i/300 · 100^(−i/3).
  const double strided[] = {2, -1, 3, -1, 5};
  const double expected = 3 * (-1 / 300.0) * std::pow(100, -1 / 3.0) + 5 * (-2 / 300.0) * std::pow(100, -2 / 3.0);
  EXPECT_NEAR(base_gradient(rope, View<const double, 1>{strided, {3}, {2}}), expected, 0x1p-50);
}

TEST(RopeBaseGradient, OfExplicitFrequenciesIsZero) {
  const Rope rope{.head_dim = 4, .pairing = Pairing::half, .scaling = ExplicitFrequencies{{1, 0.1}}};
  const double d_theta[] = {1, 1};
  EXPECT_EQ(base_gradient(rope, dense(d_theta, 2)), 0);
}

TEST(RopeBaseGradient, RefusesAGradientOfAnotherLength) {
  const Rope rope{.head_dim = 4, .pairing = Pairing::half};
  const double d_theta[] = {1, 1, 1};
  try {
    base_gradient(rope, dense(d_theta, 3));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "[base_gradient] d_inv_freq: must have one entry per pair, 2, got 3");
  }
  EXPECT_THROW(base_gradient(rope, {}), ShapeError);
  EXPECT_THROW(base_gradient(rope, dense(d_theta, 2), -1), RangeError);
}

}  // namespace
}  // namespace bearing
