#include <gtest/gtest.h>
#include <bearing/attention.hpp>
#include <bearing/encodings/deberta.hpp>
#include <bearing/encodings/dense_bias.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/deberta.hpp>
#include <bearing/scores.hpp>

#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/naive_attention.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Score;

constexpr Index heads = 2, dim = 6;

Params tables(const Deberta& deberta) {
  return Params(Params::Shapes{{heads, 2 * deberta.span(), dim}, {heads, 2 * deberta.span(), dim}});
}

// v1 and v2 with both terms and with one, in both indices; spans shorter and longer than the sequences of the cases.
const std::vector<Deberta> specs = {
    {.max_relative_positions = 5},
    {.max_relative_positions = 200},
    {.max_relative_positions = 32, .position_buckets = 8},
    {.max_relative_positions = 24, .position_buckets = 9, .index = DebertaIndex::paper},
    {.max_relative_positions = 7, .terms = DebertaTerms::c2p},
    {.max_relative_positions = 64, .position_buckets = 16, .terms = DebertaTerms::p2c, .index = DebertaIndex::paper},
};

TEST(Deberta, BucketsAreThoseOfTheAuthors) {
  const rapidjson::Document golden = test::golden("relative/deberta_log_buckets.json");
  const Index first = golden["first"].GetInt64();
  Index compared = 0;
  for (const auto& table : golden["tables"].GetArray()) {
    const Deberta deberta{.max_relative_positions = table["max_position"].GetInt64(),
                          .position_buckets = table["bucket_size"].GetInt64()};
    ASSERT_TRUE(table["differs_in_float64"].Empty());
    Index x = first;  // query minus key
    for (const Index bucket : test::integers(table["buckets"])) {
      ASSERT_EQ(deberta_bucket(deberta, -x), bucket) << x;
      ++x, ++compared;
    }
  }
  EXPECT_EQ(compared, 4 * 4097);
}

TEST(Deberta, BucketsAtTheirEdges) {
  const Deberta v3{.max_relative_positions = 512, .position_buckets = 256};
  const std::vector<std::array<Index, 2>> known = {{128, 128}, {200, 169}, {400, 233},
                                                   {510, 255}, {511, 255}, {512, 256}};
  for (const auto& [x, bucket] : known) {
    EXPECT_EQ(deberta_bucket(v3, -x), bucket);
    EXPECT_EQ(deberta_bucket(v3, x), -bucket);
  }
  EXPECT_EQ(deberta_bucket(Deberta{.max_relative_positions = 3}, -1000), 1000);
  // log(|x|/4)/log(27)·3 is whole at |x| = 12, 36 and 108, and must not be lifted by its rounding.
  const Deberta cubes{.max_relative_positions = 4 * 27 + 1, .position_buckets = 8};
  EXPECT_EQ(deberta_bucket(cubes, -12), 5);
  EXPECT_EQ(deberta_bucket(cubes, -13), 6);
  EXPECT_EQ(deberta_bucket(cubes, -36), 6);
  EXPECT_EQ(deberta_bucket(cubes, -37), 7);
  EXPECT_EQ(deberta_bucket(cubes, -108), 7);
  EXPECT_EQ(deberta_bucket(cubes, -109), 8);
}

TEST(Deberta, SoftmaxScaleCountsTheTerms) {
  EXPECT_EQ(deberta_softmax_scale(Deberta{}, 12), 1 / std::sqrt(36.0));
  EXPECT_EQ(deberta_softmax_scale(Deberta{.terms = DebertaTerms::c2p}, 8), 0.25);
}

template <class A>
DebertaTerm<A> term(const Deberta& deberta, Params& params) {
  return {deberta, deberta.c2p() ? params.param<A, 3>(0) : Param<A, 3>{},
          deberta.p2c() ? params.param<A, 3>(1) : Param<A, 3>{}};
}

TEST(Deberta, AgreesWithItsReferenceInScoresAndGradients) {
  for (const Deberta& deberta : specs) {
    Params params = tables(deberta);
    const auto make = [&deberta]<class A>(Params& p) { return term<A>(deberta, p); };
    const auto reference = [&deberta](const Params& p, const Score& s) {
      return reference::deberta(deberta, p.value<3>(0), p.value<3>(1), s.h, s.q, s.k, s.m, s.n, s.scale);
    };
    auto cases = test::score_cases(heads, dim);
    // Distances that spread over more rows of a table than a block of consecutive tokens meets.
    cases.push_back({1, heads, 1, 2, 140, dim, test::Place::shuffled});
    test::expect_reference_scores(make, params, cases, reference);
    test::expect_gradients(make, params, cases, reference);
    test::expect_float_gradients(make, params, cases);
    test::expect_same_bits_for_any_executor(make, params, cases);
  }
}

TEST(Deberta, AttentionsTilesAreThoseOfTheScores) {
  // Attention's tiles span 96 queries and 256 keys, the scores' 64 and 128: each cuts the diagonals elsewhere.
  const Index q_len = 150, k_len = 300;
  const test::ScoreCase c{1, heads, heads, q_len, k_len, dim, test::Place::offsets, 1, 170, 0};
  test::ScoreData data(c);
  std::vector<Deberta> all = specs;
  all.push_back({.max_relative_positions = 100, .position_buckets = 32});
  for (const Deberta& deberta : all) {
    Params params = tables(deberta);
    const DebertaTerm<double> encoding = term<double>(deberta, params);
    const auto size = static_cast<std::size_t>(heads * q_len);
    std::vector<double> scores(size * k_len), v(static_cast<std::size_t>(heads * k_len * 2)), out(size * 2),
        other = out;
    test::Random random(13);
    for (double& x : v) x = random.uniform(-1, 1);
    const ScoreInputs<double> in = data.inputs<double>(1);
    add_scores(with(encoding), in, bhtd(scores.data(), 1, heads, q_len, k_len));
    const DenseBias<double> bias(Param<double, 4>{bhtd<const double>(scores.data(), 1, heads, q_len, k_len)});
    const AttentionInputs<double> rows{in.q, in.k, bhtd<const double>(v.data(), 1, heads, k_len, 2), in.q_positions,
                                       in.k_positions};
    const AttentionOptions<double> options{.mask = Mask::none, .scale = 1};
    attention<double>(rows, bhtd(out.data(), 1, heads, q_len, 2), {}, with(encoding), options);
    attention<double>(rows, bhtd(other.data(), 1, heads, q_len, 2), {}, with(bias), options);
    // A weight is off by its score, whose three sums of 6 products below 1 round 20 times; values are below 1.
    for (std::size_t x = 0; x < out.size(); ++x) ASSERT_NEAR(out[x], other[x], 2 * 18 * 20 * 0x1p-52);
  }
}

TEST(Deberta, LongSumsAreRoundedByTheSizeOfTheirTerms) {
  // 4,096 products of both signs, some of whose sums nearly vanish: relative to such a sum the rounding is anything.
  const Index wide = 4096;
  const Deberta deberta{.max_relative_positions = 3};
  Params params(Params::Shapes{{heads, 2 * deberta.span(), wide}, {heads, 2 * deberta.span(), wide}});
  const auto make = [&deberta]<class A>(Params& p) { return term<A>(deberta, p); };
  const auto reference = [&deberta](const Params& p, const Score& s) {
    return reference::deberta(deberta, p.value<3>(0), p.value<3>(1), s.h, s.q, s.k, s.m, s.n, s.scale);
  };
  test::expect_reference_scores(make, params, {{1, heads, heads, 9, 9, wide}}, reference);
}

TEST(Deberta, OneIndexIsTheOtherWithTheTableTurnedAround) {
  // paper: row clamp(−x + span), code: row clamp(x + span); apart from the ends they mirror each other.
  const Deberta code{.max_relative_positions = 8, .terms = DebertaTerms::p2c};
  Deberta paper = code;
  paper.index = DebertaIndex::paper;
  std::vector<double> rows(16), mirrored(16), q(5, 1), k(5, 1), one(25), other(25);
  for (Index r = 0; r < 16; ++r) {
    rows[static_cast<std::size_t>(r)] = static_cast<double>(r * r);
    if (r > 0) mirrored[static_cast<std::size_t>(16 - r)] = static_cast<double>(r * r);
  }
  const DebertaTerm<double> first(code, {}, {dense<const double>(rows.data(), 1, 16, 1)});
  const DebertaTerm<double> second(paper, {}, {dense<const double>(mirrored.data(), 1, 16, 1)});
  const ScoreInputs<double> in{
      {}, {}, bhtd<const double>(q.data(), 1, 1, 5, 1), bhtd<const double>(k.data(), 1, 1, 5, 1)};
  add_scores(with(first), in, bhtd(one.data(), 1, 1, 5, 5));
  add_scores(with(second), in, bhtd(other.data(), 1, 1, 5, 5));
  EXPECT_EQ(one, other);
  EXPECT_NE(one[1], one[5]);
}

TEST(Deberta, AttentionIsThatOfTheModelsForwardAndBackward) {
  const rapidjson::Document golden = test::golden("attention/deberta_b2h2l9d8_bk8_mr32_c2p_p2c.json");
  const Index batch = 2, length = 9, features = 8, rows = 16;
  std::vector<std::vector<double>> kept;
  const auto activation = [&](const char* name) {
    kept.push_back(test::tensor(golden[name]).data);
    return bthd<const double>(kept.back().data(), batch, length, heads, features);
  };
  kept.reserve(16);
  const auto table = [&](const char* kind, const char* name) {  // [rows, heads · features]
    kept.push_back(test::tensor(golden[kind][name]).data);
    return View<const double, 3>{kept.back().data(), {heads, rows, features}, {features, heads * features, 1}};
  };
  const Deberta deberta{.max_relative_positions = golden["max_relative_positions"].GetInt64(),
                        .position_buckets = golden["position_buckets"].GetInt64()};
  std::vector<double> d_key(rows * heads * features), d_query(d_key.size());
  const DebertaTerm<double> encoding(deberta, {table("params", "pos_key"), dense(d_key.data(), heads, rows, features)},
                                     {table("params", "pos_query"), dense(d_query.data(), heads, rows, features)});
  // The data's own scale is HF's square root in float64.
  EXPECT_NEAR(golden["scale"].GetDouble(), deberta_softmax_scale(deberta, features), 0x1p-54);
  test::NaiveAttention attention{activation("q"), activation("k"), activation("v"), activation("grad_out"),
                                 deberta_softmax_scale(deberta, features)};
  attention.run(with(encoding));

  const std::vector<double> p = test::tensor(golden["attention_probs"]).data,
                            lse = test::tensor(golden["logsumexp"]).data;
  test::expect_tensor(attention.p, bhtd(p.data(), batch, heads, length, length), "p");
  test::expect_tensor(attention.lse, bhtd(lse.data(), batch, heads, length, 1), "logsumexp");
  test::expect_tensor(attention.out, activation("out"), "out");
  test::expect_tensor(attention.d_q, activation("grad_q"), "d_q");
  test::expect_tensor(attention.d_k, activation("grad_k"), "d_k");
  test::expect_tensor(attention.d_v, activation("grad_v"), "d_v");
  const auto compare = [&](const std::vector<double>& got, const char* name) {
    const View<const double, 3> wanted = table("grad_params", name);
    test::expect_tensor(got, {wanted.data, {1, heads, rows, features}, {0, wanted.stride[0], wanted.stride[1], 1}},
                        name);
  };
  compare(d_key, "pos_key");
  compare(d_query, "pos_query");
}

TEST(Deberta, WrongSpecsSayWhatMustHold) {
  expect_error<RangeError>([] { deberta_bucket({.max_relative_positions = 0}, 1); },
                           "[deberta_bucket] max_relative_positions: must be at least 1, got 0");
  expect_error<RangeError>([] { deberta_bucket({.position_buckets = -1}, 1); },
                           "[deberta_bucket] position_buckets: must be 0 (none) or at least 2, got -1");
  expect_error<RangeError>([] { deberta_bucket({.max_relative_positions = 5, .position_buckets = 8}, 1); },
                           "[deberta_bucket] max_relative_positions: must be at least 6 for 8 position_buckets, got 5");
  expect_error<RangeError>([] { deberta_bucket({}, Index{1} << 33); },
                           "[deberta_bucket] distance: must be at most 4294967296 either way, got 8589934592");
  expect_error<RangeError>([] { deberta_bucket({.max_relative_positions = Index{1} << 40}, 1); },
                           "[deberta_bucket] max_relative_positions, position_buckets: must be at most 2147483648, got "
                           "1099511627776, 0");
  expect_error<RangeError>([] { deberta_softmax_scale({}, 0); },
                           "[deberta_softmax_scale] dim: must be at least 1, got 0");
}

TEST(Deberta, WrongTablesSayWhatMustHold) {
  const Deberta deberta{.max_relative_positions = 4};
  std::vector<float> memory(2 * 8 * 6);
  const Param<float, 3> good{dense<const float>(memory.data(), 2, 8, 3)};
  const auto make = [](const Deberta& spec, Param<float, 3> key, Param<float, 3> query) {
    return [=] { DebertaTerm<float>(spec, key, query); };
  };
  expect_error<ShapeError>(
      make(deberta, {}, good),
      "[DebertaTerm] key: must be [heads, 8, dim] with features side by side, got shape [0, 0, 0], "
      "strides [0, 0, 0]");
  expect_error<ShapeError>(make(deberta, good, {dense<const float>(memory.data(), 2, 7, 3)}),
                           "[DebertaTerm] query: must be [heads, 8, dim] with features side by side, got shape "
                           "[2, 7, 3], strides [21, 3, 1]");
  expect_error<ShapeError>(
      make(deberta, {{memory.data(), {2, 8, 3}, {48, 6, 2}}}, good),
      "[DebertaTerm] key: must be [heads, 8, dim] with features side by side, got shape [2, 8, 3], "
      "strides [48, 6, 2]");
  expect_error<ShapeError>(make({.max_relative_positions = 4, .terms = DebertaTerms::p2c}, good, good),
                           "[DebertaTerm] key: must be empty, as the spec switches its term off");
  expect_error<ShapeError>(make(deberta, {good.value, dense(memory.data(), 2, 8, 2)}, good),
                           "[DebertaTerm] key.grad: must have the shape of the table, [2, 8, 3], got [2, 8, 2]");
  expect_error<ShapeError>(make(deberta, good, {dense<const float>(memory.data(), 1, 8, 3)}),
                           "[DebertaTerm] key, query: must have the same shape, got [2, 8, 3] and [1, 8, 3]");
}

TEST(Deberta, WrongCallsSayWhatMustHold) {
  const Deberta deberta{.max_relative_positions = 4};
  std::vector<float> memory(2 * 8 * 6), s(2 * 2 * 2, 7.0f);
  const Param<float, 3> table{dense<const float>(memory.data(), 2, 8, 3)};
  const DebertaTerm<float> encoding(deberta, table, table);
  const auto scores = bhtd(s.data(), 1, 2, 2, 2);
  expect_error<ShapeError>([&] { add_scores(with(encoding), {}, scores); },
                           "[add_scores] Deberta.key: must be for queries and keys of 2 heads of 0 features, got shape "
                           "[2, 8, 3]");
  const double half[] = {0, 0.5};
  ScoreInputs<float> in{{},
                        Positions(dense(half, 2)),
                        bhtd<const float>(memory.data(), 1, 2, 2, 3),
                        bhtd<const float>(memory.data(), 1, 2, 2, 3)};
  expect_error<RangeError>(
      [&] { add_scores(with(encoding), in, scores); },
      "[add_scores] k_positions: must be whole numbers for Deberta, got 0.5 for token 1 of sequence 0");
  EXPECT_EQ(s, std::vector<float>(8, 7.0f));
}

}  // namespace
}  // namespace bearing
