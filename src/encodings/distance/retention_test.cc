#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/encodings/retention.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/retention.hpp>
#include <cmath>

#include "support/errors.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Place;
using test::Score;

// What it does to a state is tested in attention/linear/linear_attention_decay_test.cc.
TEST(Retention, ScoresFallByARateOfEachHead) {
  const std::vector<Place> places = {Place::offsets, Place::shuffled, Place::real};
  Params params(Params::Shapes{{3}}, 0.125, 1.75);
  const auto make = []<class A>(Params& p) { return RetentionBias<A>(p.param<A, 1>(0)); };
  const auto reference = [](const Params& p, const Score& s) { return p.value<1>(0)(s.h) * std::min(s.n - s.m, 0.0); };
  test::expect_reference_scores(make, params, test::score_cases(3, 0, places), reference);
  test::expect_gradients(make, params, test::score_cases(3, 0, places), reference);
  test::expect_float_gradients(make, params, test::score_cases(3, 0, places));
  test::expect_same_bits_for_any_executor(make, params, test::score_cases(3, 0));
}

TEST(Retention, WhatIsLeftIsTheExponentialOfTheScore) {
  const Retention spec = Retention::published(4);
  const RetentionBias<double> bias(spec);
  for (Index h = 0; h < 4; ++h) {
    for (const double n : {-300.0, -7.5, -1.0, 0.0, 3.0}) {
      double score = 0;
      bias.bias(h, 1, &n, &score);
      EXPECT_NEAR(std::exp(score), reference::retention(spec, h, 0, n), 1e-15) << h << ' ' << n;
    }
  }
}

// RetNet, section 2.1 of arXiv 2307.08621: γ_h = 1 − 2^(−5−h).
TEST(Retention, PublishedKeepsWhatRetNetKeeps) {
  const std::vector<double> rates = Retention::published(8).rates;
  ASSERT_EQ(rates.size(), 8u);
  for (std::size_t h = 0; h < 8; ++h) {
    EXPECT_NEAR(std::exp(-rates[h]), 1 - std::exp2(-5 - static_cast<double>(h)), 1e-16) << h;
  }
  EXPECT_EQ(Retention::published(2).rates, std::vector<double>(rates.begin(), rates.begin() + 2));
}

TEST(Retention, DeeperLayersOfLightningAttentionForgetMoreSlowly) {
  const std::vector<double> first = Retention::lightning(8, 0, 12).rates, last = Retention::lightning(8, 11, 12).rates;
  for (std::size_t h = 0; h < 8; ++h) {
    const double slope = std::exp2(-1 - static_cast<double>(h));
    EXPECT_NEAR(first[h], slope * 1.00001, 1e-15) << h;
    EXPECT_NEAR(last[h], slope * (1 - 11 / 11.00001 + 1e-5), 1e-15) << h;
  }
}

TEST(Retention, RefusesOthers) {
  expect_error<RangeError>([] { Retention::published(0); },
                           "[Retention::published] heads: must be from 1 to 2^20, got 0");
  expect_error<RangeError>([] { Retention::lightning(8, 12, 12); },
                           "[Retention::lightning] layer: must be from 0 to layers - 1, got 12 of 12");
  EXPECT_THROW(RetentionBias<double>(Retention{{0.1, -1}}), RangeError);
  EXPECT_THROW(RetentionBias<double>(Retention{{INFINITY}}), RangeError);
}

}  // namespace
}  // namespace bearing
