#include <gtest/gtest.h>
#include <bearing/encodings/sinusoidal.hpp>
#include <bearing/encodings/t5.hpp>
#include <bearing/error.hpp>
#include <bearing/inspect.hpp>
#include <bearing/rows.hpp>
#include <cmath>

#include "support/errors.hpp"

namespace bearing::inspect {
namespace {

using test::expect_error;

View<const double, 1> line(const std::vector<double>& x) { return dense(x.data(), static_cast<Index>(x.size())); }

Array sinusoids(Index dim, Index time) {
  Array rows(1, time, dim);
  fill<double>(Sinusoidal{.dim = dim, .layout = SinusoidalLayout::interleaved}, {},
               dense(rows.values.data(), time, dim));
  return rows;
}

TEST(Measures, SimilarityOfTwoRows) {
  const std::vector<double> x = {3, 4}, y = {4, 3}, zero = {0, 0}, three = {1, 2, 3};
  const Similarity s = similarity(line(x), line(y));
  EXPECT_EQ(s.dot, 24);
  EXPECT_NEAR(s.cosine, 0.96, 1e-15);
  EXPECT_EQ(s.distance, std::sqrt(2.0));
  EXPECT_EQ(similarity(line(x), line(zero)).cosine, 0);
  expect_error<ShapeError>([&] { similarity(line(x), line(three)); },
                           "[similarity] y: must have the length of x, 2, got 3");
}

TEST(Measures, SkippedNumbersAreThoseThatWouldHaveCome) {
  Normal one(7), other(7);
  for (int i = 0; i < 5; ++i) one();
  other.skip(5);
  EXPECT_EQ(one(), other());
}

TEST(Measures, SumOfCosinesRisesAtHalfOfTheSteps) {
  const RopeFrequencies numbers = resolve({.head_dim = 128, .pairing = Pairing::half});
  const Decay d = decay(rotation_similarity(numbers, 4097));
  EXPECT_EQ(d.curve[0], 64);
  EXPECT_EQ(d.rises, 1992);
  EXPECT_EQ(d.negative, 420);
  EXPECT_TRUE(std::is_sorted(d.envelope.rbegin(), d.envelope.rend()));
}

TEST(Measures, ProductsOfSinusoidsAreTheRotationsSimilarity) {
  const Array rows = sinusoids(32, 100);
  const Array all = products(rows.head(0), rows.head(0));
  const std::vector<double> curve = rotation_similarity(resolve({.head_dim = 32, .pairing = Pairing::half}), 100);
  for (Index i = 0; i < 100; ++i) {
    // Sums of 16 numbers of at most 1, angles below 100 rounded once: 16 · (2^-53 + 100 · 2^-53), and a margin of 2.
    for (Index j = 0; j < 100; ++j) {
      EXPECT_NEAR(all(0, i, j), curve[static_cast<std::size_t>(std::abs(i - j))], 3300 * 0x1p-53);
    }
  }
}

TEST(Measures, DecayOfAKnownCurve) {
  const Decay d = decay({5, 3, 4, 1, 2, -1});
  EXPECT_EQ(d.envelope, (std::vector<double>{5, 4, 4, 2, 2, -1}));
  EXPECT_EQ(d.octaves, (std::vector<double>{3, 4, 2}));  // distances 1; 2, 3; 4, 5
  EXPECT_EQ(d.rises, 2);
  EXPECT_EQ(d.negative, 1);
  EXPECT_FALSE(d.decays);
  EXPECT_TRUE(decay({5, 3, 2, 3, 1}).decays);
  EXPECT_FALSE(decay({5, 5, 5, 5, 5}).decays);
  EXPECT_FALSE(decay({1, 2, 3, 4, 5}).decays);
  EXPECT_FALSE(decay({}).decays);
  expect_error<RangeError>([] { decay({1, NAN}); }, "[decay] curve: must be numbers, got nan");
}

TEST(Measures, ShiftMapOfSinusoidsIsARotationOfEachPair) {
  constexpr Index offset = 3;
  const Sinusoidal spec{.dim = 8, .base = 100, .layout = SinusoidalLayout::interleaved};
  Array rows(1, 200, 8);
  fill<double>(spec, {}, dense(rows.values.data(), 200, 8));
  const LinearMap map = shift_map(rows.head(0), offset);
  EXPECT_EQ(map.rank, 8);
  // Rows are rounded to 2^-53; the slowest pair turns six times within the rows, so nothing is lost beyond 2^-40.
  EXPECT_LT(map.fitted, 0x1p-40);
  EXPECT_LT(map.held_out, 0x1p-40);
  const std::vector<double> frequencies = sinusoidal_frequencies(spec);
  for (Index pair = 0; pair < 4; ++pair) {
    const std::array<double, 4> m = pair_shift_map(frequencies[static_cast<std::size_t>(pair)], offset);
    for (Index i = 0; i < 8; ++i) {
      for (Index c = 0; c < 2; ++c) {  // the map is M transposed: column 2·pair + c holds row c of M's block
        const double wanted = i / 2 == pair ? m[static_cast<std::size_t>(2 * c + i % 2)] : 0;
        EXPECT_NEAR(map.map(0, i, 2 * pair + c), wanted, 0x1p-40);
      }
    }
  }
}

TEST(Measures, RandomRowsHaveNoShiftMap) {
  const Array rows = Normal(1).array(1, 100, 8);
  EXPECT_GT(shift_map(rows.head(0), 1).held_out, 0.1);
  // Fewer rows than columns: always fitted, and of no use for others.
  const LinearMap few = shift_map(Normal(2).array(1, 11, 8).head(0), 1);
  EXPECT_LT(few.fitted, 0x1p-40);
  EXPECT_GT(few.held_out, 0.1);
  expect_error<ShapeError>([&] { shift_map(rows.head(0), 100); },
                           "[shift_map] offset: must be from 0 to 99, the last row, got 100; shape is [100, 8]");
}

TEST(Measures, RunsAreTheBucketMap) {
  const T5 t5{.direction = T5Direction::bidirectional};
  std::vector<double> buckets;
  for (Index distance = 0; distance <= 200; ++distance) {
    buckets.push_back(static_cast<double>(t5_bucket(t5, -distance)));
  }
  const std::vector<inspect::Run> map = runs(line(buckets), 0);
  ASSERT_EQ(map.size(), 16u);
  EXPECT_EQ(map[7], (inspect::Run{7, 7, 7}));
  EXPECT_EQ(map[8], (inspect::Run{8, 11, 8}));
  EXPECT_EQ(map[15], (inspect::Run{91, 200, 15}));
  EXPECT_TRUE(runs(line({}), 0).empty());
}

TEST(Measures, CorrelationsAreTheFourPartsOfTheProduct) {
  Normal normal(3);
  const Array words = normal.array(1, 5, 6), positions = normal.array(1, 5, 6);
  const Array w_q = normal.array(1, 6, 4), w_k = normal.array(1, 6, 4);
  const Correlations c = correlations(words.head(0), positions.head(0), w_q.head(0), w_k.head(0));
  for (Index i = 0; i < 5; ++i) {
    for (Index j = 0; j < 5; ++j) {
      double whole = 0;
      for (Index d = 0; d < 4; ++d) {
        double q = 0, k = 0;
        for (Index e = 0; e < 6; ++e) {
          q += (words(0, i, e) + positions(0, i, e)) * w_q(0, e, d);
          k += (words(0, j, e) + positions(0, j, e)) * w_k(0, e, d);
        }
        whole += q * k;
      }
      const double parts =
          c.word_word(0, i, j) + c.word_position(0, i, j) + c.position_word(0, i, j) + c.position_position(0, i, j);
      EXPECT_NEAR(parts, whole, 1e-12);  // some 100 products below 40, 2^-53 each
    }
  }
  const Correlations plain = correlations(words.head(0), positions.head(0));
  EXPECT_EQ(plain.word_position(0, 1, 2), plain.position_word(0, 2, 1));
  expect_error<ShapeError>([&] { correlations(words.head(0), w_q.head(0)); },
                           "[correlations] positions: must have the shape of words, [5, 6], got shape [6, 4]");
  expect_error<ShapeError>([&] { correlations(words.head(0), positions.head(0), w_q.head(0)); },
                           "[correlations] w_q, w_k: must have the same head_dim, got 4 and 6");
}

TEST(Measures, NormalNumbersAreTheSameEverywhere) {
  Normal normal(0);
  const double first = normal();
  EXPECT_EQ(first, 0x1.7ca0f5cf025c0p-5);
  double sum = 0, squares = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double x = normal();
    sum += x, squares += x * x;
  }
  // Standard errors of 100,000 draws: 0.0032 of the mean, about 0.0045 of the variance; five of them.
  EXPECT_NEAR(sum / 1e5, 0, 0.016);
  EXPECT_NEAR(squares / 1e5, 1, 0.023);
}

}  // namespace
}  // namespace bearing::inspect
