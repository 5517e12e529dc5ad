#pragma once

#include <algorithm>
#include <bearing/figures.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

// What the renderers of pictures have in common: where a number lies on an axis, ticks, legends, free places for words.

namespace bearing::tool {

/// How far along an axis a number lies: 0 at `first`, 1 at `last`. NaN where a logarithm has none.
double along(const inspect::Axis& axis, double value);

/// The ticks that the axis gives, else at most about `most` round numbers, `least` or more apart. Those outside the
/// axis are left out.
std::vector<inspect::Tick> ticks_of(const inspect::Axis& axis, int most, double least = 0);
/// The same of a panel's axes: cells that lie at whole numbers have none between them.
std::vector<inspect::Tick> x_ticks_of(const inspect::Panel& panel, int most);
std::vector<inspect::Tick> y_ticks_of(const inspect::Panel& panel, int most);

/// The numbers beside a matrix's colours.
inspect::Axis colour_axis(const inspect::Cells& cells);
bool has_colour_scale(const inspect::Panel& panel);  ///< a matrix of numbers, not of categories

/// A line of a legend.
struct Entry {
  enum class Mark { series, band, category } mark = Mark::series;
  std::string text = {};
  inspect::Colour colour = {};
  const inspect::Series* series = nullptr;
  int number = 0;  ///< of the series, or of the category
};
std::vector<Entry> legend_of(const inspect::Panel& panel);
/// Whether one legend, or one scale of colours, serves all panels.
bool one_legend(const inspect::Figure& figure);
bool one_colour_scale(const inspect::Figure& figure);

inspect::Colour colour_of(const inspect::Series& series);
inspect::Colour palette_colour(int number);
/// Lengths of dashes and gaps in turn; empty: no gaps. A member of an ordered family has none.
std::vector<int> dashes_of(const inspect::Series& series);

/// The first bytes of a word that is too wide: up to a sign at which it may be broken, else as many as fit.
std::size_t first_part(std::string_view word, double most, const std::function<double(std::string_view)>& width);

/// Lines that are no wider, by what a text's width is: broken at spaces, and a word that is too wide within.
template <class Width>
std::vector<std::string> lines_of(std::string_view text, double most, const Width& width) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (!lines.empty() && width(lines.back() + ' ' + std::string(word)) <= most) {
      lines.back().append(" ").append(word);
      continue;
    }
    while (!word.empty()) {
      const std::size_t part = first_part(word, most, [&](std::string_view one) { return width(std::string(one)); });
      if (part == word.size()) break;  // all of it fits; a long word is measured no further than a line
      lines.emplace_back(word.substr(0, part));
      word.remove_prefix(part);
    }
    if (!word.empty() || lines.empty()) lines.emplace_back(word);
  }
  return lines;
}

/// Places that words have taken, so that no two lie over each other.
class Places {
 public:
  struct Box {
    double left = 0, top = 0, right = 0, bottom = 0;
  };
  explicit Places(const Box& inside) : inside_(inside) {}
  bool is_free(const Box& box) const;
  void take(const Box& box) { taken_.push_back(box); }
  /// Takes that free box which covers least of what is drawn, by cost(box); the first of several. −1: none is free.
  int take_best(const std::vector<Box>& boxes, const std::function<double(const Box&)>& cost);

 private:
  Box inside_;
  std::vector<Box> taken_ = {};
};

}  // namespace bearing::tool
