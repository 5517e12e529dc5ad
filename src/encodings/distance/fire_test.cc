#include <gtest/gtest.h>
#include <bearing/encodings/fire.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/fire.hpp>
#include <cstring>
#include <map>

#include "support/errors.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Place;
using test::Score;
using test::ScoreCase;
using test::ScoreData;

Params::Shapes shapes(Index heads, Index width) { return {{1}, {1}, {width}, {width}, {heads, width}, {heads}}; }

template <class A>
FireParams<A> network(Params& p) {
  return {p.param<A, 1>(0), p.param<A, 1>(1), p.param<A, 1>(2), p.param<A, 1>(3), p.param<A, 2>(4), p.param<A, 1>(5)};
}
FireParams<double> values(const Params& p) {
  return {{p.value<1>(0)}, {p.value<1>(1)}, {p.value<1>(2)}, {p.value<1>(3)}, {p.value<2>(4)}, {p.value<1>(5)}};
}

// One unit that passes x on: the bias is x.
struct Identity {
  double c = Fire::initial_c, multiplier = Fire::initial_multiplier, one = 1, zero = 0;
  FireParams<double> params() const {
    return {{dense(&c, 1)},    {dense(&multiplier, 1)}, {dense(&one, 1)},
            {dense(&zero, 1)}, {dense(&one, 1, 1)},     {dense(&zero, 1)}};
  }
};

// No unit's corner lies where a central difference would straddle it: every score keeps its line when one number
// that it depends on moves by a step.
bool is_smooth(const Fire& fire, Params& p, const ScoreCase& c) {
  const double step = 0x1p-17;
  ScoreData data(c);
  bool smooth = true;
  test::over_scores(c, [&](Index b, Index h, Index i, Index j) {
    const Score s = data.at(b, h, i, j, 1);
    const auto x = [&](double d_c, double d_l) {
      const Identity moved{p.values(0)[0] + d_c, p.values(1)[0] + d_l};
      return reference::fire({.mlp_width = 1, .threshold = fire.threshold}, moved.params(), 0, s.m, s.n);
    };
    const double all_x[] = {x(0, 0), x(step, 0), x(-step, 0), x(0, step), x(0, -step)};
    for (std::size_t u = 0; u < p.values(2).size(); ++u) {
      const auto unit = [&](double at) { return p.values(2)[u] * at + p.values(3)[u]; };
      for (const double at : all_x) {
        smooth = smooth && std::abs(unit(at)) > step * (at + 1) && (unit(at) > 0) == (unit(all_x[0]) > 0);
      }
    }
  });
  return smooth;
}

TEST(Fire, AgreesWithItsReference) {
  const auto cases = test::score_cases(3, 0, {Place::offsets, Place::shuffled, Place::real});
  bool c_positive = false, c_negative = false, l_positive = false, l_negative = false;
  std::map<Index, std::size_t> smooth_shapes;
  for (const std::uint64_t seed : {1u, 3u, 6u, 7u}) {
    for (const Index width : {1, 5, 32}) {
      const Fire fire{.mlp_width = width, .threshold = 9};
      Params params(shapes(3, width), -1, 1, seed);
      c_positive = c_positive || params.values(0)[0] > 0;
      c_negative = c_negative || params.values(0)[0] < 0;
      l_positive = l_positive || params.values(1)[0] > 0;
      l_negative = l_negative || params.values(1)[0] < 0;
      const auto make = [fire]<class A>(Params& p) { return FireBias<A>(fire, network<A>(p)); };
      const auto reference = [fire](const Params& p, const Score& s) {
        return reference::fire(fire, values(p), s.h, s.m, s.n);
      };
      // Slopes of up to 32 weights below 1 multiply the rounding of x, which is up to 20: 2^-53 · 32 · 20.
      test::expect_reference_scores(make, params, cases, reference, 0x1p-43);
      std::vector<ScoreCase> smooth;
      for (const ScoreCase& c : cases) {
        if (c.q_len * c.k_len <= 400 && is_smooth(fire, params, c)) smooth.push_back(c);
      }
      smooth_shapes[width] += smooth.size();
      test::expect_gradients(make, params, smooth, reference);
      test::expect_float_gradients(make, params, cases);
      test::expect_same_bits_for_any_executor(make, params, cases);
    }
  }
  EXPECT_TRUE(c_positive && c_negative && l_positive && l_negative);
  for (const auto& [width, count] : smooth_shapes) EXPECT_GE(count, 36) << width;  // of 4 seeds × 3 places × 4 shapes
}

// A large matrix is written by vectors past the caches, with corners followed from row to row; a row alone searches its
// corners, and one key is a number alone.
TEST(Fire, LargeMatricesHaveTheBitsOfRowsAndKeysAlone) {
  const Index heads = 2, length = 1501;
  Params params(shapes(heads, 32), -1, 1, 3);
  params.values(0)[0] = 0.1;
  const FireBias<float> bias({.threshold = 100}, network<float>(params));
  std::vector<float> all(static_cast<std::size_t>(heads * length * length)), one(2);
  ASSERT_GE(all.size() * sizeof(float), std::size_t{16} << 20);
  test::on_every_target([&] {
    bias_matrix(with(bias), {}, {}, dense(all.data(), heads, length, length));
    for (Index i = 0; i < length; i += 50) {
      std::vector<float> both(static_cast<std::size_t>(heads * length));
      bias_matrix(with(bias), Positions(i), {}, dense(both.data(), heads, 1, length));
      for (Index h = 0; h < heads; ++h) {
        const float* of = all.data() + (h * length + i) * length;
        ASSERT_EQ(std::memcmp(of, both.data() + h * length, sizeof(float) * static_cast<std::size_t>(length)), 0)
            << h << ", " << i;
        for (Index j = i % 7; j < length; j += 97) {
          bias_matrix(with(bias), Positions(i), Positions(j), dense(one.data(), heads, 1, 1));
          ASSERT_EQ(of[j], one[static_cast<std::size_t>(h)]) << h << ", " << i << ", " << j;
        }
      }
    }
  });
}

TEST(Fire, SqueezesEveryCausalDistanceIntoTheUnitInterval) {
  const Identity identity;
  const Fire fire{.mlp_width = 1};
  const FireBias<double> bias(fire, identity.params());
  for (const Index m : {0, 1, 100, 511, 512, 513, 5000}) {
    std::vector<double> x(static_cast<std::size_t>(m + 1));
    bias_matrix(with(bias), Positions(m), {}, dense(x.data(), 1, 1, m + 1));
    EXPECT_EQ(x.back(), 0);
    for (std::size_t n = 1; n < x.size(); ++n) EXPECT_LT(x[n], x[n - 1]);
    EXPECT_LE(x.front(), 1);
    EXPECT_GT(x.front(), m >= 512 ? 1 - 1e-6 : -1);  // eps / ln(52)
  }
  // Below the threshold distances are divided by the same number: they keep their bias as the sequence grows.
  EXPECT_EQ(reference::fire(fire, identity.params(), 0, 100, 40),
            reference::fire(fire, identity.params(), 0, 400, 340));
  EXPECT_GT(reference::fire(fire, identity.params(), 0, 600, 540),
            reference::fire(fire, identity.params(), 0, 900, 840));
}

TEST(Fire, AUnitAtExactlyZeroIsOff) {
  const double c = 0.1, multiplier = 1, out_bias = 0;
  const std::vector<double> weight = {1, -1, 0}, hidden_bias = {0, 0, 0}, out = {1, 1, 1};
  std::vector<double> d_weight(3), d_bias(3), d_out(3);
  const FireBias<double> bias({.mlp_width = 3}, {{dense(&c, 1)},
                                                 {dense(&multiplier, 1)},
                                                 {dense(weight.data(), 3), dense(d_weight.data(), 3)},
                                                 {dense(hidden_bias.data(), 3), dense(d_bias.data(), 3)},
                                                 {dense(out.data(), 1, 3), dense(d_out.data(), 1, 3)},
                                                 {dense(&out_bias, 1)}});
  const double d_s = 1;
  add_scores_backward(with(bias), {}, bhtd(&d_s, 1, 1, 1, 1));  // distance 0: x = 0
  EXPECT_EQ(d_weight, std::vector<double>(3, 0.0));
  EXPECT_EQ(d_bias, std::vector<double>(3, 0.0));
  EXPECT_EQ(d_out, std::vector<double>(3, 0.0));
  add_scores_backward(with(bias), {Positions(1)}, bhtd(&d_s, 1, 1, 1, 1));  // x > 0: the first unit is on
  EXPECT_EQ(d_bias, (std::vector<double>{1, 0, 0}));
}

TEST(Fire, UnitsWithoutWeightAreConstants) {
  const double c = 0.1, multiplier = 1, out_bias = 0.25;
  const std::vector<double> weight = {0, 0}, hidden_bias = {0.5, -0.5}, out = {3, 100};
  const FireBias<double> bias({.mlp_width = 2}, {{dense(&c, 1)},
                                                 {dense(&multiplier, 1)},
                                                 {dense(weight.data(), 2)},
                                                 {dense(hidden_bias.data(), 2)},
                                                 {dense(out.data(), 1, 2)},
                                                 {dense(&out_bias, 1)}});
  std::vector<double> s(9);
  bias_matrix(with(bias), {}, {}, dense(s.data(), 1, 3, 3));
  EXPECT_EQ(s, std::vector<double>(9, 1.75));
}

TEST(Fire, WhatIsNotFiniteIsRefusedAlsoWhereNoUnitIsOn) {
  const std::string names[] = {"c", "multiplier", "hidden_weight", "hidden_bias", "out_weight", "out_bias"};
  for (std::size_t which = 0; which < 6; ++which) {
    for (const double number : {NAN, INFINITY, -INFINITY}) {
      Params params(shapes(1, 4));
      params.values(which).back() = number;
      const std::string name = "Fire." + names[which];
      try {
        const FireBias<double> bias({.mlp_width = 4, .threshold = 9}, network<double>(params));
        ADD_FAILURE() << name << " = " << number << " was taken";
      } catch (const RangeError& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with("[FireBias] " + name + ": must be finite, got "))
            << error.what();
      }
    }
  }
}

TEST(Fire, AnotherNetworkThanItWasMadeWithIsRefused) {
  Params params(shapes(2, 3));
  const FireBias<double> bias({.mlp_width = 3}, network<double>(params));
  std::vector<double> s(2 * 4, 7.0);
  for (std::size_t p = 2; p < params.count(); ++p) {
    const double value = params.values(p).back();
    params.values(p).back() += 0.5;  // as an optimiser's step does
    expect_error<ShapeError>(
        [&] { bias_matrix(with(bias), {}, {}, dense(s.data(), 2, 2, 2)); },
        "[bias_matrix] Fire: must be made again after its network has changed, got another network");
    params.values(p).back() = value;
  }
  EXPECT_EQ(s, std::vector<double>(8, 7.0));
  params.values(0)[0] = INFINITY;  // c is no part of the lines that were kept
  expect_error<RangeError>([&] { bias_matrix(with(bias), {}, {}, dense(s.data(), 2, 2, 2)); },
                           "[bias_matrix] Fire.c: must be finite, got inf at [0]");
}

TEST(Fire, WrongCallsSayWhatMustHold) {
  Params params(shapes(2, 4)), other(shapes(3, 5));
  const FireParams<double> good = network<double>(params), bad = network<double>(other);
  const auto make = [](const Fire& fire, const FireParams<double>& p) { return FireBias<double>(fire, p); };
  const Fire fire{.mlp_width = 4};
  expect_error<RangeError>([&] { make({.mlp_width = 0}, good); }, "[FireBias] mlp_width: must be at least 1, got 0");
  expect_error<RangeError>([&] { make({.mlp_width = 4, .threshold = 0}, good); },
                           "[FireBias] threshold: must be finite and above 0, got 0");
  expect_error<RangeError>([&] { make({.mlp_width = 4, .eps = INFINITY}, good); },
                           "[FireBias] eps: must be finite and above 0, got inf");
  FireParams<double> p = good;
  p.c = good.hidden_bias;
  expect_error<ShapeError>([&] { make(fire, p); }, "[FireBias] Fire.c: must be [1] = [1], got shape [4]");
  p = good, p.multiplier = {};
  expect_error<ShapeError>([&] { make(fire, p); }, "[FireBias] Fire.multiplier: must be [1] = [1], got nothing");
  p = good, p.hidden_weight = bad.hidden_weight;
  expect_error<ShapeError>([&] { make(fire, p); },
                           "[FireBias] Fire.hidden_weight: must be [mlp_width] = [4], got shape [5]");
  p = good, p.hidden_bias.grad = bad.hidden_bias.grad;
  expect_error<ShapeError>([&] { make(fire, p); },
                           "[FireBias] Fire.hidden_bias.grad: must have the shape of its parameter, [4], got [5]");
  p = good, p.out_weight = bad.out_weight;
  expect_error<ShapeError>([&] { make(fire, p); },
                           "[FireBias] Fire.out_weight: must be [heads, mlp_width] = [2, 4], got shape [3, 5]");
  std::vector<double> s(3 * 4, 7.0);
  const FireBias<double> bias = make(fire, good);
  expect_error<ShapeError>([&] { bias_matrix(with(bias), {}, {}, dense(s.data(), 3, 2, 2)); },
                           "[bias_matrix] Fire.out_weight: must be [heads, mlp_width] = [3, 4], got shape [2, 4]");
  EXPECT_EQ(s, std::vector<double>(12, 7.0));
}

}  // namespace
}  // namespace bearing
