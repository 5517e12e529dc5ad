#include <gtest/gtest.h>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>

namespace bearing::inspect {
namespace {

TEST(Curves, AreTheInputsRows) {
  const std::vector<Subject> subjects{{"sinusoidal", *find("sinusoidal")}};
  const Figure drawn = figure("curves", subjects, {.dim = 8, .length = 20, .dims = {0, 5}});
  const Specimen specimen = make(*find("sinusoidal"), {.heads = 1, .dim = 8, .length = 20});
  const Array rows = specimen.inputs(specimen.tokens(20));
  ASSERT_EQ(drawn.panels.size(), 1u);
  ASSERT_EQ(drawn.panels[0].series.size(), 2u);
  for (Index p = 0; p < 20; ++p) {
    EXPECT_EQ(drawn.panels[0].series[0].y[static_cast<std::size_t>(p)], rows(0, p, 0));
    EXPECT_EQ(drawn.panels[0].series[1].y[static_cast<std::size_t>(p)], rows(0, p, 5));
  }
}

TEST(Curves, SayHowFarTheyReachAndHowFastTheySwing) {
  const std::vector<Subject> subjects{{"sinusoidal", *find("sinusoidal")}, {"index", *find("index")}};
  const Figure drawn = figure("curves", subjects, {.dim = 8, .length = 20, .dims = {1, 7}});
  // cos(p) is negative from 2 to 4, from 8 to 10 and from 15 to 17.
  EXPECT_EQ(
      drawn.text,
      "sinusoidal: values from -0.99 to 1 at 20 positions; the sign changes in dimension 1 6 times, dimension 7 0 "
      "times. index: values from 0 to 19 at 20 positions; the sign changes in dimension 1 0 times, dimension 7 0 "
      "times.");
}

TEST(Curves, OfAnImageGoFromPatchToPatch) {
  const std::vector<Subject> image{{"rope_axial", *find("rope_axial")}}, text{{"rope", *find("rope")}};
  EXPECT_EQ(figure("curves", image).panels[0].x.title, "position (patch, row by row)");
  EXPECT_EQ(figure("curves", text).panels[0].x.title, "position (tokens)");
}

TEST(Curves, NeedRows) {
  const std::vector<Subject> subjects{{"alibi", *find("alibi")}};
  EXPECT_THROW((void)figure("curves", subjects), RangeError);
  const std::vector<Subject> narrow{{"sinusoidal", *find("sinusoidal")}};
  EXPECT_THROW((void)figure("curves", narrow, {.dim = 8, .dims = {8}}), RangeError);
}

}  // namespace
}  // namespace bearing::inspect
