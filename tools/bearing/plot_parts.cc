#include "plot_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "terminal.hpp"
#include "utf8.hpp"

namespace bearing::tool {

using inspect::Axis;
using inspect::Cells;
using inspect::ColourMap;
using inspect::Figure;
using inspect::Panel;
using inspect::Scale;
using inspect::Series;
using inspect::Tick;

namespace {

double on_scale(Scale scale, double value) {
  return scale == Scale::linear ? value : scale == Scale::log2 ? std::log2(value) : std::log10(value);
}

/// 131072 → "128k", as lengths can be said.
std::string binary_label(double value) {
  if (value >= 1048576) return fmt::format("{:g}M", value / 1048576);
  return value >= 1024 ? fmt::format("{:g}k", value / 1024) : fmt::format("{:g}", value);
}

/// "0.001", "1e-4", "1000", "1e6".
std::string decimal_label(double value) {
  if (value >= 0.001 && value < 1e5) return fmt::format("{:g}", value);
  const int power = static_cast<int>(std::floor(std::log10(value) + 1e-9));
  return fmt::format("{:g}e{}", value / std::pow(10.0, power), power);
}

std::vector<Tick> powers(const Axis& axis, int most) {
  const double low = on_scale(axis.scale, std::min(axis.first, axis.last));
  const double high = on_scale(axis.scale, std::max(axis.first, axis.last));
  const double step = std::max(1.0, std::ceil((high - low) / most));
  const bool binary = axis.scale == Scale::log2;
  std::vector<double> within = {1};
  if (!binary && high - low < 1.5) within = {1, 2, 5};
  std::vector<Tick> ticks;
  for (double p = std::floor(low / step) * step; p <= high + 1e-9; p += step) {
    for (const double times : within) {
      const double at = binary ? std::exp2(p) : times * std::pow(10.0, p);
      ticks.push_back({at, binary ? binary_label(at) : decimal_label(at)});
    }
  }
  return ticks;
}

/// "2,000", "0.25": as many decimals as the step asks for.
std::string linear_label(double value, double step) {
  const double size = std::abs(value);
  if (size >= 1e7 || (size > 0 && step < 1e-5)) return fmt::format("{:.3g}", value);
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  if (decimals == 0) return grouped(static_cast<Index>(std::llround(value)));
  return fmt::format("{:.{}f}", value, decimals);
}

std::vector<Tick> round_numbers(const Axis& axis, int most, double at_least) {
  const double low = std::min(axis.first, axis.last), high = std::max(axis.first, axis.last);
  const double least = std::max((high - low) / std::max(most, 1), at_least);
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  double step = 10 * power;
  for (const double times : {5.0, 2.0, 1.0}) {
    if (times * power >= least * (1 - 1e-9)) step = times * power;
  }
  std::vector<Tick> ticks;
  const double first = std::ceil(low / step - 1e-9);
  // By a count, as a double past 2^53 does not become another one by adding 1; steps are no shorter than `least`.
  for (int i = 0; i <= std::max(most, 1) + 1; ++i) {
    const double n = first + i;
    if (!(n * step <= high + 1e-9 * step)) break;
    if (ticks.empty() || n * step != ticks.back().at) {
      ticks.push_back({n * step, linear_label(n == 0 ? 0 : n * step, step)});
    }
  }
  return ticks;
}

bool same_entry(const Entry& a, const Entry& b) {
  const bool lines = a.series == nullptr || b.series == nullptr ||
                     (a.series->stroke == b.series->stroke && dashes_of(*a.series) == dashes_of(*b.series));
  return a.mark == b.mark && a.text == b.text && a.colour == b.colour && a.number == b.number && lines;
}

}  // namespace

double along(const Axis& axis, double value) {
  const double first = on_scale(axis.scale, axis.first), last = on_scale(axis.scale, axis.last);
  const double at = on_scale(axis.scale, value);
  return std::isfinite(at) ? (at - first) / (last - first) : std::nan("");
}

std::vector<Tick> ticks_of(const Axis& axis, int most, double least) {
  const bool linear = axis.scale == Scale::linear;
  std::vector<Tick> ticks = axis.ticks;
  if (ticks.empty()) ticks = linear ? round_numbers(axis, most, least) : powers(axis, most);
  for (int more = most + 1; ticks.size() < 2 && axis.ticks.empty() && more < 3 * most + 6; ++more) {
    ticks = linear ? round_numbers(axis, more, least) : powers(axis, more);  // one says no unit
  }
  std::vector<Tick> inside;
  for (Tick& tick : ticks) {
    const double at = along(axis, tick.at);
    if (at < -1e-9 || at > 1 + 1e-9 || std::isnan(at)) continue;
    tick.text = printable(tick.text);
    inside.push_back(std::move(tick));
  }
  return inside;
}

namespace {

double whole_step(const Panel& panel, double first, double step) {
  const bool whole = panel.cells && step == std::trunc(step) && first == std::trunc(first);
  return whole ? std::abs(step) : 0;
}

}  // namespace

std::vector<Tick> x_ticks_of(const Panel& panel, int most) {
  return ticks_of(panel.x, most, panel.cells ? whole_step(panel, panel.cells->x_first, panel.cells->x_step) : 0);
}

std::vector<Tick> y_ticks_of(const Panel& panel, int most) {
  return ticks_of(panel.y, most, panel.cells ? whole_step(panel, panel.cells->y_first, panel.cells->y_step) : 0);
}

Axis colour_axis(const Cells& cells) {
  const bool flat = !(cells.high > cells.low);
  return {cells.title, flat ? cells.low - 0.5 : cells.low, flat ? cells.low + 0.5 : cells.high};
}

bool has_colour_scale(const Panel& panel) { return panel.cells && panel.cells->map != ColourMap::categories; }

std::vector<Entry> legend_of(const Panel& panel) {
  std::vector<Entry> entries;
  if (panel.cells && panel.cells->map == ColourMap::categories) {
    for (std::size_t i = 0; i < panel.cells->categories.size(); ++i) {
      const int n = static_cast<int>(i);
      entries.push_back({Entry::Mark::category, printable(panel.cells->categories[i]), palette_colour(n), nullptr, n});
    }
  }
  int number = 0;
  for (const Series& series : panel.series) {
    if (!series.label.empty()) {
      entries.push_back({Entry::Mark::series, printable(series.label), colour_of(series), &series, number});
    }
    ++number;
  }
  for (const inspect::Band& band : panel.bands) {
    if (!band.label.empty()) {
      entries.push_back({Entry::Mark::band, printable(band.label), palette_colour(band.colour)});
    }
  }
  return entries;
}

bool one_legend(const Figure& figure) {
  if (figure.panels.size() < 2) return false;
  const std::vector<Entry> first = legend_of(figure.panels.front());
  return std::all_of(figure.panels.begin(), figure.panels.end(), [&](const Panel& panel) {
    const std::vector<Entry> other = legend_of(panel);
    return std::equal(first.begin(), first.end(), other.begin(), other.end(), same_entry);
  });
}

bool one_colour_scale(const Figure& figure) {
  const auto same = [&](const Panel& panel) {
    if (!has_colour_scale(panel) || !has_colour_scale(figure.panels.front())) return false;
    const Cells &a = *panel.cells, &b = *figure.panels.front().cells;
    return a.map == b.map && a.low == b.low && a.high == b.high && a.title == b.title;
  };
  return std::all_of(figure.panels.begin(), figure.panels.end(), same);
}

inspect::Colour palette_colour(int number) {
  const auto n = static_cast<int>(inspect::palette().size());
  return inspect::palette()[static_cast<std::size_t>((number % n + n) % n)];
}

inspect::Colour colour_of(const Series& series) {
  return series.shade ? inspect::family_colour(*series.shade) : palette_colour(series.colour);
}

std::vector<int> dashes_of(const Series& series) {
  static const std::vector<std::vector<int>> all{
      {}, {8, 4}, {4, 3}, {10, 3, 2, 3}, {5, 2}, {14, 3, 4, 3}, {8, 3, 2, 3, 2, 3}, {3, 6}};
  return series.shade ? all[0] : all[static_cast<std::size_t>(std::abs(series.colour)) % all.size()];
}

std::size_t first_part(std::string_view word, double most, const std::function<double(std::string_view)>& width) {
  std::size_t fits = 0, breaks = 0;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t next = at + std::max<std::size_t>(utf8::first_character(word.substr(at)).bytes, 1);
    if (at > 0 && width(word.substr(0, next)) > most) break;
    if (std::string_view(",:;=/-_").find(word[at]) != std::string_view::npos) breaks = next;
    fits = next, at = next;
  }
  return breaks > 0 && fits < word.size() ? breaks : fits;
}

bool Places::is_free(const Box& box) const {
  if (box.left < inside_.left || box.right > inside_.right || box.top < inside_.top || box.bottom > inside_.bottom) {
    return false;
  }
  return std::none_of(taken_.begin(), taken_.end(), [&](const Box& other) {
    return box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom;
  });
}

int Places::take_best(const std::vector<Box>& boxes, const std::function<double(const Box&)>& cost) {
  int best = -1;
  double least = 0;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (!is_free(boxes[i])) continue;
    const double covers = cost(boxes[i]);
    if (best < 0 || covers < least) best = static_cast<int>(i), least = covers;
  }
  if (best >= 0) take(boxes[static_cast<std::size_t>(best)]);
  return best;
}

}  // namespace bearing::tool
