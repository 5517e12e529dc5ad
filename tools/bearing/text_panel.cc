#include "text_panel.hpp"

#include <algorithm>
#include <cmath>

namespace bearing::tool {

using inspect::Cells;
using inspect::Colour;
using inspect::ColourMap;
using inspect::Panel;
using inspect::Series;
using inspect::Stroke;
using inspect::Tick;

namespace {

constexpr Colour grey{128, 128, 128};

int columns(const std::string& text, const TextStyle& style) { return static_cast<int>(columns_of(text, style)); }

double span(const inspect::Axis& axis) { return std::abs(axis.last - axis.first); }

/// The largest multiple of n that is at most `most`; `most` itself if n is larger.
int whole_times(int most, Index n) {
  return n > 0 && n <= most ? most / static_cast<int>(n) * static_cast<int>(n) : most;
}

}  // namespace

TextPanel::TextPanel(const Panel& panel, int width, const TextStyle& style, Under under)
    : panel_(&panel), width_(width), style_(style), under_(under) {
  above_ = text_lines(printable(panel.title), width, style);
  bold_ = above_.size();
  for (const std::string& line : text_lines(printable(panel.y.title), width, style)) above_.push_back(line);
  measure();
}

/// How large the inside of the axes is.
void TextPanel::measure() {
  const bool matrix = panel_->cells.has_value();
  high_ = matrix ? std::clamp(width_ * 3 / 10, 8, 22) : std::clamp(width_ * 28 / 100, 8, 18);
  if (panel_->round) high_ = std::clamp(width_ / 2, 6, 22);
  for (int again = 0; again < 2; ++again) {  // the number of ticks goes by the height, the height by their width
    y_ticks_ = y_ticks_of(*panel_, std::max(high_ / 3, 2));
    left_ = 1;
    for (const Tick& tick : y_ticks_) left_ = std::max(left_, columns(tick.text, style_) + 1);
    left_ = std::min(left_, width_ / 2);
    wide_ = width_ - left_ - 1;
    if (panel_->round && span(panel_->x) > 0 && span(panel_->y) > 0) {
      const double ratio = span(panel_->x) / span(panel_->y);  // a character is twice as high as wide
      high_ = std::clamp(static_cast<int>(std::lround(wide_ / (2 * ratio))), 4, 22);
      wide_ = std::clamp(static_cast<int>(std::lround(2 * high_ * ratio)), 4, wide_);
    }
  }
  if (matrix) fit_cells();
  high_ = std::max(high_, 3);
}

/// Cells of one size, where there are few.
void TextPanel::fit_cells() {
  const Cells& cells = *panel_->cells;
  const bool across =
      std::abs(span(panel_->x) - static_cast<double>(cells.cols) * std::abs(cells.x_step)) < 1e-6 * span(panel_->x);
  const bool down =
      std::abs(span(panel_->y) - static_cast<double>(cells.rows) * std::abs(cells.y_step)) < 1e-6 * span(panel_->y);
  const int halves = style_.coloured() && style_.unicode ? 2 : 1;
  if (down && whole_times(halves * high_, cells.rows) % halves == 0) {
    high_ = whole_times(halves * high_, cells.rows) / halves;
    if (panel_->round) {
      wide_ = std::min(wide_, static_cast<int>(std::lround(2 * high_ * span(panel_->x) / span(panel_->y))));
    }
  }
  if (across) wide_ = whole_times(wide_, cells.cols);
}

TextPanel::Dot TextPanel::place(const TextCanvas& canvas, double x, double y) const {
  const double w = wide_ * canvas.across() - 1, h = high_ * canvas.down() - 1;
  const double at_x = std::clamp(along(panel_->x, x), -2.0, 3.0), at_y = std::clamp(along(panel_->y, y), -2.0, 3.0);
  return {at_x * w, (1 - at_y) * h};
}

void TextPanel::axes(TextCanvas& canvas) const {
  const bool full = style_.unicode;
  for (int row = 0; row < high_; ++row) canvas.text(left_, top_ + row, full ? "│" : "|", grey);
  canvas.text(left_, top_ + high_, full ? "└" : "+", grey);
  for (int i = 0; i < wide_; ++i) canvas.text(left_ + 1 + i, top_ + high_, full ? "─" : "-", grey);
  int last = -1;
  std::vector<Tick> ticks = y_ticks_;
  std::sort(ticks.begin(), ticks.end(),
            [&](const Tick& a, const Tick& b) { return along(panel_->y, a.at) > along(panel_->y, b.at); });
  for (const Tick& tick : ticks) {
    const int row = static_cast<int>(std::lround((1 - along(panel_->y, tick.at)) * (high_ - 1)));
    const int room = left_ - columns(tick.text, style_);
    if (row == last || room < 0) continue;
    last = row;
    canvas.text(room - (room > 0 ? 1 : 0), top_ + row, tick.text);
    canvas.text(left_, top_ + row, full ? "┤" : "+", grey);
  }
}

void TextPanel::x_ticks(TextCanvas& canvas, int row) const {
  std::vector<Tick> ticks = x_ticks_of(*panel_, std::max(wide_ / 9, 2));
  std::sort(ticks.begin(), ticks.end(),
            [&](const Tick& a, const Tick& b) { return along(panel_->x, a.at) < along(panel_->x, b.at); });
  int free = 0;
  for (const Tick& tick : ticks) {
    const int at = left_ + 1 + static_cast<int>(std::lround(along(panel_->x, tick.at) * (wide_ - 1)));
    const int wide = columns(tick.text, style_);
    const int begin = std::clamp(at - wide / 2, 0, std::max(canvas.columns() - wide, 0));
    if (begin < free || begin + wide > canvas.columns()) continue;
    canvas.text(begin, row, tick.text);
    canvas.text(at, row - 1, style_.unicode ? "┬" : "+", grey);
    free = begin + wide + 1;
  }
}

namespace {

/// Cells first … last − 1, in one direction.
struct Run {
  Index first = 0, last = 0;
};

/// For each of n pieces of an axis: the cells whose middles lie in it, or the one that its own middle lies in.
std::vector<Run> runs_over(const inspect::Axis& axis, int n, bool upwards, double first, double step, Index count) {
  std::vector<Run> runs;
  const auto value = [&](double part) {
    const double at = upwards ? 1 - part : part;
    if (axis.scale == inspect::Scale::linear) return axis.first + at * (axis.last - axis.first);
    return axis.first * std::pow(axis.last / axis.first, at);
  };
  for (int i = 0; i < n; ++i) {
    const double a = (value(double(i) / n) - first) / step, b = (value(double(i + 1) / n) - first) / step;
    const auto low = static_cast<Index>(std::ceil(std::min(a, b) - 1e-9));
    const auto high = static_cast<Index>(std::ceil(std::max(a, b) - 1e-9));
    const auto middle = static_cast<Index>(std::lround((value((i + 0.5) / n) - first) / step));
    const Run run = high > low ? Run{low, high} : Run{middle, middle + 1};
    runs.push_back({std::clamp<Index>(run.first, 0, count), std::clamp<Index>(run.last, 0, count)});
  }
  return runs;
}

/// The mean of cells that are numbers; of categories the one in the middle. NaN: there is none.
double value_of(const Cells& cells, const Run& rows, const Run& cols) {
  if (rows.last <= rows.first || cols.last <= cols.first) return std::nan("");
  if (cells.map == ColourMap::categories) return cells((rows.first + rows.last) / 2, (cols.first + cols.last) / 2);
  double sum = 0;
  Index count = 0;
  for (Index r = rows.first; r < rows.last; ++r) {
    for (Index c = cols.first; c < cols.last; ++c) {
      const double value = cells(r, c);
      if (!std::isnan(value)) sum += value, ++count;
    }
  }
  return count > 0 ? sum / static_cast<double>(count) : std::nan("");
}

}  // namespace

void TextPanel::cells(TextCanvas& canvas) const {
  if (!panel_->cells) return;
  const Cells& cells = *panel_->cells;
  const int halves = style_.coloured() ? 2 : 1;
  const std::vector<Run> rows = runs_over(panel_->y, halves * high_, true, cells.y_first, cells.y_step, cells.rows);
  const std::vector<Run> cols = runs_over(panel_->x, wide_, false, cells.x_first, cells.x_step, cells.cols);
  for (int row = 0; row < halves * high_; ++row) {
    for (int col = 0; col < wide_; ++col) {
      const double value = value_of(cells, rows[static_cast<std::size_t>(row)], cols[static_cast<std::size_t>(col)]);
      if (std::isnan(value)) continue;
      if (halves == 2) {
        canvas.half(left_ + 1 + col, 2 * top_ + row, inspect::colour_of(cells, value));
      } else if (cells.map == ColourMap::categories) {
        canvas.text(left_ + 1 + col, top_ + row, category_sign(static_cast<int>(std::lround(value)), style_));
      } else {
        canvas.text(left_ + 1 + col, top_ + row, shade_sign(cells, value, style_));
      }
    }
  }
}

void TextPanel::bands(TextCanvas& canvas) const {
  const int x0 = (left_ + 1) * canvas.across(), y0 = top_ * canvas.down();
  for (const inspect::Band& band : panel_->bands) {
    for (std::size_t i = 0; i + 1 < band.x.size(); ++i) {
      const Dot low = place(canvas, band.x[i], band.low[i]), high = place(canvas, band.x[i], band.high[i]);
      const Dot next_low = place(canvas, band.x[i + 1], band.low[i + 1]);
      const Dot next_high = place(canvas, band.x[i + 1], band.high[i + 1]);
      const bool whole = std::isfinite(low.y + high.y + next_low.y + next_high.y + low.x + next_low.x);
      if (!whole) continue;
      const int first = std::max(static_cast<int>(std::lround(low.x)), 0);
      const int last = std::min(static_cast<int>(std::lround(next_low.x)), wide_ * canvas.across() - 1);
      for (int x = first; x <= last; ++x) {
        const double part = next_low.x > low.x ? std::clamp((x - low.x) / (next_low.x - low.x), 0.0, 1.0) : 0;
        const double from = high.y + part * (next_high.y - high.y), to = low.y + part * (next_low.y - low.y);
        const int top = std::max(static_cast<int>(std::lround(std::min(from, to))), 0);
        const int bottom = std::min(static_cast<int>(std::lround(std::max(from, to))), high_ * canvas.down() - 1);
        for (int y = top; y <= bottom; ++y) {
          const bool every = canvas.across() == 1 ? (x + y) % 2 == 0 : x % 2 == 0 && y % 4 == 0;
          if (every) canvas.dot(x0 + x, y0 + y, palette_colour(band.colour), '.');
        }
      }
    }
  }
}

/// A straight line; `gone` is how many dots of the series are behind it, for its dashes.
void TextPanel::stroke(TextCanvas& canvas, Dot from, Dot to, const Series& series, int number, double& gone) const {
  const int x0 = (left_ + 1) * canvas.across(), y0 = top_ * canvas.down();
  const int last_x = wide_ * canvas.across() - 1, last_y = high_ * canvas.down() - 1;
  const auto steps =
      std::max(1, static_cast<int>(std::ceil(std::max(std::abs(to.x - from.x), std::abs(to.y - from.y)))));
  const std::vector<int> dashes = style_.coloured() || !style_.unicode ? std::vector<int>{} : dashes_of(series);
  int whole = 0;
  for (const int dash : dashes) whole += dash;
  for (int i = 0; i <= steps; ++i) {
    const double part = double(i) / steps;
    const auto x = static_cast<int>(std::lround(from.x + part * (to.x - from.x)));
    const auto y = static_cast<int>(std::lround(from.y + part * (to.y - from.y)));
    bool drawn = x >= 0 && x <= last_x && y >= 0 && y <= last_y;
    if (whole > 0) {
      int at = static_cast<int>(gone + i) % whole;
      std::size_t dash = 0;
      while (at >= dashes[dash]) at -= dashes[dash], ++dash;
      drawn = drawn && dash % 2 == 0;
    }
    if (drawn) canvas.dot(x0 + x, y0 + y, series.faint ? grey : colour_of(series), letter_of(number));
  }
  gone += steps;
}

/// A character where there are few, else a dot.
void TextPanel::point(TextCanvas& canvas, Dot at, const Series& series, int number) const {
  double gone = 0;
  stroke(canvas, at, at, series, number, gone);
  const int column = static_cast<int>(std::lround(at.x)) / canvas.across();
  const int row = static_cast<int>(std::lround(at.y)) / canvas.down();
  const bool few = static_cast<int>(series.x.size()) <= wide_;
  if (!few || !style_.unicode || at.x < 0 || at.y < 0 || column >= wide_ || row >= high_) return;
  const std::string letter(1, letter_of(number));
  const std::string sign = style_.coloured() || series.label.empty() ? "•" : letter;
  canvas.text(left_ + 1 + column, top_ + row, sign, series.faint ? grey : colour_of(series));
}

void TextPanel::one_series(TextCanvas& canvas, const Series& series, int number) const {
  double gone = 0;
  Dot before{std::nan(""), 0};
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const Dot here = place(canvas, series.x[i], series.y[i]);
    const bool there = std::isfinite(here.x) && std::isfinite(here.y);
    if (there) {
      switch (series.stroke) {
        case Stroke::line:
          stroke(canvas, std::isfinite(before.x) ? before : here, here, series, number, gone);
          break;
        case Stroke::dots:
          point(canvas, here, series, number);
          break;
        case Stroke::steps:
          if (std::isfinite(before.x)) stroke(canvas, before, {here.x, before.y}, series, number, gone);
          stroke(canvas, {here.x, std::isfinite(before.x) ? before.y : here.y}, here, series, number, gone);
          break;
        case Stroke::bars:
          stroke(canvas, place(canvas, series.x[i], 0), here, series, number, gone);
          break;
        case Stroke::hands:
          stroke(canvas, place(canvas, 0, 0), here, series, number, gone);
          point(canvas, here, series, number);
          break;
      }
    }
    before = there ? here : Dot{std::nan(""), 0};
  }
}

/// What tells series apart without colours: a letter at the end and at a few places between.
void TextPanel::letters(TextCanvas& canvas, const Series& series, int number) const {
  if (series.label.empty()) return;
  const bool joined = series.stroke == Stroke::line || series.stroke == Stroke::steps;
  const std::size_t n = series.x.size();
  const std::size_t every = joined ? std::max<std::size_t>(n / 4, 1) : std::max<std::size_t>(n - 1, 1);
  const std::size_t shift = joined ? every * static_cast<std::size_t>(number % 4) / 4 : 0;
  const std::string letter(1, letter_of(number));
  for (std::size_t i = 0; i < n; ++i) {
    if (i + 1 < n && (!joined || (i + shift) % every != every / 2)) continue;
    const Dot at = place(canvas, series.x[i], series.y[i]);
    if (!std::isfinite(at.x) || !std::isfinite(at.y)) continue;
    const int column = static_cast<int>(std::lround(at.x)) / canvas.across();
    const int row = static_cast<int>(std::lround(at.y)) / canvas.down();
    if (at.x < 0 || at.y < 0 || column >= wide_ || row >= high_) continue;
    if (canvas.has_dots(left_ + 1 + column, top_ + row)) canvas.text(left_ + 1 + column, top_ + row, letter);
  }
}

void TextPanel::series(TextCanvas& canvas) const {
  const std::vector<Series>& all = panel_->series;
  for (const bool faint : {true, false}) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].faint == faint) one_series(canvas, all[i], static_cast<int>(i));
    }
  }
  if (style_.coloured()) return;
  for (std::size_t i = 0; i < all.size(); ++i) letters(canvas, all[i], static_cast<int>(i));
}

void TextPanel::guides(TextCanvas& canvas) const {
  for (const inspect::Guide& guide : panel_->guides) {
    const double at = along(guide.upright ? panel_->x : panel_->y, guide.at);
    if (!(at >= 0 && at <= 1)) continue;
    const int column = left_ + 1 + static_cast<int>(std::lround(at * (wide_ - 1)));
    const int row = top_ + static_cast<int>(std::lround((1 - at) * (high_ - 1)));
    for (int i = 0; i < (guide.upright ? high_ : wide_); ++i) {
      const int x = guide.upright ? column : left_ + 1 + i, y = guide.upright ? top_ + i : row;
      const char* sign = style_.unicode ? (guide.upright ? "┊" : "┄") : (guide.upright ? ":" : "-");
      if (canvas.empty(x, y)) canvas.text(x, y, sign, grey);
    }
  }
}

/// Where a guide's text may begin, the best first: at its ends, else somewhere along it.
std::vector<std::array<int, 2>> TextPanel::beside(const inspect::Guide& guide, int wide) const {
  const double at = along(guide.upright ? panel_->x : panel_->y, guide.at);
  std::vector<std::array<int, 2>> tried;
  if (guide.upright) {
    const int column = left_ + 1 + static_cast<int>(std::lround(at * (wide_ - 1)));
    for (int row = 0; row < high_; ++row) {
      tried.push_back({column + 1, top_ + row}), tried.push_back({column - wide, top_ + row});
    }
    return tried;
  }
  const int row = top_ + static_cast<int>(std::lround((1 - at) * (high_ - 1)));
  for (const int y : {row - 1, row + 1, row}) {
    tried.push_back({left_ + 1 + wide_ - wide, y}), tried.push_back({left_ + 2, y});
  }
  for (int column = left_ + wide_ - wide; column > left_ + 2; --column) {
    tried.push_back({column, row - 1}), tried.push_back({column, row + 1});
  }
  return tried;
}

/// Where a note's text may begin, the best first: beside its point.
std::vector<std::array<int, 2>> TextPanel::beside(const inspect::Note& note, int wide) const {
  const int column = left_ + 1 + static_cast<int>(std::lround(along(panel_->x, note.x) * (wide_ - 1)));
  const int row = top_ + static_cast<int>(std::lround((1 - along(panel_->y, note.y)) * (high_ - 1)));
  return {
      {column + 1, row},        {column - wide, row},     {column + 1, row - 1},        {column + 1, row + 1},
      {column - wide, row - 1}, {column - wide, row + 1}, {column - wide / 2, row - 1}, {column - wide / 2, row + 1}};
}

std::vector<std::string> TextPanel::words(TextCanvas& canvas) const {
  TextCanvas curves(canvas.columns(), canvas.rows(), style_);
  series(curves);
  Places places({left_ + 1.0, double(top_), left_ + 1.0 + wide_, double(top_ + high_)});
  constexpr double worst = 1000;  // a letter over a curve; over bands and other guides there may be many
  const auto cost = [&](const Places::Box& box) {
    double covered = 0;
    for (int column = static_cast<int>(box.left); column < static_cast<int>(box.right); ++column) {
      const int row = static_cast<int>(box.top);
      covered += !curves.empty(column, row) ? worst : !canvas.empty(column, row) ? 1 : 0;
    }
    return covered;
  };
  const auto put = [&](const std::string& text, const std::vector<std::array<int, 2>>& at) {
    std::vector<Places::Box> boxes;
    boxes.reserve(at.size());
    for (const auto& [column, row] : at)
      boxes.push_back({double(column), double(row), double(column + columns(text, style_)), row + 1.0});
    const int found = places.take_best(boxes, cost);
    if (found >= 0) canvas.text(at[static_cast<std::size_t>(found)][0], at[static_cast<std::size_t>(found)][1], text);
    return found >= 0;
  };
  std::vector<std::string> left;
  for (const inspect::Guide& guide : panel_->guides) {
    const double at = along(guide.upright ? panel_->x : panel_->y, guide.at);
    const std::string text = printable(guide.text);
    if (!(at >= 0 && at <= 1) || text.empty()) continue;
    if (!put(text, beside(guide, columns(text, style_)))) left.push_back(text);
  }
  for (const inspect::Note& note : panel_->notes) {
    const double x = along(panel_->x, note.x), y = along(panel_->y, note.y);
    const std::string text = printable(note.text);
    if (!(x >= 0 && x <= 1 && y >= 0 && y <= 1) || text.empty()) continue;
    const int wide = columns(text, style_);
    if (!put(text, beside(note, wide)) && wide > 4) left.push_back(text);
  }
  return left;
}

TextCanvas TextPanel::draw(int title_rows) {
  top_ = title_rows;
  TextCanvas body(width_, top_ + high_ + 2, style_);
  const int pad = title_rows - this->title_rows();
  for (std::size_t i = 0; i < above_.size(); ++i) {
    body.text(0, pad + static_cast<int>(i), above_[i], {}, i < bold_);
  }
  cells(body), bands(body), series(body), guides(body), axes(body), x_ticks(body, top_ + high_ + 1);
  std::vector<Entry> entries = under_.legend ? legend_of(*panel_) : std::vector<Entry>{};
  std::vector<std::string> lines;
  for (const std::string& line : text_lines(printable(panel_->x.title), width_ - left_ - 1, style_)) {
    const int wide = columns(line, style_);
    lines.push_back(std::string(static_cast<std::size_t>(left_ + 1 + std::max(wide_ - wide, 0) / 2), ' ') + line);
  }
  for (const std::string& text : words(body)) {
    for (const std::string& line : text_lines(text, width_, style_)) lines.push_back(line);
  }
  const TextLegend legend(entries, width_, style_);
  const bool scale = under_.scale && has_colour_scale(*panel_);
  const Cells none;
  const TextScale colours(scale ? *panel_->cells : none, width_, style_);
  const int rows = body.rows() + static_cast<int>(lines.size()) + legend.rows() + (scale ? colours.rows() : 0);
  TextCanvas whole(width_, rows, style_);
  whole.copy(body);
  int row = body.rows();
  for (const std::string& line : lines) whole.text(0, row++, line);
  if (scale) colours.draw(whole, 0, row), row += colours.rows();
  legend.draw(whole, 0, row);
  return whole;
}

}  // namespace bearing::tool
