#include <gtest/gtest.h>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/kerple.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/alibi.hpp>
#include <bearing/reference/kerple.hpp>

#include "support/errors.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Place;
using test::Score;

TEST(Kerple, AgreesWithItsReference) {
  const std::vector<Place> places = {Place::offsets, Place::shuffled, Place::real};
  for (const KerpleForm form : {KerpleForm::logarithmic, KerpleForm::power}) {
    Params params(Params::Shapes{{3}, {3}}, 0.25, 1.75);
    const auto make = [form]<class A>(Params& p) { return KerpleBias<A>({form}, p.param<A, 1>(0), p.param<A, 1>(1)); };
    const auto reference = [form](const Params& p, const Score& s) {
      return reference::kerple({form}, p.value<1>(0)(s.h), p.value<1>(1)(s.h), s.m, s.n);
    };
    test::expect_reference_scores(make, params, test::score_cases(3, 0, places), reference);
    test::expect_gradients(make, params, test::score_cases(3, 0, places), reference);
    test::expect_float_gradients(make, params, test::score_cases(3, 0, places));
    test::expect_same_bits_for_any_executor(make, params, test::score_cases(3, 0));
  }
}

TEST(Kerple, PowerOneIsAlibi) {
  for (double n = -20; n <= 20; ++n) {
    EXPECT_EQ(reference::kerple({KerpleForm::power}, 0.25, 1, 3, n), reference::alibi(Alibi{{0.25}}, 0, 3, n));
  }
}

TEST(Kerple, DistanceZeroHasNoBiasAndNoGradientInEitherForm) {
  for (const KerpleForm form : {KerpleForm::logarithmic, KerpleForm::power}) {
    for (const double r2 : {Kerple::least, 0.5, Kerple::most_power}) {
      const double r1 = 1.5, zero = 0, d_b = 1;
      const KerpleBias<double> kerple({form}, {dense(&r1, 1)}, {dense(&r2, 1)});
      double b = 7, d_params[2] = {0, 0};
      kerple.bias(0, 1, &zero, &b);
      kerple.bias_grads(0, 1, &zero, &d_b, d_params);
      EXPECT_EQ(b, 0);
      EXPECT_FALSE(std::signbit(b));
      EXPECT_EQ(d_params[0], 0);
      EXPECT_EQ(d_params[1], 0);
    }
  }
}

TEST(Kerple, OneGradientMayBeWantedWithoutTheOther) {
  Params params(Params::Shapes{{2}, {2}}, 0.25, 1.75);
  const Param<double, 1> r1 = params.param<double, 1>(0), r2 = params.param<double, 1>(1);
  const std::vector<double> d_s(2 * 3 * 3, 1.0);
  const KerpleBias<double> both({KerpleForm::power}, r1, r2), second({KerpleForm::power}, {r1.value}, r2);
  add_scores_backward(with(both), {}, bhtd(d_s.data(), 1, 2, 3, 3));
  const std::vector<double> expected = params.grads(1);
  params.clear_grads();
  add_scores_backward(with(second), {}, bhtd(d_s.data(), 1, 2, 3, 3));
  EXPECT_EQ(params.grads(1), expected);
  EXPECT_NE(expected[0], 0);
  EXPECT_EQ(params.grads(0), std::vector<double>(2, 0.0));
  EXPECT_EQ(KerpleBias<double>({KerpleForm::power}, {r1.value}, {r2.value}).grad_block(0, 0).size(), 0);
}

TEST(Kerple, ParametersThatAnOptimiserTookTooFarAreRefused) {
  std::vector<double> s(2 * 4, 7.0);
  const auto wrong = [&](KerpleForm form, std::vector<double> r1, std::vector<double> r2, const std::string& text) {
    const KerpleBias<double> bias({form}, {dense<const double>(r1.data(), 2)}, {dense<const double>(r2.data(), 2)});
    expect_error<RangeError>([&] { bias_matrix(with(bias), {}, {}, dense(s.data(), 2, 2, 2)); }, text);
  };
  wrong(KerpleForm::logarithmic, {1, 0}, {1, 1},
        "[bias_matrix] Kerple.r1: must be positive and finite, got 0 for head 1");
  wrong(KerpleForm::logarithmic, {1, 1}, {-0.5, 1},
        "[bias_matrix] Kerple.r2: must be positive and finite, got -0.5 for head 0");
  wrong(KerpleForm::logarithmic, {1, 1}, {1, INFINITY},
        "[bias_matrix] Kerple.r2: must be positive and finite, got inf for head 1");
  wrong(KerpleForm::power, {1, NAN}, {1, 1},
        "[bias_matrix] Kerple.r1: must be positive and finite, got nan for head 1");
  wrong(KerpleForm::power, {1, 1}, {1, 2.5},
        "[bias_matrix] Kerple.r2: must be positive and at most 2, got 2.5 for head 1");
  EXPECT_EQ(s, std::vector<double>(8, 7.0));
}

TEST(Kerple, WrongCallsSayWhatMustHold) {
  Params params(Params::Shapes{{2}, {3}});
  const Param<double, 1> two = params.param<double, 1>(0), three = params.param<double, 1>(1);
  std::vector<double> s(2 * 4, 7.0);
  const auto wrong = [&](const KerpleBias<double>& bias) { bias_matrix(with(bias), {}, {}, dense(s.data(), 2, 2, 2)); };
  const Kerple power{KerpleForm::power};
  expect_error<ShapeError>(
      [&] {
        wrong({power, three, two});
      },
      "[bias_matrix] Kerple.r1: must be [heads] = [2], got shape [3]");
  expect_error<ShapeError>(
      [&] {
        wrong({power, two, three});
      },
      "[bias_matrix] Kerple.r2: must be [heads] = [2], got shape [3]");
  expect_error<ShapeError>(
      [&] {
        wrong({power, two, {}});
      },
      "[bias_matrix] Kerple.r2: must be [heads] = [2], got nothing");
  expect_error<ShapeError>(
      [&] {
        wrong({power, {two.value, three.grad}, two});
      },
      "[bias_matrix] Kerple.r1.grad: must have the shape of its parameter, [2], got [3]");
  EXPECT_EQ(s, std::vector<double>(8, 7.0));
}

}  // namespace
}  // namespace bearing
