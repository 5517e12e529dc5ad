#include <algorithm>
#include <bearing/catalog.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <utility>

#include "inspect/probes.hpp"

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

Tokens::Tokens(Index count, Index first, Index shift, Index width, const Spanned& spanned)
    : count_(count), first_(first + (width == 0 ? shift : 0)), width_(width) {
  if (width == 0) return;
  for (Index t = 0; t < count; ++t) places_.push_back((first + t) / width + shift);
  for (Index t = 0; t < count; ++t) places_.push_back((first + t) % width + shift);
  if (spanned.span == 0) return;
  for (std::size_t n = 0; n < places_.size(); ++n) {
    const Index side = static_cast<Index>(n) < count ? spanned.grid.height : spanned.grid.width;
    const double centre = static_cast<double>(2 * places_[n] + 1) / static_cast<double>(side) - 1;
    coordinates_.push_back(centre * spanned.span);
  }
}

Tokens::Tokens(std::vector<Index> positions)
    : count_(static_cast<Index>(positions.size())), first_(0), width_(0), places_(std::move(positions)) {}

Positions Tokens::at() const {
  if (!coordinates_.empty()) return Positions(dense(coordinates_.data(), 2, 1, count_));
  if (width_ == 0) return places_.empty() ? Positions(first_) : Positions(dense(places_.data(), count_));
  return Positions(dense(places_.data(), 2, 1, count_));
}

Tokens Tokens::repeated(Index times) const {
  Tokens all(std::vector<Index>{});
  all.count_ = count_ * times, all.width_ = width_;
  const auto repeat = [times](const auto& from, auto& to) {
    for (const auto at : from) to.insert(to.end(), static_cast<std::size_t>(times), at);
  };
  repeat(coordinates_, all.coordinates_);
  if (places_.empty()) {
    for (Index t = 0; t < count_; ++t)
      all.places_.insert(all.places_.end(), static_cast<std::size_t>(times), first_ + t);
  }
  repeat(places_, all.places_);
  return all;
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

Array Specimen::turned_values(const Tokens& q_positions, const Tokens& k_positions, const Array& p, const Array& v,
                              const Executor& on) const {
  Array turned(v.shape[0], v.shape[1], v.shape[2]), out(p.shape[0], p.shape[1], v.shape[2]);
  Array sums = out;
  turn_values(Side::key, k_positions.at(), batch_of(v), batch_of(turned), on);
  for (Index h = 0; h < p.shape[0]; ++h) {
    for (Index i = 0; i < p.shape[1]; ++i) {
      for (Index j = 0; j < p.shape[2]; ++j) {
        for (Index d = 0; d < v.shape[2]; ++d) sums(h, i, d) += p(h, i, j) * turned(h, j, d);
      }
    }
  }
  const Array& added = sums;
  turn_values(Side::query, q_positions.at(), batch_of(added), batch_of(out), on);
  return out;
}

Array placed(const Specimen& specimen, Side side, const Tokens& at, Array x, const Executor& on) {
  if (specimen.input_rows) add_to_every_head(specimen.inputs(at, on), x);
  return specimen.turn_rows ? specimen.turn(side, at, x, on) : x;
}

Array Specimen::logits(const Tokens& q_positions, const Tokens& k_positions, const Array& q, const Array& k,
                       const Executor& on) const {
  const Array x = placed(*this, Side::query, q_positions, q, on), y = placed(*this, Side::key, k_positions, k, on);
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

std::string sites(const Specimen& specimen) {
  std::string all;
  const auto add = [&all](bool has, const char* site) {
    if (has) all += (all.empty() ? "" : ", ") + std::string(site);
  };
  add(specimen.input_rows != nullptr, "input");
  add(specimen.turn_rows != nullptr, "query/key");
  add(specimen.score_terms != nullptr, "score");
  add(specimen.value_terms != nullptr || specimen.turn_values != nullptr, "value");
  return all.empty() ? "none" : all;
}

}  // namespace bearing::inspect
