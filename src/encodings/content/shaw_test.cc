#include <gtest/gtest.h>
#include <bearing/encodings/shaw.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/shaw.hpp>
#include <bearing/scores.hpp>

#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/naive_attention.hpp"
#include "support/terms.hpp"
#include "support/value_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Place;
using test::Score;

// Clips of nothing but the query's own place, within a tile, near its size, and beyond every distance of the cases.
const std::vector<Index> clips = {0, 3, 50, 300};

/// Each of them both ways, the widest once: nothing lies outside it.
std::vector<Shaw> specs() {
  std::vector<Shaw> specs;
  for (const Index clip : clips) specs.push_back({clip});
  for (const Index clip : {0, 3, 50}) specs.push_back({clip, ShawOutside::zero});
  return specs;
}

constexpr Index heads = 2, dim = 6;

Params tables(const Shaw& shaw, Index count, Index features = dim) {
  return Params(Params::Shapes{{count, shaw.rows(), features}, {count, shaw.rows(), features}});
}

TEST(Shaw, KeysAgreeWithTheirReference) {
  for (const Shaw& shaw : specs()) {
    for (const Index count : {Index{1}, heads}) {
      Params params = tables(shaw, count);
      const auto make = [&]<class A>(Params& p) { return ShawTerm<A>(shaw, p.param<A, 3>(0), p.param<A, 3>(1)); };
      const auto reference = [&](const Params& p, const Score& s) {
        return reference::shaw_score(shaw, p.value<3>(0), s.h, s.m, s.n, s.q, s.scale);
      };
      const auto cases = test::score_cases(heads, dim);
      test::expect_reference_scores(make, params, cases, reference);
      test::expect_gradients(make, params, cases, reference);
      test::expect_float_gradients(make, params, cases);
      test::expect_same_bits_for_any_executor(make, params, cases);
    }
  }
}

TEST(Shaw, ValuesAgreeWithTheirReference) {
  for (const Shaw& shaw : specs()) {
    for (const Index count : {Index{1}, heads}) {
      Params params = tables(shaw, count);
      const auto make = [&]<class A>(Params& p) { return ShawTerm<A>(shaw, p.param<A, 3>(0), p.param<A, 3>(1)); };
      const auto reference = [&](const Params& p, const Score& s, Index d) {
        return reference::shaw_value(shaw, p.value<3>(1), s.h, s.m, s.n, d);
      };
      const auto cases = test::score_cases(heads, dim);
      test::expect_reference_values(make, params, cases, reference);
      test::expect_value_gradients(make, params, cases, reference);
      test::expect_same_value_bits_for_any_executor(make, params, cases);
    }
  }
}

TEST(Shaw, NothingIsAddedOutsideAWindowOfZeros) {
  // VITS: a window of 4, of scores and values. Consecutive tokens, across tiles, and shuffled ones, score by score.
  const Shaw vits{4, ShawOutside::zero};
  EXPECT_EQ(vits.rows(), 9);
  EXPECT_EQ(vits.row(4), 8);
  EXPECT_EQ(vits.row(5), -1);
  EXPECT_EQ(vits.row(-5), -1);
  const Index time = 150;
  const std::vector<double> table(9 * 2, 1), q(time * 2, 1), p(time * time, 1);
  const ShawTerm<double> term(vits, Param<double, 2>{dense(table.data(), 9, 2)},
                              Param<double, 2>{dense(table.data(), 9, 2)});
  std::vector<Index> positions(time);
  for (const Index step : {1, 37}) {
    for (Index t = 0; t < time; ++t) positions[static_cast<std::size_t>(t)] = step * t % time;
    const Positions at(dense(positions.data(), time));
    std::vector<double> s(time * time, -5), o(time * 2);
    add_scores(with(term), {at, at, bhtd(q.data(), 1, 1, time, 2), bhtd(q.data(), 1, 1, time, 2), 0.5},
               dense(s.data(), 1, 1, time, time));
    add_values(with(term), at, at, dense(p.data(), 1, 1, time, time), bhtd(o.data(), 1, 1, time, 2));
    for (Index i = 0; i < time; ++i) {
      const Index m = positions[static_cast<std::size_t>(i)];
      for (Index j = 0; j < time; ++j) {
        const bool near = std::abs(positions[static_cast<std::size_t>(j)] - m) <= 4;
        ASSERT_EQ(s[static_cast<std::size_t>(i * time + j)], near ? -4 : -5) << i << ' ' << j;
      }
      const auto met = static_cast<double>(std::min(m, Index{4}) + 1 + std::min(time - 1 - m, Index{4}));
      ASSERT_EQ(o[static_cast<std::size_t>(2 * i + 1)], met);
    }
  }
}

TEST(Shaw, WideHeadsAndOneSharedTable) {
  const Shaw shaw{5};
  Params params(Params::Shapes{{shaw.rows(), 33}});
  const auto make = [&]<class A>(Params& p) { return ShawTerm<A>(shaw, p.param<A, 2>(0)); };
  const auto reference = [&](const Params& p, const Score& s) {
    const View<const double, 2> key = p.value<2>(0);
    return reference::shaw_score(shaw, {key.data, {1, key.shape[0], 33}, {0, 33, 1}}, s.h, s.m, s.n, s.q, s.scale);
  };
  // 33 products of at most 1, times 0.375: 35 roundings of a sum of at most 13 are 2^-44.
  test::expect_reference_scores(make, params, test::score_cases(3, 33), reference, 0x1p-44);
  test::expect_gradients(make, params, test::score_cases(3, 33), reference);
}

TEST(Shaw, ValueTableAloneAddsNothingToScores) {
  const Shaw shaw{2};
  Params params(Params::Shapes{{shaw.rows(), dim}});
  const ShawTerm<double> term(shaw, Param<double, 2>{}, params.param<double, 2>(0));
  std::vector<double> s(20, 1.5);
  add_scores(with(term), {}, dense(s.data(), 1, 1, 4, 5));
  EXPECT_EQ(s, std::vector<double>(20, 1.5));
  const auto make = [&]<class A>(Params& p) { return ShawTerm<A>(shaw, Param<A, 2>{}, p.param<A, 2>(0)); };
  const auto reference = [&](const Params& p, const Score& score, Index d) {
    const View<const double, 2> value = p.value<2>(0);
    return reference::shaw_value(shaw, {value.data, {1, 5, dim}, {0, dim, 1}}, 0, score.m, score.n, d);
  };
  test::expect_reference_values(make, params, test::score_cases(heads, dim), reference);
  test::expect_value_gradients(make, params, test::score_cases(heads, dim), reference);
}

TEST(Shaw, PackedSequencesAreRunsOfTheirOwn) {
  // Three sequences in one row of tokens, the last of them counting by twos, and keys that begin elsewhere.
  const std::vector<Index> queries = {0, 1, 2, 3, 4, 0, 1, 2, 10, 12, 14}, keys = {7, 8, 9, 0, 1, 2, 3, -4, -3, 12, 11};
  const Shaw shaw{4};
  Params params = tables(shaw, 1);
  const ShawTerm<double> term(shaw, params.param<double, 3>(0), params.param<double, 3>(1));
  test::Random random(3);
  std::vector<double> q(11 * dim), k(11 * dim), s(121), p(121), out(11 * dim);
  for (double& x : q) x = random.uniform(-1, 1);
  for (double& x : p) x = random.uniform(0, 1);
  const Positions q_positions(dense(queries.data(), 11)), k_positions(dense(keys.data(), 11));
  const auto rows = bhtd<const double>(q.data(), 1, 1, 11, dim);
  add_scores(with(term), {q_positions, k_positions, rows, bhtd<const double>(k.data(), 1, 1, 11, dim), 0.5},
             dense(s.data(), 1, 1, 11, 11));
  add_values(with(term), q_positions, k_positions, dense<const double>(p.data(), 1, 1, 11, 11),
             dense(out.data(), 1, 1, 11, dim));
  for (std::size_t i = 0; i < 11; ++i) {
    const auto m = static_cast<double>(queries[i]);
    std::vector<double> o(dim);
    for (std::size_t j = 0; j < 11; ++j) {
      const auto n = static_cast<double>(keys[j]);
      const View<const double, 1> q_i{&q[i * dim], {dim}, {1}};
      EXPECT_NEAR(s[i * 11 + j], reference::shaw_score(shaw, params.value<3>(0), 0, m, n, q_i, 0.5), 0x1p-48);
      for (Index d = 0; d < dim; ++d) {
        o[static_cast<std::size_t>(d)] += p[i * 11 + j] * reference::shaw_value(shaw, params.value<3>(1), 0, m, n, d);
      }
    }
    for (std::size_t d = 0; d < dim; ++d) EXPECT_NEAR(out[i * dim + d], o[d], 13 * 11 * 0x1p-53);
  }
}

TEST(Shaw, RowsAreThoseOfThePaper) {
  const rapidjson::Document golden = test::golden("relative/shaw_index_q4_k4_K2.json");
  const std::vector<Index> index = test::integers(golden["index"]);
  const Shaw shaw{golden["K"].GetInt64()};
  const std::vector<double> key = {0, 1, 2, 3, 4}, one(4, 1);  // a row's only feature is its number
  const ShawTerm<double> term(shaw, Param<double, 2>{dense(key.data(), 5, 1)});
  std::vector<double> s(16);
  const auto rows = bhtd(one.data(), 1, 1, 4, 1);
  add_scores(with(term), {{}, {}, rows, rows}, dense(s.data(), 1, 1, 4, 4));
  for (std::size_t x = 0; x < 16; ++x) EXPECT_EQ(s[x], static_cast<double>(index[x]));
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 0; j < 4; ++j) EXPECT_EQ(shaw.row(j - i), index[static_cast<std::size_t>(4 * i + j)]);
  }
}

TEST(Shaw, AttentionIsThatOfTheDefinition) {
  const rapidjson::Document golden = test::golden("attention/shaw_b2h4kv2q7k7d16c.json");
  std::vector<std::vector<double>> memory;
  memory.reserve(16);
  const auto tensor = [&](const rapidjson::Value& value) {
    auto [shape, data] = test::tensor(value);
    memory.push_back(std::move(data));
    return bhtd<const double>(memory.back().data(), shape[0], shape[1], shape[2], shape[3]);
  };
  const auto table = [&](const rapidjson::Value& value) {
    auto [shape, data] = test::tensor(value);
    memory.push_back(std::move(data));
    return dense<const double>(memory.back().data(), shape[0], shape[1]);
  };
  const View<const double, 2> key = table(golden["params"]["a_k"]), value = table(golden["params"]["a_v"]);
  std::vector<double> d_key(static_cast<std::size_t>(key.size())), d_value(d_key.size());
  const ShawTerm<double> term(Shaw{golden["max_relative_position"].GetInt64()},
                              Param<double, 2>{key, dense(d_key.data(), key.shape[0], key.shape[1])},
                              Param<double, 2>{value, dense(d_value.data(), key.shape[0], key.shape[1])});
  test::NaiveAttention attention{tensor(golden["q"]), tensor(golden["k"]), tensor(golden["v"]),
                                 tensor(golden["grad_out"]), golden["scale"].GetDouble()};
  attention.causal = true;
  attention.run(with(term));
  test::expect_tensor(attention.out, tensor(golden["out"]), "out");
  test::expect_tensor(attention.d_q, tensor(golden["grad_q"]), "d_q");
  test::expect_tensor(attention.d_k, tensor(golden["grad_k"]), "d_k");
  test::expect_tensor(attention.d_v, tensor(golden["grad_v"]), "d_v");
  const auto compare = [&](const std::vector<double>& got, const char* name) {
    const View<const double, 2> wanted = table(golden["grad_params"][name]);
    test::expect_tensor(got, bhtd(wanted.data, 1, 1, wanted.shape[0], wanted.shape[1]), name);
  };
  compare(d_key, "a_k");
  compare(d_value, "a_v");
}

TEST(Shaw, WrongCallsSayWhatMustHold) {
  std::vector<float> memory(1000);
  const auto table = [&](Index count, Index rows, Index features) {
    return Param<float, 3>{dense<const float>(memory.data(), count, rows, features)};
  };
  expect_error<RangeError>([&] { ShawTerm<float>(Shaw{-1}, table(1, 1, 4)); },
                           "[ShawTerm] clip: must be from 0 to 2^31, got -1");
  expect_error<ShapeError>([&] { ShawTerm<float>(Shaw{2}, Param<float, 2>{}); },
                           "[ShawTerm] key, value: one of the tables must be given, got neither");
  expect_error<ShapeError>([&] { ShawTerm<float>(Shaw{2}, table(1, 4, 8)); },
                           "[ShawTerm] key: must have 2 * clip + 1 = 5 rows, got shape [1, 4, 8]");
  expect_error<ShapeError>(
      [&] {
        ShawTerm<float>(Shaw{2}, Param<float, 3>{{memory.data(), {1, 5, 8}, {40, 1, 5}}});
      },
      "[ShawTerm] key: must have a last stride of 1, got 5");
  std::vector<float> d_lost(1 * 5 * 8);
  expect_error<ShapeError>(
      [&] {
        ShawTerm<float>(Shaw{2}, Param<float, 3>{{}, dense(d_lost.data(), 1, 5, 8)},
                        Param<float, 3>{dense<const float>(d_lost.data(), 1, 5, 8)});
      },
      "[ShawTerm] key.grad: must be empty where the table is left out, got shape [1, 5, 8]");
  expect_error<ShapeError>(
      [&] {
        ShawTerm<float>(Shaw{2}, {}, Param<float, 3>{table(1, 5, 8).value, dense(memory.data(), 1, 5, 4)});
      },
      "[ShawTerm] value.grad: must have the shape of its parameter, [1, 5, 8], got [1, 5, 4]");

  const ShawTerm<float> term(Shaw{2}, table(3, 5, 8), table(1, 5, 6));
  std::vector<float> x(1000), s(18, 7.0f);
  const auto scores = dense(s.data(), 1, 2, 3, 3);
  const auto q = bhtd<const float>(x.data(), 1, 2, 3, 8), narrow = bhtd<const float>(x.data(), 1, 2, 3, 4);
  expect_error<ShapeError>(
      [&] {
        add_scores(with(term), {{}, {}, q, q}, scores);
      },
      "[add_scores] Shaw.key: must be one table for all heads or one for each of 2, got 3");
  const ShawTerm<float> fits(Shaw{2}, table(2, 5, 8), table(1, 5, 6));
  expect_error<ShapeError>([&] { add_scores(with(fits), {}, scores); },
                           "[add_scores] Shaw.key: must have queries and keys to multiply, got none");
  expect_error<ShapeError>(
      [&] {
        add_scores(with(fits), {{}, {}, narrow, narrow}, scores);
      },
      "[add_scores] Shaw.key: must have q's dim of 4, got 8");
  const std::vector<double> halves = {0, 0.5, 1};
  expect_error<RangeError>(
      [&] {
        add_scores(with(fits), {{}, Positions(dense(halves.data(), 3)), q, q}, scores);
      },
      "[add_scores] k_positions: must be whole numbers for Shaw, got 0.5 for token 1 of sequence 0");
  expect_error<ShapeError>(
      [&] { add_values(with(fits), {}, {}, dense<const float>(x.data(), 1, 2, 3, 3), dense(s.data(), 1, 2, 3, 3)); },
      "[add_values] Shaw.value: must have v's dim of 3, got 6");
  EXPECT_EQ(s, std::vector<float>(18, 7.0f));
}

}  // namespace
}  // namespace bearing
