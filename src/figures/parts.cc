#include "figures/parts.hpp"

#include <algorithm>
#include <bearing/error.hpp>
#include <charconv>
#include <cmath>

namespace bearing::inspect {

namespace {

/// What is asked for, else what was said of the encoding, else the kind's size.
SpecimenOptions size_of(const Subject& subject, const FigureOptions& options, const SpecimenOptions& size) {
  const auto first = [](Index asked, Index said, Index otherwise) {
    return asked > 0 ? asked : said > 0 ? said : otherwise;
  };
  const Index said = subject.sizes.length;
  return {.heads = first(options.heads, subject.sizes.heads, size.heads),
          .dim = first(options.dim, subject.sizes.dim, size.dim),
          .length = first(options.length, said > 0 ? std::min(said, size.length) : 0, size.length),
          .seed = options.seed};
}

}  // namespace

std::vector<Shown> examples(std::span<const Subject> encodings, const FigureOptions& options, SpecimenOptions size) {
  std::vector<Shown> all;
  for (const Subject& subject : encodings) {
    all.push_back({&subject, make(subject.description, size_of(subject, options, size)), options.length});
  }
  return all;
}

void nothing_to_show(const Shown& shown, const std::string& must) {
  throw RangeError(
      text::concat("[figure] ", shown.name(), ": ", must, ", got one that acts on ", sites(shown.specimen)));
}

void Range::reach(double x) {
  if (!std::isfinite(x)) return;
  low = empty ? x : std::min(low, x);
  high = empty ? x : std::max(high, x);
  empty = false;
}

void Range::reach(const std::vector<double>& numbers) {
  for (const double x : numbers) reach(x);
}

Range Range::with_room(double part) const {
  if (empty) return {0, 1, false};
  const double room = high > low ? part * (high - low) : std::max(std::abs(low), 1.0) * 0.5;
  return {low - room, high + room, false};
}

Axis token_axis(std::string title, double first, double last) {
  return {std::move(title), first, last > first ? last : first + 1};
}

Axis axis_over(std::string title, const Range& range) {
  const Range with = range.with_room();
  return {std::move(title), with.low, with.high};
}

void share_y(std::vector<Panel>& panels) {
  if (panels.empty()) return;
  double first = panels[0].y.first, last = panels[0].y.last;
  for (const Panel& panel : panels) first = std::min(first, panel.y.first), last = std::max(last, panel.y.last);
  for (Panel& panel : panels) panel.y.first = first, panel.y.last = last;
}

void share_colours(std::vector<Panel>& panels) {
  double low = 0, high = 0;
  bool any = false;
  for (const Panel& panel : panels) {
    if (!panel.cells) continue;
    low = any ? std::min(low, panel.cells->low) : panel.cells->low;
    high = any ? std::max(high, panel.cells->high) : panel.cells->high;
    any = true;
  }
  for (Panel& panel : panels) {
    if (panel.cells) panel.cells->low = low, panel.cells->high = high;
  }
}

Index columns_for(std::size_t panels) {
  const auto n = static_cast<Index>(panels);
  return n <= 3 ? std::max<Index>(n, 1) : n % 3 == 0 && n > 4 ? 3 : n > 8 ? 4 : 2;
}

std::string names_of(const std::vector<Shown>& shown) {
  std::string all;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (i > 0) all += i + 1 < shown.size() ? ", " : " and ";
    all += shown[i].name();
    const Index asked = shown[i].asked, taken = shown[i].specimen.options.length;
    if (!length_note(asked, taken).empty()) all += text::concat(" (", taken, " tokens, not ", asked, ")");
  }
  return all;
}

std::string short_number(double number) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, number, std::chars_format::general, 4).ptr;
  std::string general(digits, end);
  if (general.find('e') == std::string::npos || std::abs(number) < 1 || std::abs(number) >= 1e7) return general;
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, number, std::chars_format::fixed, 0).ptr);
}

std::vector<Index> some_of(Index count, Index most) {
  std::vector<Index> all;
  const Index n = std::min(count, most);
  for (Index i = 0; i < n; ++i) all.push_back(n == 1 ? 0 : i * (count - 1) / (n - 1));
  return all;
}

}  // namespace bearing::inspect
