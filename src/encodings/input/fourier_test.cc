#include <bearing/encodings/fourier.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/fourier.hpp>
#include <numbers>

#include "support/errors.hpp"
#include "support/input_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::InputPoint;
using test::Params;
using test::Place;

constexpr double pi = std::numbers::pi;

TEST(Fourier, AgreesWithItsReference) {
  for (const Fourier& spec : {Fourier{1, 3, FourierUnit::radians, FourierLayout::sines_first}, Fourier::sam(5),
                              Fourier::learned(2, 6), Fourier::nerf(3, 2), Fourier::perceiver(2, 2),
                              Fourier{.axes = 4,
                              .frequencies = 1,
                              .unit = FourierUnit::turns,
                              .layout = FourierLayout::interleaved,
                              .coordinates = FourierCoordinates::first,
                              .scale = -2}}) {
    Params params(Params::Shapes{{spec.frequencies, spec.axes}}, -0.25, 0.25);
    const auto make = [&]<class A>(Params& p) { return FourierInputs<A>(spec, p.param<A, 2>(0)); };
    const auto reference = [&](const Params& p, const InputPoint& x) {
      return reference::fourier(spec, p.value<2>(0), x.d, x.at);
    };
    // Angles up to 2π · 4 · 150/4 are rounded a few times to 2^-53 of themselves: 2^10 · 2^-51, times the scale.
    const auto cases = test::input_cases({Place::shuffled, Place::real}, spec.axes);
    test::expect_reference_rows(make, params, cases, reference, 0x1p-40);
    test::expect_input_gradients(make, params, cases, reference, 1e-6);
    test::expect_float_input_gradients(make, params, cases, 600);  // hundreds of tokens at up to 12 · 2π · scale
    test::expect_same_input_bits_for_any_executor(make, params, cases);
    test::expect_every_type(make, params, cases);
  }
}

std::vector<double> row(const Fourier& spec, const std::vector<double>& b, const std::vector<double>& p) {
  const FourierInputs<double> inputs(spec, {dense(b.data(), spec.frequencies, spec.axes)});
  std::vector<double> row(static_cast<std::size_t>(spec.dim()));
  fill<double>(inputs, Positions(dense(p.data(), spec.axes, 1, 1)), dense(row.data(), 1, spec.dim()));
  return row;
}

void expect_near(const std::vector<double>& own, const std::vector<double>& truth) {
  ASSERT_EQ(own.size(), truth.size());
  for (std::size_t d = 0; d < own.size(); ++d) EXPECT_NEAR(own[d], truth[d], 0x1p-47) << d;
}

// γ(p) = (sin 2^0 πp, cos 2^0 πp, …) of each coordinate: the paper's equation 4.
TEST(Fourier, NerfIsThePapers) {
  const double x = 0.3, y = -0.7;
  expect_near(row(Fourier::nerf(2, 3), fourier_octaves(2, 3), {x, y}),
              {std::sin(pi * x), std::cos(pi * x), std::sin(2 * pi * x), std::cos(2 * pi * x), std::sin(4 * pi * x),
               std::cos(4 * pi * x), std::sin(pi * y), std::cos(pi * y), std::sin(2 * pi * y), std::cos(2 * pi * y),
               std::sin(4 * pi * y), std::cos(4 * pi * y)});
}

// SAM's code: 2π (2c − 1) @ G, G [2, n]; sines, then cosines. The file's G is seen transposed.
TEST(Fourier, SamIsItsCodes) {
  const std::vector<double> g{0.5, -1.25, 2, 0.75, 0.1, -0.3};  // [2, 3]
  const Fourier spec = Fourier::sam(3);
  const FourierInputs<double> inputs(spec, {View<const double, 2>{g.data(), {3, 2}, {1, 3}}});
  const std::vector<double> p{2 * 0.2 - 1, 2 * 0.9 - 1};
  std::vector<double> own(6), truth;
  fill<double>(inputs, Positions(dense(p.data(), 2, 1, 1)), dense(own.data(), 1, 6));
  for (const bool cosine : {false, true}) {
    for (std::size_t f = 0; f < 3; ++f) {
      const double angle = 2 * pi * (p[0] * g[f] + p[1] * g[3 + f]);
      truth.push_back(cosine ? std::cos(angle) : std::sin(angle));
    }
  }
  expect_near(own, truth);
}

// Perceiver's code: bands from 1 to resolution/2; coordinates, sines of all axes, cosines of all axes.
TEST(Fourier, PerceiverIsItsCodes) {
  const std::vector<double> b = fourier_bands({8, 6}, 3);
  EXPECT_EQ(b, (std::vector<double>{1, 0, 2.5, 0, 4, 0, 0, 1, 0, 2, 0, 3}));
  const double y = -0.6, x = 0.4;
  std::vector<double> truth{y, x};
  for (const bool cosine : {false, true}) {
    for (const double angle : {y, 2.5 * y, 4 * y, x, 2 * x, 3 * x}) {
      truth.push_back(cosine ? std::cos(pi * angle) : std::sin(pi * angle));
    }
  }
  expect_near(row(Fourier::perceiver(2, 3), b, {y, x}), truth);
  EXPECT_EQ(fourier_bands({100}, 1), std::vector<double>{1});
}

TEST(Fourier, LearnedHasCosinesFirstAndNormOneOverRootTwo) {
  const std::vector<double> b{0.5, 1, -2, 0.25};
  const Fourier spec = Fourier::learned(2, 4);
  const std::vector<double> own = row(spec, b, {3, 5});
  expect_near(own, {std::cos(6.5) / 2, std::cos(-4.75) / 2, std::sin(6.5) / 2, std::sin(-4.75) / 2});
  double square = 0;
  for (const double x : own) square += x * x;
  EXPECT_NEAR(square, 0.5, 0x1p-50);
}

TEST(Fourier, WholeTurnsChangeNothingHoweverMany) {
  const Fourier spec{1, 1, FourierUnit::turns, FourierLayout::sines_first};
  EXPECT_EQ(row(spec, {0x1p20}, {0.125 + 0x1p10}), row(spec, {0x1p20}, {0.125}));
  EXPECT_EQ(row(spec, {1}, {0x1p30 + 0.25}), row(spec, {1}, {0.25}));
}

TEST(Fourier, WrongCallsSayWhatMustHold) {
  std::vector<double> b(6), x(6, 7.0), at(6);
  const Fourier sam = Fourier::sam(3);
  expect_error<ShapeError>([&] { FourierInputs<double>(sam, {dense<const double>(b.data(), 2, 3)}); },
                           "[FourierInputs] frequencies: must be [frequencies, axes] = [3, 2], got shape [2, 3]");
  Fourier wrong = sam;
  wrong.axes = 5;
  expect_error<ShapeError>([&] { FourierInputs<double>(wrong, {dense<const double>(b.data(), 3, 5)}); },
                           "[FourierInputs] axes: must be from 1 to 4, got 5");
  wrong = sam, wrong.frequencies = 0;
  expect_error<ShapeError>([&] { FourierInputs<double>(wrong, {dense<const double>(b.data(), 0, 2)}); },
                           "[FourierInputs] frequencies: must be from 1 to 65536, got 0");
  wrong = sam, wrong.scale = INFINITY;
  expect_error<RangeError>([&] { FourierInputs<double>(wrong, {dense<const double>(b.data(), 3, 2)}); },
                           "[FourierInputs] scale: must be finite, got inf");
  wrong = sam, wrong.layout = static_cast<FourierLayout>(3);
  expect_error<ShapeError>([&] { FourierInputs<double>(wrong, {dense<const double>(b.data(), 3, 2)}); },
                           "[FourierInputs] layout: must be sines_first, cosines_first or interleaved, got 3");
  expect_error<ShapeError>([] { Fourier::learned(2, 5); }, "[Fourier] dim: must be even and at least 2, got 5");
  expect_error<RangeError>([] { fourier_octaves(2, 0); }, "[fourier_octaves] octaves: must be from 1 to 64, got 0");
  expect_error<RangeError>([] { fourier_bands({-1}, 2); },
                           "[fourier_bands] resolutions: must be finite and above 0, got -1");
  const FourierInputs<double> inputs(sam, {dense<const double>(b.data(), 3, 2)});
  expect_error<ShapeError>(
      [&] { add<double>(inputs, Positions(dense<const double>(at.data(), 1, 1, 1)), dense(x.data(), 1, 6)); },
      "[add] positions: must have Fourier.axes = 2 axes, got 1");
  EXPECT_EQ(x, std::vector<double>(6, 7.0));
}

}  // namespace
}  // namespace bearing
