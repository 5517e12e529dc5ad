#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/encodings/sandwich.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/sandwich.hpp>

#include "support/errors.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Place;
using test::Score;

TEST(Sandwich, AgreesWithItsReference) {
  // An angle of up to 131 tokens is right to 131·2^-53 radians times its frequency; frequencies sum to less than
  // 1 / (1 − 10000^(−2/dim)), 7.6 for dim 130; the first of three heads multiplies by 3/8; the addition theorem has
  // three such angles: together under 2^-43 of 1.
  for (const Index dim : {2, 6, 130}) {
    Params none(Params::Shapes{});
    const Sandwich sandwich{.heads = 3, .dim = dim};
    const auto make = [sandwich]<class A>(Params&) { return SandwichBias<A>(sandwich); };
    const auto reference = [sandwich](const Params&, const Score& s) {
      return reference::sandwich(sandwich, s.h, s.m, s.n);
    };
    const auto cases = test::score_cases(3, 0, {Place::offsets, Place::shuffled, Place::real});
    test::expect_reference_scores(make, none, cases, reference, 0x1p-43);
    test::expect_same_bits_for_any_executor(make, none, cases);
  }
}

TEST(Sandwich, HasThePapersSlopesAndSumAtDistanceZero) {
  const Sandwich sandwich{.heads = 12};
  for (Index h = 0; h < 12; ++h) {
    const double ratio = 8 * static_cast<double>(h + 1) / 12;
    EXPECT_DOUBLE_EQ(reference::sandwich(sandwich, h, 5, 5), 64 / ratio);
  }
}

TEST(Sandwich, FallsInItsEnvelopeButNotFromStepToStep) {
  const Sandwich sandwich{.heads = 8};
  Index rises = 0;
  for (double d = 1; d <= 4096; ++d) {
    if (reference::sandwich(sandwich, 0, 0, d) > reference::sandwich(sandwich, 0, 0, d - 1)) ++rises;
    EXPECT_LT(reference::sandwich(sandwich, 0, 0, d), 64);
  }
  EXPECT_EQ(rises, 1992);  // of 4,096 steps
}

TEST(Sandwich, ADistanceHasOneValueWhereverItStandsInACall) {
  const SandwichBias<double> bias(Sandwich{.heads = 2});
  std::vector<double> distance, all(400), one(1);
  for (int d = -200; d < 200; ++d) distance.push_back(d);
  bias.bias(1, 400, distance.data(), all.data());
  for (std::size_t x = 0; x < 400; ++x) {
    bias.bias(1, 1, &distance[x], one.data());
    EXPECT_EQ(one[0], all[x]);
  }
}

TEST(Sandwich, DistancesInAnyOrderGetTheSameBits) {
  // Near sums are kept, far ones shared with neighbours, whoever these are; real distances stand between them.
  const SandwichBias<double> bias(Sandwich{.heads = 2});
  std::vector<double> distances;
  for (Index d = -130; d <= 130; ++d) distances.push_back(static_cast<double>(d));
  for (Index d = 4000; d <= 4200; ++d) distances.push_back(static_cast<double>(d));
  for (Index d = -4200; d <= -4000; ++d) distances.push_back(static_cast<double>(d));
  distances.insert(distances.begin() + 100, {-31.5, 63.5, 64, 63.25});
  const auto expect_same = [&] {
    std::vector<double> together(distances.size());
    bias.bias(1, static_cast<Index>(distances.size()), distances.data(), together.data());
    for (std::size_t x = 0; x < distances.size(); ++x) {
      double one = 0;
      bias.bias(1, 1, &distances[x], &one);
      EXPECT_EQ(together[x], one) << distances[x];
    }
  };
  expect_same();
  std::reverse(distances.begin(), distances.end());
  expect_same();
}

TEST(Sandwich, WrongCallsSayWhatMustHold) {
  expect_error<ShapeError>([] { SandwichBias<float>({.heads = 2, .dim = 7}); },
                           "[SandwichBias] dim: must be even and from 2 to 65536, got 7");
  expect_error<ShapeError>([] { SandwichBias<float>({.heads = 2, .dim = 0}); },
                           "[SandwichBias] dim: must be even and from 2 to 65536, got 0");
  expect_error<RangeError>([] { SandwichBias<float>(Sandwich{}); }, "[SandwichBias] heads: must be at least 1, got 0");
  expect_error<RangeError>([] { SandwichBias<float>({.heads = 2, .base = 0}); },
                           "[SandwichBias] base: must be finite and above 0, got 0");
  std::vector<float> s(3 * 4, 7.0f);
  const SandwichBias<float> bias(Sandwich{.heads = 2});
  expect_error<ShapeError>([&] { bias_matrix(with(bias), {}, {}, dense(s.data(), 3, 2, 2)); },
                           "[bias_matrix] Sandwich.heads: must be the 3 heads of the scores, got 2");
  EXPECT_EQ(s, std::vector<float>(12, 7.0f));
}

}  // namespace
}  // namespace bearing
