#include <bearing/encodings/t5_axis.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/t5_axis.hpp>

#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Score;
using test::ScoreCase;

std::vector<ScoreCase> cases_on(Index axes, test::Place place) {
  std::vector<ScoreCase> cases = test::score_cases(3, 0, {place});
  for (ScoreCase& c : cases) c.axes = axes;
  return cases;
}

void expect_all(const T5Axis& spec, const std::vector<ScoreCase>& cases) {
  Params params(Params::Shapes{{spec.buckets, 3}});
  const auto make = [spec]<class A>(Params& p) { return T5AxisBias<A>(spec, p.param<A, 2>(0)); };
  const auto reference = [spec](const Params& p, const Score& s) {
    return reference::t5_axis(spec, p.value<2>(0), s.h, s.q_positions[spec.axis], s.k_positions[spec.axis]);
  };
  test::expect_reference_scores(make, params, cases, reference);
  test::expect_gradients(make, params, cases, reference);
  test::expect_float_gradients(make, params, cases);
  test::expect_same_bits_for_any_executor(make, params, cases);
}

TEST(T5Axis, AgreesWithItsReference) {
  constexpr T5Direction both = T5Direction::bidirectional;
  expect_all({.direction = both, .axis = 0}, test::score_cases(3, 0));
  expect_all({.buckets = 64, .max_distance = 256, .direction = both, .axis = 1}, cases_on(2, test::Place::shuffled));
  expect_all({.buckets = 8, .max_distance = 20, .direction = T5Direction::causal, .axis = 2, .scale = 0.25},
             cases_on(3, test::Place::shuffled));
  expect_all({.max_distance = 100, .direction = both, .axis = 1, .multiplier = 7.5}, cases_on(2, test::Place::real));
}

TEST(T5Axis, OnTheFirstAxisIsT5ToTheBit) {
  Params params(Params::Shapes{{32, 3}});
  const T5AxisBias<float> axis({.direction = T5Direction::bidirectional, .axis = 0}, params.param<float, 2>(0));
  const T5Bias<float> t5({.direction = T5Direction::bidirectional}, params.param<float, 2>(0));
  std::vector<float> a(3 * 70 * 90), b(a.size());
  add_scores(with(axis), {Positions(20), {}}, bhtd(a.data(), 1, 3, 70, 90));
  add_scores(with(t5), {Positions(20), {}}, bhtd(b.data(), 1, 3, 70, 90));
  EXPECT_EQ(a, b);
}

TEST(T5Axis, ThreeAddUpToLayoutLMv3) {
  const rapidjson::Document golden = test::golden("t5/layoutlmv3.json");
  std::vector<double> at;
  for (const char* axis : {"positions", "left", "lower"}) {
    for (const Index x : test::integers(golden[axis])) at.push_back(static_cast<double>(x));
  }
  const Index heads = 2, n = static_cast<Index>(at.size()) / 3;
  const std::vector<double> text = test::tensor(golden["text"]).data, x = test::tensor(golden["x"]).data;
  const std::vector<double> y = test::tensor(golden["y"]).data, truth = test::tensor(golden["scores"]).data;
  const double scale = 1 / std::sqrt(8.0);
  const T5Axis first{.direction = T5Direction::bidirectional, .axis = 0, .scale = scale};
  const T5Axis box{
      .buckets = 64, .max_distance = 256, .direction = T5Direction::bidirectional, .axis = 1, .scale = scale};
  T5Axis lower = box;
  lower.axis = 2;
  const T5AxisBias<double> by_text(first, {dense(text.data(), 32, heads)});
  const T5AxisBias<double> by_left(box, {dense(x.data(), 64, heads)}), by_lower(lower, {dense(y.data(), 64, heads)});
  const Positions places(dense<const double>(at.data(), 3, 1, n));
  std::vector<double> s(truth.size());
  add_scores(with(by_text, by_left, by_lower), {places, places}, bhtd(s.data(), 1, heads, n, n));
  // Three products below 1, each rounded, and their sum.
  for (std::size_t i = 0; i < s.size(); ++i) EXPECT_NEAR(s[i], truth[i], 0x1p-50);
}

TEST(T5Axis, DifferencesAreMultipliedAndCutTowardsZero) {
  // UDOP's 100 times: boxes at 0.25 and 0.5 are 25 apart, 0.0078125 less than one.
  const T5Axis udop{.max_distance = 100, .direction = T5Direction::bidirectional, .axis = 1, .multiplier = 100};
  const std::vector<double> at{0, 0, 0, 0.25, 0.5, 0.2578125};  // the second axis last
  std::vector<double> table(32), s(9);
  for (std::size_t u = 0; u < 32; ++u) table[u] = static_cast<double>(u);
  const T5AxisBias<double> bias(udop, {dense<const double>(table.data(), 32, 1)});
  const Positions places(dense<const double>(at.data(), 2, 1, 3));
  add_scores(with(bias), {places, places}, bhtd(s.data(), 1, 1, 3, 3));
  const auto far = static_cast<double>(reference::t5_axis(udop, dense<const double>(table.data(), 32, 1), 0, 0, 0.25));
  EXPECT_EQ(s, (std::vector<double>{0, far, 0, far - 16, 0, far - 16, 0, far, 0}));
  EXPECT_GT(far, 16);
}

TEST(T5Axis, WrongCallsSayWhatMustHold) {
  std::vector<double> table(32 * 2), s(2 * 4 * 4, 7.0), at{0, 1, 2, 3, 0, 0.5, 1, 2};
  const auto made = [&](T5Axis spec) { return T5AxisBias<double>(spec, {dense<const double>(table.data(), 32, 2)}); };
  constexpr T5Direction both = T5Direction::bidirectional;
  expect_error<ShapeError>([&] { made({.direction = both, .axis = 4}); }, "[T5Axis] axis: must be from 0 to 3, got 4");
  expect_error<RangeError>([&] { made({.direction = both, .axis = 0, .scale = std::nan("")}); },
                           "[T5Axis] scale: must be finite, got nan");
  expect_error<RangeError>([&] { made({.buckets = 2, .direction = both, .axis = 0}); },
                           "[T5] buckets: must leave each direction at least 2, and be at most 2^20, got 2");
  const Positions places(dense<const double>(at.data(), 2, 1, 4));
  const auto call = [&](const T5AxisBias<double>& bias, const Positions& positions) {
    add_scores(with(bias), {positions, positions}, bhtd(s.data(), 1, 2, 4, 4));
  };
  expect_error<ShapeError>([&] { call(made({.direction = both, .axis = 2}), places); },
                           "[add_scores] q_positions: must have the axis T5Axis.axis = 2, got 2 axes");
  expect_error<RangeError>(
      [&] { call(made({.direction = both, .axis = 1}), places); },
      "[add_scores] q_positions: must be whole numbers for T5Axis, got 0.5 for token 1 of sequence "
      "0");
  expect_error<ShapeError>([&] { call(made({.buckets = 16, .direction = both, .axis = 0}), places); },
                           "[add_scores] T5Axis.table: must be [buckets, heads] = [16, 2], got shape [32, 2]");
  EXPECT_EQ(s, std::vector<double>(s.size(), 7.0));
  call(made({.direction = both, .axis = 0}), places);  // the other axis is not looked at
}

}  // namespace
}  // namespace bearing
