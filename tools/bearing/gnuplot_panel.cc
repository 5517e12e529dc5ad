#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "gnuplot_script.hpp"
#include "terminal.hpp"

namespace bearing::tool {

using inspect::Axis;
using inspect::Cells;
using inspect::Colour;
using inspect::ColourMap;
using inspect::Panel;
using inspect::Scale;
using inspect::Series;
using inspect::Stroke;
using inspect::Tick;

std::string quoted(const std::string& text) {
  constexpr std::string_view plain = " !()*+,-./:;<=>?[]^_|~&";
  std::string out = "\"";
  bool after_number = false;  // gnuplot takes a digit there for one more of the octal number's
  for (const char c : printable(text)) {
    const bool digit = c >= '0' && c <= '9';
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (digit && !after_number);
    const auto byte = static_cast<unsigned char>(c);
    after_number = !(letter || byte >= 0x80 || plain.find(c) != plain.npos);
    out += after_number ? fmt::format("\\{:03o}", byte) : std::string(1, c);
  }
  return out + '"';
}

std::string quoted(const Colour& c, int transparency) {
  return transparency > 0 ? fmt::format("'#{:02x}{:02x}{:02x}{:02x}'", transparency, c.red, c.green, c.blue)
                          : fmt::format("'#{:02x}{:02x}{:02x}'", c.red, c.green, c.blue);
}

namespace {

/// A matrix whose rows and columns go upwards, of at least two each, as gnuplot's images must be. Each cell is there
/// again until there are about `finer` of them across, and fewer times where a long and narrow matrix would grow to
/// more than 2^20 cells.
Cells upwards(const Cells& from, Index finer = 2) {
  constexpr Index most = Index{1} << 20;
  Cells to = from;
  const Index most_times = std::max<Index>(most / (from.rows * from.cols), 2);
  const Index down = std::max<Index>(std::min(finer / from.rows, most_times), from.rows == 1 ? 2 : 1);
  const Index across = std::max<Index>(std::min(finer / from.cols, most_times), from.cols == 1 ? 2 : 1);
  to.rows = down * from.rows, to.cols = across * from.cols;
  const bool turn_x = from.x_step < 0, turn_y = from.y_step < 0;
  const double x_step = std::abs(from.x_step), y_step = std::abs(from.y_step);
  const double left = turn_x ? from.x_first + from.x_step * double(from.cols - 1) : from.x_first;
  const double low = turn_y ? from.y_first + from.y_step * double(from.rows - 1) : from.y_first;
  to.x_step = x_step / double(across), to.x_first = left - x_step / 2 + to.x_step / 2;
  to.y_step = y_step / double(down), to.y_first = low - y_step / 2 + to.y_step / 2;
  to.values.clear();
  for (Index row = 0; row < to.rows; ++row) {
    for (Index col = 0; col < to.cols; ++col) {
      const Index r = row / down, c = col / across;
      to.values.push_back(from(turn_y ? from.rows - 1 - r : r, turn_x ? from.cols - 1 - c : c));
    }
  }
  return to;
}

std::string number(double x) { return std::isnan(x) ? "NaN" : fmt::format("{:.9g}", x); }

std::string cells_text(const Cells& cells, std::size_t panel) {
  std::string out = fmt::format("$p{}_cells << END\n", panel);
  for (Index row = 0; row < cells.rows; ++row) {
    for (Index col = 0; col < cells.cols; ++col) out += (col > 0 ? " " : "") + number(cells(row, col));
    out += '\n';
  }
  return out + "END\n";
}

std::string cells_bytes(const Cells& cells) {
  std::vector<float> numbers(cells.values.begin(), cells.values.end());
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
}

std::string range_text(const Axis& axis) {
  return fmt::format("[{}:{}] noextend", number(axis.first), number(axis.last));
}

std::string ticks_text(const std::vector<Tick>& ticks) {
  std::string out;
  for (const Tick& tick : ticks) {
    std::string text;
    for (const char c : tick.text) text += c == '%' ? "%%" : std::string(1, c);  // a label is a format
    out += (out.empty() ? "" : ", ") + quoted(text) + ' ' + number(tick.at);
  }
  return '(' + out + ')';
}

std::string log_text(const char* name, const Axis& axis) {
  if (axis.scale == Scale::linear) return fmt::format("unset logscale {}\n", name);
  return fmt::format("set logscale {} {}\n", name, axis.scale == Scale::log2 ? 2 : 10);
}

/// The colours of a matrix' numbers, and the scale beside it.
std::string palette_text(const Cells& cells) {
  std::string stops;
  const auto add = [&](double at, const Colour& c) {
    stops += fmt::format("{}{} {}", stops.empty() ? "" : ", ", number(at), quoted(c));
  };
  if (cells.map == ColourMap::categories) {
    const int n = std::max(static_cast<int>(cells.categories.size()), 1);
    for (int i = 0; i < n; ++i) add(i, palette_colour(i)), add(i + 1, palette_colour(i));
    return fmt::format("set palette defined ({})\nset cbrange [-0.5:{}]\n", stops, n - 0.5);
  }
  const Axis axis = colour_axis(cells);
  constexpr int pieces = 64;
  for (int i = 0; i <= pieces; ++i) {
    add(i, inspect::colour_of(cells, axis.first + (axis.last - axis.first) * i / pieces));
  }
  return fmt::format("set palette defined ({})\nset cbrange {}\n", stops, range_text(axis));
}

std::string dash_text(const Series& series) {
  const std::vector<int> dashes = dashes_of(series);
  return dashes.empty() ? "dt solid" : fmt::format("dt ({})", fmt::join(dashes, ","));
}

/// How gnuplot draws a series; hands are two things, a line and the dot at its end.
std::vector<std::string> ways_of(const Series& series, double pixels) {
  const std::string ink = quoted(colour_of(series), series.faint ? 0x60 : 0);
  const double lw = series.faint ? 1.4 : 2;
  const double n = std::max<double>(static_cast<double>(series.x.size()), 1);
  switch (series.stroke) {
    case Stroke::line:
      return {fmt::format("using 1:2 with lines lw {} lc rgb {} {}", lw, ink, dash_text(series))};
    case Stroke::dots:
      return {fmt::format("using 1:2 with points pt 7 ps {} lc rgb {}", n > 60 ? 0.5 : 0.9, ink)};
    case Stroke::steps:
      return {fmt::format("using 1:2 with steps lw {} lc rgb {} {}", lw, ink, dash_text(series))};
    case Stroke::bars:
      return {fmt::format("using 1:2 with impulses lw {:.2f} lc rgb {}", std::clamp(0.7 * pixels / n, 1.0, 24.0), ink)};
    case Stroke::hands:
      return {fmt::format("using (0):(0):1:2 with vectors nohead lw {} lc rgb {}", 1.25 * lw, ink),
              fmt::format("using 1:2 with points pt 7 ps 0.9 lc rgb {}", ink)};
  }
  return {};
}

std::string plot_text(const Panel& panel, std::size_t p, double pixels, Matrices matrices) {
  std::vector<std::string> parts;
  const bool bytes = matrices != Matrices::text;
  constexpr Index fine = 640;  // a cell's smoothed edge is a pixel or two then
  Cells cells;
  if (panel.cells) {
    cells = matrices == Matrices::fine ? upwards(*panel.cells, fine) : upwards(*panel.cells);
    parts.push_back(
        bytes ? fmt::format("'-' binary array=({},{}) format='%float32' origin=({},{}) dx={} dy={} with image notitle",
                            cells.cols, cells.rows, number(cells.x_first), number(cells.y_first), number(cells.x_step),
                            number(cells.y_step))
              : fmt::format("$p{}_cells matrix using ({} + {} * $1):({} + {} * $2):3 with image notitle", p,
                            number(cells.x_first), number(cells.x_step), number(cells.y_first), number(cells.y_step)));
  }
  for (std::size_t i = 0; i < panel.bands.size(); ++i) {
    parts.push_back(
        fmt::format("$p{}_band{} using 1:2:3 with filledcurves fs transparent solid 0.25 noborder fc rgb {} notitle", p,
                    i, quoted(palette_colour(panel.bands[i].colour))));
  }
  for (const bool faint : {true, false}) {
    for (std::size_t i = 0; i < panel.series.size(); ++i) {
      if (panel.series[i].faint != faint || panel.series[i].x.empty()) continue;
      for (const std::string& way : ways_of(panel.series[i], pixels)) {
        parts.push_back(fmt::format("$p{}_series{} {} notitle", p, i, way));
      }
    }
  }
  if (parts.empty()) parts.push_back("NaN notitle");
  std::string out = fmt::format("plot {}\n", fmt::join(parts, ", \\\n     "));
  if (panel.cells && bytes) out += cells_bytes(cells) + '\n';
  return out;
}

/// Parts of a straight line across the axes, each from a place to another, 0 … 1: what is left between words.
std::vector<std::array<double, 2>> between_words(const PanelPlace& place, bool upright, double at) {
  const Places::Box& axes = place.axes;
  const double w = axes.right - axes.left, h = axes.bottom - axes.top;
  const double pixel = upright ? axes.left + at * w : axes.bottom - at * h;
  std::vector<std::array<double, 2>> gaps;
  for (const Places::Box& box : place.words) {
    if (pixel <= (upright ? box.left : box.top) || pixel >= (upright ? box.right : box.bottom)) continue;
    if (upright) gaps.push_back({(axes.bottom - box.bottom) / h, (axes.bottom - box.top) / h});
    if (!upright) gaps.push_back({(box.left - axes.left) / w, (box.right - axes.left) / w});
  }
  gaps.push_back({1, 1});
  std::sort(gaps.begin(), gaps.end());
  const double least = 8 / (upright ? h : w);  // pixels: a shorter part looks like a letter
  std::vector<std::array<double, 2>> parts;
  double from = 0;
  for (const auto& [begin, end] : gaps) {
    if (begin > from + least) parts.push_back({from, std::min(begin, 1.0)});
    from = std::max(from, end);
  }
  return parts;
}

/// A line from one end of the axes to the other, that leaves words free.
std::string line_text(const PanelPlace& place, const Axis& axis, bool upright, double value, const std::string& style) {
  std::string out;
  const double at = along(axis, value);
  if (!(at >= 0 && at <= 1)) return out;
  const char* place_of = upright ? "first {0}, graph {1:.6g}" : "graph {1:.6g}, first {0}";
  for (const auto& [from, to] : between_words(place, upright, at)) {
    out += fmt::format("set arrow from {} to {} nohead {}\n", fmt::format(fmt::runtime(place_of), number(value), from),
                       fmt::format(fmt::runtime(place_of), number(value), to), style);
  }
  return out;
}

/// A line at every tick of an axis.
std::string grid_text(const Panel& panel, const PanelPlace& place, const Inks& inks) {
  const std::string style = fmt::format("back lt 1 lw 0.6 lc rgb {}", quoted(inks.grid));
  std::string out;
  for (const Tick& tick : place.x_ticks) out += line_text(place, panel.x, true, tick.at, style);
  for (const Tick& tick : place.y_ticks) out += line_text(place, panel.y, false, tick.at, style);
  return out;
}

std::string guides_text(const Panel& panel, const PanelPlace& place, const Inks& inks) {
  const std::string style =
      fmt::format("{} lw 1.2 dt (5,4) lc rgb {}", panel.cells ? "front" : "back", quoted(inks.axes));
  std::string out;
  for (const inspect::Guide& guide : panel.guides) {
    out += line_text(place, guide.upright ? panel.x : panel.y, guide.upright, guide.at, style);
  }
  return out;
}

}  // namespace

std::string panel_data(const Panel& panel, std::size_t p, bool bytes) {
  std::string out = panel.cells && !bytes ? cells_text(upwards(*panel.cells), p) : "";
  for (std::size_t i = 0; i < panel.bands.size(); ++i) {
    const inspect::Band& band = panel.bands[i];
    out += fmt::format("$p{}_band{} << END\n", p, i);
    for (std::size_t j = 0; j < band.x.size(); ++j) {
      out += fmt::format("{} {} {}\n", number(band.x[j]), number(band.low[j]), number(band.high[j]));
    }
    out += "END\n";
  }
  for (std::size_t i = 0; i < panel.series.size(); ++i) {
    const Series& series = panel.series[i];
    if (series.x.empty()) continue;
    out += fmt::format("$p{}_series{} << END\n", p, i);
    for (std::size_t j = 0; j < series.x.size(); ++j) {
      out += fmt::format("{} {}\n", number(series.x[j]), number(series.y[j]));
    }
    out += "END\n";
  }
  return out;
}

std::string panel_commands(const Panel& panel, const PanelPlace& place, std::size_t p, const Layout& layout,
                           const Inks& inks, double font_size, Matrices matrices) {
  const double w = layout.width, h = layout.height;
  std::string out = fmt::format(
      "set lmargin at screen {:.6f}; set rmargin at screen {:.6f}; set tmargin at screen {:.6f}; set bmargin at screen "
      "{:.6f}\n",
      place.axes.left / w, place.axes.right / w, 1 - place.axes.top / h, 1 - place.axes.bottom / h);
  out += log_text("x", panel.x) + log_text("y", panel.y);
  out += fmt::format("set xrange {}\nset yrange {}\n", range_text(panel.x), range_text(panel.y));
  const std::string words = fmt::format("font ',{:.4g}' textcolor rgb {}", font_size, quoted(inks.words));
  out += fmt::format("set xtics out nomirror scale 0.5 {} {}\nset ytics out nomirror scale 0.5 {} {}\n", words,
                     ticks_text(place.x_ticks), words, ticks_text(place.y_ticks));
  out += fmt::format("set border {} lc rgb {} lw 1\n", panel.cells ? 15 : 3, quoted(inks.axes));
  out += "unset arrow\nunset colorbox\n";
  if (!panel.cells) out += grid_text(panel, place, inks);
  if (panel.cells) out += palette_text(*panel.cells);
  if (place.has_scale) {
    out += fmt::format(
        "set colorbox vertical user origin screen {:.6f}, screen {:.6f} size screen {:.6f}, screen {:.6f} noborder\n"
        "set cbtics out nomirror scale 0.5 {} {}\n",
        place.scale.left / w, 1 - place.scale.bottom / h, (place.scale.right - place.scale.left) / w,
        (place.scale.bottom - place.scale.top) / h, words, ticks_text(place.colour_ticks));
  }
  return out + guides_text(panel, place, inks) + plot_text(panel, p, place.axes.right - place.axes.left, matrices);
}

}  // namespace bearing::tool
