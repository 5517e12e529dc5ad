#include <bearing/encodings/position_temperature.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/position_temperature.hpp>

#include "support/errors.hpp"
#include "support/row_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::RowSpot;

TEST(PositionTemperature, AgreesWithItsReference) {
  for (const auto& spec : {PositionTemperature::llama4(0.5, 4), PositionTemperature::ministral3(7)}) {
    Params params(Params::Shapes{});
    const auto make = [spec]<class A>(Params&) { return TemperatureRows<A>(spec); };
    const auto reference = [spec](const Params&, const RowSpot& s, View<const double, 1> x, View<double, 1> y) {
      reference::position_temperature(spec, s.side, s.p[0], x, y);
    };
    test::expect_row_encoding(make, params, test::row_cases(3, 5), reference);
    test::expect_row_encoding(make, params, test::row_cases(1, 1), reference);
  }
}

TEST(PositionTemperature, Llama4CountsFromOne) {
  const PositionTemperature t = PositionTemperature::llama4();
  EXPECT_EQ(t.factor(0), 1);
  EXPECT_EQ(t.factor(8190), 1);
  EXPECT_DOUBLE_EQ(t.factor(8191), 1 + 0.1 * std::log(2));
  EXPECT_DOUBLE_EQ(t.factor(16382), 1 + 0.1 * std::log(2));
  EXPECT_DOUBLE_EQ(t.factor(10'485'759), 1 + 0.1 * std::log(1281));
}

TEST(PositionTemperature, Ministral3CountsFromZero) {
  const PositionTemperature t = PositionTemperature::ministral3(16'384);
  EXPECT_EQ(t.factor(16'383), 1);
  EXPECT_DOUBLE_EQ(t.factor(16'384), 1 + 0.1 * std::log(2));
  EXPECT_NE(t, PositionTemperature::llama4(0.1, 16'384));
}

TEST(PositionTemperature, SaysItsFormula) {
  EXPECT_EQ(PositionTemperature::llama4().formula(), "1 + 0.1·ln(1 + floor((p + 1)/8192))");
  EXPECT_EQ(PositionTemperature::ministral3(16384, 0.25).formula(), "1 + 0.25·ln(1 + floor(p/16384))");
  EXPECT_EQ((PositionTemperature{.length = 2.5, .first = -3}.formula()), "1 + 0.1·ln(1 + floor((p - 3)/2.5))");
}

// What models compute in float32. Positions below 2^24 and lengths that are powers of two divide exactly; the
// logarithm, the product and the sum are rounded, each by half an ulp of a number below 2: 3·2^-24.
TEST(PositionTemperature, IsWhatModelsComputeInFloat) {
  const PositionTemperature llama4 = PositionTemperature::llama4(), ministral = PositionTemperature::ministral3(16'384);
  for (int p = 0; p < (1 << 24); p += 997) {
    const auto at = static_cast<float>(p);
    const float four = std::log1p(std::floor((at + 1.0f) / 8192.0f)) * 0.1f + 1.0f;
    const float three = 1.0f + 0.1f * std::log(1.0f + std::floor(at / 16384.0f));
    ASSERT_NEAR(llama4.factor(p), static_cast<double>(four), 0x1.8p-23);
    ASSERT_NEAR(ministral.factor(p), static_cast<double>(three), 0x1.8p-23);
  }
}

TEST(PositionTemperature, KeysAreLeftAlone) {
  const TemperatureRows<float> rows(PositionTemperature::llama4(1, 1));
  const std::vector<float> k{1, -2, 3};
  std::vector<float> y(3);
  turn<float>(rows, Side::key, Positions(100), bhtd(k.data(), 1, 1, 1, 3), bhtd(y.data(), 1, 1, 1, 3));
  EXPECT_EQ(y, k);
}

TEST(PositionTemperature, WrongCallsSayWhatMustHold) {
  expect_error<RangeError>([] { TemperatureRows<float>(PositionTemperature::llama4(NAN)); },
                           "[TemperatureRows] beta: must be finite, got nan");
  expect_error<RangeError>([] { TemperatureRows<float>(PositionTemperature::ministral3(0)); },
                           "[TemperatureRows] length: must be finite and above 0, got 0");
  const TemperatureRows<float> rows(PositionTemperature::llama4());
  std::vector<float> q(2, 7.0f);
  expect_error<RangeError>(
      [&] {
        turn<float>(rows, Side::query, Positions(-2), bhtd<const float>(q.data(), 1, 1, 2, 1),
                    bhtd(q.data(), 1, 1, 2, 1));
      },
      "[turn] positions: temperature needs positions of at least -first = -1, got -2");
  EXPECT_EQ(q, std::vector<float>(2, 7.0f));
}

}  // namespace
}  // namespace bearing
