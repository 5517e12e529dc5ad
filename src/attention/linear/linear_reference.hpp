#pragma once

#include <bearing/reference/attention.hpp>
#include <bearing/reference/linear_attention.hpp>
#include <cmath>
#include <vector>

#include "terms/checks.hpp"
#include "terms/score_call.hpp"

// What the plain reference and that of decays share: features, turned rows, and which keys a query sees.

namespace bearing::reference {

inline double feature(FeatureMap map, double x) {
  if (map == FeatureMap::identity) return x;
  if (map == FeatureMap::relu) return x > 0 ? x : 0;
  return x > 0 ? x + 1 : std::exp(x);
}
inline double slope(FeatureMap map, double x) {
  if (map == FeatureMap::identity) return 1;
  if (map == FeatureMap::relu) return x > 0 ? 1 : 0;
  return x > 0 ? 1 : std::exp(x);
}

/// Features of one side's rows, and the same turned: [batch, heads, time, …].
class Rows {
 public:
  Rows(const TermList<double>& terms, View<const double, 4> x, const Positions& at, Side side, FeatureMap map)
      : terms_(terms), x_(x), at_(at), side_(side), map_(map), params_(terms, x.shape[0], x.shape[1]) {
    dims_.push_back(x.shape[3]);
    for (const Term<double>& term : terms) {
      dims_.push_back(term.out_dim == nullptr ? dims_.back() : term.out_dim(term.self, dims_.back()));
    }
    each([&](Index b, Index h, Index t) {
      std::vector<double> row(size(dims_[0]));
      for (Index d = 0; d < dims_[0]; ++d) row[size(d)] = feature(map, x(b, h, t, d));
      features_.push_back(row);
      for (Index i = 0; i < terms.size; ++i) row = turn(i, b, h, t, row);
      turned_.push_back(row);
    });
  }

  const std::vector<double>& features(Index b, Index h, Index t) const { return features_[place(b, h, t)]; }
  const std::vector<double>& turned(Index b, Index h, Index t) const { return turned_[place(b, h, t)]; }
  Index rows_dim() const { return dims_.back(); }

  /// d_x, unless it is empty, and the parameters' gradients, from those of features and turned features.
  void backward(const std::vector<double>& d_features, const std::vector<double>& d_turned, View<double, 4> d_x) {
    each([&](Index b, Index h, Index t) {
      std::vector<std::vector<double>> stages{features(b, h, t)};
      for (Index i = 0; i < terms_.size; ++i) stages.push_back(turn(i, b, h, t, stages.back()));
      const auto from = d_turned.begin() + static_cast<std::ptrdiff_t>(place(b, h, t)) * rows_dim();
      std::vector<double> d(from, from + rows_dim());
      for (Index i = terms_.size; i-- > 0;) {
        std::vector<double> d_row(size(dims_[size(i)]));
        open(i, b, h, t, [&](const Term<double>& term, const RowTile& tile) {
          term.turn_grads(term.self, tile, stages[size(i)].data(), d.data(), d_row.data(), params_.block(b, h, i));
        });
        d = d_row;
      }
      if (d_x.data == nullptr) return;
      for (Index e = 0; e < dims_[0]; ++e) {
        const double sum = d[size(e)] + d_features[place(b, h, t) * size(dims_[0]) + size(e)];
        d_x(b, h, t, e) = sum * slope(map_, x_(b, h, t, e));
      }
    });
  }
  void collect() { params_.collect(); }

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }
  std::size_t place(Index b, Index h, Index t) const { return size((b * x_.shape[1] + h) * x_.shape[2] + t); }

  template <class Body>
  void each(const Body& body) const {
    for (Index b = 0; b < x_.shape[0]; ++b) {
      for (Index h = 0; h < x_.shape[1]; ++h) {
        for (Index t = 0; t < x_.shape[2]; ++t) body(b, h, t);
      }
    }
  }

  /// body(term, tile) for one row.
  template <class Body>
  void open(Index i, Index b, Index h, Index t, const Body& body) const {
    const Term<double>& term = terms_.terms[size(i)];
    RowTile tile{.batch = b, .head = h, .row = t, .rows = 1};
    std::array<double, max_axes> p{};
    for (Index axis = 0; axis < max_axes; ++axis) {
      p[size(axis)] = at_.real(std::min(axis, at_.axes() - 1), b, t);
      tile.at[size(axis)] = &p[size(axis)];
    }
    tile.dim = tile.x_stride = dims_[size(i)];
    tile.y_stride = dims_[size(i + 1)];
    tile.side = side_;
    std::vector<double> scratch(size(term.turn_scratch == nullptr ? 0 : term.turn_scratch(term.self, tile.dim)));
    tile.scratch = scratch.data();
    body(term, tile);
  }
  std::vector<double> turn(Index i, Index b, Index h, Index t, const std::vector<double>& x) const {
    std::vector<double> y(size(dims_[size(i + 1)]));
    open(i, b, h, t,
         [&](const Term<double>& term, const RowTile& tile) { term.turn(term.self, tile, x.data(), y.data()); });
    return y;
  }

  const TermList<double>& terms_;
  View<const double, 4> x_;
  const Positions& at_;
  Side side_;
  FeatureMap map_;
  std::vector<Index> dims_;
  std::vector<std::vector<double>> features_, turned_;
  ParamBlocks<double> params_;
};

/// The encodings among a call's that turn rows, or those by which the state decays.
inline TermList<double> some_of(const TermList<double>& terms, bool turn) {
  check_list("linear_attention", terms);
  TermList<double> some;
  for (const Term<double>& term : terms) {
    if (turn ? term.turn != nullptr : term.log_decay != nullptr) {
      some.add(term);
    }
  }
  return some;
}

inline bool sees(const LinearAttentionInputs<double>& in, Mask mask, Index b, Index i, Index j) {
  if (mask == Mask::causal) return not_after(in.k_positions, j, in.q_positions, i, b);
  if (mask == Mask::causal_top_left) return j <= i;
  if (mask == Mask::causal_bottom_right) return j - in.k.shape[2] <= i - in.q.shape[2];
  return true;
}

}  // namespace bearing::reference
