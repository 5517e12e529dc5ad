#include "figures/pairs.hpp"

#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>
#include <limits>

#include "inspect/probes.hpp"

namespace bearing::inspect {
namespace {

Array ones(Index heads, Index rows, Index cols) {
  Array all(heads, rows, cols);
  std::fill(all.values.begin(), all.values.end(), 1.0);
  return all;
}

/// Whether turned rows have a column for each of the row's.
bool keeps_columns(const Specimen& s) { return !s.out_dim || s.out_dim(s.options.dim) == s.options.dim; }

/// The column that a unit vector along `from` reaches furthest at position 1; `from` if it reaches none.
Index reached(const Array& turned, Index from) {
  Index best = from;
  double most = 0;
  for (Index d = 0; d < turned.shape[2]; ++d) {
    if (d != from && std::abs(turned(0, from, d)) > most) best = d, most = std::abs(turned(0, from, d));
  }
  return best;
}

/// Row d: the unit vector along d, turned at position 1 (of an image: at its second row and column).
Array turned_units(const Specimen& s, const Executor& on) {
  const Index dim = s.options.dim;
  Array units(s.options.heads, dim, dim);
  for (Index h = 0; h < s.options.heads; ++h) {
    for (Index d = 0; d < dim; ++d) units(h, d, d) = 1;
  }
  return s.turn(Side::key, s.tokens(1, s.is_image() ? s.grid.width + 1 : 1).repeated(dim), units, on);
}

std::vector<Pair> pairs_of_units(const Array& turned) {
  std::vector<Pair> pairs;
  std::vector<char> taken(static_cast<std::size_t>(turned.shape[2]), 0);
  for (Index d = 0; d < turned.shape[2]; ++d) {
    const Index to = reached(turned, d);
    if (to == d || taken[static_cast<std::size_t>(d)] || taken[static_cast<std::size_t>(to)]) continue;
    taken[static_cast<std::size_t>(d)] = taken[static_cast<std::size_t>(to)] = 1;
    pairs.push_back({d, to});
  }
  return pairs;
}

// A sum of two rounded squares is off by a few units of 2^-53; of other columns it changes by the square of an angle.
constexpr double alike = 0x1p-48;

/// By how much the sum of two columns' squares changes over the rows, as part of its size; 1 if more than `alike`.
double spread(const Array& rows, Index c, Index d) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (Index p = 0; p < rows.shape[1]; ++p) {
    const double sum = rows(0, p, c) * rows(0, p, c) + rows(0, p, d) * rows(0, p, d);
    least = std::min(least, sum), most = std::max(most, sum);
    if (most - least > alike * most) return 1;
  }
  return most > 0 ? (most - least) / most : 1;
}

std::vector<Pair> pairs_of_rows(const Array& rows) {
  const Index dim = rows.shape[2];
  std::vector<Pair> pairs;
  std::vector<char> taken(static_cast<std::size_t>(dim), 0);
  for (Index c = 0; c < dim; ++c) {
    if (taken[static_cast<std::size_t>(c)]) continue;
    Index best = c;
    double least = alike;
    for (Index d = c + 1; d < dim; ++d) {
      if (taken[static_cast<std::size_t>(d)]) continue;
      const double off = spread(rows, c, d);
      if (off < least) best = d, least = off;
    }
    if (best == c) continue;
    taken[static_cast<std::size_t>(best)] = 1;
    pairs.push_back(std::abs(rows(0, 0, c)) >= std::abs(rows(0, 0, best)) ? Pair{c, best} : Pair{best, c});
  }
  return pairs;
}

}  // namespace

std::vector<Pair> pairs_of(const Shown& shown, const Executor& on) {
  const Specimen& s = shown.specimen;
  if (!s.input_rows && !s.turn_rows) {
    nothing_to_show(shown, "must have rows: an encoding of the input or of query and key");
  }
  std::vector<Pair> pairs;
  if (s.turn_rows && keeps_columns(s)) {
    pairs = pairs_of_units(turned_units(s, on));
  } else {
    const Index count = std::min(s.options.length, std::max<Index>(64, 4 * s.grid.width));
    const Tokens at = s.tokens(count);
    pairs = pairs_of_rows(s.turn_rows ? s.turn(Side::key, at, ones(s.options.heads, count, s.options.dim), on)
                                      : s.inputs(at, on));
  }
  if (pairs.empty()) {
    for (Index d = 0; d + 1 < s.options.dim; d += 2) pairs.push_back({d, d + 1});
  }
  if (pairs.empty()) throw RangeError(text::concat("[figure] dim: must be at least 2, got ", s.options.dim));
  return pairs;
}

Pair pair_of(const std::vector<Pair>& pairs, Index n) {
  const auto count = static_cast<Index>(pairs.size());
  if (n < 0 || n >= count) {
    throw RangeError(text::concat("[figure] dims: must be pairs from 0 to ", count - 1, ", got ", n));
  }
  return pairs[static_cast<std::size_t>(n)];
}

Path path_of(const Shown& shown, Pair pair, double x, double y, const std::vector<Index>& positions,
             const Executor& on) {
  const Specimen& s = shown.specimen;
  Array row = s.turn_rows && !keeps_columns(s) ? ones(s.options.heads, 1, s.options.dim)
                                               : Array(s.options.heads, 1, s.options.dim);
  if (keeps_columns(s)) {
    for (Index h = 0; h < s.options.heads; ++h) row(h, 0, pair.x) = x, row(h, 0, pair.y) = y;
  }
  Path path;
  for (const Index p : positions) {
    const Array there = placed(s, Side::key, s.tokens(1, p), row, on);
    path.x.push_back(there(0, 0, pair.x)), path.y.push_back(there(0, 0, pair.y));
  }
  return path;
}

}  // namespace bearing::inspect
