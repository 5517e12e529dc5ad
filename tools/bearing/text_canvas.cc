#include "text_canvas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "utf8.hpp"

namespace bearing::tool {

using inspect::Colour;

namespace {

/// What the C library would take for the encoding of characters.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string text(value);
    std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    return text.find("utf-8") != text.npos || text.find("utf8") != text.npos;
  }
  return false;
}

constexpr std::array<std::pair<char32_t, const char*>, 24> plain{{
    {U'−', "-"},    {U'–', "-"},    {U'—', "-"},   {U'×', "x"},    {U'·', "*"},      {U'…', "..."},
    {U'→', "->"},   {U'≤', "<="},   {U'≥', ">="},  {U'π', "pi"},   {U'θ', "theta"},  {U'α', "alpha"},
    {U'β', "beta"}, {U'√', "sqrt"}, {U'²', "^2"},  {U'°', " deg"}, {U'±', "+-"},     {U'’', "'"},
    {U'“', "\""},   {U'”', "\""},   {U'∞', "inf"}, {U'φ', "phi"},  {U'λ', "lambda"}, {U'é', "e"},
}};

void append_utf8(std::string& text, char32_t code) {
  text += {static_cast<char>(0xE0u | (code >> 12)), static_cast<char>(0x80u | ((code >> 6) & 0x3Fu)),
           static_cast<char>(0x80u | (code & 0x3Fu))};
}

/// One of the 240 colours that every terminal of 256 has alike.
int nearest_of_256(const Colour& c) {
  constexpr std::array levels{0, 95, 135, 175, 215, 255};
  const auto level = [&](int part) {
    int best = 0;
    for (int i = 1; i < 6; ++i) {
      if (std::abs(levels[static_cast<std::size_t>(i)] - part) <
          std::abs(levels[static_cast<std::size_t>(best)] - part))
        best = i;
    }
    return best;
  };
  const int r = level(c.red), g = level(c.green), b = level(c.blue);
  const int mean = (c.red + c.green + c.blue) / 3, grey = std::clamp((mean - 3) / 10, 0, 23);
  const auto far = [&](int red, int green, int blue) {
    return (red - c.red) * (red - c.red) + (green - c.green) * (green - c.green) + (blue - c.blue) * (blue - c.blue);
  };
  const auto at = [&](int i) { return levels[static_cast<std::size_t>(i)]; };
  const int shade = 8 + 10 * grey;
  return far(shade, shade, shade) < far(at(r), at(g), at(b)) ? 232 + grey : 16 + 36 * r + 6 * g + b;
}

/// Black or white: what is read on a colour.
Colour ink_on(const Colour& c) {
  return 299 * c.red + 587 * c.green + 114 * c.blue > 128'000 ? Colour{0, 0, 0} : Colour{255, 255, 255};
}

}  // namespace

TextStyle text_style(const std::string& out) {
  constexpr std::size_t widest = 400;
  const Style style = output_style(out, widest);
  const char* depth = std::getenv("COLORTERM");
  const std::string_view said = depth == nullptr ? "" : depth;
  using Colours = TextStyle::Colours;
  const Colours colours = said == "truecolor" || said == "24bit" ? Colours::all : Colours::some;
  return {style.width, style.colour ? colours : Colours::none, locale_is_utf8()};
}

std::string shown_text(std::string_view text, const TextStyle& style) {
  if (style.unicode) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const utf8::Character c = utf8::first_character(text);
    if (c.code < 0x80) {
      out += text[0];
    } else {
      const auto* known =
          std::find_if(plain.begin(), plain.end(), [&](const auto& one) { return one.first == c.code; });
      out += known == plain.end() ? "?" : known->second;
    }
    text.remove_prefix(std::max<std::size_t>(c.bytes, 1));
  }
  return out;
}

std::size_t columns_of(std::string_view text, const TextStyle& style) {
  const std::string shown = shown_text(text, style);
  return static_cast<std::size_t>(std::count_if(
      shown.begin(), shown.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

TextCanvas::TextCanvas(int columns, int rows, const TextStyle& style)
    : columns_(columns), rows_(rows), style_(style), cells_(static_cast<std::size_t>(columns * rows)) {}

void TextCanvas::text(int column, int row, std::string_view words, std::optional<Colour> colour, bool bold) {
  const std::string shown = shown_text(words, style_);
  std::string_view left = shown;
  while (!left.empty()) {
    const std::size_t bytes = std::max<std::size_t>(utf8::first_character(left).bytes, 1);
    if (inside(column, row)) {
      Cell& cell = at(column, row);
      cell.letter = left.substr(0, bytes), cell.colour = colour, cell.bold = bold;
    }
    left.remove_prefix(bytes);
    ++column;
  }
}

void TextCanvas::dot(int x, int y, Colour colour, char mark) {
  if (x < 0 || y < 0 || !inside(x / across(), y / down())) return;
  Cell& cell = at(x / across(), y / down());
  cell.colour = colour;
  if (!style_.unicode) {
    cell.letter = mark;
    return;
  }
  // The dots of a character of Braille: 1 2 3 7 down at the left, 4 5 6 8 at the right.
  constexpr std::array<std::array<unsigned, 2>, 4> bits{{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
  cell.dots |= bits[static_cast<std::size_t>(y % 4)][static_cast<std::size_t>(x % 2)];
}

void TextCanvas::half(int column, int half_row, Colour colour) {
  if (half_row < 0 || !inside(column, half_row / 2)) return;
  Cell& cell = at(column, half_row / 2);
  (half_row % 2 == 0 ? cell.upper : cell.lower) = colour;
}

void TextCanvas::copy(const TextCanvas& from) {
  for (int row = 0; row < std::min(rows_, from.rows_); ++row) {
    for (int column = 0; column < std::min(columns_, from.columns_); ++column) at(column, row) = from.at(column, row);
  }
}

bool TextCanvas::empty(int column, int row) const {
  const Cell& cell = at(column, row);
  return cell.letter.empty() && cell.dots == 0;
}

bool TextCanvas::has_dots(int column, int row) const { return inside(column, row) && at(column, row).dots != 0; }

std::string TextCanvas::glyph(const Cell& cell) const {
  if (!cell.letter.empty()) return cell.letter;
  if (cell.dots != 0) {
    std::string braille;
    append_utf8(braille, 0x2800 + cell.dots);
    return braille;
  }
  if (!cell.upper && !cell.lower) return " ";
  if (!style_.unicode) return " ";
  return cell.upper ? "▀" : "▄";
}

std::string TextCanvas::colour_code(const Colour& c, bool behind) const {
  const int kind = behind ? 48 : 38;
  return style_.colours == TextStyle::Colours::all ? fmt::format("{};2;{};{};{}", kind, c.red, c.green, c.blue)
                                                   : fmt::format("{};5;{}", kind, nearest_of_256(c));
}

std::string TextCanvas::sequence(const Cell& cell) const {
  if (!style_.coloured()) return "";
  std::string codes = cell.bold ? "1" : "";
  const auto add = [&](const Colour& colour, bool behind) {
    codes += (codes.empty() ? "" : ";") + colour_code(colour, behind);
  };
  const bool halves = cell.upper || cell.lower;
  const bool ink = !cell.letter.empty() || cell.dots != 0;
  if (halves && (ink || !style_.unicode)) {
    const Colour behind = cell.lower ? *cell.lower : *cell.upper;
    add(ink_on(behind), false), add(behind, true);
  } else if (halves) {
    add(cell.upper ? *cell.upper : *cell.lower, false);
    if (cell.upper && cell.lower) add(*cell.lower, true);
  } else if (ink && cell.colour) {
    add(*cell.colour, false);
  }
  return codes;
}

int TextCanvas::used(int row) const {
  int last = 0;
  for (int column = 0; column < columns_; ++column) {
    const Cell& cell = at(column, row);
    if (cell.upper || cell.lower || glyph(cell) != " ") last = column + 1;
  }
  return last;
}

std::string TextCanvas::row(int row) const {
  std::string out, before;
  for (int column = 0; column < columns_; ++column) {
    const Cell& cell = at(column, row);
    const std::string codes = sequence(cell);
    if (codes != before) {
      if (!before.empty()) out += "\x1b[0m";
      if (!codes.empty()) out += "\x1b[" + codes + "m";
      before = codes;
    }
    out += glyph(cell);
  }
  return before.empty() ? out : out + "\x1b[0m";
}

}  // namespace bearing::tool
