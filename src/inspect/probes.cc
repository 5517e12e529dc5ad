#include "inspect/probes.hpp"

#include <algorithm>
#include <bearing/error.hpp>
#include <charconv>
#include <cmath>
#include <utility>

#include "inspect/tasks.hpp"

namespace bearing::inspect {
namespace {

/// Seeds of contents are far from those of parameters.
constexpr std::uint64_t content_seed = 0x636F6E74656E7400u;

/// Rows at once: with 8 heads of 64 they are half a MiB.
constexpr Index most_block = 128;

/// Scores of the last of first + count tokens for keys at the distances, or at the places, first + from, … , `rows` of
/// them: [heads, rows].
Array scores_along(const Probe& probe, const Walk& walk, Index from, Index rows) {
  const Specimen& specimen = probe.specimen;
  const Index last = walk.first + walk.count - 1, nearest = walk.count - 1 - from;
  if (probe.by_place) {
    Array scores = specimen.scores(specimen.tokens(1, last), specimen.tokens(rows, walk.first + from), probe.alike(1),
                                   probe.alike(rows, 1));
    scores.shape = {1, scores.shape[0], rows};
    return scores;
  }
  // Where token indices stand for positions there is no way to skip tokens.
  const bool all = specimen.by_index;
  const Tokens keys = all ? specimen.tokens(last + 1) : specimen.tokens(rows, nearest - rows + 1);
  const Array scores = specimen.scores(specimen.tokens(1, last), keys, probe.alike(1), probe.alike(keys.count(), 1));
  const Index column = all ? nearest : rows - 1;
  Array by_distance(1, scores.shape[0], rows);
  for (Index h = 0; h < scores.shape[0]; ++h) {
    for (Index r = 0; r < rows; ++r) by_distance(0, h, r) = scores(h, 0, column - r);
  }
  return by_distance;
}

void put_columns(const Array& from, Index first_column, Array& to) {  // [heads, count, n] → [1, count, … heads·n …]
  for (Index h = 0; h < from.shape[0]; ++h) {
    for (Index r = 0; r < from.shape[1]; ++r) {
      for (Index d = 0; d < from.shape[2]; ++d) to(0, r, first_column + h * from.shape[2] + d) = from(h, r, d);
    }
  }
}

}  // namespace

Probe::Probe(const Description& entry, const SpecimenOptions& options)
    : specimen(make(entry, options)),
      input_only(specimen.input_rows && !specimen.turn_rows && !specimen.score_terms),
      score_only(!specimen.input_rows && !specimen.turn_rows),
      by_place(entry.encoding != nullptr && entry.encoding->form == Form::positions) {}

Array Probe::alike(Index count, std::uint64_t which) const {
  const SpecimenOptions& o = options();
  Array all(o.heads, count, o.dim);
  if (input_only) return all;
  const Array one = Normal(content_seed + 1000 * which + o.seed).array(o.heads, 1, o.dim);
  for (Index h = 0; h < o.heads; ++h) {
    for (Index t = 0; t < count; ++t) {
      for (Index d = 0; d < o.dim; ++d) all(h, t, d) = one(h, 0, d);
    }
  }
  return all;
}

Array Probe::various(Index count, std::uint64_t which) const {
  return Normal(content_seed + 1000 * which + options().seed).array(options().heads, count, options().dim);
}

Array Probe::various(Index count, Index from, Index rows) const {
  Array all(options().heads, rows, options().dim);
  const Index row = options().dim;
  Normal normal(content_seed + options().seed);
  for (Index h = 0; h < all.shape[0]; ++h) {
    normal.skip(from * row);
    for (Index e = 0; e < rows * row; ++e) all.values[static_cast<std::size_t>(h * rows * row + e)] = normal();
    normal.skip((count - from - rows) * row);
  }
  return all;
}

Index Probe::block(Index count) const {
  // Where token indices stand for positions, a part of the scores costs as much as all.
  return specimen.by_index ? count : most_block;
}

Array values_at(const Probe& probe, const Walk& walk, Index from, Index rows) {
  const Specimen& specimen = probe.specimen;
  const Tokens at = specimen.tokens(rows, walk.first + from);
  std::vector<Array> parts;
  if (specimen.input_rows) parts.push_back(specimen.inputs(at));
  if (specimen.turn_rows) {
    const Array x = probe.alike(rows);
    for (const Side side : {Side::query, Side::key}) parts.push_back(specimen.turn(side, at, x));
  }
  if (specimen.score_terms) {
    Array scores = scores_along(probe, walk, from, rows);
    scores.shape = {scores.shape[1], rows, 1};
    parts.push_back(std::move(scores));
  }
  Index features = 0;
  for (const Array& part : parts) features += part.shape[0] * part.shape[2];
  Array all(1, rows, features);
  Index column = 0;
  for (const Array& part : parts) {
    put_columns(part, column, all);
    column += part.shape[0] * part.shape[2];
  }
  return all;
}

Array values_at(const Probe& probe, Index first, Index count) { return values_at(probe, {first, count}, 0, count); }

namespace {

double magnitude(const Probe& probe, const Walk& walk, Index from, Index rows) {
  const Specimen& specimen = probe.specimen;
  const Tokens at = specimen.tokens(rows, walk.first + from);
  double most = 0;
  if (specimen.input_rows) {
    const Array p = specimen.inputs(at);
    for (Index t = 0; t < rows; ++t) most = std::max(most, row_norm(p.head(0), t));
  }
  if (specimen.turn_rows) {
    const Array x = probe.various(walk.count, from, rows);
    for (const Side side : {Side::query, Side::key}) {
      const Array y = specimen.turn(side, at, x);
      for (Index h = 0; h < x.shape[0]; ++h) {
        for (Index t = 0; t < rows; ++t) most = std::max(most, row_norm(y.head(h), t) / row_norm(x.head(h), t));
      }
    }
  }
  if (specimen.score_terms) {
    for (double score : scores_along(probe, walk, from, rows).values) most = std::max(most, std::abs(score));
  }
  return most;
}

}  // namespace

double magnitude(const Probe& probe, Index first, Index count, const Executor& on) {
  const Index block = probe.block(count);
  std::vector<double> most(static_cast<std::size_t>((count + block - 1) / block));
  each_block(on, count, block, [&](Index b, Index from, Index rows) {
    most[static_cast<std::size_t>(b)] = magnitude(probe, {first, count}, from, rows);
  });
  return *std::max_element(most.begin(), most.end());
}

double row_norm(View<const double, 2> rows, Index i) {
  double sum = 0;
  for (Index d = 0; d < rows.shape[1]; ++d) sum += rows(i, d) * rows(i, d);
  return std::sqrt(sum);
}

Change change(const Array& x, const Array& y, bool causal) {
  Change c;
  for (Index h = 0; h < x.shape[0]; ++h) {
    for (Index i = 0; i < x.shape[1]; ++i) {
      for (Index j = 0; j < (causal ? std::min(i + 1, x.shape[2]) : x.shape[2]); ++j) {
        c.most = std::max(c.most, std::abs(x(h, i, j) - y(h, i, j)));
        c.scale = std::max(c.scale, std::abs(x(h, i, j)));
      }
    }
  }
  return c;
}

std::string brief(double number) {
  char digits[40];
  if (std::abs(number) < 1e6 && number == std::trunc(number)) {
    return {digits, std::to_chars(digits, digits + sizeof digits, static_cast<Index>(number)).ptr};
  }
  return {digits, std::to_chars(digits, digits + sizeof digits, number, std::chars_format::general, 3).ptr};
}

}  // namespace bearing::inspect
