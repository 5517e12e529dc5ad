#include <algorithm>
#include <numbers>

#include "attention/shared/extents.hpp"
#include "attention/softmax/backward.hpp"
#include "attention/softmax/backward_kernels.hpp"
#include "attention/softmax/softmax_kernels.hpp"

// What a worker of the backward does on its tiles: scores again, their gradients, products.

namespace bearing {

namespace {

Columns common(Columns x, Columns y) { return {std::max(x.first, y.first), std::min(x.end, y.end)}; }

/// Columns whose rows are told apart where a mask cuts through them: a multiple of what products hold in registers.
constexpr Index chunk = 24;

}  // namespace

template <class A>
void BackwardWork<A>::meet(Columns cols, Products wanted) {
  const Index panel = attend::panel_width<A>();
  for (Index i = 0; i < rows_; i += plan_->slab) {
    Slab slab{i, std::min(plan_->slab, rows_ - i), cols, 0};
    const Columns seen = seen_by(slab.row, slab.rows, cols);
    if (seen.empty()) continue;
    if (!tiled()) slab.cols = seen;
    slab.cols.first = slab.cols.first / panel * panel;
    slab.origin = slab.cols.first;
    if (wanted == Products::scores) {
      weigh(slab);
      continue;
    }
    if (tiled()) {
      whole_tile(slab);
    } else {
      strips(slab);
    }
    key_products(slab);
  }
}

template <class A>
Columns BackwardWork<A>::seen_by(Index row, Index rows, Columns among) const {
  Columns seen{among.end, among.first};
  for (Index i = row; i < row + rows; ++i) {
    const Columns sees = common(sees_[size(i)], among);
    if (!sees.empty()) seen = {std::min(seen.first, sees.first), std::max(seen.end, sees.end)};
  }
  return seen;
}

template <class A>
Columns BackwardWork<A>::rows_that_see(const Slab& slab, Columns cols) const {
  Columns rows{slab.row + slab.rows, slab.row};
  for (Index i = slab.row; i < slab.row + slab.rows; ++i) {
    if (!common(sees_[size(i)], cols).empty()) rows = {std::min(rows.first, i), i + 1};
  }
  return rows;
}

/// S = c Q Kᵀ and dP = dO Vᵀ of a strip, for columns in the block of keys that is open.
template <class A>
void BackwardWork<A>::strip_products(const Slab& slab, Index row, Index rows, Columns seen, Products wanted) {
  const AttentionCall<A>& call = plan_->scores.call;
  const Index panel = attend::panel_width<A>(), dim = call.problem.dim, value_dim = call.problem.value_dim;
  const Index origin = std::max(slab.origin, keys_.first());
  const Index first = (seen.first - origin) / panel * panel, end = seen.end - origin;
  attend::scores(rows, first, end, dim, products_alone() ? A{1} : call.scale, q_ + row * dim, dim, keys_.packed(origin),
                 at(s_, slab, row, origin), stride_);
  if (wanted == Products::scores) return;
  attend::scores(rows, first, end, value_dim, A{1}, d_out_ + row * value_dim, value_dim, keys_.packed_values(origin),
                 at(d_p_, slab, row, origin), stride_);
}

/// s = cap · tanh(x / cap), and its slope 1 − (s / cap)², for whole panels.
template <class A>
void BackwardWork<A>::cap(const Slab& slab, Index row, Index rows, Columns seen) {
  const auto cap = static_cast<A>(plan_->scores.call.options.soft_cap);
  if (!(cap > 0)) return;
  const Index panel = attend::panel_width<A>(), first = seen.first / panel * panel, n = seen.end - first;
  A* s = at(s_, slab, row, first);
  attend::cap(rows, Index{0}, n, cap, s, stride_);
  A* slope = at(slopes_, slab, row, first);
  const A part = 1 / cap;
  for (Index i = 0; i < rows; ++i, s += stride_, slope += stride_) {
    for (Index j = 0; j < n; ++j) slope[j] = 1 - (part * s[j]) * (part * s[j]);
  }
}

/// dX = dS ∘ cap'(X)
template <class A>
void BackwardWork<A>::apply_slopes(const Slab& slab, Index row, Index rows) {
  if (slopes_.empty()) return;
  for (Index i = row; i < row + rows; ++i) {
    const Columns seen = common(sees_[size(i)], slab.cols);
    if (seen.empty()) continue;
    A* d_s = at(d_p_, slab, i, seen.first);
    const A* slope = at(slopes_, slab, i, seen.first);
    for (Index j = 0; j < seen.end - seen.first; ++j) d_s[j] *= slope[j];
  }
}

template <class A>
attend::ScoreRows<A> BackwardWork<A>::score_rows(const Slab& slab, Index row, Index rows) {
  const Index end = slab.cols.end - slab.origin;
  for (Index i = 0; i < rows; ++i) {
    const Columns& sees = sees_[size(row + i)];
    row_first_[size(i)] = std::clamp<Index>(sees.first - slab.origin, 0, end);
    row_end_[size(i)] = std::clamp<Index>(sees.end - slab.origin, 0, end);
  }
  return {.rows = rows,
          .first = 0,
          .end = end,
          .row_first = row_first_.data(),
          .row_end = row_end_.data(),
          .s = at(s_, slab, row, slab.origin),
          .d_p = at(d_p_, slab, row, slab.origin),
          .stride = stride_,
          .log2_scale = (products_alone() ? plan_->scores.call.scale : A{1}) * std::numbers::log2e_v<A>,
          .origin = anchored_ ? origin_.data() + row : nullptr,
          .log2_sum = log2_sum_.data() + row,
          .along = along_.data() + row};
}

template <class A>
void BackwardWork<A>::strip_scores(const Slab& slab, Index row, Index rows, Columns seen, Products wanted) {
  if (seen.empty()) return;
  const Visibility& visibility = plan_->scores.visibility;
  strip_products(slab, row, rows, seen, wanted);
  cap(slab, row, rows, seen);
  if (visibility.holes(b_)) {
    visibility.hide(b_, h_, row_ + row, rows, seen, at(s_, slab, row, seen.first), stride_);
  }
}

template <class A>
void BackwardWork<A>::strips(const Slab& slab) {
  const Index strip = attend::strip_rows<A>(), end = slab.row + slab.rows;
  open_keys(slab.origin);
  if (sums_diagonals()) std::fill(slab_diagonals_.begin(), slab_diagonals_.end(), A{0});
  for (Index row = slab.row; row < end; row += strip) {
    const Index rows = std::min(strip, end - row);
    const Columns seen = seen_by(row, rows, slab.cols);
    strip_scores(slab, row, rows, seen, Products::all);
    attend::ScoreRows<A> scores = score_rows(slab, row, rows);
    scores.bias = diagonals_.at(row_ + row, slab.origin);
    if (sums_diagonals()) scores.d_bias = slab_diagonals_.data() + (end - 1 - row);
    attend::probabilities(scores);
    attend::score_grads(scores);
    apply_slopes(slab, row, rows);
    if (!seen.empty()) query_products(slab, row, rows, seen);
  }
  if (sums_diagonals()) add_diagonals(slab);
}

/// The rows' largest scores and sums take up a slab, if it has an anchored row.
template <class A>
void BackwardWork<A>::weigh(const Slab& slab) {
  const Index end = slab.row + slab.rows;
  bool wanted = false;
  for (Index i = slab.row; i < end; ++i) wanted = wanted || is_anchored(plan_->results.lse(b_, h_, row_ + i));
  if (!wanted) return;
  const auto take = [&](Index row, Index rows, const A* bias) {
    const attend::ScoreRows<A> scores = score_rows(slab, row, rows);
    attend::weigh<A>({.rows = rows,
                      .first = scores.first,
                      .end = scores.end,
                      .row_first = scores.row_first,
                      .row_end = scores.row_end,
                      .s = scores.s,
                      .stride = scores.stride,
                      .log2_scale = scores.log2_scale,
                      .bias = bias,
                      .max = origin_.data() + row,
                      .sum = log2_sum_.data() + row,
                      .rescale = along_.data() + row});
  };
  if (tiled()) {
    tile_scores(slab, Products::scores);
    return take(slab.row, slab.rows, nullptr);
  }
  open_keys(slab.origin);
  const Index strip = attend::strip_rows<A>();
  for (Index row = slab.row; row < end; row += strip) {
    const Index rows = std::min(strip, end - row);
    strip_scores(slab, row, rows, seen_by(row, rows, slab.cols), Products::scores);
    take(row, rows, diagonals_.at(row_ + row, slab.origin));
  }
}

/// A slab's sums come to those of the head: its diagonal 0 is that of its last row and first column.
template <class A>
void BackwardWork<A>::add_diagonals(const Slab& slab) {
  const Index last_row = row_ + slab.row + slab.rows - 1, n = slab.rows - 1 + slab.cols.end - slab.origin;
  A* to = d_diagonals_.data() + (plan_->scores.call.problem.q_len - 1 - last_row + slab.origin);
  for (Index x = 0; x < n; ++x) to[x] += slab_diagonals_[size(x)];
}

/// body(row, rows, cols) for the slab's strips and what each block of keys, which is then open, has of its columns.
template <class A>
template <class Body>
void BackwardWork<A>::over_tile_strips(const Slab& slab, const Body& body) {
  const Index strip = attend::strip_rows<A>(), width = plan_->cols, end = slab.row + slab.rows;
  for (Index col = slab.origin / width * width; col < slab.cols.end; col += width) {
    open_keys(col);
    const Columns cols = common(slab.cols, {col, col + width});
    for (Index row = slab.row; row < end; row += strip) body(row, std::min(strip, end - row), cols);
  }
}

/// Scores of a whole tile, with terms that look at all of it. Returns the tile that they were given.
template <class A>
Tile<A> BackwardWork<A>::tile_scores(const Slab& slab, Products wanted) {
  const AttentionCall<A>& call = plan_->scores.call;
  const Visibility& visibility = plan_->scores.visibility;
  const Index dim = call.problem.dim;
  over_tile_strips(slab, [&](Index row, Index rows, Columns cols) { strip_products(slab, row, rows, cols, wanted); });
  cap(slab, slab.row, slab.rows, slab.cols);

  Tile<A> tile = tiles_.open(call.problem, b_, h_, row_ + slab.row, slab.origin);
  tile.rows = slab.rows, tile.cols = slab.cols.end - slab.origin, tile.stride = stride_;
  tile.q = q_ + slab.row * dim, tile.q_stride = dim;
  tile.k = keys_.row(slab.origin), tile.k_stride = keys_.row_stride();
  tile.scale = call.scale;
  if (call.whole_rows) {
    visibility.mark_tile(b_, h_, row_ + slab.row, slab.rows, slab.cols, tiles_.seen());
    tile.seen = tiles_.seen();
  }
  for (const Term<A>& term : call.acting) tiles_.add(term, tile, s_.data());
  if (visibility.holes(b_)) {
    visibility.hide(b_, h_, row_ + slab.row, slab.rows, slab.cols, s_.data(), stride_);
  }
  return tile;
}

template <class A>
void BackwardWork<A>::whole_tile(const Slab& slab) {
  const AttentionCall<A>& call = plan_->scores.call;
  const Index dim = call.problem.dim, value_dim = call.problem.value_dim;
  const Tile<A> tile = tile_scores(slab, Products::all);
  TileGrads<A> grads{.d_q = want_q_ ? d_q_.data() + slab.row * dim : nullptr,
                     .d_k = keys_.d_k().data == nullptr ? nullptr : keys_.d_k().row(slab.origin),
                     .d_q_stride = dim,
                     .d_k_stride = keys_.d_k().stride};
  const auto over_terms = [&](const auto& body) {
    for (Index t = 0; t < call.acting.size; ++t) {
      grads.params = want_params_ ? plan_->term_blocks.block(b_, h_, t) : nullptr;
      body(call.acting.terms[size(t)]);
    }
  };
  const attend::ScoreRows<A> scores = score_rows(slab, slab.row, slab.rows);
  attend::probabilities(scores);
  over_terms([&](const Term<A>& term) {
    if (term.add_value_grads == nullptr) return;
    term.add_value_grads(term.self, tile, s_.data(), value_dim, d_out_ + slab.row * value_dim, value_dim, d_p_.data(),
                         grads);
  });
  attend::score_grads(scores);
  over_terms([&](const Term<A>& term) { tiles_.add_grads(term, tile, d_p_.data(), grads); });
  apply_slopes(slab, slab.row, slab.rows);
  over_tile_strips(slab, [&](Index row, Index rows, Columns cols) { query_products(slab, row, rows, cols); });
}

/// dQ += c dX K
template <class A>
void BackwardWork<A>::query_products(const Slab& slab, Index row, Index rows, Columns seen) {
  if (!want_q_) return;
  const Index dim = plan_->scores.call.problem.dim;
  attend::add_product(rows, dim, seen.end - seen.first, plan_->scores.call.scale, at(d_p_, slab, row, seen.first),
                      stride_, keys_.row(seen.first), keys_.row_stride(), d_q_.data() + row * dim, dim);
}

/// dV += Pᵀ dO and dK += c dXᵀ Q, where a row sees a column.
template <class A>
void BackwardWork<A>::key_products(const Slab& slab) {
  if (keys_.d_k().data == nullptr && keys_.d_v().data == nullptr) return;
  const AttentionCall<A>& call = plan_->scores.call;
  const Index dim = call.problem.dim, value_dim = call.problem.value_dim;
  const auto same_rows = [&](Columns x, Index col) {
    const Columns y = rows_that_see(slab, {col, std::min(col + chunk, slab.cols.end)});
    return x.first == y.first && x.end == y.end;
  };
  for (Index col = slab.cols.first; col < slab.cols.end;) {
    const Columns rows = rows_that_see(slab, {col, std::min(col + chunk, slab.cols.end)});
    Index end = col + chunk;
    while (end < slab.cols.end && same_rows(rows, end)) end += chunk;
    end = std::min(end, slab.cols.end);
    const Index cols = end - col, n = rows.end - rows.first;
    if (n > 0 && keys_.d_v().data != nullptr) {
      attend::add_transposed_product(cols, value_dim, n, A{1}, at(s_, slab, rows.first, col), stride_,
                                     d_out_ + rows.first * value_dim, value_dim, keys_.d_v().row(col),
                                     keys_.d_v().stride);
    }
    if (n > 0 && keys_.d_k().data != nullptr) {
      attend::add_transposed_product(cols, dim, n, call.scale, at(d_p_, slab, rows.first, col), stride_,
                                     q_ + rows.first * dim, dim, keys_.d_k().row(col), keys_.d_k().stride);
    }
    col = end;
  }
}

#define BEARING_INSTANTIATE(A) template void BackwardWork<A>::meet(Columns, Products);
BEARING_INSTANTIATE(double)
BEARING_INSTANTIATE(float)
#undef BEARING_INSTANTIATE

}  // namespace bearing
