#include <gtest/gtest.h>
#include <bearing/encodings/cape.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/cape.hpp>

#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/input_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::InputPoint;
using test::Params;
using test::Place;

// Angles reach 400 radians (frequency scale 30), and the source's sums and frequencies round a few times.
constexpr double golden_tolerance = 400 * 0x1p-50;

void expect_numbers(const std::vector<double>& got, const std::vector<double>& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t x = 0; x < got.size(); ++x) EXPECT_NEAR(got[x], wanted[x], tolerance) << x;
}

TEST(Cape, GoldenPositionsAndRows) {
  const rapidjson::Document golden = test::golden("relative/cape.json");
  for (const rapidjson::Value& c : golden["cases_1d"].GetArray()) {
    const Index batch = c["batch"].GetInt64(), tokens = c["tokens"].GetInt64();
    const Cape cape{.dim = c["d"].GetInt64(),
                    .centre = c["normalize"].GetBool() ? CapeCentre::mean : CapeCentre::none,
                    .position_scale = c["pos_scale"].GetDouble(),
                    .frequency_scale = c["freq_scale"].GetDouble()};
    const auto size = static_cast<std::size_t>(batch * tokens);
    std::vector<double> at(size), rows(size * static_cast<std::size_t>(cape.dim));
    cape_positions(cape, {}, dense(at.data(), batch, tokens));
    expect_numbers(at, test::numbers(c["eval_positions"]), 0);
    const CapeInputs<double> encoding(cape);
    fill<double>(encoding, dense(at.data(), batch, tokens), dense(rows.data(), batch, tokens, cape.dim));
    expect_numbers(rows, test::numbers(c["eval_embedding"]), golden_tolerance);

    const std::vector<double> shift = test::numbers(c["global_shift"]), jitter = test::numbers(c["local_shift"]);
    const std::vector<double> scale = test::numbers(c["global_scale"]);
    for (std::size_t x = 0; x < size; ++x) {
      const std::size_t b = x / static_cast<std::size_t>(tokens);
      at[x] = reference::cape_moved(at[x], shift[b], jitter[x], scale[b]);
    }
    expect_numbers(at, test::numbers(c["augmented_positions"]), 0x1p-50);
    fill<double>(encoding, dense(at.data(), batch, tokens), dense(rows.data(), batch, tokens, cape.dim));
    expect_numbers(rows, test::numbers(c["augmented_embedding"]), golden_tolerance);
  }
}

TEST(Cape, GoldenPatches) {
  const rapidjson::Document golden = test::golden("relative/cape.json");
  for (const rapidjson::Value& c : golden["cases_2d"].GetArray()) {
    // The file's first index is x.
    const Index width = c["patches_x"].GetInt64(), height = c["patches_y"].GetInt64(), dim = c["d"].GetInt64();
    std::vector<double> at(static_cast<std::size_t>(2 * height * width));
    cape_positions(Cape2d{.dim = dim}, height, width, dense(at.data(), 2, 1, height * width));
    std::vector<double> rows(static_cast<std::size_t>(height * width * dim));
    fill<double>(Cape2dInputs<double>({.dim = dim}), dense(at.data(), 2, 1, height * width),
                 dense(rows.data(), height * width, dim));
    const std::vector<double> wanted = test::numbers(c["embedding"]);
    for (Index y = 0; y < height; ++y) {
      for (Index x = 0; x < width; ++x) {
        for (Index d = 0; d < dim; ++d) {
          EXPECT_NEAR(rows[static_cast<std::size_t>((y * width + x) * dim + d)],
                      wanted[static_cast<std::size_t>((x * height + y) * dim + d)], golden_tolerance);
        }
      }
    }
  }
}

TEST(Cape, AgreesWithItsReference) {
  Params none(Params::Shapes{});
  for (const Index dim : {4, 10, 136}) {
    const auto make = [&]<class A>(Params&) { return Cape2dInputs<A>({.dim = dim}); };
    const auto reference = [&](const Params&, const InputPoint& x) {
      return reference::cape_2d({.dim = dim}, x.d, x.at[0], x.at[1]);
    };
    const auto cases = test::input_cases({Place::shuffled, Place::real}, 2);
    // Positions to 1.5, angles to 10π·1.5·√2, formed in double with some ten roundings.
    test::expect_reference_rows(make, none, cases, reference, 67 * 12 * 0x1p-53, 1.5);
    test::expect_every_type(make, none, cases, 1.5);
    test::expect_same_input_bits_for_any_executor(make, none, cases, 1.5);
  }
}

const Cape wide{.dim = 8,
                .augmentation = {.max_global_shift = 5, .max_local_shift = 0.5, .max_global_scale = 1.4},
                .position_scale = 2};

TEST(Cape, TrainingMovesPositionsByTheDocumentedDraws) {
  constexpr Index batch = 3, time = 17;
  const CapeSeed seed{42};
  std::vector<double> still(batch * time), moved(batch * time);
  cape_positions(wide, Positions(9), dense(still.data(), batch, time));
  cape_positions(wide, Positions(9), dense(moved.data(), batch, time), seed);
  for (Index b = 0; b < batch; ++b) {
    const double scale = std::exp(reference::cape_draw(seed, b, 0, 1) * std::log(1.4));
    const double shift = reference::cape_draw(seed, b, 1, 5);
    for (Index t = 0; t < time; ++t) {
      const auto x = static_cast<std::size_t>(b * time + t);
      EXPECT_EQ(still[x], 2.0 * static_cast<double>(t) - 16);
      const double jitter = reference::cape_draw(seed, b, 2 + t, 0.5 * 2);
      EXPECT_NEAR(moved[x], reference::cape_moved(still[x], shift, jitter, scale), 30 * 0x1p-50);
    }
  }
}

TEST(Cape, TrainingMovesPatchesByTheDocumentedDraws) {
  constexpr Index height = 3, width = 5, patches = height * width;
  const Cape2d cape{.dim = 8, .augmentation = wide.augmentation};
  const CapeSeed seed{7};
  std::vector<double> still(2 * 2 * patches), moved(still.size());
  cape_positions(cape, height, width, dense(still.data(), 2, 2, patches));
  cape_positions(cape, height, width, dense(moved.data(), 2, 2, patches), seed);
  for (Index axis = 0; axis < 2; ++axis) {
    const double spacing = axis == 0 ? 1.0 : 0.5;
    for (Index b = 0; b < 2; ++b) {
      const double scale = std::exp(reference::cape_draw(seed, b, 0, 1) * std::log(1.4));
      const double shift = reference::cape_draw(seed, b, 1 + axis, 5);
      for (Index t = 0; t < patches; ++t) {
        const auto x = static_cast<std::size_t>((axis * 2 + b) * patches + t);
        EXPECT_EQ(still[x], -1 + spacing * static_cast<double>(axis == 0 ? t / width : t % width));
        const double jitter = reference::cape_draw(seed, b, 3 + 2 * t + axis, 0.5 * spacing);
        EXPECT_NEAR(moved[x], reference::cape_moved(still[x], shift, jitter, scale), 10 * 0x1p-50);
      }
    }
  }
}

// On every machine: these were worked out with the formula in the header, in integers.
TEST(Cape, ASeedHasOneSequenceOfDraws) {
  std::vector<double> a(2 * 64), b(a.size()), c(a.size());
  cape_positions(wide, {}, dense(a.data(), 2, 64), CapeSeed{1});
  cape_positions(wide, {}, dense(b.data(), 2, 64), CapeSeed{1});
  cape_positions(wide, {}, dense(c.data(), 2, 64), CapeSeed{2});
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_NE(std::vector<double>(a.begin(), a.begin() + 64), std::vector<double>(a.begin() + 64, a.end()));
  const double known[] = {-0x1.71f6290f1c0d2p-1, 0x1.e268959ad608ap-1, -0x1.c6ff8f1343f84p-2, 0x1.9c4371e993890p-1};
  for (Index n = 0; n < 4; ++n) EXPECT_EQ(reference::cape_draw({0}, 0, n, 1), known[n]);
}

TEST(Cape, DrawsStayInBoundsAndFillThem) {
  double least = 1, most = -1, sum = 0;
  constexpr Index count = 20'000;
  for (Index n = 0; n < count; ++n) {
    const double draw = reference::cape_draw({3}, 1, n, 1);
    least = std::min(least, draw), most = std::max(most, draw), sum += draw;
  }
  EXPECT_GE(least, -1);
  EXPECT_LT(most, 1);
  // The chance that none of 20,000 draws falls into an edge's thousandth is (1 − 1/2000)^20000 = 5e-5; the mean's
  // standard deviation is 1/√(3·20000) = 0.0041.
  EXPECT_LT(least, -0.999);
  EXPECT_GT(most, 0.999);
  EXPECT_NEAR(sum / count, 0, 5 * 0.0041);
}

TEST(Cape, JitterOfHalfASpacingKeepsTheOrder) {
  std::vector<double> at(1000);
  cape_positions(wide, {}, dense(at.data(), 1, 1000), CapeSeed{5});
  for (std::size_t t = 1; t < at.size(); ++t) EXPECT_GT(at[t], at[t - 1]);
}

TEST(Cape, WithoutBoundsTrainingMovesNothing) {
  const Cape still{.dim = 4, .centre = CapeCentre::none};
  const std::vector<double> seconds{0.25, 0.5, 7};
  std::vector<double> at(3);
  cape_positions(still, dense(seconds.data(), 3), dense(at.data(), 1, 3), CapeSeed{9});
  EXPECT_EQ(at, seconds);
}

TEST(Cape, WrongCallsSayWhatMustHold) {
  std::vector<double> at(8, 7.0);
  const auto moving = [&](const CapeAugmentation& how) {
    cape_positions(Cape{.dim = 4, .augmentation = how}, {}, dense(at.data(), 1, 8), CapeSeed{1});
  };
  expect_error<RangeError>([&] { moving({.max_global_shift = -1}); },
                           "[Cape] max_global_shift: must be from 0 to 2^31, got -1");
  expect_error<RangeError>([&] { moving({.max_local_shift = NAN}); },
                           "[Cape] max_local_shift: must be from 0 to 2^31, got nan");
  expect_error<RangeError>([&] { moving({.max_global_scale = 0.5}); },
                           "[Cape] max_global_scale: must be from 1 to 2^31, got 0.5");
  expect_error<RangeError>([&] { cape_positions(Cape{.dim = 4, .position_scale = 0}, {}, dense(at.data(), 1, 8)); },
                           "[Cape] position_scale: must be finite and above 0, got 0");
  expect_error<ShapeError>([&] { cape_positions(Cape2d{.dim = 4}, 2, 2, dense(at.data(), 2, 2, 2)); },
                           "[cape_positions] to: must be [2, batch, 4] (y and x of every patch), got [2, 2, 2]");
  expect_error<RangeError>(
      [&] { cape_positions(Cape2d{.dim = 4}, -2, 2, dense(at.data(), 2, 2, 2)); },
      "[cape_positions] height, width: must be at least 0 and make at most 2^31 patches, got -2, 2");
  expect_error<RangeError>(
      [&] { cape_positions(Cape2d{.dim = 4}, Index{1} << 40, 0, dense(at.data(), 2, 2, 0)); },
      "[cape_positions] height, width: must be at least 0 and make at most 2^31 patches, got 1099511627776, 0");
  expect_error<ShapeError>(
      [&] {
        cape_positions(Cape{.dim = 4}, {}, View<double, 2>{nullptr, {1, 8}, {8, 1}});
      },
      "[cape_positions] to: must have memory, got a null pointer; shape is [1, 8]");
  EXPECT_EQ(at, std::vector<double>(8, 7.0));
  expect_error<ShapeError>([] { Cape2dInputs<float> encoding({.dim = 7}); },
                           "[Cape2dInputs] dim: must be even and from 4 to 65536, got 7");
  std::vector<float> x(8, 7.0f);
  const Cape2dInputs<float> encoding({.dim = 4});
  expect_error<ShapeError>([&] { fill<float>(encoding, {}, dense(x.data(), 2, 4)); },
                           "[fill] positions: must have two axes, y and x, for Cape2d, got 1");
  EXPECT_EQ(x, std::vector<float>(8, 7.0f));
}

}  // namespace
}  // namespace bearing
