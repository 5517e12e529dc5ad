#include <gtest/gtest.h>
#include <bearing/error.hpp>
#include <bearing/reference.hpp>

#include "support/golden.hpp"
#include "support/oracle.hpp"
#include "support/random.hpp"

namespace bearing {
namespace {

using test::Random;

std::vector<double> random_head(Random& random, Index head_dim) {
  std::vector<double> x(static_cast<std::size_t>(head_dim));
  for (double& value : x) value = random.uniform(-2, 2);
  return x;
}

View<const double, 1> row(const std::vector<double>& x) { return dense(x.data(), static_cast<Index>(x.size())); }
View<double, 1> row(std::vector<double>& x) { return dense(x.data(), static_cast<Index>(x.size())); }

using Form = void (*)(const RopeFrequencies&, View<const double, 1>, View<const double, 1>, View<double, 1>);

std::vector<double> turned(Form form, const RopeFrequencies& frequencies, double p, const std::vector<double>& x) {
  std::vector<double> y(x.size(), -99);
  form(frequencies, dense<const double>(&p, 1), row(x), row(y));
  return y;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}
double norm(const std::vector<double>& a) { return std::sqrt(dot(a, a)); }

std::vector<Rope> ropes() {
  return {{.head_dim = 2, .pairing = Pairing::interleaved},
          {.head_dim = 16, .pairing = Pairing::half},
          {.head_dim = 16, .rotary_dim = 6, .base = 500'000, .pairing = Pairing::half},
          {.head_dim = 10, .rotary_dim = 4, .pairing = Pairing::interleaved, .part = RotaryPart::last()},
          {.head_dim = 12,
           .rotary_dim = 8,
           .pairing = Pairing::half,
           .scaling = YarnScaling{.factor = 4, .trained_length = 2048},
           .part = RotaryPart::window(2)}};
}

// cos and sin of all forms come from one function, so they differ by the roundings of two products and a sum alone:
// three of at most 2^-53·(|u| + |v|)·a each, in each of two forms.
TEST(Reference, TheThreeFormsOfTheRotationAreEqual) {
  Random random(1);
  for (const Rope& rope : ropes()) {
    const RopeFrequencies frequencies = resolve(rope);
    for (int n = 0; n < 50; ++n) {
      const std::vector<double> x = random_head(random, rope.head_dim);
      const double p = n % 2 == 0 ? static_cast<double>(random.integer(-100'000, 100'000)) : random.uniform(-50, 50);
      const auto elementwise = turned(reference::rotate_elementwise, frequencies, p, x);
      const auto complex = turned(reference::rotate_complex, frequencies, p, x);
      const auto matrix = turned(reference::rotate_matrix, frequencies, p, x);
      const double bound = 6 * 0x1p-53 * 4 * frequencies.attention_factor;
      for (std::size_t d = 0; d < x.size(); ++d) {
        EXPECT_NEAR(elementwise[d], complex[d], bound);
        EXPECT_NEAR(elementwise[d], matrix[d], bound);
      }
    }
  }
}

TEST(Reference, PositionZeroLeavesAHeadAloneAndOthersDoNot) {
  Random random(2);
  const RopeFrequencies frequencies = resolve({.head_dim = 16, .pairing = Pairing::half});
  const std::vector<double> x = random_head(random, 16);
  EXPECT_EQ(turned(reference::rotate_elementwise, frequencies, 0, x), x);
  EXPECT_NE(turned(reference::rotate_elementwise, frequencies, 1, x), x);
}

// cos and sin are good to 2^-52 and a score sums head_dim products of at most 4.
TEST(Reference, AScoreDependsOnTheDistanceAlone) {
  Random random(3);
  const RopeFrequencies frequencies = resolve({.head_dim = 64, .pairing = Pairing::interleaved});
  for (int n = 0; n < 200; ++n) {
    const auto q = random_head(random, 64), k = random_head(random, 64);
    const double at_q = static_cast<double>(random.integer(0, 5000));
    const double at_k = static_cast<double>(random.integer(0, 5000));
    const double shift = static_cast<double>(random.integer(1, 1 << 20));
    const double here = dot(turned(reference::rotate_elementwise, frequencies, at_q, q),
                            turned(reference::rotate_elementwise, frequencies, at_k, k));
    const double there = dot(turned(reference::rotate_elementwise, frequencies, at_q + shift, q),
                             turned(reference::rotate_elementwise, frequencies, at_k + shift, k));
    EXPECT_NEAR(here, there, 64 * 4 * 0x1p-50);
    const double farther = dot(turned(reference::rotate_elementwise, frequencies, at_q + shift, q),
                               turned(reference::rotate_elementwise, frequencies, at_k + shift + 1, k));
    EXPECT_GT(std::abs(here - farther), 1e-6) << "another distance gave the same score";
  }
}

// R_mᵀ R_n = R_{n−m}: each entry is one addition theorem, three roundings of cos and sin that are good to 2^-52.
TEST(Reference, RotationsComposeToTheDifferenceOfTheirPositions) {
  for (const Rope& rope : ropes()) {
    RopeFrequencies frequencies = resolve(rope);
    frequencies.attention_factor = 1;
    const Index size = rope.head_dim;
    const double m = 1234, n = 98'765, difference = n - m;
    const auto at_m = reference::rotation_matrix(frequencies, dense(&m, 1));
    const auto at_n = reference::rotation_matrix(frequencies, dense(&n, 1));
    const auto between = reference::rotation_matrix(frequencies, dense(&difference, 1));
    for (Index i = 0; i < size; ++i) {
      for (Index j = 0; j < size; ++j) {
        double product = 0;
        for (Index k = 0; k < size; ++k) {
          product += at_m[static_cast<std::size_t>(k * size + i)] * at_n[static_cast<std::size_t>(k * size + j)];
        }
        EXPECT_NEAR(product, between[static_cast<std::size_t>(i * size + j)], 0x1p-49) << i << ", " << j;
      }
    }
  }
}

TEST(Reference, TheRotationMatrixHasTheBlocksOfItsPairing) {
  const double p = 1, c = std::cos(1.0), s = std::sin(1.0);
  RopeScaling same = ExplicitFrequencies{{1, 1}};
  const auto interleaved = resolve({.head_dim = 5, .rotary_dim = 4, .pairing = Pairing::interleaved, .scaling = same});
  const auto half = resolve({.head_dim = 5, .rotary_dim = 4, .pairing = Pairing::half, .scaling = same});
  const std::vector<double> blocks = {c, -s, 0, 0,  0,  //
                                      s, c,  0, 0,  0,  //
                                      0, 0,  c, -s, 0,  //
                                      0, 0,  s, c,  0,  //
                                      0, 0,  0, 0,  1};
  const std::vector<double> crossed = {c, 0, -s, 0,  0,  //
                                       0, c, 0,  -s, 0,  //
                                       s, 0, c,  0,  0,  //
                                       0, s, 0,  c,  0,  //
                                       0, 0, 0,  0,  1};
  EXPECT_EQ(reference::rotation_matrix(interleaved, dense(&p, 1)), blocks);
  EXPECT_EQ(reference::rotation_matrix(half, dense(&p, 1)), crossed);
}

TEST(Reference, TheFoundingDocumentsWorkedExampleComesOut) {
  const auto golden = test::golden("seeds/worked_examples.json");
  const auto& example = golden["seed_003_worked_example"];
  const Rope rope{
      .head_dim = 4, .pairing = Pairing::interleaved, .scaling = ExplicitFrequencies{test::numbers(example["theta"])}};
  const auto y = turned(reference::rotate_elementwise, resolve(rope), 2, test::numbers(example["q"]));
  const auto exact = test::numbers(example["exact"]), printed = test::numbers(example["printed"]);
  for (std::size_t d = 0; d < 4; ++d) {
    EXPECT_NEAR(y[d], exact[d], 0x1p-52);
    EXPECT_NEAR(y[d], printed[d], 0.005) << "printed with two decimals";
  }
}

TEST(Reference, TheGradientIsTheTransposeAndNotTheRotationThatTheFoundingDocumentWrites) {
  const auto golden = test::golden("seeds/worked_examples.json");
  const auto upstream = test::numbers(golden["seed_003_gradient"]["upstream"]);
  const auto correct = test::numbers(golden["seed_003_gradient"]["correct"]);
  const auto frequencies =
      resolve({.head_dim = 4, .pairing = Pairing::interleaved, .scaling = ExplicitFrequencies{{1, 0.1}}});
  std::vector<double> d_x(4);
  reference::rotate_backward(frequencies, bhtd(upstream.data(), 1, 1, 1, 4), Positions(2),
                             bhtd(d_x.data(), 1, 1, 1, 4));
  const auto rotated_forward = turned(reference::rotate_elementwise, frequencies, 2, upstream);
  double wrong = 0;
  for (std::size_t d = 0; d < 4; ++d) {
    EXPECT_NEAR(d_x[d], correct[d], 4 * 4 * 0x1p-53);
    wrong = std::max(wrong, std::abs(rotated_forward[d] - correct[d]));
  }
  // ∂L/∂Q = R ∂L/∂Q̃, as written there, has the right norm, so that a test of norms passes, and wrong numbers.
  EXPECT_NEAR(norm(rotated_forward), norm(correct), 1e-14);
  EXPECT_GT(wrong, 1);
}

TEST(Reference, BackwardIsTheTransposedMatrixWithTheAttentionFactorStillMultiplied) {
  Random random(4);
  for (const Rope& rope : ropes()) {
    RopeFrequencies frequencies = resolve(rope);
    frequencies.attention_factor = 1.5;
    const auto d_y = random_head(random, rope.head_dim);
    const double p = 77;
    std::vector<double> d_x(d_y.size());
    reference::rotate_backward(frequencies, bhtd(d_y.data(), 1, 1, 1, rope.head_dim), Positions(77),
                               bhtd(d_x.data(), 1, 1, 1, rope.head_dim));
    const auto matrix = reference::rotation_matrix(frequencies, dense(&p, 1));
    for (std::size_t d = 0; d < d_y.size(); ++d) {
      double sum = 0;
      for (std::size_t row = 0; row < d_y.size(); ++row) sum += matrix[row * d_y.size() + d] * d_y[row];
      EXPECT_NEAR(d_x[d], sum, 6 * 0x1p-53 * 4 * 1.5);
    }
  }
}

// Two sums of two products whose factors are good to 2^-53 each: well within 4·2^-53, absolute.
TEST(Reference, CosAndSinAgreeWithMpfrToTheLargestPosition) {
  Random random(5);
  for (double base : {10'000.0, 500'000.0}) {
    const auto frequencies = resolve({.head_dim = 32, .base = base, .pairing = Pairing::half});
    for (Index i = 0; i < 16; ++i) {
      const auto truth = test::TrueFrequency::power(base, 2 * i, 32);
      std::vector<double> positions;
      for (int n = 0; n < 50; ++n) positions.push_back(random.uniform(-0x1p31, 0x1p31));
      for (Index p : truth.near_quarter_turns(max_position)) positions.push_back(static_cast<double>(p));
      for (double p : positions) {
        const auto got = reference::cos_sin(frequencies, i, p);
        const auto wanted = truth.cos_sin(p);
        EXPECT_NEAR(got.cos, wanted.cos.hi, 4 * 0x1p-53) << "base " << base << ", pair " << i << ", position " << p;
        EXPECT_NEAR(got.sin, wanted.sin.hi, 4 * 0x1p-53) << "base " << base << ", pair " << i << ", position " << p;
      }
    }
  }
}

TEST(Reference, AsFloat32RoundsAngleCosAndFactorToFloatInTurn) {
  auto frequencies = resolve({.head_dim = 4, .pairing = Pairing::half, .scaling = ExplicitFrequencies{{0.1, 0.7}}}, 0,
                             Angles::as_float32);
  frequencies.attention_factor = 1.1;
  const float angle = 100'000.0f * 0.7f;
  const float cos = static_cast<float>(std::cos(static_cast<double>(angle))) * 1.1f;
  EXPECT_EQ(reference::cos_sin(frequencies, 1, 100'000).cos, cos);
  frequencies.angles = Angles::exact;
  EXPECT_GT(std::abs(reference::cos_sin(frequencies, 1, 100'000).cos - cos), 1e-5) << "the two modes agree";
}

TEST(Reference, ArgumentsOfTheWrongShapeAreRefused) {
  const auto frequencies = resolve({.head_dim = 4, .pairing = Pairing::half});
  const std::vector<double> p = {1, 2}, x(4), x5(5);
  std::vector<double> y(4, 7);
  EXPECT_THROW(reference::rotate_elementwise(frequencies, row(p), row(x), row(y)), ShapeError);
  EXPECT_THROW(reference::rotate_complex(frequencies, dense(p.data(), 1), row(x5), row(y)), ShapeError);
  EXPECT_THROW(reference::rotate_matrix(frequencies, dense(p.data(), 1), dense(x.data(), 3), row(y)), ShapeError);
  EXPECT_THROW(reference::rotate(frequencies, bhtd(x5.data(), 1, 1, 1, 5), {}, bhtd(y.data(), 1, 1, 1, 4)), ShapeError);
  EXPECT_THROW(reference::rotate(frequencies, bhtd(x.data(), 1, 1, 1, 4), Positions(max_position + 1),
                                 bhtd(y.data(), 1, 1, 1, 4)),
               RangeError);
  EXPECT_EQ(y, std::vector<double>(4, 7));
}

}  // namespace
}  // namespace bearing
