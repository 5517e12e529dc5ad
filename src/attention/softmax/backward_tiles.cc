#include "attention/softmax/backward_tiles.hpp"

#include <algorithm>
#include <numbers>

#include "attention/softmax/backward_kernels.hpp"
#include "attention/softmax/softmax_kernels.hpp"

namespace bearing {

namespace {

template <class A>
std::unique_ptr<AmxGrads> amx_grads(const BackwardPlan<A>& plan, BackwardUnits units) {
  if constexpr (std::is_same_v<A, float>) {
    const Index keys = units == BackwardUnits::together ? plan.scores.call.problem.k_len : plan.cols;
    if (plan.on_tiles) return std::make_unique<AmxGrads>(plan, keys);
  }
  return nullptr;
}

}  // namespace

template <class A>
BackwardParts<A>::BackwardParts(BackwardPlan<A>& of, BackwardUnits units)
    : plan(&of),
      amx(amx_grads(of, units)),
      queries(of),
      keys(of, units, amx.get()),
      scores(of),
      biases(of.scores),
      d_biases(of),
      tiles(of.scores.tiled ? of.scores.call.acting : TermList<A>{}, of.scores.call.problem,
            of.scores.tiled ? TileExtents{of.slab, of.tile_cols} : TileExtents{0, 0}, ScoreRoom::in_place,
            RowRoom::none, RowRoom::none) {}

namespace {

/// What is computed of a tile: scores alone, or the gradients of probabilities too.
enum class Products { scores, all };

/// Columns whose rows are told apart where a mask cuts through them: a multiple of what products hold in registers.
constexpr Index chunk = 24;

/// body(slab) for the slabs of the block of queries that see any of the keys, their scores' room open.
template <class A, class Body>
void over_slabs(BackwardParts<A>& of, Columns cols, const Body& body) {
  const Index rows = of.queries.rows();
  const Index panel = std::max(attend::panel_width<A>(), of.plan->on_tiles ? attend::amx::padded(1) : 1);
  for (Index i = 0; i < rows; i += of.plan->slab) {
    Slab slab{{i, std::min(i + of.plan->slab, rows)}, cols};
    const Columns seen = of.queries.seen_by(slab.rows, cols);
    if (seen.empty()) continue;
    if (!of.tiled()) slab.cols = seen;
    slab.cols.first = slab.cols.first / panel * panel;
    of.scores.open(slab);
    body(slab);
  }
}

/// body(rows) for the strips of a slab.
template <class A, class Body>
void over_strips(const Slab& slab, const Body& body) {
  const Index strip = attend::strip_rows<A>();
  for (Index row = slab.rows.first; row < slab.rows.end; row += strip) {
    body(Columns{row, std::min(row + strip, slab.rows.end)});
  }
}

/// body(rows, cols) for the slab's strips and what each block of keys, which is then open, has of its columns.
template <class A, class Body>
void over_tile_strips(BackwardParts<A>& of, const Slab& slab, const Body& body) {
  const Index width = of.plan->cols;
  for (Index col = slab.cols.first / width * width; col < slab.cols.end; col += width) {
    of.open_keys(col);
    const Columns cols = common(slab.cols, {col, col + width});
    over_strips<A>(slab, [&](Columns rows) { body(rows, cols); });
  }
}

/// S = c Q Kᵀ and dP = dO Vᵀ of a strip, for columns in the block of keys that is open.
template <class A>
void strip_products(BackwardParts<A>& of, Columns rows, Columns seen, Products wanted) {
  const AttentionPlan<A>& plan = of.plan->scores;
  const Index panel = attend::panel_width<A>(), dim = plan.call.problem.dim, value_dim = plan.call.problem.value_dim;
  const Index origin = std::max(of.scores.slab().cols.first, of.keys.first()), n = rows.end - rows.first;
  const Index first = (seen.first - origin) / panel * panel, end = seen.end - origin;
  attend::scores(n, first, end, dim, plan.scale_factors(of.queries.b()).products, of.queries.q(rows.first), dim,
                 of.keys.packed(origin), of.scores.s(rows.first, origin), of.scores.stride());
  if (wanted == Products::scores) return;
  attend::scores(n, first, end, value_dim, A{1}, of.queries.d_out(rows.first), value_dim, of.keys.packed_values(origin),
                 of.scores.d_p(rows.first, origin), of.scores.stride());
}

/// s = cap · tanh(x / cap), and its slope 1 − (s / cap)², for whole panels.
template <class A>
void cap(BackwardParts<A>& of, Columns rows, Columns seen) {
  const auto cap = static_cast<A>(of.plan->scores.call.options.soft_cap);
  if (!(cap > 0)) return;
  const Index panel = attend::panel_width<A>(), first = seen.first / panel * panel, n = seen.end - first;
  attend::cap(rows.end - rows.first, Index{0}, n, cap, of.scores.s(rows.first, first), of.scores.stride());
  const A part = 1 / cap;
  for (Index i = rows.first; i < rows.end; ++i) {
    const A* s = of.scores.s(i, first);
    A* slope = of.scores.slope(i, first);
    for (Index j = 0; j < n; ++j) slope[j] = 1 - (part * s[j]) * (part * s[j]);
  }
}

/// dX = dS ∘ cap'(X)
template <class A>
void apply_slopes(BackwardParts<A>& of, Columns rows) {
  if (!(of.plan->scores.call.options.soft_cap > 0)) return;
  for (Index i = rows.first; i < rows.end; ++i) {
    const Columns seen = common(of.queries.sees(i), of.scores.slab().cols);
    if (seen.empty()) continue;
    A* d_s = of.scores.d_p(i, seen.first);
    const A* slope = of.scores.slope(i, seen.first);
    for (Index j = 0; j < seen.end - seen.first; ++j) d_s[j] *= slope[j];
  }
}

template <class A>
void hide(BackwardParts<A>& of, Columns rows, Columns seen) {
  const Visibility& visibility = of.plan->scores.visibility;
  const Index b = of.queries.b();
  if (!visibility.holes(b)) return;
  visibility.hide(b, of.queries.h(), of.queries.row() + rows.first, rows.end - rows.first, seen,
                  of.scores.s(rows.first, seen.first), of.scores.stride());
}

/// The scores of a strip that only products and diagonals make.
template <class A>
void strip_scores(BackwardParts<A>& of, Columns rows, Columns seen, Products wanted) {
  if (seen.empty()) return;
  strip_products(of, rows, seen, wanted);
  cap(of, rows, seen);
  hide(of, rows, seen);
}

/// Rows of the slab as kernels take them. Without their bias.
template <class A>
attend::ScoreRows<A> score_rows(BackwardParts<A>& of, Columns rows) {
  const Columns cols = of.scores.slab().cols;
  const RowNumbers<A> numbers = of.queries.numbers(rows.first);
  RowRuns& runs = of.scores.seen();
  for (Index i = rows.first; i < rows.end; ++i) runs.put(i - rows.first, of.queries.sees(i), cols, cols.first);
  return {.rows = rows.end - rows.first,
          .first = 0,
          .end = of.plan->whole(cols.end - cols.first),  // what is hidden is 0 up to there
          .row_first = runs.first.data(),
          .row_end = runs.end.data(),
          .s = of.scores.s(rows.first, cols.first),
          .d_p = of.scores.d_p(rows.first, cols.first),
          .stride = of.scores.stride(),
          .log2_scale = of.plan->scores.scale_factors(of.queries.b()).logits * std::numbers::log2e_v<A>,
          .origin = numbers.origin,
          .log2_sum = numbers.log2_sum,
          .along = numbers.along};
}

/// dQ += c dX K
template <class A>
void query_products(BackwardParts<A>& of, Columns rows, Columns seen) {
  A* d_q = of.queries.d_q(rows.first);
  if (d_q == nullptr || seen.empty()) return;
  const AttentionCall<A>& call = of.plan->scores.call;
  const Index dim = call.problem.dim;
  attend::add_product(rows.end - rows.first, dim, seen.end - seen.first, call.scale,
                      of.scores.d_p(rows.first, seen.first), of.scores.stride(), of.keys.row(seen.first),
                      of.keys.row_stride(), d_q, dim);
}

/// dV += Pᵀ dO and dK += c dXᵀ Q, where a row sees a column.
template <class A>
void key_products(BackwardParts<A>& of, const Slab& slab) {
  const GradRows<A>&d_k = of.keys.d_k(), &d_v = of.keys.d_v();
  if (d_k.data == nullptr && d_v.data == nullptr) return;
  const AttentionCall<A>& call = of.plan->scores.call;
  const Index dim = call.problem.dim, value_dim = call.problem.value_dim;
  const auto rows_of = [&](Index col) {
    return of.queries.that_see(slab.rows, {col, std::min(col + chunk, slab.cols.end)});
  };
  for (Index col = slab.cols.first; col < slab.cols.end;) {
    const Columns rows = rows_of(col);
    const auto same_rows = [&](Columns x) { return x.first == rows.first && x.end == rows.end; };
    Index end = col + chunk;
    while (end < slab.cols.end && same_rows(rows_of(end))) end += chunk;
    end = std::min(end, slab.cols.end);
    const Index cols = end - col, n = rows.end - rows.first;
    if (n > 0 && d_v.data != nullptr) {
      attend::add_transposed_product(cols, value_dim, n, A{1}, of.scores.s(rows.first, col), of.scores.stride(),
                                     of.queries.d_out(rows.first), value_dim, d_v.row(col), d_v.stride);
    }
    if (n > 0 && d_k.data != nullptr) {
      attend::add_transposed_product(cols, dim, n, call.scale, of.scores.d_p(rows.first, col), of.scores.stride(),
                                     of.queries.q(rows.first), dim, d_k.row(col), d_k.stride);
    }
    col = end;
  }
}

/// S = c Q Kᵀ and dP = dO Vᵀ of a slab; matrix tiles always make both.
template <class A>
void slab_products(BackwardParts<A>& of, const Slab& slab, Products wanted) {
  if constexpr (std::is_same_v<A, float>) {
    if (of.amx != nullptr) {
      of.open_keys(slab.cols.first);
      const Index first = slab.rows.first, col = slab.cols.first;
      return of.amx->scores(slab.rows, slab.cols, of.plan->scores.scale_factors(of.queries.b()).products,
                            of.scores.s(first, col), of.scores.d_p(first, col), of.scores.stride());
    }
  }
  over_tile_strips(of, slab, [&](Columns rows, Columns cols) { strip_products(of, rows, cols, wanted); });
}

/// What a slab's scores give to gradients of queries, keys and values.
template <class A>
void slab_grads(BackwardParts<A>& of, const Slab& slab) {
  if constexpr (std::is_same_v<A, float>) {
    if (of.amx != nullptr) {
      const Index first = slab.rows.first, col = slab.cols.first;
      return of.amx->add_grads(slab.rows, slab.cols, of.scores.s(first, col), of.scores.d_p(first, col),
                               of.scores.stride(), of.queries.d_q(first), of.keys.d_k().data != nullptr,
                               of.keys.d_v().data != nullptr);
    }
  }
  over_tile_strips(of, slab, [&](Columns rows, Columns cols) { query_products(of, rows, cols); });
  key_products(of, slab);
}

/// Scores by products and diagonals alone, strip by strip.
template <class A>
void strips(BackwardParts<A>& of, const Slab& slab) {
  of.open_keys(slab.cols.first);
  of.d_biases.open_slab();
  over_strips<A>(slab, [&](Columns rows) {
    const Columns seen = of.queries.seen_by(rows, slab.cols);
    strip_scores(of, rows, seen, Products::all);
    attend::ScoreRows<A> scores = score_rows(of, rows);
    scores.bias = of.biases.at(of.queries.row() + rows.first, slab.cols.first);
    if (of.d_biases.wanted()) scores.d_bias = of.d_biases.at(slab, rows.first);
    attend::probabilities(scores);
    attend::score_grads(scores);
    apply_slopes(of, rows);
    query_products(of, rows, seen);
  });
  key_products(of, slab);
  of.d_biases.close_slab(slab, of.queries.row());
}

/// The same on matrix tiles, the slab at once; then all products.
template <class A>
void slab_on_tiles(BackwardParts<A>& of, const Slab& slab) {
  of.d_biases.open_slab();
  slab_products(of, slab, Products::all);
  cap(of, slab.rows, slab.cols);
  hide(of, slab.rows, slab.cols);
  attend::ScoreRows<A> scores = score_rows(of, slab.rows);
  scores.bias = of.biases.at(of.queries.row() + slab.rows.first, slab.cols.first);
  if (of.d_biases.wanted()) scores.d_bias = of.d_biases.at(slab, slab.rows.first);
  attend::probabilities(scores);
  attend::score_grads(scores);
  apply_slopes(of, slab.rows);
  slab_grads(of, slab);
  of.d_biases.close_slab(slab, of.queries.row());
}

/// Scores of a whole tile, with terms that look at all of it. Returns the tile that they were given.
template <class A>
Tile<A> tile_scores(BackwardParts<A>& of, const Slab& slab, Products wanted) {
  const AttentionCall<A>& call = of.plan->scores.call;
  const BackwardQueries<A>& queries = of.queries;
  const Index dim = call.problem.dim, first = slab.rows.first, row = queries.row() + first;
  slab_products(of, slab, wanted);
  cap(of, slab.rows, slab.cols);

  Tile<A> tile = of.tiles.open(call.problem, queries.b(), queries.h(), row, slab.cols.first);
  tile.rows = slab.rows.end - first, tile.cols = slab.cols.end - slab.cols.first, tile.stride = of.scores.stride();
  tile.q = queries.q(first), tile.q_stride = dim;
  if (of.amx == nullptr) tile.k = of.keys.row(slab.cols.first), tile.k_stride = of.keys.row_stride();
  tile.scale = call.scale;
  if (call.whole_rows) {
    of.plan->scores.visibility.mark_tile(queries.b(), queries.h(), row, tile.rows, slab.cols, of.tiles.seen(),
                                         tile.cols);
    tile.seen = of.tiles.seen();
  }
  for (const Term<A>& term : call.acting) of.tiles.add(term, tile, of.scores.s(first, slab.cols.first));
  hide(of, slab.rows, slab.cols);
  return tile;
}

/// The gradients of a slab with terms that act on tiles.
template <class A>
void whole_tile(BackwardParts<A>& of, const Slab& slab) {
  const AttentionCall<A>& call = of.plan->scores.call;
  const Index first = slab.rows.first, col = slab.cols.first, value_dim = call.problem.value_dim;
  const Tile<A> tile = tile_scores(of, slab, Products::all);
  TileGrads<A> grads{.d_q = of.queries.d_q(first),
                     .d_k = of.amx != nullptr || of.keys.d_k().data == nullptr ? nullptr : of.keys.d_k().row(col),
                     .d_q_stride = call.problem.dim,
                     .d_k_stride = of.keys.d_k().stride};
  const auto over_terms = [&](const auto& body) {
    for (Index t = 0; t < call.acting.size; ++t) {
      const bool wanted = of.want_params;
      grads.params = wanted ? of.plan->term_blocks.block(of.queries.b(), of.queries.h(), t) : nullptr;
      body(call.acting.terms[size(t)]);
    }
  };
  const attend::ScoreRows<A> scores = score_rows(of, slab.rows);
  attend::probabilities(scores);
  over_terms([&](const Term<A>& term) {
    if (term.add_value_grads == nullptr) return;
    term.add_value_grads(term.self, tile, scores.s, value_dim, of.queries.d_out(first), value_dim, scores.d_p, grads);
  });
  attend::score_grads(scores);
  over_terms([&](const Term<A>& term) { of.tiles.add_grads(term, tile, scores.d_p, grads); });
  apply_slopes(of, slab.rows);
  slab_grads(of, slab);
}

/// Rows take up their scores.
template <class A>
void weigh(BackwardParts<A>& of, Columns rows, const A* bias) {
  const RowNumbers<A> numbers = of.queries.numbers(rows.first);
  const attend::ScoreRows<A> scores = score_rows(of, rows);
  attend::weigh<A>({.rows = scores.rows,
                    .first = scores.first,
                    .end = scores.end,
                    .row_first = scores.row_first,
                    .row_end = scores.row_end,
                    .s = scores.s,
                    .stride = scores.stride,
                    .log2_scale = scores.log2_scale,
                    .bias = bias,
                    .max = numbers.origin,
                    .sum = numbers.log2_sum,
                    .rescale = numbers.along});
}

}  // namespace

template <class A>
void add_grads(BackwardParts<A>& of, Columns cols) {
  over_slabs(of, cols, [&](const Slab& slab) {
    if (of.tiled()) {
      whole_tile(of, slab);
    } else if (of.amx != nullptr) {
      slab_on_tiles(of, slab);
    } else {
      strips(of, slab);
    }
  });
}

template <class A>
void add_weights(BackwardParts<A>& of, Columns cols) {
  over_slabs(of, cols, [&](const Slab& slab) {
    bool wanted = false;
    for (Index i = slab.rows.first; i < slab.rows.end; ++i) wanted = wanted || of.queries.anchored(i);
    if (!wanted) return;
    if (of.tiled()) {
      tile_scores(of, slab, Products::scores);
      return weigh(of, slab.rows, static_cast<const A*>(nullptr));
    }
    of.open_keys(slab.cols.first);
    over_strips<A>(slab, [&](Columns rows) {
      strip_scores(of, rows, of.queries.seen_by(rows, slab.cols), Products::scores);
      weigh(of, rows, of.biases.at(of.queries.row() + rows.first, slab.cols.first));
    });
  });
}

#define BEARING_INSTANTIATE(A)                         \
  template struct BackwardParts<A>;                    \
  template void add_grads(BackwardParts<A>&, Columns); \
  template void add_weights(BackwardParts<A>&, Columns);
BEARING_INSTANTIATE(double)
BEARING_INSTANTIATE(float)
#undef BEARING_INSTANTIATE

}  // namespace bearing
