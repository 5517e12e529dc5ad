#include "plot_layout.hpp"

#include <algorithm>
#include <cmath>

#include "terminal.hpp"

namespace bearing::tool {

using inspect::Figure;
using inspect::Panel;
using inspect::Tick;
using Size = Words::Size;
using Align = Words::Align;

namespace {

constexpr double edge = 14, gap = 26;                            // around everything; between panels
constexpr double tick_length = 5, tick_gap = 9;                  // of an axis; from its end to the words
constexpr double mark_width = 30, mark_gap = 7, entry_gap = 20;  // of a legend's entry
constexpr double word_gap = 8;                                   // between the words of ticks under an axis
constexpr double tick_words = 34;                                // from the x axis to what is under its words
constexpr double side_room = 170;                                // of a title beside an axis
constexpr double scale_gap = 12, scale_width = 14;               // of the scale of colours
constexpr double narrowest = 40, ticks_widest = 160;             // axes, and those with many words under them

std::vector<std::string> broken(const std::string& text, double most, Size size) {
  return lines_of(printable(text), most, [&](const std::string& line) { return width_of(line, size); });
}

double widest_of(const std::vector<Tick>& ticks) {
  double widest = 0;
  for (const Tick& tick : ticks) widest = std::max(widest, width_of(tick.text, Size::small));
  return widest;
}

/// Ticks whose words do not lie over each other.
std::vector<Tick> apart(const inspect::Axis& axis, std::vector<Tick> ticks, double length, bool across) {
  std::sort(ticks.begin(), ticks.end(),
            [&](const Tick& a, const Tick& b) { return along(axis, a.at) < along(axis, b.at); });
  std::vector<Tick> kept;
  double free = -1e9;
  for (Tick& tick : ticks) {
    const double half = (across ? width_of(tick.text, Size::small) + word_gap : line_of(Size::small)) / 2;
    const double at = along(axis, tick.at) * length;
    if (at - half < free && !tick.text.empty()) continue;
    free = at + half;
    kept.push_back(std::move(tick));
  }
  return kept;
}

/// Rows of a legend, each with the entries' places in it. An entry that is too wide has several.
struct LegendPlan {
  struct Item {
    std::size_t entry, row;
    double x;
    std::vector<std::string> lines;
  };
  std::vector<Item> items = {};
  std::vector<double> widths = {};  ///< of the rows

  LegendPlan(const std::vector<Entry>& entries, double most) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      std::vector<std::string> lines = broken(entries[i].text, most - mark_width - mark_gap, Size::small);
      double wide = 0;
      for (const std::string& line : lines) wide = std::max(wide, mark_width + mark_gap + width_of(line, Size::small));
      const bool fits = !widths.empty() && lines.size() == 1 && widths.back() + entry_gap + wide <= most;
      if (!fits) widths.push_back(-entry_gap);
      items.push_back({i, widths.size() - 1, widths.back() + entry_gap, lines});
      widths.back() += entry_gap + wide;
      if (lines.size() > 1) widths.resize(widths.size() + lines.size() - 1, wide);
    }
  }
  double height() const { return widths.empty() ? 0 : 6 + static_cast<double>(widths.size()) * line_of(Size::small); }
};

class Planner {
 public:
  Planner(const Figure& figure, int width) : figure_(&figure) {
    layout_.width = width;
    shared_legend_ = one_legend(figure);
    shared_scale_ = figure.panels.size() > 1 && one_colour_scale(figure);
    const double most = std::max(1.0, std::floor((width - 2 * edge + gap) / (190 + gap)));
    columns_ = std::clamp<std::size_t>(static_cast<std::size_t>(figure.columns), 1, static_cast<std::size_t>(most));
    columns_ = std::min(columns_, std::max<std::size_t>(figure.panels.size(), 1));
    double least = narrowest;
    for (const Panel& panel : figure.panels) least = std::max(least, ticks_wide(panel));
    for (measure(); wide_ < least && columns_ > 1; measure()) --columns_;
    if (wide_ < least) {  // words would be cut off in a picture of that width
      layout_.width += std::ceil(least - wide_);
      wide_ += std::ceil(least - wide_);
    }
  }

  Layout plan() {
    double y = edge;
    for (const std::string& line : broken(figure_->title, layout_.width - 2 * edge, Size::title)) {
      put({Align::left, Size::title, edge, y + line_of(Size::title) / 2, line});
      y += line_of(Size::title);
    }
    y += 4;
    for (std::size_t first = 0; first < figure_->panels.size(); first += columns_) y = row_of_panels(first, y) + 14;
    if (shared_legend_) y = legend(legend_of(figure_->panels.front()), edge, layout_.width - 2 * edge, y);
    layout_.height = std::ceil(y + edge - 6);
    return std::move(layout_);
  }

 private:
  void put(Words words) { layout_.words.push_back(std::move(words)); }

  /// What the columns need at their sides, and what is left for each one's axes.
  void measure() {
    lefts_.assign(columns_, 0), rights_.assign(columns_, 0);
    for (std::size_t i = 0; i < figure_->panels.size(); ++i) {
      const Sides needs = sides_of(i);
      double &left = lefts_[i % columns_], &right = rights_[i % columns_];
      left = std::max(left, needs.left), right = std::max(right, needs.right);
    }
    double around = 0;
    for (std::size_t c = 0; c < columns_; ++c) around += lefts_[c] + rights_[c];
    const auto n = static_cast<double>(columns_);
    wide_ = (layout_.width - 2 * edge - gap * (n - 1) - around) / n;
  }

  /// Whether the panel to the left has the same names beside its axes: they are said once, and hold for both.
  bool named_before(std::size_t i) const {
    if (i % columns_ == 0) return false;
    const inspect::Axis &here = figure_->panels[i].y, &before = figure_->panels[i - 1].y;
    return !here.ticks.empty() && here.ticks == before.ticks && here.title == before.title &&
           here.first == before.first && here.last == before.last && here.scale == before.scale;
  }

  bool scale_beside(std::size_t i) const {
    if (!has_colour_scale(figure_->panels[i])) return false;
    return !shared_scale_ || i % columns_ == columns_ - 1;
  }

  struct Sides {
    double left = 0, right = 0;
  };
  /// What a panel needs at both sides of its axes.
  Sides sides_of(std::size_t i) const {
    const Panel& panel = figure_->panels[i];
    Sides needs{tick_length, 8};
    if (!named_before(i)) needs.left += widest_of(y_ticks_of(panel, 6)) + tick_gap + side_width(panel.y.title);
    if (scale_beside(i)) {
      const double numbers = widest_of(ticks_of(colour_axis(*panel.cells), 5));
      needs.right = scale_gap + scale_width + tick_gap + tick_length + numbers + side_width(panel.cells->title);
    }
    for (const Tick& tick : x_ticks_of(panel, 6)) {
      const double half = width_of(tick.text, Size::small) / 2;
      if (along(panel.x, tick.at) > 0.97) needs.right = std::max(needs.right, half + 2);
      if (along(panel.x, tick.at) < 0.03) needs.left = std::max(needs.left, half + 2);
    }
    return needs;
  }

  /// A column's width, with what stands at the sides.
  double whole_width(std::size_t column) const { return lefts_[column] + wide_ + rights_[column]; }

  double over(std::size_t i) const {
    const double most = whole_width(i % columns_);
    return static_cast<double>(broken(figure_->panels[i].title, most, Size::bold).size()) * line_of(Size::bold) + 6;
  }

  double under(std::size_t i) const {
    const Panel& panel = figure_->panels[i];
    const double most = whole_width(i % columns_);
    const double title = static_cast<double>(broken(panel.x.title, most, Size::small).size()) * line_of(Size::small);
    const double words = shared_legend_ ? 0 : LegendPlan(legend_of(panel), most).height();
    return tick_words + title + words;
  }

  /// A title beside an axis: in lines of the least height that an axis has.
  static double side_width(const std::string& title) {
    const std::size_t lines = broken(title, side_room, Size::small).size();
    return lines == 0 ? 0 : static_cast<double>(lines) * line_of(Size::small) + 2;
  }

  static double ratio_of(const Panel& panel) {
    return std::abs(panel.y.last - panel.y.first) / std::max(std::abs(panel.x.last - panel.x.first), 1e-300);
  }

  /// The least step between ticks that an axis gives, as a part of it; large if there are none.
  static double least_step(const inspect::Axis& axis) {
    std::vector<double> places;
    for (const Tick& tick : axis.ticks) places.push_back(along(axis, tick.at));
    std::sort(places.begin(), places.end());
    double step = places.size() < 2 ? 1e9 : 1;
    for (std::size_t i = 1; i < places.size(); ++i) step = std::min(step, places[i] - places[i - 1]);
    return std::max(step, 1e-9);
  }
  /// How high the axes must be for every tick that the panel gives beside them, and how wide for those under them.
  static double ticks_high(const Panel& panel) {
    constexpr double highest = 1200;
    return std::min(line_of(Size::small) / least_step(panel.y) + 1, highest);  // apart() compares rounded sums
  }
  static double ticks_wide(const Panel& panel) {
    return std::min((widest_of(panel.x.ticks) + word_gap) / least_step(panel.x) + 1, ticks_widest);
  }

  /// Panels side by side have axes of one height at one height.
  double row_of_panels(std::size_t first, double y) {
    const std::size_t last = std::min(first + columns_, figure_->panels.size());
    double top = 0, bottom = 0, high = 0;
    bool round = false;
    for (std::size_t i = first; i < last; ++i) {
      top = std::max(top, over(i)), bottom = std::max(bottom, under(i));
      const Panel& panel = figure_->panels[i];
      round = round || panel.round;
      if (panel.round) high = std::max(high, std::clamp(wide_ * ratio_of(panel), 60.0, 470.0));
    }
    if (!round) {
      high = std::clamp(wide_ * (columns_ == 1 ? 0.45 : 0.72), 160.0, 420.0);
      for (std::size_t i = first; i < last; ++i) high = std::max(high, ticks_high(figure_->panels[i]));
    }
    double x = edge;
    for (std::size_t i = first; i < last; ++i) {
      const double left = lefts_[i % columns_], whole = whole_width(i % columns_);
      panel(i, {x + left, y + top, x + left + wide_, y + top + high}, {x, y, x + whole, 0});
      x += whole + gap;
    }
    return y + top + high + bottom;
  }

  void panel(std::size_t i, Places::Box axes, const Places::Box& around) {
    const Panel& panel = figure_->panels[i];
    const double wide = axes.right - axes.left, high = axes.bottom - axes.top;
    if (panel.round) {  // a unit is as long on both axes
      const double ratio = ratio_of(panel), less_wide = std::min(wide, high / ratio), less_high = less_wide * ratio;
      axes.left += (wide - less_wide) / 2, axes.right = axes.left + less_wide;
      axes.top += (high - less_high) / 2, axes.bottom = axes.top + less_high;
    }
    PanelPlace place{.axes = axes};
    const double w = axes.right - axes.left, h = axes.bottom - axes.top;
    place.x_ticks = apart(panel.x, x_ticks_of(panel, std::clamp(static_cast<int>(w / 70), 2, 12)), w, true);
    place.y_ticks = apart(panel.y, y_ticks_of(panel, std::clamp(static_cast<int>(h / 45), 2, 8)), h, false);
    double y = axes.top - 6;
    const std::vector<std::string> title = broken(panel.title, around.right - around.left, Size::bold);
    y -= static_cast<double>(title.size()) * line_of(Size::bold);
    for (const std::string& line : title) {
      put({Align::middle, Size::bold, held((axes.left + axes.right) / 2, line, Size::bold), y + line_of(Size::bold) / 2,
           line});
      y += line_of(Size::bold);
    }
    if (named_before(i)) {
      for (Tick& tick : place.y_ticks) tick.text.clear();
    }
    const double names = widest_of(place.y_ticks) + tick_length + tick_gap;
    const std::vector<std::string> beside = side_lines(named_before(i) ? "" : panel.y.title, axes);
    const double first = axes.left - names - static_cast<double>(beside.size()) * line_of(Size::small);
    side_title(beside, first, axes);
    if (scale_beside(i)) colour_scale(panel, axes, place);
    y = axes.bottom + tick_words;
    for (const std::string& line : broken(panel.x.title, around.right - around.left, Size::small)) {
      put({Align::middle, Size::small, held((axes.left + axes.right) / 2, line, Size::small),
           y + line_of(Size::small) / 2, line});
      y += line_of(Size::small);
    }
    if (!shared_legend_) legend(legend_of(panel), around.left, around.right - around.left, y);
    for (Words& words : words_inside(panel, axes, layout_.width - 4)) {
      place.words.push_back(box_of(words));
      put(std::move(words));
    }
    layout_.panels.push_back(std::move(place));
  }

  /// The middle of a line that stays within the picture.
  double held(double middle, const std::string& line, Size size) const {
    const double half = width_of(line, size) / 2;
    return std::clamp(middle, edge + half, std::max(edge + half, layout_.width - edge - half));
  }

  static std::vector<std::string> side_lines(const std::string& title, const Places::Box& axes) {
    return broken(title, std::max(side_room, axes.bottom - axes.top), Size::small);
  }
  /// Beside an axis, read from below, from a left edge on.
  void side_title(const std::vector<std::string>& lines, double left, const Places::Box& axes) {
    for (const std::string& line : lines) {
      put({Align::middle, Size::small, left + line_of(Size::small) / 2, (axes.top + axes.bottom) / 2, line, true});
      left += line_of(Size::small);
    }
  }

  void colour_scale(const Panel& panel, const Places::Box& axes, PanelPlace& place) {
    place.has_scale = true;
    const double left = axes.right + scale_gap;
    place.scale = {left, axes.top, left + scale_width, axes.bottom};
    const inspect::Axis axis = colour_axis(*panel.cells);
    const double high = axes.bottom - axes.top;
    place.colour_ticks = apart(axis, ticks_of(axis, std::clamp(static_cast<int>(high / 45), 2, 8)), high, false);
    const double x = place.scale.right + tick_length + tick_gap + widest_of(place.colour_ticks);
    side_title(side_lines(panel.cells->title, axes), x + 2, axes);
  }

  double legend(const std::vector<Entry>& entries, double left, double most, double y) {
    const LegendPlan plan(entries, most);
    for (const LegendPlan::Item& item : plan.items) {
      const double from = left + std::max(0.0, (most - plan.widths[item.row]) / 2) + item.x;
      const double at = y + 6 + (static_cast<double>(item.row) + 0.5) * line_of(Size::small);
      layout_.marks.push_back({entries[item.entry], from, at, mark_width});
      for (std::size_t i = 0; i < item.lines.size(); ++i) {
        const double y_of = at + static_cast<double>(i) * line_of(Size::small);
        put({Align::left, Size::small, from + mark_width + mark_gap, y_of, item.lines[i]});
      }
    }
    return y + plan.height();
  }

  const Figure* figure_;
  Layout layout_ = {};
  bool shared_legend_ = false, shared_scale_ = false;
  std::size_t columns_ = 1;
  std::vector<double> lefts_ = {}, rights_ = {};  ///< of each column, what stands beside the axes
  double wide_ = 0;                               ///< all axes' width
};

}  // namespace

Layout lay_out(const Figure& figure, int width) { return Planner(figure, width).plan(); }

}  // namespace bearing::tool
