#include <gtest/gtest.h>
#include <bearing/encodings/rope_gradients.hpp>

#include "support/rotation.hpp"
#include "support/workers.hpp"

// Every gradient against central differences of the reference, in double: the loss is Σ w·y for given weights w, so
// that d_y = w. A step of 1e-6 leaves a truncation error of (p·1e-6)²/6 of the gradient, below 1e-9 for |p| ≤ 60, and a
// rounding error of some 1e-16/1e-6 per element; atol 1e-8 and rtol 1e-6 hold both with room for neither a lost factor
// nor a wrong sign.

namespace bearing {
namespace {

using test::Guarded;
using test::Layout;
using test::PositionTensor;
using test::Random;
using test::Shape;

constexpr double step = 1e-6;
double tolerance(double gradient) { return 1e-8 + 1e-6 * std::abs(gradient); }

struct Case {
  Rope rope;
  Index batch, heads, time;
  double attention_factor = 1;  ///< 1: what the scaling says
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    all.push_back({{.head_dim = 2, .pairing = pairing}, 1, 1, 1});
    all.push_back({{.head_dim = 16, .base = 100, .pairing = pairing}, 2, 3, 5});
    all.push_back({{.head_dim = 20, .rotary_dim = 6, .pairing = pairing, .part = RotaryPart::last()}, 1, 5, 11, 1.7});
    all.push_back({{.head_dim = 32,
                    .pairing = pairing,
                    .scaling = YarnScaling{.factor = 4, .trained_length = 16},
                    .part = RotaryPart::first()},
                   2,
                   2,
                   7});
    all.push_back({{.head_dim = 12, .pairing = pairing, .scaling = ExplicitFrequencies{{0.5, -0.25, 0, 1.5, 0.01, -2}}},
                   3,
                   1,
                   4,
                   -0.5});
    all.push_back({{.head_dim = 24,
                    .pairing = pairing,
                    .scaling = Llama3Scaling{.trained_length = 64},
                    .axes = RopeAxes::sections({3, 4, 5})},
                   2,
                   2,
                   5});
    all.push_back({{.head_dim = 16, .pairing = pairing, .axes = RopeAxes::axial({4, 4})}, 1, 3, 6, 0.8});
    all.push_back({{.head_dim = 16, .pairing = pairing, .axes = RopeAxes::blocks({3, 5})}, 1, 2, 5});
    all.push_back({{.head_dim = 18, .pairing = pairing, .axes = RopeAxes::interleaved({3, 3, 3})}, 1, 2, 9});
  }
  return all;
}

/// One case with everything a gradient needs.
struct Problem {
  RopeFrequencies frequencies;
  Guarded<double> x, w, y;
  PositionTensor<double> at;

  Problem(const Case& c, Random& random)
      : frequencies(resolve(c.rope)),
        x({c.batch, c.heads, c.time, c.rope.head_dim}, Layout::bthd),
        w({c.batch, c.heads, c.time, c.rope.head_dim}, Layout::padded),
        y({c.batch, c.heads, c.time, c.rope.head_dim}, Layout::bhtd),
        at(frequencies.axes, c.batch, c.time) {
    if (c.attention_factor != 1) frequencies.attention_factor = c.attention_factor;
    x.fill(random);
    w.fill(random);
    at.fill(random, -10, 60);
    y.copy(View<const double, 4>(rotated(frequencies, at).view()));
  }

  Guarded<double> rotated(const RopeFrequencies& by, const Positions& positions) const {
    Guarded<double> result(x.view().shape, Layout::bhtd);
    reference::rotate(by, x.read(), positions, result.view());
    return result;
  }

  /// Σ w·(above − below) / width: differences first, so that what did not change contributes no rounding.
  double slope(const Guarded<double>& above, const Guarded<double>& below, double width) const {
    double sum = 0;
    x.for_each([&](Index b, Index h, Index t, Index d) {
      sum += w.view()(b, h, t, d) * (above.view()(b, h, t, d) - below.view()(b, h, t, d));
    });
    return sum / width;
  }

  void gradients(const RopeGradients& into, const Executor& on = {}) const {
    rotate_parameter_gradients(frequencies, y.read(), w.read(), at, into, on);
  }
};

TEST(RopeGradients, OfEveryParameterEqualCentralDifferences) {
  Random random(1);
  Index elements = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE(test::describe(c.rope));
    const Problem problem(c, random);
    const RopeFrequencies& f = problem.frequencies;
    std::vector<double> d_theta(static_cast<std::size_t>(f.pairs())), d_at(problem.at.values.size());
    double d_factor = 0;
    problem.gradients({.inv_freq = dense(d_theta.data(), f.pairs()),
                       .positions = dense(d_at.data(), f.axes, c.batch, c.time),
                       .attention_factor = &d_factor});

    for (std::size_t i = 0; i < d_theta.size(); ++i, ++elements) {
      RopeFrequencies above = f, below = f;
      above.inv_freq[i] += step, below.inv_freq[i] -= step;
      const double width = above.inv_freq[i] - below.inv_freq[i];
      const double wanted =
          problem.slope(problem.rotated(above, problem.at), problem.rotated(below, problem.at), width);
      EXPECT_NEAR(d_theta[i], wanted, tolerance(wanted)) << "frequency " << i;
    }
    for (std::size_t n = 0; n < d_at.size(); ++n, ++elements) {
      PositionTensor<double> above = problem.at, below = problem.at;
      above.values[n] += step, below.values[n] -= step;
      const double width = above.values[n] - below.values[n];
      const double wanted = problem.slope(problem.rotated(f, above), problem.rotated(f, below), width);
      EXPECT_NEAR(d_at[n], wanted, tolerance(wanted)) << "position " << n;
    }
    RopeFrequencies above = f, below = f;
    above.attention_factor += step, below.attention_factor -= step;
    const double width = above.attention_factor - below.attention_factor;
    const auto more = problem.rotated(above, problem.at), less = problem.rotated(below, problem.at);
    const double wanted = problem.slope(more, less, width);
    EXPECT_NEAR(d_factor, wanted, tolerance(wanted)) << "attention factor";
    ++elements;
  }
  EXPECT_GT(elements, 300);
}

TEST(RopeGradients, OfTheInputEqualCentralDifferencesForTwentyThousandElements) {
  Random random(2);
  Index elements = 0;
  for (int repeat = 0; repeat < 8; ++repeat) {
    for (const Case& c : cases()) {
      const Problem problem(c, random);
      const RopeTable<double> table(problem.frequencies, 20);
      Guarded<double> d_x(problem.x.view().shape, Layout::bthd);
      rotate_backward_to(table, problem.w.read(), d_x.view(), problem.at);
      const Index dim = c.rope.head_dim;
      std::vector<double> head(static_cast<std::size_t>(dim)), above(head.size()), below(head.size());
      std::vector<double> p(static_cast<std::size_t>(problem.at.axes));
      problem.x.for_each([&](Index b, Index h, Index t, Index d) {
        for (Index i = 0; i < dim; ++i) head[static_cast<std::size_t>(i)] = problem.x.view()(b, h, t, i);
        for (Index axis = 0; axis < problem.at.axes; ++axis) {
          p[static_cast<std::size_t>(axis)] = problem.at.view()(axis, b, t);
        }
        const auto turn = [&](double by, std::vector<double>& to) {
          std::vector<double> moved = head;
          moved[static_cast<std::size_t>(d)] += by;
          reference::rotate_elementwise(problem.frequencies, dense<const double>(p.data(), problem.at.axes),
                                        dense<const double>(moved.data(), dim), dense(to.data(), dim));
          return moved[static_cast<std::size_t>(d)];
        };
        const double width = turn(step, above) - turn(-step, below);
        double wanted = 0;
        for (Index i = 0; i < dim; ++i) {
          wanted +=
              problem.w.view()(b, h, t, i) * (above[static_cast<std::size_t>(i)] - below[static_cast<std::size_t>(i)]);
        }
        wanted /= width;
        ASSERT_NEAR(d_x.view()(b, h, t, d), wanted, tolerance(wanted)) << test::describe(c.rope);
        ++elements;
      });
    }
  }
  EXPECT_GE(elements, 20'000);
}

TEST(RopeGradients, AreAddedToWhatIsThere) {
  Random random(3);
  const Problem problem({{.head_dim = 8, .pairing = Pairing::half}, 2, 2, 3}, random);
  std::vector<double> once(4), onto(4, 7), at_once(6), at_onto(6, -5);
  double factor_once = 0, factor_onto = 100;
  problem.gradients({.inv_freq = dense(once.data(), 4),
                     .positions = dense(at_once.data(), 1, 2, 3),
                     .attention_factor = &factor_once});
  problem.gradients({.inv_freq = dense(onto.data(), 4),
                     .positions = dense(at_onto.data(), 1, 2, 3),
                     .attention_factor = &factor_onto});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(onto[i], 7 + once[i], 1e-12 * (7 + std::abs(once[i])));
  for (std::size_t n = 0; n < 6; ++n) EXPECT_NEAR(at_onto[n], -5 + at_once[n], 1e-12 * (5 + std::abs(at_once[n])));
  EXPECT_NEAR(factor_onto, 100 + factor_once, 1e-12 * (100 + std::abs(factor_once)));
  EXPECT_NE(factor_once, 0);
}

// θ_i = base^(−2i/r)·e^(α_i): a step of α against the whole way from α to y.
TEST(RopeGradients, OfLearnedFactorsEqualCentralDifferences) {
  Random random(8);
  Rope rope{.head_dim = 12,
            .base = 100,
            .pairing = Pairing::half,
            .scaling = YarnScaling{.factor = 4, .trained_length = 16},
            .log_factors = {0.1, -0.2, 0, 0.3, -0.01, 0.5}};
  const Problem problem({rope, 2, 3, 5}, random);
  std::vector<double> d_theta(6), d_alpha(6, 1);
  problem.gradients({.inv_freq = dense(d_theta.data(), 6), .log_factors = dense(d_alpha.data(), 6)});
  std::vector<double> alone(6);
  problem.gradients({.log_factors = dense(alone.data(), 6)});
  for (std::size_t i = 0; i < 6; ++i) {
    Rope above = rope, below = rope;
    above.log_factors[i] += step, below.log_factors[i] -= step;
    const double width = above.log_factors[i] - below.log_factors[i];
    const double wanted =
        problem.slope(problem.rotated(resolve(above), problem.at), problem.rotated(resolve(below), problem.at), width);
    EXPECT_NEAR(alone[i], wanted, tolerance(wanted)) << "pair " << i;
    const double through_theta = problem.frequencies.inv_freq[i] * d_theta[i];
    EXPECT_NEAR(alone[i], through_theta, 1e-13 * (1 + std::abs(through_theta)));
    EXPECT_NEAR(d_alpha[i], 1 + alone[i], 1e-12 * (1 + std::abs(alone[i])));
  }
}

TEST(RopeGradients, OnlyThoseAskedForAreComputedIntoAnyStrides) {
  Random random(4);
  const Problem problem({{.head_dim = 8, .pairing = Pairing::interleaved}, 2, 2, 3}, random);
  problem.gradients({});
  std::vector<double> theta(4), strided(20, 9), at(6), at_strided(40, 9);
  double factor = 0, factor_alone = 0;
  problem.gradients({.inv_freq = dense(theta.data(), 4), .attention_factor = &factor});
  problem.gradients({.inv_freq = {strided.data() + 19, {4}, {-5}}});
  problem.gradients({.attention_factor = &factor_alone});
  problem.gradients({.positions = dense(at.data(), 1, 2, 3)});
  problem.gradients({.positions = {at_strided.data(), {1, 2, 3}, {0, 1, 7}}});
  EXPECT_EQ(factor, factor_alone);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(strided[19 - 5 * i], 9 + theta[i]);
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t t = 0; t < 3; ++t) EXPECT_DOUBLE_EQ(at_strided[b + 7 * t], 9 + at[b * 3 + t]);
  }
  EXPECT_EQ(std::count(strided.begin(), strided.end(), 9.0), 16);
  EXPECT_EQ(std::count(at_strided.begin(), at_strided.end(), 9.0), 34);
}

TEST(RopeGradients, OneAxisOfPositionsThatServesAllCollectsTheGradientOfAll) {
  Random random(5);
  const RopeFrequencies f = resolve({.head_dim = 24, .pairing = Pairing::half, .axes = RopeAxes::sections({3, 4, 5})});
  Guarded<double> x({2, 2, 4, 24}, Layout::bhtd), w({2, 2, 4, 24}, Layout::bhtd), y({2, 2, 4, 24}, Layout::bhtd);
  x.fill(random);
  w.fill(random);
  PositionTensor<double> text(1, 2, 4), written(3, 2, 4);
  text.fill(random, 0, 50);
  for (std::size_t axis = 0; axis < 3; ++axis)
    std::copy_n(text.values.begin(), 8, written.values.begin() + 8 * static_cast<std::ptrdiff_t>(axis));
  reference::rotate(f, x.read(), text, y.view());
  std::vector<double> one(8), three(24), theta_one(12), theta_three(12);
  rotate_parameter_gradients(f, y.read(), w.read(), text,
                             {.inv_freq = dense(theta_one.data(), 12), .positions = dense(one.data(), 1, 2, 4)});
  rotate_parameter_gradients(f, y.read(), w.read(), written,
                             {.inv_freq = dense(theta_three.data(), 12), .positions = dense(three.data(), 3, 2, 4)});
  EXPECT_EQ(theta_one, theta_three);
  for (std::size_t n = 0; n < 8; ++n) EXPECT_NEAR(one[n], three[n] + three[n + 8] + three[n + 16], 1e-12 * 100);
}

TEST(RopeGradients, HaveTheSameBitsForAnyNumberOfThreads) {
  Random random(6);
  const Problem problem({{.head_dim = 32, .pairing = Pairing::half}, 3, 5, 17}, random);
  const auto all = [&](const Executor& on) {
    std::vector<double> result(16 + 51 + 1, 0.1);
    problem.gradients({.inv_freq = dense(result.data(), 16),
                       .positions = dense(result.data() + 16, 1, 3, 17),
                       .attention_factor = &result[67]},
                      on);
    return result;
  };
  const auto serial = all({});
  for (Index workers : {1, 2, 3, 7, 16}) {
    test::Workers threads(workers);
    EXPECT_TRUE(test::same_bits(all(threads), serial)) << workers << " threads";
    EXPECT_TRUE(test::same_bits(all(test::backwards(workers)), serial)) << workers << " backwards";
  }
}

TEST(RopeGradients, OfNarrowTypesAreSummedInDouble) {
  Random random(7);
  test::for_each_type([&](auto type) {
    using T = decltype(type);
    Guarded<T> y({2, 2, 9, 16}, Layout::bthd), w({2, 2, 9, 16}, Layout::bhtd);
    y.fill(random);
    w.fill(random);
    Guarded<double> wide_y({2, 2, 9, 16}, Layout::bhtd), wide_w({2, 2, 9, 16}, Layout::bhtd);
    wide_y.copy(y.read());
    wide_w.copy(w.read());
    const RopeFrequencies f = resolve({.head_dim = 16, .pairing = Pairing::half});
    std::vector<double> narrow(8), wide(8);
    rotate_parameter_gradients(f, y.read(), w.read(), Positions(3), {.inv_freq = dense(narrow.data(), 8)});
    rotate_parameter_gradients(f, wide_y.read(), wide_w.read(), Positions(3), {.inv_freq = dense(wide.data(), 8)});
    EXPECT_EQ(narrow, wide);
  });
}

std::vector<Rope> ropes_of_every_scaling() {
  std::vector<double> factors(16);
  for (std::size_t i = 0; i < 16; ++i) factors[i] = 1 + 0.3 * static_cast<double>(i);
  const std::vector<RopeScaling> scalings = {
      NoScaling{},
      LinearScaling{.factor = 4},
      NtkScaling{.factor = 4},
      DynamicNtkScaling{.factor = 2, .trained_length = 2048},
      AlphaScaling{.alpha = 1000},
      NtkByPartsScaling{.factor = 8, .trained_length = 2048},
      YarnScaling{.factor = 8, .trained_length = 4096},
      YarnScaling{.factor = 8, .trained_length = 4096, .truncate = false},
      DeepseekYarnScaling{.factor = 40, .trained_length = 4096},
      LongRopeScaling{.short_factor = factors, .long_factor = factors, .trained_length = 4096, .factor = 2},
      Llama3Scaling{},
      ProportionalScaling{.fraction = 0.5, .factor = 2},
      FrequencyDivisors{factors},
  };
  std::vector<Rope> ropes;
  for (const RopeScaling& scaling : scalings) {
    ropes.push_back({.head_dim = 32, .base = 50'000, .pairing = Pairing::half, .scaling = scaling});
  }
  ropes.push_back({.head_dim = 32, .base = 100, .pairing = Pairing::half, .axes = RopeAxes::axial({8, 8})});
  ropes.push_back({.head_dim = 32, .base = 300, .pairing = Pairing::half, .axes = RopeAxes::strided({8, 8})});
  return ropes;
}

// ∂θ/∂base by central differences of resolve() itself, whose two doubles lose nothing in the subtraction. Here the step
// is 1e-6 of the base, so the truncation error is 1e-12 of the second derivative's share.
TEST(RopeGradients, OfTheBaseRunThroughEveryScaling) {
  Random random(8);
  for (const Rope& rope : ropes_of_every_scaling()) {
    const Index seq_len = 8192;
    SCOPED_TRACE(std::string(scaling_name(rope.scaling)) + ", base " + std::to_string(rope.base));
    for (Index i = -1; i < 16; ++i) {  // −1: all pairs together, with random weights
      std::vector<double> d_theta(16);
      for (Index j = 0; j < 16; ++j)
        d_theta[static_cast<std::size_t>(j)] = i < 0 ? random.uniform(-2, 2) : (i == j ? 1 : 0);
      Rope above = rope, below = rope;
      above.base *= 1 + step, below.base *= 1 - step;
      const auto more = resolve(above, seq_len), less = resolve(below, seq_len);
      double wanted = 0, size = 0;
      for (std::size_t j = 0; j < 16; ++j) {
        const double difference =
            (more.inv_freq[j] - less.inv_freq[j]) + (more.inv_freq_rest[j] - less.inv_freq_rest[j]);
        wanted += d_theta[j] * difference / (above.base - below.base);
        size += std::abs(d_theta[j] * difference / (above.base - below.base));
      }
      const double got = base_gradient(rope, dense<const double>(d_theta.data(), 16), seq_len);
      EXPECT_NEAR(got, wanted, 1e-6 * size + 1e-22) << "pair " << i;
    }
  }
}

TEST(RopeGradients, OfTheBaseAreZeroForGivenFrequencies) {
  const Rope rope{.head_dim = 4, .pairing = Pairing::half, .scaling = ExplicitFrequencies{{1, 0.1}}};
  const std::vector<double> d_theta = {3, 5};
  EXPECT_EQ(base_gradient(rope, dense<const double>(d_theta.data(), 2)), 0);
}

// From the loss to the base in one chain: rotate, parameter gradients, base_gradient.
TEST(RopeGradients, FromTheLossToTheBaseEqualCentralDifferences) {
  Random random(9);
  for (const Rope& rope : ropes_of_every_scaling()) {
    SCOPED_TRACE(scaling_name(rope.scaling));
    const RopeFrequencies f = resolve(rope, 8192);
    Guarded<double> x({1, 2, 6, 32}, Layout::bhtd), w({1, 2, 6, 32}, Layout::bhtd), y({1, 2, 6, 32}, Layout::bhtd);
    x.fill(random);
    w.fill(random);
    PositionTensor<double> at(f.axes, 1, 6);
    at.fill(random, 0, 60);
    reference::rotate(f, x.read(), at, y.view());
    std::vector<double> d_theta(16);
    rotate_parameter_gradients(f, y.read(), w.read(), at, {.inv_freq = dense(d_theta.data(), 16)});
    Rope above = rope, below = rope;
    above.base *= 1 + step, below.base *= 1 - step;
    RopeFrequencies more = resolve(above, 8192), less = resolve(below, 8192);
    more.attention_factor = less.attention_factor = f.attention_factor;
    Guarded<double> y_more({1, 2, 6, 32}, Layout::bhtd), y_less({1, 2, 6, 32}, Layout::bhtd);
    reference::rotate(more, x.read(), at, y_more.view());
    reference::rotate(less, x.read(), at, y_less.view());
    double wanted = 0;
    x.for_each([&](Index b, Index h, Index t, Index d) {
      wanted += w.view()(b, h, t, d) * (y_more.view()(b, h, t, d) - y_less.view()(b, h, t, d));
    });
    wanted /= above.base - below.base;
    EXPECT_NEAR(base_gradient(rope, dense<const double>(d_theta.data(), 16), 8192), wanted, tolerance(wanted));
  }
}

}  // namespace
}  // namespace bearing
