#include <gtest/gtest.h>

#include <bearing/error.hpp>
#include <bearing/figure_file.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace bearing::inspect {
namespace {

const char* const least = R"({"schema": "bearing.figure/1", "panels": [{"x": {"first": 0, "last": 1},
    "y": {"first": 0, "last": 1}}]})";

std::string error_of(const std::string& json) {
  try {
    parse_figure(json);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

/// A figure with one panel, of which `members` are the others than its axes.
std::string panel(const std::string& members, const std::string& x = R"({"first": 0, "last": 1})") {
  return R"({"schema": "bearing.figure/1", "panels": [{"x": )" + x + R"(, "y": {"first": 0, "last": 1}, )" + members +
         "}]}";
}

TEST(FigureFile, WhatIsLeftOutHasItsDefault) {
  const Figure figure = parse_figure(least);
  EXPECT_EQ(figure.columns, 1);
  ASSERT_EQ(figure.panels.size(), 1u);
  const Panel& panel = figure.panels[0];
  EXPECT_EQ(panel.x.scale, Scale::linear);
  EXPECT_FALSE(panel.cells || panel.round);
  EXPECT_TRUE(panel.series.empty() && panel.bands.empty() && panel.guides.empty() && panel.notes.empty());
}

TEST(FigureFile, EveryMemberIsRead) {
  const Figure figure =
      parse_figure(R"({"schema": "bearing.figure/1", "kind": "k", "title": "t", "text": "w", "columns": 2,
    "panels": [{"title": "p", "round": true,
      "x": {"title": "a", "first": 1, "last": 16, "scale": "log2", "ticks": [{"at": 4, "text": "four"}]},
      "y": {"title": "b", "first": 10, "last": 0.1, "scale": "log10"},
      "cells": {"title": "c", "map": "diverging", "low": -2, "high": 2, "x_first": 3, "x_step": 4, "y_first": 5,
                "y_step": -6, "values": [[1, null, 3], [4, 5, 6]]},
      "bands": [{"label": "d", "colour": 3, "x": [1, 2], "low": [0, 1], "high": [2, null]}],
      "guides": [{"upright": true, "at": 8, "text": "e"}],
      "series": [{"label": "f", "stroke": "bars", "colour": 7, "shade": 0.5, "faint": true, "x": [1], "y": [null]}],
      "notes": [{"x": 1, "y": 2, "text": "g"}]}]})");
  EXPECT_EQ(figure.kind + figure.title + figure.text, "ktw");
  EXPECT_EQ(figure.columns, 2);
  const Panel& p = figure.panels.at(0);
  EXPECT_EQ(p.title + p.x.title + p.y.title + p.cells->title, "pabc");
  EXPECT_TRUE(p.round);
  EXPECT_EQ(p.x.scale, Scale::log2);
  EXPECT_EQ(p.y.scale, Scale::log10);
  EXPECT_EQ(p.x.ticks, (std::vector<Tick>{{4, "four"}}));
  EXPECT_EQ(p.y.first, 10);
  EXPECT_EQ(std::pair(p.cells->rows, p.cells->cols), (std::pair<Index, Index>(2, 3)));
  EXPECT_TRUE(std::isnan((*p.cells)(0, 1)));
  EXPECT_EQ((*p.cells)(1, 2), 6);
  EXPECT_EQ(p.cells->map, ColourMap::diverging);
  EXPECT_EQ((std::vector<double>{p.cells->x_first, p.cells->x_step, p.cells->y_first, p.cells->y_step}),
            (std::vector<double>{3, 4, 5, -6}));
  EXPECT_EQ(p.bands.at(0).colour, 3);
  EXPECT_TRUE(std::isnan(p.bands[0].high[1]));
  EXPECT_TRUE(p.guides.at(0).upright);
  EXPECT_EQ(p.series.at(0).stroke, Stroke::bars);
  EXPECT_EQ(p.series[0].shade, 0.5);
  EXPECT_TRUE(p.series[0].faint);
  EXPECT_TRUE(std::isnan(p.series[0].y[0]));
  EXPECT_EQ(p.notes.at(0).text, "g");
}

TEST(FigureFile, ATextHasABound) {
  const auto titled = [](std::size_t n) { return panel(R"("title": ")" + std::string(n, 'a') + '"'); };
  EXPECT_EQ(parse_figure(titled(10'000)).panels[0].title.size(), 10'000u);
  EXPECT_EQ(error_of(titled(10'001)), "figure: /panels/0/title: must be a string of at most 10000 bytes, got 10001");
  const std::string named = R"("cells": {"map": "categories", "values": [[0]], "categories": [")";
  EXPECT_NE(error_of(panel(named + std::string(10'001, 'a') + "\"]}")).find("texts of at most 10000 bytes"),
            std::string::npos);
}

TEST(FigureFile, WhatIsWrongIsSaidWithItsPlace) {
  const std::pair<std::string, std::string> cases[] = {
      {"[]", "figure: must be an object, got an array of 0"},
      {"{", "figure:1:2: must be JSON"},
      {R"({"panels": []})", "figure: /schema: must be there (\"bearing.figure/1\"), got nothing"},
      {R"({"schema": "bearing.figure/2"})", "/schema: must be \"bearing.figure/1\", got \"bearing.figure/2\""},
      {R"({"schema": "bearing.figure/1"})", "/panels: must have at least one panel"},
      {R"({"schema": "bearing.figure/1", "panel": []})", "/panel: must be one of: schema, kind, title, text, columns"},
      {R"({"schema": "bearing.figure/1", "title": "a", "title": "b", "panels": [{"x": {"first": 0, "last": 1},
           "y": {"first": 0, "last": 1}}]})",
       "/title: the key is there more than once"},
      {R"({"schema": "bearing.figure/1", "panels": [{"y": {"first": 0, "last": 1}}]})",
       "/panels/0/x: must be there (an axis), got nothing"},
      {panel("\"lines\": []"), "/panels/0/lines: must be one of: title, round, x, y, cells"},
      {panel("\"round\": 1"), "/panels/0/round: must be true or false, got 1"},
      {panel("\"title\": 1"), "/panels/0/title: must be a string, got 1"},
      {panel("\"notes\": []", R"({"last": 1})"), "/panels/0/x/first: must be there (a number from"},
      {panel("\"notes\": []", R"({"first": 1, "last": 1})"), "/panels/0/x/last: must be another number than first"},
      {panel("\"notes\": []", R"({"first": 0, "last": 1, "scale": "log2"})"),
       "/panels/0/x/first: must be above 0 on a logarithmic scale, got 0"},
      {panel("\"notes\": []", R"({"first": 0, "last": 1, "scale": "ln"})"),
       "/panels/0/x/scale: must be \"linear\" or \"log2\" or \"log10\", got \"ln\""},
      {panel(R"("series": [{"x": [0, 1], "y": [0]}])"),
       "/panels/0/series/0/y: must have as many numbers as x, 2, got 1"},
      {panel(R"("series": [{"x": [null], "y": [0]}])"), "/panels/0/series/0/x/0: must be a number from"},
      {panel(R"("series": [{"x": [0], "y": ["a"]}])"), "or null, got \"a\""},
      {panel(R"("series": [{"x": [0], "y": [NaN]}])"), "or null, got nan"},
      {panel(R"("series": [{"x": 0, "y": 0}])"), "/panels/0/series/0/x: must be an array, got 0"},
      {panel(R"("series": {})"), "/panels/0/series: must be an array of at most 10000 objects, got an object"},
      {panel(R"("series": [{"x": [], "y": [], "colour": -1}])"),
       "/panels/0/series/0/colour: must be a whole number from 0"},
      {panel(R"("series": [{"x": [], "y": [], "shade": 2}])"),
       "/panels/0/series/0/shade: must be a number from 0 to 1"},
      {panel(R"("bands": [{"x": [0], "low": [0], "high": []}])"),
       "/panels/0/bands/0/high: must have as many numbers as x, 1"},
      {panel(R"("cells": {"values": []})"), "/panels/0/cells/values: must be an array of at least one row"},
      {panel(R"("cells": {"values": [[]]})"), "/panels/0/cells/values/0: must be an array of numbers, at least one"},
      {panel(R"("cells": {"values": [[1], [1, 2]]})"), "/panels/0/cells/values/1: must be an array of numbers"},
      {panel(R"("cells": {"values": [[1]], "low": 1})"), "/panels/0/cells/high: must be above low"},
      {panel(R"("cells": {"values": [[1]], "map": "diverging", "low": -2})"),
       "/panels/0/cells/low: must be minus high"},
      {panel(R"("cells": {"values": [[1]], "map": "categories"})"), "/panels/0/cells/categories: must be there"},
      {panel(R"("cells": {"values": [[1]], "x_step": 0})"), "/panels/0/cells/x_step: must be another number than 0"},
  };
  for (const auto& [json, wanted] : cases) EXPECT_NE(error_of(json).find(wanted), std::string::npos) << error_of(json);
  EXPECT_EQ(error_of(least), "no error");
}

TEST(FigureFile, AFileThatIsMissingIsNamed) { EXPECT_THROW(read_figure("no/such/figure.json"), ConfigError); }

}  // namespace
}  // namespace bearing::inspect
