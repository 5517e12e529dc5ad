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
  for (const auto& spec :
       {PositionTemperature::llama4(0.5, 4), PositionTemperature::ministral3(7), PositionTemperature::inkling(5, 0.7),
        PositionTemperature::qwen(6), PositionTemperature::beam(4, 0.3)}) {
    Params params(Params::Shapes{});
    const auto make = [spec]<class A>(Params&) { return TemperatureRows<A>(spec); };
    const auto reference = [spec](const Params&, const RowSpot& s, View<const double, 1> x, View<double, 1> y) {
      reference::position_temperature(spec, s.side, s.p[0], x, y);
    };
    test::expect_row_encoding(make, params, test::row_cases(3, 5), reference);
    test::expect_row_encoding(make, params, test::row_cases(1, 1), reference);
  }
}

TEST(PositionTemperature, OfEachHeadAgreesWithItsReferenceAndHasGradients) {
  Params params(Params::Shapes{{3}, {3}});
  for (const Index group : {1, 2}) {
    const auto make = [group]<class A>(Params& p) {
      return TemperatureRows<A>(PositionTemperature::mistral_large4(), p.param<A, 1>(0), p.param<A, 1>(1), group);
    };
    const auto reference = [group](const Params& p, const RowSpot& s, View<const double, 1> x, View<double, 1> y) {
      reference::position_temperature(PositionTemperature::mistral_large4(), s.side, s.p[0], x, y,
                                      p.value<1>(0)(s.h / group), p.value<1>(1)(s.h / group));
    };
    test::expect_row_encoding(make, params, test::row_cases(3 * group, 5), reference);
  }
}

// transformers 5.24.0 in float32: tau of InklingAttention.forward, beam.compute_attention_scaling(),
// MistralLarge4TextSoftmaxScaling. Some roundings of numbers below 4: 2^-22 of the factor.
TEST(PositionTemperature, FormsAreThoseOfTheirModels) {
  struct Case {
    PositionTemperature temperature;
    double at, factor;
  };
  const auto inkling = PositionTemperature::inkling(128'000), beam = PositionTemperature::beam();
  for (const Case& c : std::initializer_list<Case>{{inkling, 0, 1},
                                                   {inkling, 127'999, 1},
                                                   {inkling, 128'000, 1.0000008344650269},
                                                   {inkling, 1'048'575, 1.2103158235549927},
                                                   {beam, 0, 1.0000488758087158},
                                                   {beam, 2047, 1.0717734098434448},
                                                   {beam, 131'071, 1.5180684328079224}}) {
    EXPECT_NEAR(c.temperature.factor(c.at), c.factor, 0x1p-22 * c.factor) << c.temperature.formula() << " at " << c.at;
  }
  const std::vector<float> scale{0.2f, 0.35f}, bias{0.5f, -0.25f}, x(6, 1);
  const std::vector<double> wanted{0.5,   0.9605170488357544, 1.8815511465072632,
                                   -0.25, 0.5559048056602478, 2.1677143573760986};
  const TemperatureRows<float> rows(PositionTemperature::mistral_large4(), {dense(scale.data(), 2)},
                                    {dense(bias.data(), 2)});
  const std::vector<Index> at{0, 9, 999};
  std::vector<float> y(6);
  turn<float>(rows, Side::query, Positions(dense(at.data(), 3)), bhtd(x.data(), 1, 2, 3, 1),
              bhtd(y.data(), 1, 2, 3, 1));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(static_cast<double>(y[i]), wanted[i], 0x1p-21);
}

// Qwen's modeling_qwen.py lists math.log(i, seq_length) if i > seq_length else 1 for i = 1, 2, …
TEST(PositionTemperature, QwensLogarithmHasTheTrainedLengthAsItsBase) {
  const PositionTemperature t = PositionTemperature::qwen(2048);
  for (const double i : {1.0, 2047.0, 2048.0}) EXPECT_EQ(t.factor(i - 1), 1);
  for (const double i : {2049.0, 5000.0, 32'768.0}) {
    EXPECT_NEAR(t.factor(i - 1), std::log(i) / std::log(2048.0), 0x1p-51);
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
  EXPECT_EQ(PositionTemperature::inkling(128'000).formula(), "1 + 0.1·ln(max(1, (p + 1)/128000))");
  EXPECT_EQ(PositionTemperature::beam().formula(), "(1 + (p + 1)/2048)^0.1");
  EXPECT_EQ(PositionTemperature::mistral_large4().formula(), "scale·ln(p + 1) + bias, learned per head");
  EXPECT_EQ((PositionTemperature{.form = TemperatureForm::learned, .first = 0}.formula()),
            "scale·ln(max(1, p)) + bias, learned per head");
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
  expect_error<RangeError>([] { (void)PositionTemperature::qwen(1); },
                           "[PositionTemperature] seq_length: must be finite and above 1, got 1");
  expect_error<RangeError>([] { (void)PositionTemperature::mistral_large4().factor(3); },
                           "[PositionTemperature] form: must be stepped, clamped or power for a factor without "
                           "parameters, got learned, which has one for each head");
  const std::vector<float> two{1, 1};
  const Param<float, 1> given{dense(two.data(), 2)}, one{dense(two.data(), 1)};
  const PositionTemperature learned = PositionTemperature::mistral_large4();
  expect_error<ShapeError>([&] { TemperatureRows<float>(PositionTemperature::beam(), given, given); },
                           "[TemperatureRows] scale: must be left out, and so must bias, except in the learned form");
  EXPECT_THROW(TemperatureRows<float>{learned}, ShapeError);
  EXPECT_THROW(TemperatureRows<float>(learned, given, one), ShapeError);
  std::vector<float> q(2, 7.0f);
  const TemperatureRows<float> by_head(learned, given, given);
  const auto turned = [&](Side side, Index heads, Index at) {
    turn<float>(by_head, side, Positions(at), bhtd<const float>(q.data(), 1, heads, 1, 2 / heads),
                bhtd(q.data(), 1, heads, 1, 2 / heads));
  };
  expect_error<ShapeError>(
      [&] { turned(Side::query, 1, 0); },
      "[turn] PositionTemperature: must have a scale and a bias for each of 1 heads, got 2 sets for "
      "1 heads each");
  expect_error<RangeError>([&] { turned(Side::query, 2, -2); },
                           "[turn] positions: temperature needs positions of at least -first = -1, got -2");
  turned(Side::key, 1, 0);
  EXPECT_EQ(q, std::vector<float>(2, 7.0f));
  const TemperatureRows<float> rows(PositionTemperature::llama4());
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
