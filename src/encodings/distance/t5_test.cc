#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/encodings/t5.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/t5.hpp>
#include <bearing/scores.hpp>
#include <limits>
#include <map>

#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Score;

constexpr T5 encoder{.direction = T5Direction::bidirectional};
constexpr T5 decoder{.direction = T5Direction::causal};

TEST(T5, BucketsArePublishedOnes) {
  for (const auto& [file, t5] :
       {std::pair{"t5/buckets_bi_32_128.json", encoder}, std::pair{"t5/buckets_causal_32_128.json", decoder}}) {
    const rapidjson::Document golden = test::golden(file);
    const std::vector<Index> published = test::integers(golden["buckets"]);
    const Index first = golden["first"].GetInt64();
    const T5Buckets buckets(t5);
    ASSERT_EQ(published.size(), 4097u);
    for (std::size_t x = 0; x < published.size(); ++x) {
      const Index distance = first + static_cast<Index>(x);
      ASSERT_EQ(buckets(distance), published[x]) << file << ' ' << distance;
      ASSERT_EQ(reference::t5_bucket(t5, distance), published[x]) << file << ' ' << distance;
    }
    EXPECT_TRUE(golden["differs_from_exact"].Empty());
  }
}

TEST(T5, ThresholdsAreThePapersForBothDirections) {
  EXPECT_EQ(t5_thresholds(encoder), (std::vector<Index>{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}));
  EXPECT_EQ(t5_thresholds(decoder),
            (std::vector<Index>{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}));
}

TEST(T5, DistanceEightSharesABucketInTheEncoderButNotInTheDecoder) {
  EXPECT_EQ(t5_bucket(encoder, -8), t5_bucket(encoder, -11));
  EXPECT_NE(t5_bucket(encoder, -7), t5_bucket(encoder, -8));
  EXPECT_EQ(t5_bucket(decoder, -15), 15);
  EXPECT_EQ(t5_bucket(decoder, -16), t5_bucket(decoder, -18));
}

TEST(T5, BucketSixteenOfTheEncoderIsNeverUsed) {
  const T5Buckets buckets(encoder);
  for (Index distance = -3000; distance <= 3000; ++distance) ASSERT_NE(buckets(distance), 16);
  EXPECT_EQ(buckets(1), 17);
}

// The bucket of a distance as frameworks compute it, with a logarithm in float32.
Index bucket_in_float(Index buckets, Index max_distance, Index x) {
  const Index e = buckets / 2;
  if (x < e) return x;
  const float part = std::log(static_cast<float>(x) / static_cast<float>(e)) /
                     static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(e)));
  return std::min(buckets - 1, e + static_cast<Index>(part * static_cast<float>(buckets - e)));
}

TEST(T5, ThresholdsAgreeWithALogarithmForManySpecs) {
  for (const Index n : {2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 48, 64, 128, 160}) {
    for (Index d = n / 2 + 1; d <= 300; d += d < 140 ? 1 : 20) {
      const T5 t5{n, d, T5Direction::causal};
      const T5Buckets buckets(t5);
      for (Index x = 0; x <= d + 20; ++x) {
        ASSERT_EQ(buckets(-x), reference::t5_bucket(t5, -x)) << n << ' ' << d << ' ' << x;
        // ln(36/24) and ln(54/24) are 1/3 and 2/3 of ln(81/24), which float32 may miss from below.
        if (n == 48 && d == 81 && (x == 36 || x == 54)) continue;
        ASSERT_EQ(buckets(-x), bucket_in_float(n, d, x)) << n << ' ' << d << ' ' << x;
      }
    }
  }
}

TEST(T5, ThresholdsThatAreWholeNumbersAreExactHoweverLarge) {
  // e = 8 and 8 steps to 8·3^8: bucket 8 + k begins at 8·3^k.
  const std::vector<Index> powers = t5_thresholds({16, 8 * 6561, T5Direction::causal});
  for (Index k = 0, x = 8; k < 8; ++k, x *= 3) EXPECT_EQ(powers[static_cast<std::size_t>(8 + k)], x);
  // 31 steps of the 31st root of 2^20: irrational but for the first, so a threshold is the next whole number.
  const std::vector<Index> roots = t5_thresholds({62, Index{31} << 20, T5Direction::causal});
  for (Index k = 0; k < 31; ++k) {
    const double real = 31 * std::exp2(20 * static_cast<double>(k) / 31);
    EXPECT_EQ(roots[static_cast<std::size_t>(31 + k)], static_cast<Index>(std::ceil(real)));
  }
  // The widest that there are: the last of two steps from 2 to 2^31 begins at 2^16.
  EXPECT_EQ(t5_thresholds({4, max_position, T5Direction::causal}), (std::vector<Index>{0, 1, 2, Index{1} << 16}));
}

TEST(T5, AgreesWithItsReference) {
  for (const T5 t5 : {encoder, decoder, T5{8, 20, T5Direction::bidirectional}, T5{6, 9, T5Direction::causal}}) {
    Params params(Params::Shapes{{t5.buckets, 3}});
    const auto make = [t5]<class A>(Params& p) { return T5Bias<A>(t5, p.param<A, 2>(0)); };
    const auto reference = [t5](const Params& p, const Score& s) {
      return reference::t5(t5, p.value<2>(0), s.h, s.m, s.n);
    };
    test::expect_reference_scores(make, params, test::score_cases(3, 0), reference, 0);  // a copy of the table
    test::expect_gradients(make, params, test::score_cases(3, 0), reference);
    test::expect_float_gradients(make, params, test::score_cases(3, 0));
    test::expect_same_bits_for_any_executor(make, params, test::score_cases(3, 0));
  }
}

TEST(T5, LayersAddTheirGradientsToOneTable) {
  Params params(Params::Shapes{{32, 2}});
  const T5Bias<double> bias(encoder, params.param<double, 2>(0));
  const std::vector<double> d_s(2 * 3 * 3, 1.0);
  for (int layer = 0; layer < 4; ++layer) {
    add_scores_backward(with(bias), {}, bhtd(d_s.data(), 1, 2, 3, 3));
  }
  // Distance 0 three times in each layer, ±1 twice, ±2 once.
  for (const auto& [bucket, count] : std::map<std::size_t, int>{{0, 3}, {1, 2}, {2, 1}, {17, 2}, {18, 1}}) {
    EXPECT_EQ(params.grads(0)[2 * bucket], 4 * count);
    EXPECT_EQ(params.grads(0)[2 * bucket + 1], 4 * count);
  }
}

TEST(T5, AttentionWithoutSoftmaxScaleGivesTheGoldenOutputAndGradient) {
  const rapidjson::Document golden = test::golden("attention/t5_b1h3kv3q9k4d8.json");
  const auto get = [](const rapidjson::Value& v) { return test::tensor(v).data; };
  const std::vector<double> q = get(golden["q"]), k = get(golden["k"]), v = get(golden["v"]);
  const std::vector<double> d_out = get(golden["grad_out"]), out = get(golden["out"]);
  const std::vector<double> table = get(golden["params"]["bias_table"]);
  const std::vector<double> d_table = get(golden["grad_params"]["bias_table"]);
  const Index heads = 3, q_len = 9, k_len = 4, dim = 8;
  std::vector<double> own_d_table(table.size());
  const T5Bias<double> bias(
      {golden["num_buckets"].GetInt64(), golden["max_distance"].GetInt64(), T5Direction::bidirectional},
      {dense(table.data(), 32, heads), dense(own_d_table.data(), 32, heads)});
  const ScoreInputs<double> in{Positions(k_len - q_len), Positions{}};

  std::vector<double> s(static_cast<std::size_t>(heads * q_len * k_len));
  add_scores(with(bias), in, bhtd(s.data(), 1, heads, q_len, k_len));
  const auto at = [](const std::vector<double>& x, Index i, Index row, Index d) {
    return x[static_cast<std::size_t>(i * row + d)];
  };
  std::vector<double> d_s(s.size());
  for (Index h = 0; h < heads; ++h) {
    for (Index i = 0; i < q_len; ++i) {
      const Index row = h * q_len + i;
      double* p = s.data() + row * k_len;
      double sum = 0, o_d_o = 0;
      for (Index j = 0; j < k_len; ++j) {
        for (Index d = 0; d < dim; ++d) p[j] += at(q, row, dim, d) * at(k, h * k_len + j, dim, d);
        p[j] = std::exp(p[j]);
        sum += p[j];
      }
      for (Index d = 0; d < dim; ++d) {
        double o = 0;
        for (Index j = 0; j < k_len; ++j) o += p[j] / sum * at(v, h * k_len + j, dim, d);
        EXPECT_NEAR(o, at(out, row, dim, d), 0x1p-44);  // sums of a dozen numbers up to 8
        o_d_o += o * at(d_out, row, dim, d);
      }
      for (Index j = 0; j < k_len; ++j) {
        double d_p = 0;
        for (Index d = 0; d < dim; ++d) d_p += at(d_out, row, dim, d) * at(v, h * k_len + j, dim, d);
        d_s[static_cast<std::size_t>(row * k_len + j)] = p[j] / sum * (d_p - o_d_o);
      }
    }
  }
  add_scores_backward(with(bias), in, bhtd<const double>(d_s.data(), 1, heads, q_len, k_len));
  for (std::size_t x = 0; x < d_table.size(); ++x) EXPECT_NEAR(own_d_table[x], d_table[x], 0x1p-44);
}

TEST(T5, DecodeStepIsTheLastRowOfTheMatrix) {
  Params params(Params::Shapes{{32, 4}});
  const T5Bias<float> bias(decoder, params.param<float, 2>(0));
  const Index length = 200;
  std::vector<float> all(static_cast<std::size_t>(4 * length * length)), last(static_cast<std::size_t>(4 * length));
  bias_matrix(with(bias), {}, {}, dense(all.data(), 4, length, length));
  bias_matrix(with(bias), Positions(length - 1), {}, dense(last.data(), 4, 1, length));
  for (Index h = 0; h < 4; ++h) {
    for (Index j = 0; j < length; ++j) {
      EXPECT_EQ(last[static_cast<std::size_t>(h * length + j)],
                all[static_cast<std::size_t>((h * length + length - 1) * length + j)]);
    }
  }
}

TEST(T5, TheLargestSpecsAreServedAtOnceAndRight) {
  // Thousands of their thresholds lie nearer to a whole number than a double can tell, and in whole numbers each would
  // take powers of millions of bits: most of a minute. Bounds that are in no doubt are the reference's.
  const T5 largest{.buckets = Index{1} << 20, .max_distance = max_position - 1, .direction = T5Direction::causal};
  const T5Buckets buckets(largest);
  for (std::size_t u = 0; u < buckets.thresholds().size(); u += 997) {
    const Index x = buckets.thresholds()[u];
    EXPECT_LE(x, largest.max_distance);
    EXPECT_NEAR(static_cast<double>(buckets(-x)), static_cast<double>(reference::t5_bucket(largest, -x)), 1) << x;
  }
  EXPECT_TRUE(std::is_sorted(buckets.thresholds().begin(), buckets.thresholds().end()));
}

TEST(T5, EveryNumberIsADistance) {
  using Limits = std::numeric_limits<Index>;
  for (const T5Direction direction : {T5Direction::bidirectional, T5Direction::causal}) {
    const T5 t5{.direction = direction};
    for (const Index distance : {Limits::min(), Limits::min() + 1, Limits::max()}) {
      EXPECT_EQ(t5_bucket(t5, distance), reference::t5_bucket(t5, distance)) << distance;
    }
    EXPECT_EQ(t5_bucket(t5, Limits::min()), direction == T5Direction::causal ? 31 : 15);
  }
}

TEST(T5, WrongCallsSayWhatMustHold) {
  expect_error<RangeError>(
      [] {
        t5_thresholds({3, 128, T5Direction::bidirectional});
      },
      "[T5] buckets: must leave each direction at least 2, and be at most 2^20, got 3");
  expect_error<RangeError>(
      [] {
        t5_bucket({1, 128, T5Direction::causal}, 0);
      },
      "[T5] buckets: must leave each direction at least 2, and be at most 2^20, got 1");
  expect_error<RangeError>(
      [] {
        T5Buckets({(1 << 20) + 1, max_position, T5Direction::causal});
      },
      "[T5] buckets: must leave each direction at least 2, and be at most 2^20, got 1048577");
  expect_error<RangeError>(
      [] {
        t5_thresholds({32, 8, T5Direction::bidirectional});
      },
      "[T5] max_distance: must be more than the 8 distances that have a bucket each, and at most "
      "2^31, got 8");
  expect_error<RangeError>(
      [] {
        t5_thresholds({32, max_position + 1, T5Direction::bidirectional});
      },
      "[T5] max_distance: must be more than the 8 distances that have a bucket each, and at most "
      "2^31, got 2147483649");

  Params params(Params::Shapes{{32, 2}, {2, 32}});
  std::vector<double> s(3 * 4, 7.0);
  const std::vector<double> halves = {0, 0.5};
  const auto wrong = [&](const T5Bias<double>& bias, Index heads, const Positions& k_positions) {
    bias_matrix(with(bias), {}, k_positions, dense(s.data(), heads, 2, 2));
  };
  const Param<double, 2> table = params.param<double, 2>(0), turned = params.param<double, 2>(1);
  expect_error<ShapeError>(
      [&] {
        wrong({encoder, table}, 3, {});
      },
      "[bias_matrix] T5.table: must be [buckets, heads] = [32, 3], got shape [32, 2]");
  expect_error<ShapeError>(
      [&] {
        wrong({encoder, turned}, 2, {});
      },
      "[bias_matrix] T5.table: must be [buckets, heads] = [32, 2], got shape [2, 32]");
  expect_error<ShapeError>(
      [&] {
        wrong({encoder, {}}, 2, {});
      },
      "[bias_matrix] T5.table: must be [buckets, heads] = [32, 2], got nothing");
  expect_error<ShapeError>(
      [&] {
        wrong({encoder, {table.value, turned.grad}}, 2, {});
      },
      "[bias_matrix] T5.table.grad: must have the shape of its parameter, [32, 2], got [2, 32]");
  expect_error<RangeError>(
      [&] {
        wrong({encoder, table}, 2, Positions(dense(halves.data(), 2)));
      },
      "[bias_matrix] k_positions: must be whole numbers for T5, got 0.5 for token 1 of sequence 0");
  EXPECT_EQ(s, std::vector<double>(12, 7.0));
}

}  // namespace
}  // namespace bearing
