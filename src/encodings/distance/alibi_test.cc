#include <gtest/gtest.h>
#include <bearing/encodings/alibi.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/alibi.hpp>
#include <bearing/scores.hpp>

#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Place;
using test::Score;

const std::vector<Place> all_places = {Place::offsets, Place::shuffled, Place::real};

// A spec whose slopes are parameters.
Alibi spec(const Params& params, AlibiForm form) {
  const View<const double, 1> slopes = params.value<1>(0);
  return {{slopes.data, slopes.data + slopes.shape[0]}, form};
}

TEST(Alibi, SlopesArePublishedOnesForEveryHeadCount) {
  const rapidjson::Document golden = test::golden("alibi/slopes_1_64.json");
  for (Index heads = 1; heads <= 64; ++heads) {
    const rapidjson::Value& implementations = golden["heads"][std::to_string(heads)];
    const Alibi alibi = Alibi::published(heads);
    for (const char* implementation : {"paper", "bloom", "mpt"}) {
      const std::vector<double> slopes = test::numbers(implementations[implementation]);
      ASSERT_EQ(alibi.slopes.size(), slopes.size());
      // The authors' code multiplies rounded ratios, up to 32 of them at 2^-53 each; BLOOM's and MPT's do so in
      // float32.
      const double ulps = std::string(implementation) == "paper" ? 0x1p-47 : 0x1p-18;
      for (std::size_t h = 0; h < slopes.size(); ++h) EXPECT_NEAR(alibi.slopes[h], slopes[h], ulps * slopes[h]);
    }
  }
}

TEST(Alibi, TwelveHeadsHaveEightSlopesAndFourBetween) {
  const std::vector<double> slopes = Alibi::published(12).slopes;
  for (int h = 0; h < 8; ++h) EXPECT_EQ(slopes[static_cast<std::size_t>(h)], std::exp2(-h - 1));
  for (int h = 0; h < 4; ++h) EXPECT_EQ(slopes[static_cast<std::size_t>(8 + h)], std::exp2(-h - 0.5));
}

TEST(Alibi, BiasMaxAndFactorScaleTheSlopes) {
  const Alibi mpt = Alibi::published(4, 16, 0.5);
  EXPECT_EQ(mpt.slopes, (std::vector<double>{0x1p-5, 0x1p-9, 0x1p-13, 0x1p-17}));
}

TEST(Alibi, AgreesWithItsReference) {
  for (const AlibiForm form : {AlibiForm::symmetric, AlibiForm::causal}) {
    Params params(Params::Shapes{{3}});
    const auto learned = [form]<class A>(Params& p) { return AlibiBias<A>(p.param<A, 1>(0), form); };
    const auto given = [form]<class A>(Params& p) { return AlibiBias<A>(spec(p, form)); };
    const auto reference = [form](const Params& p, const Score& s) {
      return reference::alibi(spec(p, form), s.h, s.m, s.n);
    };
    test::expect_reference_scores(learned, params, test::score_cases(3, 0, all_places), reference);
    test::expect_reference_scores(given, params, test::score_cases(3, 0, all_places), reference);
    test::expect_gradients(learned, params, test::score_cases(3, 0, all_places), reference);
    test::expect_float_gradients(learned, params, test::score_cases(3, 0));
    test::expect_same_bits_for_any_executor(learned, params, test::score_cases(3, 0));
  }
}

TEST(Alibi, ShiftedFormAgreesWithItsReference) {
  Params params(Params::Shapes{{4}});
  const auto make = []<class A>(Params& p) { return AlibiShiftedBias<A>(p.param<A, 1>(0)); };
  const auto reference = [](const Params& p, const Score& s) {
    return reference::alibi_shifted(spec(p, AlibiForm::causal), s.h, s.n);
  };
  test::expect_reference_scores(make, params, test::score_cases(4, 0, all_places), reference);
  test::expect_gradients(make, params, test::score_cases(4, 0, all_places), reference);
  test::expect_float_gradients(make, params, test::score_cases(4, 0));
  test::expect_same_bits_for_any_executor(make, params, test::score_cases(4, 0));
}

TEST(Alibi, FormsDifferByAConstantAlongEachRowUnderACausalMask) {
  const Alibi alibi = Alibi::published(8);
  for (Index h = 0; h < 8; ++h) {
    for (double m = 0; m < 20; ++m) {
      const double slope = alibi.slopes[static_cast<std::size_t>(h)];
      for (double n = 0; n <= m; ++n) {
        EXPECT_EQ(reference::alibi_shifted(alibi, h, n) - slope * m, reference::alibi(alibi, h, m, n));
      }
    }
  }
}

TEST(Alibi, BiasMatrixIsTheSameInEveryType) {
  const Alibi alibi = Alibi::published(2);
  const AlibiBias<float> bias(alibi);
  std::vector<float> f32(2 * 5 * 9);
  std::vector<Bfloat16> bf16(f32.size());
  bias_matrix(with(bias), Positions(4), Positions{}, dense(f32.data(), 2, 5, 9));
  bias_matrix(with(bias), Positions(4), Positions{}, dense(bf16.data(), 2, 5, 9));
  for (std::size_t x = 0; x < f32.size(); ++x) EXPECT_EQ(bf16[x].bits, Bfloat16(f32[x]).bits);
}

TEST(Alibi, LearnedSlopesMayHaveAnyStrides) {
  const std::vector<double> numbers{0.5, -1, 0.25, -1, 0.125, -1}, d_s(3 * 4, 1.0);
  const double *first = numbers.data(), *last = numbers.data() + 4;
  const auto scores = [&](View<const double, 1> slopes, View<double, 1> d_slopes) {
    const AlibiBias<double> bias(Param<double, 1>{slopes, d_slopes});
    std::vector<double> s(d_s.size());
    add_scores(with(bias), {}, bhtd(s.data(), 1, 3, 2, 2));
    add_scores_backward(with(bias), {}, bhtd<const double>(d_s.data(), 1, 3, 2, 2));
    return s;
  };
  std::vector<double> d(6);
  EXPECT_EQ(scores({first, {3}, {2}}, {d.data(), {3}, {2}}),
            (std::vector<double>{0, -0.5, -0.5, 0, 0, -0.25, -0.25, 0, 0, -0.125, -0.125, 0}));
  EXPECT_EQ(d, (std::vector<double>{-2, 0, -2, 0, -2, 0}));
  EXPECT_EQ(scores({last, {3}, {-2}}, {d.data() + 4, {3}, {-2}}),
            (std::vector<double>{0, -0.125, -0.125, 0, 0, -0.25, -0.25, 0, 0, -0.5, -0.5, 0}));
  EXPECT_EQ(d, (std::vector<double>{-4, 0, -4, 0, -4, 0}));
  EXPECT_EQ(scores({first, {3}, {0}}, {}),  // one for all heads
            (std::vector<double>{0, -0.5, -0.5, 0, 0, -0.5, -0.5, 0, 0, -0.5, -0.5, 0}));
}

TEST(Alibi, WrongCallsSayWhatMustHold) {
  expect_error<RangeError>([] { Alibi::published(0); }, "[Alibi::published] heads: must be from 1 to 2^20, got 0");
  expect_error<RangeError>([] { Alibi::published(Index{1} << 40); },
                           "[Alibi::published] heads: must be from 1 to 2^20, got 1099511627776");
  expect_error<RangeError>(
      [] {
        AlibiBias<float>(Alibi{{1, INFINITY}});
      },
      "[AlibiBias] slopes: must be finite, got inf");
  const AlibiBias<float> bias(Alibi::published(2));
  std::vector<float> s(3 * 4, 7.0f);
  expect_error<ShapeError>([&] { bias_matrix(with(bias), {}, {}, dense(s.data(), 3, 2, 2)); },
                           "[bias_matrix] Alibi.slopes: must be one for each of 3 heads, got 2");
  const float slope = 1;
  const AlibiBias<float> far(Param<float, 1>{{&slope, {3}, {Index{1} << 60}}});
  expect_error<ShapeError>([&] { bias_matrix(with(far), {}, {}, dense(s.data(), 3, 2, 2)); },
                           "[bias_matrix] Alibi.slopes: must span at most 2^60 bytes, got strides "
                           "[1152921504606846976] for shape [3]");
  EXPECT_EQ(s, std::vector<float>(12, 7.0f));
}

}  // namespace
}  // namespace bearing
