#include "plot_words.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "terminal.hpp"
#include "utf8.hpp"

namespace bearing::tool {

using inspect::Panel;
using Size = Words::Size;

double height_of(Size size) {
  switch (size) {
    case Size::small:
      return 12;
    case Size::usual:
    case Size::bold:
      return 13;
    case Size::title:
      return 16;
  }
  return 13;
}

double width_of(const std::string& text, Size size) {
  // After DejaVu Sans, which is wider than most.
  double ems = 0;
  for (std::string_view left = text; !left.empty();) {
    const utf8::Character c = utf8::first_character(left);
    const char letter = c.code < 0x80 ? static_cast<char>(c.code) : '\0';
    left.remove_prefix(std::max<std::size_t>(c.bytes, 1));
    if (c.code >= 0x1100) {
      ems += 1.05;
    } else if (std::string_view("iljt.,:;'|!()[] fI").find(letter) != std::string_view::npos && letter != '\0') {
      ems += 0.38;
    } else if (std::string_view("mwMW@%=+<>~#").find(letter) != std::string_view::npos && letter != '\0') {
      ems += 0.95;
    } else {
      ems += letter >= 'A' && letter <= 'Z' ? 0.73 : 0.63;
    }
  }
  const bool bold = size == Size::bold || size == Size::title;
  return ems * height_of(size) * (bold ? 1.12 : 1);
}

Places::Box box_of(const Words& words) {
  const double half = 0.7 * height_of(words.size);
  return {words.x - 3, words.y - half, words.x + width_of(words.text, words.size) + 3, words.y + half};
}

double line_of(Size size) { return std::ceil(1.4 * height_of(size)); }

namespace {

struct Point {
  double x = 0, y = 0;
};

/// The words of one panel.
class Inside {
 public:
  Inside(const Panel& panel, const Places::Box& axes, double right)
      : panel_(&panel),
        axes_(axes),
        places_({axes.left - 4, axes.top - 2, std::min(axes.right + 40, right), axes.bottom + 2}) {
    const auto said = [](const auto& one) { return !one.text.empty(); };
    const bool words_come = std::any_of(panel.guides.begin(), panel.guides.end(), said) ||
                            std::any_of(panel.notes.begin(), panel.notes.end(), said);
    if (!words_come) return;
    std::size_t points = 0;
    for (const inspect::Series& series : panel.series) points += series.x.size();
    const auto each = std::clamp<std::size_t>(most_drawn / std::max<std::size_t>(points, 1), 1, most_steps);
    for (const inspect::Series& series : panel.series) draw(series, static_cast<int>(each));
    if (drawn_.size() > most_drawn) thin();
    for (const inspect::Guide& guide : panel.guides) draw(guide);
    for (const inspect::Guide& guide : panel.guides) add(guide);
    for (const inspect::Note& note : panel.notes) add(note);
  }
  std::vector<Words> words = {};

 private:
  Point place(double x, double y) const {
    return {axes_.left + along(panel_->x, x) * (axes_.right - axes_.left),
            axes_.bottom - along(panel_->y, y) * (axes_.bottom - axes_.top)};
  }

  /// Places on lines that are kept, in all and of one part between two points.
  static constexpr std::size_t most_drawn = 1'000'000, most_steps = 400;

  /// Of places that lie within three pixels of each other, one.
  void thin() {
    const auto cell = [](const Point& p) { return std::pair(std::floor(p.x / 3), std::floor(p.y / 3)); };
    std::erase_if(drawn_, [](const Point& p) { return !std::isfinite(p.x) || !std::isfinite(p.y); });
    std::sort(drawn_.begin(), drawn_.end(), [&](const Point& a, const Point& b) { return cell(a) < cell(b); });
    const auto same = [&](const Point& a, const Point& b) { return cell(a) == cell(b); };
    drawn_.erase(std::unique(drawn_.begin(), drawn_.end(), same), drawn_.end());
  }

  /// Places on a line, every few pixels, at most so many between two points.
  void draw(const inspect::Series& series, int most) {
    const bool hands = series.stroke == inspect::Stroke::hands, dots = series.stroke == inspect::Stroke::dots;
    Point before{std::nan(""), 0};
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      const Point here = place(series.x[i], series.y[i]);
      if (hands) before = place(0, 0);
      const double far = std::max(std::abs(here.x - before.x), std::abs(here.y - before.y));
      const int steps = dots || !std::isfinite(far) ? 0 : std::clamp(static_cast<int>(std::min(far / 3, 1e6)), 1, most);
      for (int s = 1; s < steps; ++s) {
        const double part = double(s) / steps;
        drawn_.push_back({before.x + part * (here.x - before.x), before.y + part * (here.y - before.y)});
      }
      drawn_.push_back(here);
      before = here;
    }
  }

  void draw(const inspect::Guide& guide) {
    const double at = along(guide.upright ? panel_->x : panel_->y, guide.at);
    if (!(at >= 0 && at <= 1)) return;
    const double x = axes_.left + at * (axes_.right - axes_.left), y = axes_.bottom - at * (axes_.bottom - axes_.top);
    if (guide.upright) {
      for (double down = axes_.top; down < axes_.bottom; down += 3) guides_.push_back({x, down});
    } else {
      for (double across = axes_.left; across < axes_.right; across += 3) guides_.push_back({across, y});
    }
  }

  void add(const inspect::Guide& guide) {
    const double at = along(guide.upright ? panel_->x : panel_->y, guide.at);
    const std::string text = printable(guide.text);
    if (!(at >= 0 && at <= 1) || text.empty()) return;
    const double wide = width_of(text, Size::small);
    std::vector<Point> tried;
    if (guide.upright) {
      const double x = axes_.left + at * (axes_.right - axes_.left);
      for (double y = axes_.top + line_ / 2 + 2; y < axes_.bottom; y += line_) {
        tried.push_back({x + 5, y}), tried.push_back({x - 5 - wide, y});
      }
    } else {
      const double y = axes_.bottom - at * (axes_.bottom - axes_.top);
      for (const double over : {-line_ / 2 - 1, line_ / 2 + 1}) {
        tried.push_back({axes_.right - wide - 5, y + over}), tried.push_back({axes_.left + 5, y + over});
      }
    }
    put(text, tried);
  }

  void add(const inspect::Note& note) {
    const auto [x, y] = place(note.x, note.y);
    const std::string text = printable(note.text);
    if (!std::isfinite(x) || !std::isfinite(y) || text.empty()) return;
    const double wide = width_of(text, Size::small);
    std::vector<Point> tried;
    for (const double far : {1.0, 2.0}) {
      for (const double by : {-0.6 * far * line_, 0.6 * far * line_}) {
        tried.push_back({x + 4, y + by}), tried.push_back({x - 4 - wide, y + by});
      }
      tried.push_back({x - wide / 2, y - far * line_}), tried.push_back({x - wide / 2, y + far * line_});
    }
    tried.push_back({x + 8, y}), tried.push_back({x - 8 - wide, y});
    put(text, tried);
  }

  int best(const std::vector<Point>& at, double wide) {
    std::vector<Places::Box> boxes;
    boxes.reserve(at.size());
    for (const Point& p : at) boxes.push_back({p.x, p.y - line_ / 2, p.x + wide, p.y + line_ / 2});
    // A guide makes room for words, a curve does not.
    return places_.take_best(boxes,
                             [&](const Places::Box& box) { return count(drawn_, box) + 0.01 * count(guides_, box); });
  }

  static double count(const std::vector<Point>& dots, const Places::Box& box) {
    return static_cast<double>(std::count_if(dots.begin(), dots.end(), [&](const Point& dot) {
      return dot.x > box.left && dot.x < box.right && dot.y > box.top && dot.y < box.bottom;
    }));
  }

  void put(const std::string& text, std::vector<Point> tried) {
    const double wide = width_of(text, Size::small);
    int found = best(tried, wide);
    if (found < 0) {  // where there is room at all
      const double x = std::max(std::min(tried[0].x, axes_.right - wide), axes_.left);
      tried.clear();
      for (double y = axes_.top + line_ / 2; y < axes_.bottom; y += line_) tried.push_back({x, y});
      found = best(tried, wide);
    }
    if (found < 0) return;  // it would lie over other words
    const Point& at = tried[static_cast<std::size_t>(found)];
    words.push_back({Words::Align::left, Size::small, at.x, at.y, text, false, panel_->cells.has_value()});
  }

  const double line_ = line_of(Size::small);
  const Panel* panel_;
  Places::Box axes_;
  Places places_;
  std::vector<Point> drawn_ = {}, guides_ = {};
};

}  // namespace

std::vector<Words> words_inside(const Panel& panel, const Places::Box& axes, double right) {
  return Inside(panel, axes, right).words;
}

}  // namespace bearing::tool
