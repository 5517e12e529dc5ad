#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>
#include <numbers>

#include "figures/kinds.hpp"
#include "figures/pairs.hpp"

// Dials, one for each pair, with a hand for each position: a unit vector turned, or the pair of what is added.

namespace bearing::inspect {
namespace {

/// What all dials show.
struct Hands {
  std::vector<Index> positions;
  std::vector<std::string> words = {};  ///< as many, or none
  Index moved = 0;  ///< the second dial of a pair shows the positions so much later; 0: there is none
};

constexpr const char* spaces = " \t\r\n";

Hands hands_of(const FigureOptions& options) {
  Hands hands{.positions = options.positions, .moved = options.offset.value_or(0)};
  for (std::size_t end = 0;;) {
    const std::size_t first = options.what.find_first_not_of(spaces, end);
    if (first == options.what.npos) break;
    end = std::min(options.what.find_first_of(spaces, first), options.what.size());
    hands.words.push_back(options.what.substr(first, end - first));
  }
  const std::size_t count = hands.words.empty() ? 4 : hands.words.size();
  for (std::size_t p = 0; options.positions.empty() && p < count; ++p) hands.positions.push_back(static_cast<Index>(p));
  if (!hands.words.empty() && hands.words.size() != hands.positions.size()) {
    throw RangeError(text::concat("[figure] what: must be a word for each of the ", std::ssize(hands.positions),
                                  " positions, got ", std::ssize(hands.words)));
  }
  for (const Index p : hands.positions) {
    if (p < 0) throw RangeError(text::concat("[figure] positions: must be at least 0, got ", p));
  }
  if (hands.moved < 0) throw RangeError(text::concat("[figure] offset: must be at least 0, got ", hands.moved));
  return hands;
}

/// Angles from −π to π.
double angle(const Path& path, std::size_t from, std::size_t to) {
  return std::remainder(std::atan2(path.y[to], path.x[to]) - std::atan2(path.y[from], path.x[from]),
                        2 * std::numbers::pi);
}

std::string degrees(double radians) { return short_number(std::abs(radians) * 180 / std::numbers::pi); }

double reach(const Path& path) {
  double most = 0;
  for (std::size_t i = 0; i < path.size(); ++i) most = std::max(most, std::hypot(path.x[i], path.y[i]));
  return most;
}

/// The dial's rim: a circle.
Series rim(double radius) {
  Series circle{.colour = 6, .faint = true};
  for (int i = 0; i <= 96; ++i) {
    const double at = i * 2 * std::numbers::pi / 96;
    circle.x.push_back(radius * std::cos(at)), circle.y.push_back(radius * std::sin(at));
  }
  return circle;
}

/// "a", "a, b", "a … d"
std::string joined(const std::vector<std::string>& names) {
  if (names.size() <= 1) return names.empty() ? "" : names[0];
  return names.front() + (names.size() == 2 ? ", " : " … ") + names.back();
}

/// The positions' words or numbers, outside of the rim; those of hands that lie on each other together.
void add_names(const Path& path, const Hands& hands, const std::vector<Index>& positions, double radius, Panel& panel) {
  constexpr double apart = 0.25;  // radians: narrower, and texts would lie on each other
  std::vector<char> named(path.size(), 0);
  for (std::size_t i = 0; i < path.size(); ++i) {
    const double size = std::hypot(path.x[i], path.y[i]);
    if (named[i] || size == 0) continue;
    std::vector<std::string> names;
    for (std::size_t other = i; other < path.size(); ++other) {
      if (named[other] || std::abs(angle(path, i, other)) >= apart) continue;
      named[other] = 1;
      names.push_back(hands.words.empty() ? std::to_string(positions[other]) : hands.words[other]);
    }
    const double out = 1.15 * radius / size;
    panel.notes.push_back({out * path.x[i], out * path.y[i], joined(names)});
  }
}

/// "position 3", "positions 0, 1, 2", "positions 0 … 9"
std::string said(const std::vector<Index>& positions) {
  std::string all;
  for (const Index p : positions) all += (all.empty() ? "" : ", ") + std::to_string(p);
  if (positions.size() > 5) all = text::concat(positions.front(), " … ", positions.back());
  return (positions.size() == 1 ? "position " : "positions ") + all;
}

/// A hand for each position, with its word or number at the end.
Panel dial(const Shown& shown, Pair pair, const Path& path, const Hands& hands, const std::vector<Index>& positions) {
  const double radius = std::max(reach(path), 1e-300), room = 1.6 * radius;
  Panel panel{.x = {text::concat(shown.name(), ", ", said(positions)), -room, room},
              .y = {text::concat("dimensions ", pair.x, " and ", pair.y), -room, room},
              .round = true};
  panel.series.push_back(rim(radius));
  for (std::size_t i = 0; i < path.size(); ++i) {
    panel.series.push_back({.x = {path.x[i]}, .y = {path.y[i]}, .stroke = Stroke::hands});
    panel.series.back().colour = static_cast<int>(i);
    if (path.size() > 3) panel.series.back().shade = static_cast<double>(i) / static_cast<double>(path.size() - 1);
  }
  add_names(path, hands, positions, radius, panel);
  return panel;
}

/// How far the pair turns from position 0 to 1, and how long a turn takes.
std::string speed(const Shown& shown, Pair pair, double unit, const Executor& on) {
  const Path first = path_of(shown, pair, unit, 0, {0, 1}, on);
  const double turn = angle(first, 0, 1);
  if (std::abs(turn) < 0x1p-40) return "does not turn";
  return text::concat("a turn in ", short_number(2 * std::numbers::pi / std::abs(turn)), " tokens");
}

/// "pair 3 of 8", "pairs 0, 2, 5, 7 of 8"
std::string pairs_of_all(const std::vector<Index>& some, Index all) {
  std::string numbers;
  for (const Index n : some) numbers += (numbers.empty() ? "" : ", ") + std::to_string(n);
  return text::concat(some.size() == 1 ? "pair " : "pairs ", numbers, " of ", all);
}

/// All dials of an encoding: a row of pairs, and another one where positions are moved.
void add_dials(const Shown& shown, const Hands& hands, const FigureOptions& options, Figure& figure,
               std::string& angles, std::string& left_out) {
  const double unit = shown.specimen.turn_rows ? 1 : 0;  // what is added stands alone
  const std::vector<Pair> pairs = pairs_of(shown, options.on);
  const std::vector<Index> wanted = options.dims.empty() ? some_of(static_cast<Index>(pairs.size()), 4) : options.dims;
  if (wanted.size() < pairs.size()) {
    left_out += text::concat(left_out.empty() ? "" : "; ", shown.name(), ": ", pairs_of_all(wanted, std::ssize(pairs)));
  }
  for (const Index moved : {Index{0}, hands.moved}) {
    for (const Index n : wanted) {
      const Pair pair = pair_of(pairs, n);
      std::vector<Index> positions = hands.positions;
      for (Index& p : positions) p += moved;
      const Path path = path_of(shown, pair, unit, 0, positions, options.on);
      Panel panel = dial(shown, pair, path, hands, positions);
      panel.title = text::concat(
          "pair ", n, moved > 0 ? text::concat(", ", moved, " later") : ": " + speed(shown, pair, unit, options.on));
      figure.panels.push_back(std::move(panel));
      if (n == wanted.front() && path.size() > 1) {
        angles +=
            text::concat(angles.empty() ? "" : "; ", shown.name(), ", pair ", n, ", positions ", positions.front(),
                         " and ", positions.back(), ": ", degrees(angle(path, 0, path.size() - 1)), " degrees apart");
      }
    }
    if (hands.moved == 0) break;
  }
}

Figure hands(std::span<const Subject> encodings, const FigureOptions& options) {
  const Hands hands = hands_of(options);
  Index last = 1;
  for (const Index p : hands.positions) last = std::max(last, p + hands.moved);
  const std::vector<Shown> shown = examples(encodings, options, {.heads = 1, .dim = 8, .length = last + 1});
  Figure figure{.title = "A hand for each position: " + names_of(shown)};
  std::string angles, left_out;
  for (const Shown& one : shown) add_dials(one, hands, options, figure, angles, left_out);
  figure.text =
      left_out.empty()
          ? "Dials with a hand for each position, one dial for each pair of dimensions."
          : "Dials with a hand for each position, one dial for each of some pairs of dimensions (" + left_out + ").";
  if (!angles.empty()) figure.text += " Between the first hand and the last: " + angles + ".";
  const std::size_t rows = shown.size() * (hands.moved > 0 ? 2 : 1), in_a_row = figure.panels.size() / rows;
  const bool aligned = rows > 1 && in_a_row > 1 && in_a_row <= 4;  // each pair's dials stand below each other
  figure.columns = aligned ? static_cast<Index>(in_a_row) : columns_for(figure.panels.size());
  return figure;
}

}  // namespace

FigureKind hands_kind() {
  return {"hands",
          "a dial for each pair, with a hand for each position",
          1,
          4,
          {"dim", "length", "seed", "positions", "dims", "offset", "what"},
          hands};
}

}  // namespace bearing::inspect
