// Pictures that use everything that a figure can hold, drawn as `bearing plot` draws. plot_samples NAME FORMAT WIDTH
// BACKGROUND writes one to standard output; without arguments it says the names, and with --widths how wide texts are.

#include <bearing/figures.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "plot_gnuplot.hpp"
#include "plot_json.hpp"
#include "plot_terminal.hpp"
#include "plot_words.hpp"
#include "signals.hpp"
#include "terminal.hpp"

namespace {

using namespace bearing;
using namespace bearing::inspect;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Cells cells(Index rows, Index cols, ColourMap map) {
  Cells all{.rows = rows, .cols = cols, .map = map, .low = map == ColourMap::diverging ? -1.0 : 0.0, .title = "weight"};
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < cols; ++c) {
      const double x = double(c) / double(cols), y = double(r) / double(rows);
      double value = std::sin(9 * x) * std::cos(7 * y);
      if (map == ColourMap::sequential) value = x * y;
      if (map == ColourMap::categories) value = static_cast<double>((r / 3 + c / 3) % 3);
      all.values.push_back(c > r && map != ColourMap::diverging ? nan : value);
    }
  }
  if (map == ColourMap::categories) all.categories = {"seen", "outside the window", "another sequence"};
  return all;
}

Panel matrix(Index rows, Index cols, ColourMap map, bool round) {
  return {.title = "Matrix of " + std::to_string(rows) + " by " + std::to_string(cols),
          .x = {"key position (tokens)", -0.5, double(cols) - 0.5},
          .y = {"query position (tokens)", double(rows) - 0.5, -0.5},
          .round = round,
          .cells = cells(rows, cols, map)};
}

Panel lines(int count, Stroke stroke) {
  Panel panel{.title = "Lines", .x = {"distance, query - key (tokens)", 0, 100}, .y = {"score", -1.2, 1.2}};
  for (int n = 0; n < count; ++n) {
    Series one{.label = "series " + std::to_string(n), .stroke = stroke, .colour = n};
    const int points = stroke == Stroke::line ? 101 : 11;
    for (int i = 0; i < points; ++i) {
      const double x = 100.0 * i / (points - 1);
      one.x.push_back(x);
      one.y.push_back(stroke == Stroke::line && i >= 40 && i < 45 ? nan
                                                                  : std::sin(x / (7 + 3 * n)) * std::exp(-x / 90));
    }
    panel.series.push_back(one);
  }
  return panel;
}

Figure everything() {
  Figure figure{"curves", "Everything at once: lines with gaps, a band, guides that say their names and notes",
                "A test."};
  Panel panel = lines(4, Stroke::line);
  panel.bands.push_back({.label = "5 % to 95 % of random queries", .colour = 6});
  for (int i = 0; i <= 20; ++i) {
    panel.bands[0].x.push_back(5.0 * i);
    panel.bands[0].low.push_back(-0.9 * std::exp(-i / 18.0)), panel.bands[0].high.push_back(0.9 * std::exp(-i / 18.0));
  }
  panel.guides = {{true, 50, "trained length"}, {true, 98, "asked length"}, {false, 0.5, "half"}};
  panel.notes = {{20, -1, "a note"}, {100, 1, "a note at the corner"}, {20, -1, "and one more"}};
  panel.series[3].faint = true;
  figure.panels = {panel};
  return figure;
}

Figure strokes() {
  Figure figure{"curves", "Every stroke", "A test."};
  for (const Stroke stroke : {Stroke::line, Stroke::dots, Stroke::steps, Stroke::bars}) {
    figure.panels.push_back(lines(2, stroke));
  }
  for (int dial = 0; dial < 2; ++dial) {
    Panel panel{
        .title = "pair " + std::to_string(dial), .x = {"cos", -1.1, 1.1}, .y = {"sin", -1.1, 1.1}, .round = true};
    for (int n = 0; n < 3; ++n) {
      const double angle = (dial + 1) * n * 0.5;
      panel.series.push_back({.label = "position " + std::to_string(n),
                              .x = {std::cos(angle)},
                              .y = {std::sin(angle)},
                              .stroke = Stroke::hands,
                              .shade = n / 2.0});
    }
    panel.notes = {{std::cos(0.5), std::sin(0.5), "is"}};
    figure.panels.push_back(panel);
  }
  figure.columns = 3;
  return figure;
}

Figure maps() {
  Figure figure{"heatmap", "Three maps of colours", "A test."};
  figure.panels = {matrix(16, 16, ColourMap::sequential, true), matrix(40, 24, ColourMap::diverging, false),
                   matrix(12, 12, ColourMap::categories, true), matrix(1, 9, ColourMap::sequential, false)};
  figure.panels[1].guides = {{true, 12, "the middle"}};
  figure.panels[1].notes = {{3, 30, "a note"}};
  figure.columns = 2;
  return figure;
}

Figure logarithms() {
  Figure figure{"wavelengths", "Logarithmic axes", "A test."};
  Panel panel{.title = "Wavelength of each pair",
              .x = {"wavelength (tokens)", 2, 1 << 20, Scale::log2},
              .y = {"frequency", 1e-7, 10, Scale::log10}};
  Series one{.label = "rope", .stroke = Stroke::dots};
  for (double x = 4; x < 1 << 20; x *= 1.5) one.x.push_back(x), one.y.push_back(6.28 / x);
  one.x.push_back(100), one.y.push_back(-1);  // no logarithm
  panel.series = {one};
  panel.guides = {{true, 8192, "trained"}};
  figure.panels = {panel, panel};
  figure.panels[1].x.ticks = {{2, "two"}, {1024, "a thousand and 24"}, {1 << 20, "100 %"}};
  figure.columns = 2;
  return figure;
}

Figure many() {
  Figure figure{
      "heatmap",
      "Eight panels with long titles on one scale of colours, and a title that goes on for more than one line",
      "A test."};
  for (int n = 0; n < 8; ++n) {
    figure.panels.push_back(matrix(64, 64, ColourMap::diverging, true));
    figure.panels.back().title = "rope_yarn:factor=8,trained_length=4096, head " + std::to_string(n);
  }
  figure.columns = 4;
  return figure;
}

Figure large() {
  Figure figure{"similarity", "A matrix of 1,024 by 1,024", "A test."};
  figure.panels = {matrix(1024, 1024, ColourMap::diverging, true)};
  return figure;
}

Figure hostile() {
  const std::string bad =
      "x\"; system(\"touch pwned\"); ' `touch pwned` @a %s %d {/Bold b}^2_3 $p0 <b>&amp; \\n \x1b[31m\nplot x \\";
  Figure figure{"curves", bad, bad};
  Panel panel = lines(2, Stroke::line);
  panel.title = panel.x.title = panel.y.title = panel.series[0].label = bad;
  panel.x.ticks = {{0, "0"}, {50, "' `touch pwned` %s"}};
  panel.guides = {{true, 30, bad}}, panel.notes = {{10, 0, "'`touch pwned`"}};
  panel.cells = cells(4, 4, ColourMap::sequential);
  panel.cells->title = bad;
  figure.panels = {panel};
  return figure;
}

Figure empty() {
  Figure figure{"curves", "A panel without anything", "A test."};
  figure.panels = {{.title = "nothing", .x = {"x", 0, 1}, .y = {"y", 0, 1}}};
  return figure;
}

Figure names() {
  Figure figure{"lab", "More names beside the axes than the usual height has room for", "A test."};
  figure.panels = {matrix(40, 5, ColourMap::sequential, false), matrix(40, 5, ColourMap::sequential, false)};
  for (int n = 0; n < 40; ++n) figure.panels[0].y.ticks.push_back({double(n), "name " + std::to_string(n)});
  figure.columns = 2;
  return figure;
}

/// Names that leave little room for what they name, beside two panels.
Figure long_names() {
  Figure figure{"lab", "Long names beside two panels", "A test."};
  for (const char* title : {"one question", "another question"}) {
    Panel panel = matrix(12, 3, ColourMap::diverging, false);
    panel.title = title, panel.x.title = "side", panel.y.title = "";
    panel.x.ticks = {{0, "1×"}, {1, "1.5×"}, {2, "2×"}};
    for (int n = 0; n < 12; ++n) {
      panel.y.ticks.push_back(
          {double(n), "an encoding (with=options,and=values) (of the kind " + std::to_string(n) + ")"});
    }
    figure.panels.push_back(panel);
  }
  figure.columns = 2;
  return figure;
}

const std::map<std::string, std::function<Figure()>> samples{
    {"empty", empty},           {"everything", everything}, {"hostile", hostile}, {"large", large},
    {"logarithms", logarithms}, {"long_names", long_names}, {"many", many},       {"maps", maps},
    {"names", names},           {"strokes", strokes}};

/// For lines "SIZE TEXT" of standard input, how wide the text is said to be.
void say_widths() {
  const std::map<std::string, tool::Words::Size> sizes{{"small", tool::Words::Size::small},
                                                       {"usual", tool::Words::Size::usual},
                                                       {"bold", tool::Words::Size::bold},
                                                       {"title", tool::Words::Size::title}};
  for (std::string line; std::getline(std::cin, line);) {
    const std::size_t space = line.find(' ');
    std::printf("%.2f\n", tool::width_of(line.substr(space + 1), sizes.at(line.substr(0, space))));
  }
}

std::string drawn(const Figure& figure, const std::string& format, int width, const std::string& background) {
  if (format == "json") return tool::figure_as_json(figure);
  const tool::GnuplotStyle style{format == "gp" ? "png" : format, background, width};
  if (format == "gp") return tool::gnuplot_script(figure, style);
  if (format != "text") return tool::draw_with_gnuplot(figure, style);
  tool::TextStyle text = tool::text_style("");
  text.width = static_cast<std::size_t>(width);
  return tool::figure_as_text(figure, text);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::string(argv[1]) == "--widths") {
      say_widths();
      return 0;
    }
    if (argc < 5) {
      for (const auto& [name, make] : samples) std::puts(name.c_str());
      return argc == 1 ? 0 : 2;
    }
    tool::print(drawn(samples.at(argv[1])(), argv[2], std::atoi(argv[3]), argv[4]));
    return 0;
  } catch (const tool::Interrupted& interrupted) {
    tool::die_of(interrupted.signal);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
