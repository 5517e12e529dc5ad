#include <algorithm>
#include <bearing/catalog.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <utility>

#include "text.hpp"

namespace bearing::inspect {

namespace {

View<const double, 4> batch_of(const Array& x) {
  return bhtd<const double>(x.values.data(), 1, x.shape[0], x.shape[1], x.shape[2]);
}
View<double, 4> batch_of(Array& x) { return bhtd(x.values.data(), 1, x.shape[0], x.shape[1], x.shape[2]); }

void add_to_every_head(const Array& rows, Array& x) {
  for (Index h = 0; h < x.shape[0]; ++h) {
    for (Index t = 0; t < x.shape[1]; ++t) {
      for (Index d = 0; d < x.shape[2]; ++d) x(h, t, d) += rows(0, t, d);
    }
  }
}

}  // namespace

Tokens::Tokens(Index count, Index first, Index shift, Index width)
    : count_(count), first_(first + (width == 0 ? shift : 0)), width_(width) {
  if (width == 0) return;
  for (Index t = 0; t < count; ++t) coordinates_.push_back((first + t) / width + shift);
  for (Index t = 0; t < count; ++t) coordinates_.push_back((first + t) % width + shift);
}

Tokens::Tokens(std::vector<Index> positions)
    : count_(static_cast<Index>(positions.size())), first_(0), width_(0), coordinates_(std::move(positions)) {}

Positions Tokens::at() const {
  if (width_ == 0) return coordinates_.empty() ? Positions(first_) : Positions(dense(coordinates_.data(), count_));
  return Positions(dense(coordinates_.data(), 2, 1, count_));
}

Array Specimen::inputs(const Tokens& at, const Executor& on) const {
  Array rows(1, at.count(), options.dim);
  input_rows(at.at(), View<double, 3>{rows.values.data(), rows.shape, {0, options.dim, 1}}, on);
  return rows;
}

Array Specimen::turn(Side side, const Tokens& at, const Array& x, const Executor& on) const {
  Array y(x.shape[0], x.shape[1], out_dim ? out_dim(x.shape[2]) : x.shape[2]);
  turn_rows(side, at.at(), batch_of(x), batch_of(y), on);
  return y;
}

Array Specimen::scores(const Tokens& q_positions, const Tokens& k_positions, const Array& q, const Array& k,
                       const Executor& on) const {
  Array s(q.shape[0], q.shape[1], k.shape[1]);
  score_terms(q_positions.at(), k_positions.at(), batch_of(q), batch_of(k), batch_of(s), on);
  return s;
}

Array Specimen::values(const Tokens& q_positions, const Tokens& k_positions, const Array& p, const Executor& on) const {
  Array out(p.shape[0], p.shape[1], options.dim);
  value_terms(q_positions.at(), k_positions.at(), batch_of(p), batch_of(out), on);
  return out;
}

Array Specimen::logits(const Tokens& q_positions, const Tokens& k_positions, const Array& q, const Array& k,
                       const Executor& on) const {
  Array x = q, y = k;
  if (input_rows) {
    add_to_every_head(inputs(q_positions, on), x);
    add_to_every_head(inputs(k_positions, on), y);
  }
  if (turn_rows) {
    x = turn(Side::query, q_positions, x, on);
    y = turn(Side::key, k_positions, y, on);
  }
  Array s(q.shape[0], q.shape[1], k.shape[1]);
  if (score_terms) s = scores(q_positions, k_positions, x, y, on);
  const double scale = 1 / std::sqrt(static_cast<double>(options.dim));
  for (Index h = 0; h < s.shape[0]; ++h) {
    const Array content = products(x.head(h), y.head(h));
    for (Index i = 0; i < s.shape[1]; ++i) {
      for (Index j = 0; j < s.shape[2]; ++j) s(h, i, j) += scale * content(0, i, j);
    }
  }
  return s;
}

namespace {

/// Every key of a head gets the content of row 0.
void repeat(const Array& one, Array& all) {
  for (Index h = 0; h < all.shape[0]; ++h) {
    for (Index t = 0; t < all.shape[1]; ++t) std::copy_n(&one.head(h)(0, 0), all.shape[2], &all(h, t, 0));
  }
}

}  // namespace

Array mean_scores(const Specimen& specimen, Index draws, Contents contents, Keys towards) {
  if (draws < 1) throw RangeError(text::concat("[mean_scores] draws: must be at least 1, got ", draws));
  const Index n = specimen.width > 0 ? specimen.width : specimen.options.length;
  const Index heads = specimen.options.heads, dim = specimen.options.dim;
  const bool bare = specimen.score_terms && !specimen.input_rows && !specimen.turn_rows;
  const bool positions_only = specimen.input_rows && !specimen.turn_rows && !specimen.score_terms;
  const bool before = towards == Keys::before;
  const Tokens q_positions = specimen.tokens(1, before ? n - 1 : 0), k_positions = specimen.tokens(n);
  Normal normal(specimen.options.seed);
  Array means(1, heads, n), keys(heads, n, dim);
  if (positions_only) draws = 1;  // nothing is drawn
  for (Index draw = 0; draw < draws; ++draw) {
    Array q = normal.array(heads, 1, dim), k = normal.array(heads, 1, dim);
    if (contents == Contents::alike) {
      for (double& value : q.values) value = std::copysign(1, value);
      k = q;
    }
    if (positions_only) q = k = Array(heads, 1, dim);
    repeat(k, keys);
    const Array scores =
        bare ? specimen.scores(q_positions, k_positions, q, keys) : specimen.logits(q_positions, k_positions, q, keys);
    for (Index h = 0; h < heads; ++h) {
      for (Index d = 0; d < n; ++d) means(0, h, d) += scores(h, 0, before ? n - 1 - d : d) / static_cast<double>(draws);
    }
  }
  return means;
}

std::string sites(const Specimen& specimen) {
  std::string all;
  const auto add = [&all](bool has, const char* site) {
    if (has) all += (all.empty() ? "" : ", ") + std::string(site);
  };
  add(specimen.input_rows != nullptr, "input");
  add(specimen.turn_rows != nullptr, "query/key");
  add(specimen.score_terms != nullptr, "score");
  add(specimen.value_terms != nullptr, "value");
  return all.empty() ? "none" : all;
}

}  // namespace bearing::inspect
