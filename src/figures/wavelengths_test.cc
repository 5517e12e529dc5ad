#include <gtest/gtest.h>
#include <bearing/encodings/sinusoidal.hpp>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>
#include <bearing/rope_report.hpp>
#include <cmath>
#include <numbers>

#include "support/errors.hpp"

namespace bearing::inspect {
namespace {

using test::expect_error;

std::vector<Subject> only(const char* name) { return {{name, *find(name)}}; }

TEST(Wavelengths, AreTheReportsBeforeAndAfterScaling) {
  const Figure drawn = figure("wavelengths", only("rope_yarn"));
  Rope rope = *find("rope_yarn")->spec({.heads = 1, .dim = 128, .length = 8192}).as<Rope>();
  const RopeFrequencies scaled = resolve(rope);
  const Index trained = trained_length(rope.scaling);
  rope.scaling = NoScaling{};
  const Panel& panel = drawn.panels[0];
  ASSERT_EQ(panel.series.size(), 3u);
  EXPECT_EQ(panel.series[0].y, wavelengths(resolve(rope)));
  EXPECT_EQ(panel.series[1].y, wavelengths(scaled));
  ASSERT_EQ(panel.guides.size(), 2u);
  EXPECT_EQ(panel.guides[0].at, static_cast<double>(trained));
  EXPECT_EQ(panel.guides[1].at, 8192);
  ASSERT_EQ(panel.bands.size(), 1u);
  for (const PairRun& run : pair_runs(scaled)) {
    if (run.change != PairChange::blended) continue;
    EXPECT_EQ(panel.bands[0].x,
              (std::vector<double>{static_cast<double>(run.first) - 0.5, static_cast<double>(run.last) + 0.5}));
  }
  const auto unfinished = unfinished_pairs(resolve(rope), trained).size();
  EXPECT_EQ(panel.notes[0].text, std::to_string(unfinished) + " of 64 pairs complete no turn in training");
}

TEST(Wavelengths, HaveARampWherePairsAreKeptAndDividedBeside) {
  EXPECT_EQ(figure("wavelengths", only("rope_llama3")).panels[0].bands.size(), 1u);
  EXPECT_TRUE(figure("wavelengths", only("rope_ntk")).panels[0].bands.empty());
  EXPECT_TRUE(figure("wavelengths", only("rope_linear")).panels[0].bands.empty());
}

TEST(Wavelengths, TakeTheLengthsOfAModel) {
  const std::vector<Subject> model{{"rope", *find("rope"), {.trained = 4096, .longest = 32'768}}};
  const Panel panel = figure("wavelengths", model).panels[0];
  EXPECT_EQ(panel.guides[0].at, 4096);
  EXPECT_EQ(panel.guides[1].at, 32'768);
  EXPECT_EQ(figure("wavelengths", model, {.length = 65'536}).panels[0].guides[1].at, 65'536);
}

TEST(Wavelengths, OfFactorsForEachPairSayTheLengthAndTheFactors) {
  LongRopeScaling scaling{.short_factor = {1, 1, 1.25, 1.5}, .long_factor = {1, 2, 4, 8}, .trained_length = 4096};
  scaling.factor = 32;
  const Rope rope{.head_dim = 8, .pairing = Pairing::half, .scaling = scaling};
  Description said = *find("rope");
  said.spec = [&](const SpecimenOptions&) { return Record::of(rope); };
  const std::vector<Subject> model{{"phi", said, {.trained = 4096, .longest = 131'072}}};
  const Figure drawn = figure("wavelengths", model);
  EXPECT_EQ(drawn.panels[0].series[1].y, wavelengths(resolve(rope, 131'072)));
  EXPECT_EQ(drawn.panels[0].series[1].label, "after scaling, for 131072 tokens");
  EXPECT_NE(drawn.text.find("phi: in a sequence of 131072 tokens a turn takes 6.283 to "), std::string::npos);
  EXPECT_NE(drawn.text.find("pairs 0 to 0 are kept; pairs 1 to 3 are divided by 2 to 8."), std::string::npos)
      << drawn.text;
  const Figure shorter = figure("wavelengths", model, {.length = 4096});
  EXPECT_EQ(shorter.panels[0].series[1].y, wavelengths(resolve(rope, 4096)));
  EXPECT_NE(shorter.text.find("pairs 2 to 3 are divided by 1.25 to 1.5."), std::string::npos) << shorter.text;
}

TEST(Wavelengths, OfARopeWithinASpecAndOfDescribedFrequencies) {
  EXPECT_EQ(figure("wavelengths", only("xpos")).panels[0].series[0].y,
            figure("wavelengths", only("rope")).panels[0].series[0].y);
  const std::vector<double> rates =
      sinusoidal_frequencies(*find("sinusoidal")->spec({.heads = 1, .dim = 128}).as<Sinusoidal>());
  const Figure drawn = figure("wavelengths", only("sinusoidal"));
  ASSERT_EQ(drawn.panels[0].series[0].y.size(), rates.size());
  for (std::size_t i = 0; i < rates.size(); ++i) {
    EXPECT_EQ(drawn.panels[0].series[0].y[i], 2 * std::numbers::pi / rates[i]);
  }
}

TEST(Wavelengths, LeaveOutPairsThatDoNotTurn) {
  const Figure drawn = figure("wavelengths", only("rope_proportional"), {.dim = 16});
  EXPECT_TRUE(std::isnan(drawn.panels[0].series[1].y.back()));
  EXPECT_TRUE(std::isfinite(drawn.panels[0].y.last));
}

TEST(Wavelengths, AreThoseThatANameTurnsBy) {
  const Figure drawn = figure("wavelengths", only("rope_high_frequency"), {.length = 512});
  const Panel& panel = drawn.panels[0];
  ASSERT_EQ(panel.series.size(), 3u);
  const std::vector<double>&before = panel.series[0].y, &now = panel.series[1].y;
  Index still = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    EXPECT_EQ(std::isnan(now[i]), before[i] > 512) << i;
    still += std::isnan(now[i]);
  }
  EXPECT_GT(still, 0);
  EXPECT_EQ(panel.guides[0].at, 512);
  // The other way round is as fast.
  EXPECT_EQ(figure("wavelengths", only("rope_negative_angle")).panels[0].series.size(), 2u);
}

// Of base 100 the pairs of an axis take 6.28, 8.38, 11.17, 14.90, … for a turn.
TEST(Wavelengths, OfAnImageAreInPatchesOfASide) {
  std::vector<Subject> image = only("rope_axial");
  image[0].sizes = {.heads = 6, .dim = 64};
  const Figure unknown = figure("wavelengths", image, {.dim = 64});
  EXPECT_TRUE(unknown.panels[0].guides.empty()) << "nobody said a length";
  EXPECT_EQ(unknown.panels[0].y.title, "patches for a turn");
  image[0].lengths = {.patches = true, .grid = {14, 14}};
  const Figure known = figure("wavelengths", image, {.dim = 64, .length = 784});
  ASSERT_EQ(known.panels[0].guides.size(), 2u);
  EXPECT_EQ(known.panels[0].guides[0].text, "trained side 14");
  EXPECT_EQ(known.panels[0].guides[1].text, "side 28");
  EXPECT_NE(known.text.find("26 of 32 pairs complete no turn in the trained 14 patches of a side"), std::string::npos)
      << known.text;
  image[0].lengths.span = 2 * std::numbers::pi;
  const Figure spanned = figure("wavelengths", image, {.dim = 64});
  ASSERT_EQ(spanned.panels[0].guides.size(), 1u);
  EXPECT_EQ(spanned.panels[0].guides[0].at, 4 * std::numbers::pi);
  EXPECT_EQ(spanned.panels[0].y.title, "units for a turn");
  EXPECT_EQ(spanned.text.find("tokens"), std::string::npos) << spanned.text;
}

TEST(Wavelengths, OfAModelWhoseFileSaysNoLengthHaveNone) {
  std::vector<Subject> model = only("rope");
  EXPECT_EQ(figure("wavelengths", model).panels[0].guides.size(), 1u);
  model[0].sizes = {.heads = 8, .dim = 128};
  EXPECT_TRUE(figure("wavelengths", model).panels[0].guides.empty());
  EXPECT_EQ(figure("wavelengths", model, {.length = 512}).panels[0].guides.size(), 1u);
}

TEST(Wavelengths, NeedFrequencies) {
  expect_error<RangeError>([] { (void)figure("wavelengths", only("alibi")); },
                           "[figure] alibi: must have frequencies (sinusoidal, rope, xpos, elementwise_rope, "
                           "rotary_values), got one that acts on score");
  EXPECT_THROW((void)figure("wavelengths", only("nope")), RangeError);
}

}  // namespace
}  // namespace bearing::inspect
