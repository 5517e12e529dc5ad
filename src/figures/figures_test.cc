#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>
#include <cmath>

namespace bearing::inspect {
namespace {

Subject subject(const char* name) { return {name, *find(name)}; }

TEST(Figures, RefuseWhatAKindDoesNotTake) {
  const std::vector<Subject> one{subject("rope")};
  EXPECT_THROW((void)figure("portrait", one), RangeError);
  EXPECT_THROW((void)figure("curves", {}), ShapeError);
  EXPECT_THROW((void)figure("curves", one, {.window = 4}), RangeError);
  EXPECT_THROW((void)figure("curves", one, {.dim = -2}), RangeError);
}

TEST(Figures, AreOfTheSizeThatWasSaid) {
  std::vector<Subject> one{subject("sinusoidal")};
  one[0].sizes = {.dim = 12, .length = 40};
  const Figure drawn = figure("curves", one);
  EXPECT_EQ(drawn.panels[0].series.back().label, "dimension 11");
  EXPECT_EQ(drawn.panels[0].series[0].x.size(), 40u);
  EXPECT_EQ(figure("curves", one, {.dim = 8, .length = 20}).panels[0].series.back().label, "dimension 7");
  one[0].sizes.length = 1 << 17;
  EXPECT_EQ(figure("curves", one).panels[0].series[0].x.size(), 128u);
}

bool finite(const Axis& axis) {
  const bool logarithm = axis.scale != Scale::linear;
  return std::isfinite(axis.first) && std::isfinite(axis.last) && axis.first != axis.last &&
         (!logarithm || (axis.first > 0 && axis.last > 0));
}

bool any_number(const std::vector<double>& numbers) {
  return std::any_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
}

void expect_drawable(const Panel& panel) {
  EXPECT_TRUE(finite(panel.x)) << panel.x.title << " from " << panel.x.first << " to " << panel.x.last;
  EXPECT_TRUE(finite(panel.y)) << panel.y.title << " from " << panel.y.first << " to " << panel.y.last;
  EXPECT_FALSE(panel.title.empty());
  EXPECT_TRUE(panel.round || (!panel.x.title.empty() && !panel.y.title.empty()));  // dials need none
  bool any = false;
  if (panel.cells) {
    const Cells& cells = *panel.cells;
    ASSERT_EQ(std::ssize(cells.values), cells.rows * cells.cols);
    EXPECT_TRUE(std::isfinite(cells.low) && std::isfinite(cells.high) && cells.low < cells.high);
    EXPECT_TRUE(cells.map != ColourMap::diverging || cells.low == -cells.high);
    any |= any_number(cells.values);
  }
  for (const Band& band : panel.bands) {
    EXPECT_EQ(band.x.size(), band.low.size());
    EXPECT_EQ(band.x.size(), band.high.size());
  }
  for (const Series& series : panel.series) {
    EXPECT_EQ(series.x.size(), series.y.size());
    any |= any_number(series.y);
  }
  EXPECT_TRUE(any) << "nothing is drawn";
}

void expect_drawable(const Figure& drawn) {
  EXPECT_FALSE(drawn.title.empty());
  EXPECT_FALSE(drawn.text.empty());
  EXPECT_GE(drawn.columns, 1);
  ASSERT_FALSE(drawn.panels.empty());
  for (const Panel& panel : drawn.panels) expect_drawable(panel);
}

TEST(Figures, DrawEveryEncodingOrSayWhyNot) {
  for (const FigureKind& kind : figure_kinds()) {
    if (kind.fewest == 0) expect_drawable(figure(kind.name, {}));
    Index drawn = 0;
    for (const Description& description : catalog()) {
      if (kind.most == 0) break;
      SCOPED_TRACE(kind.name + " " + description.name);
      std::vector<Subject> subjects(static_cast<std::size_t>(std::max<Index>(kind.fewest, 1)),
                                    {description.name, description});
      try {
        expect_drawable(figure(kind.name, subjects));
        ++drawn;
      } catch (const RangeError& error) {
        EXPECT_EQ(std::string(error.what()).find("[figure] " + description.name + ": "), 0u) << error.what();
      }
    }
    EXPECT_TRUE(drawn > 0 || kind.most == 0) << kind.name;
  }
}

}  // namespace
}  // namespace bearing::inspect
