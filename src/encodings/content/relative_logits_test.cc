#include <gtest/gtest.h>
#include <bearing/encodings/relative_logits.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/relative_logits.hpp>
#include <bearing/scores.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Score;
using test::ScoreCase;

constexpr Index heads = 2, rank = 5;

const PositionTemperature temperature = PositionTemperature::inkling(10, 0.7);

/// Extents of the query's own place, within a tile, near its size and beyond every distance; norms of r that the clip
/// leaves alone, shortens some of, and all of. Five numbers from −1 to 1 have a norm of 1.3 on average.
std::vector<RelativeLogits> specs() {
  return {{1},
          {4, {}, temperature},
          {50, 1.3},
          {64, 0.01, temperature},
          {300, 100},
          {300, {}, temperature},
          {90, 1.3, temperature}};
}

auto maker(const RelativeLogits& spec) {
  return [spec]<class A>(Params& p) { return RelativeLogitsTerm<A>(spec, p.param<A, 3>(0), p.param<A, 4>(1)); };
}
auto reference_of(const RelativeLogits& spec) {
  return [spec](const Params& p, const Score& s) {
    return reference::relative_logits(spec, p.value<3>(0), p.value<4>(1), s.b, s.h, s.i, s.m, s.n);
  };
}

TEST(RelativeLogits, AgreesWithItsReference) {
  for (const RelativeLogits& spec : specs()) {
    for (const bool shared : {false, true}) {
      for (const ScoreCase& c : test::score_cases(heads, 0)) {
        Params params(
            Params::Shapes{{shared ? 1 : heads, spec.extent, rank}, {shared ? 1 : c.batch, heads, c.q_len, rank}});
        const auto make = maker(spec);
        test::expect_reference_scores(make, params, {c}, reference_of(spec));
        test::expect_gradients(make, params, {c}, reference_of(spec));
        test::expect_float_gradients(make, params, {c});
        test::expect_same_bits_for_any_executor(make, params, {c});
      }
    }
  }
}

// Scores are sums of 5 products of some units, gradients of some dozens of them: 2^-53 · 2^7 · 2^4.
constexpr double golden_tolerance = 0x1p-42;

TEST(RelativeLogits, ScoresAndGradientsAreInkling2s) {
  // More than half of r is clipped, and the temperature grows from the third token on.
  const rapidjson::Document golden = test::golden("relative/inkling2.json");
  const auto get = [&](const char* name) { return test::tensor(golden[name]); };
  const test::GoldenTensor table = get("table"), r = get("r"), truth = get("scores"), d_s = get("d_scores");
  const RelativeLogits spec{table.shape[0], golden["clip"].GetDouble(),
                            PositionTemperature::inkling(golden["n_floor"].GetDouble(), golden["alpha"].GetDouble())};
  std::vector<double> d_table(table.data.size()), d_r(r.data.size()), s(truth.data.size());
  const auto tables = [&](auto& numbers) { return dense(numbers.data(), 1, table.shape[0], table.shape[1]); };
  const auto rs = [&](auto& numbers) { return dense(numbers.data(), r.shape[0], r.shape[1], r.shape[2], r.shape[3]); };
  const RelativeLogitsTerm<double> term(spec, {tables(table.data), tables(d_table)}, {rs(r.data), rs(d_r)});
  const auto scores = [&](auto& numbers) {
    return bhtd(numbers.data(), truth.shape[0], truth.shape[1], truth.shape[2], truth.shape[3]);
  };
  add_scores(with(term), {}, scores(s));
  add_scores_backward(with(term), {}, scores(d_s.data));
  const auto expect_near = [](const std::vector<double>& own, const test::GoldenTensor& theirs, const char* name) {
    ASSERT_EQ(own.size(), theirs.data.size()) << name;
    for (std::size_t i = 0; i < own.size(); ++i) EXPECT_NEAR(own[i], theirs.data[i], golden_tolerance) << name << i;
  };
  expect_near(s, truth, "scores ");
  expect_near(d_table, get("d_table"), "d_table ");
  expect_near(d_r, get("d_r"), "d_r ");
}

TEST(RelativeLogits, AQueryMixesTheProfilesOfDistances) {
  // Profiles 0, 1, 2, … and 10, 20, 30, …; queries that take one, the other, and both.
  const RelativeLogits spec{3};
  const std::vector<double> table{0, 10, 1, 20, 2, 30}, r{1, 0, 0, 1, 1, 1, -1, 2};
  const RelativeLogitsTerm<double> term(spec, {dense(table.data(), 1, 3, 2)}, {dense(r.data(), 1, 1, 4, 2)});
  std::vector<double> s(16);
  add_scores(with(term), {}, bhtd(s.data(), 1, 1, 4, 4));
  EXPECT_EQ(s, (std::vector<double>{0, 0, 0, 0,        //
                                    20, 10, 0, 0,      //
                                    32, 21, 10, 0,     //
                                    0, 58, 39, 20}));  // three tokens away is outside
}

TEST(RelativeLogits, TheClipKeepsTheDirectionOfR) {
  const std::vector<double> table{1, 0, 0, 1}, r{30, 40};  // a norm of 50
  const auto at = [&](std::optional<double> clip) {
    const RelativeLogitsTerm<double> term({2, clip}, {dense(table.data(), 1, 2, 2)}, {dense(r.data(), 1, 1, 1, 2)});
    std::vector<double> s(2);
    add_scores(with(term), {.q_positions = Positions(1)}, bhtd(s.data(), 1, 1, 1, 2));
    return s;
  };
  EXPECT_EQ(at({}), (std::vector<double>{40, 30}));
  EXPECT_EQ(at(51), (std::vector<double>{40, 30}));
  const std::vector<double> clipped = at(8);
  EXPECT_NEAR(clipped[0], 8 * 40 / (50 + 1e-6), 0x1p-49);
  EXPECT_NEAR(clipped[1], 8 * 30 / (50 + 1e-6), 0x1p-49);
}

TEST(RelativeLogits, TheClipTakesTheGradientThatWouldLengthenR) {
  // r·∂r is what lengthening r would change: next to nothing where it is clipped.
  Params params(Params::Shapes{{1, 8, rank}, {1, 1, 8, rank}});
  for (const bool clipped : {false, true}) {
    params.clear_grads();
    const RelativeLogitsTerm<double> term({8, clipped ? 0.25 : 100}, params.param<double, 3>(0),
                                          params.param<double, 4>(1));
    const std::vector<double> d_s(64, 1.0);
    add_scores_backward(with(term), {}, bhtd<const double>(d_s.data(), 1, 1, 8, 8));
    for (std::size_t i = 0; i < 8; ++i) {
      double along = 0, size = 0;
      for (std::size_t u = 0; u < rank; ++u) {
        along += params.values(1)[rank * i + u] * params.grads(1)[rank * i + u];
        size += std::abs(params.values(1)[rank * i + u] * params.grads(1)[rank * i + u]);
      }
      if (clipped) {
        EXPECT_LT(std::abs(along), 1e-5 * size);  // 10⁻⁶ beside norms above 0.25
      } else {
        EXPECT_GT(std::abs(along), 1e-3 * size);
      }
    }
  }
}

TEST(RelativeLogits, AQueryThatHasNoPartMayHaveAnyR) {
  std::vector<double> d_s(64, 1.0);
  std::fill_n(d_s.begin() + 2 * 8, 8, 0.0);
  for (const std::optional<double> clip : {std::optional<double>(), std::optional(0.25)}) {
    std::vector<std::vector<double>> tables, rs;
    for (const double number :
         {1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      Params params(Params::Shapes{{1, 8, rank}, {1, 1, 8, rank}});
      std::vector<double> r = params.values(1);
      std::fill_n(r.begin() + 2 * rank, rank, number);
      std::vector<double> d_r(r.size());
      const RelativeLogitsTerm<double> term(
          {8, clip}, params.param<double, 3>(0),
          {dense<const double>(r.data(), 1, 1, 8, rank), dense(d_r.data(), 1, 1, 8, rank)});
      add_scores_backward(with(term), {}, bhtd<const double>(d_s.data(), 1, 1, 8, 8));
      tables.push_back(params.grads(0)), rs.push_back(d_r);
    }
    for (std::size_t n = 1; n < tables.size(); ++n) {
      EXPECT_EQ(tables[n], tables[0]);
      EXPECT_EQ(rs[n], rs[0]);
    }
  }
}

TEST(RelativeLogits, WrongCallsSayWhatMustHold) {
  std::vector<double> table(2 * 6 * 3), r(4 * 2 * 3), s(2 * 4 * 4, 7.0);
  const auto tables = dense<const double>(table.data(), 2, 6, 3);
  const auto rs = dense<const double>(r.data(), 1, 2, 4, 3);
  const auto make = [&](const RelativeLogits& spec) { RelativeLogitsTerm<double>(spec, {tables}, {rs}); };
  expect_error<RangeError>([&] { make({0}); }, "[RelativeLogitsTerm] extent: must be from 1 to 2^31, got 0");
  expect_error<RangeError>(
      [&] {
        make({6, 0});
      },
      "[RelativeLogitsTerm] clip: must be above 0 and finite, or left out, got 0");
  expect_error<RangeError>(
      [&] {
        make({6, {}, PositionTemperature::mistral_large4()});
      },
      "[RelativeLogitsTerm] temperature: must be stepped, clamped or power, got learned");
  expect_error<RangeError>(
      [&] {
        make({6, {}, PositionTemperature::inkling(0)});
      },
      "[RelativeLogitsTerm] length: must be finite and above 0, got 0");
  expect_error<ShapeError>([&] { make({7}); },
                           "[RelativeLogitsTerm] table: must be [heads or 1, extent, rank] = [2, 7, 3], got shape "
                           "[2, 6, 3]");
  expect_error<ShapeError>(
      [&] { RelativeLogitsTerm<double>({6}, {tables}, {dense<const double>(r.data(), 1, 2, 6, 2)}); },
      "[RelativeLogitsTerm] r: must be [batch or 1, heads, q_len, rank] = [1, 2, 6, 3], got shape [1, 2, 6, 2]");

  const RelativeLogitsTerm<double> term({6, {}, temperature}, {tables}, {rs});
  expect_error<ShapeError>([&] { add_scores(with(term), {}, bhtd(s.data(), 1, 4, 4, 2)); },
                           "[add_scores] RelativeLogits.table: must be one table for all heads or one for each of 4, "
                           "got 2");
  expect_error<ShapeError>([&] { add_scores(with(term), {}, bhtd(s.data(), 1, 2, 2, 4)); },
                           "[add_scores] RelativeLogits.r: must be [batch or 1, heads, q_len, rank] = [1, 2, 2, 3], "
                           "got shape [1, 2, 4, 3]");
  const std::vector<double> real{0, 0.5, 1, 2}, early{-2, 0, 1, 2};
  expect_error<RangeError>(
      [&] {
        add_scores(with(term), {Positions(dense(real.data(), 4)), {}}, bhtd(s.data(), 1, 2, 4, 4));
      },
      "[add_scores] q_positions: must be whole numbers for RelativeLogits, got 0.5 for token 1 of sequence 0");
  expect_error<RangeError>(
      [&] {
        add_scores(with(term), {Positions(dense(early.data(), 4)), {}}, bhtd(s.data(), 1, 2, 4, 4));
      },
      "[add_scores] positions: temperature needs positions of at least -first = -1, got -2");
  EXPECT_EQ(s, std::vector<double>(s.size(), 7.0));
}

}  // namespace
}  // namespace bearing
