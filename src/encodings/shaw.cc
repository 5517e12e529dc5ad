#include <algorithm>
#include <bearing/encodings/shaw.hpp>
#include <bearing/error.hpp>

#include "describe/describer.hpp"
#include "terms/relation.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

void check_clip(const char* function, Index clip) {
  if (clip >= 0 && clip <= max_position) return;
  throw RangeError(concat("[", function, "] clip: must be 0 to 2^31, got ", clip));
}

/// A table that all heads share, as a table of one head.
template <class A>
Param<A, 3> shared(Param<A, 2> table) {
  const auto one = []<class T>(View<T, 2> x) {
    return View<T, 3>{x.data, {1, x.shape[0], x.shape[1]}, {0, x.stride[0], x.stride[1]}};
  };
  return {one(table.value), one(table.grad)};
}

template <class A>
void check_table(const char* argument, const Param<A, 3>& table, Index rows) {
  if (table.value.data == nullptr) {
    if (table.grad.data == nullptr) return;
    throw ShapeError(concat("[ShawTerm] ", argument, ".grad: must be empty where the table is left out, shape is ",
                            table.grad.shape));
  }
  if (table.value.shape[1] != rows) {
    throw ShapeError(
        concat("[ShawTerm] ", argument, ": must have 2 * clip + 1 = ", rows, " rows, shape is ", table.value.shape));
  }
  check_features("ShawTerm", argument, table);
}

template <class A>
Index grad_size(const Param<A, 3>& table) {
  return table.grad.data == nullptr ? 0 : table.value.shape[1] * table.value.shape[2];
}

template <class A>
void check_heads(const char* function, const char* argument, const Param<A, 3>& table, Index heads) {
  if (table.value.shape[0] == 1 || table.value.shape[0] == heads) return;
  throw ShapeError(concat("[", function, "] ", argument, ": must be one table for all heads or one for each of ", heads,
                          ", got ", table.value.shape[0]));
}

/// A head's vectors, in the table or in the block of its gradients.
template <class A>
relation::Vectors<const A> vectors_of(const Param<A, 3>& table, Index clip, Index head) {
  return relation::vectors(relation::table_of(table.value, head), -clip, clip, relation::Order::key_minus_query);
}
template <class A>
relation::Vectors<A> grads_of(const Param<A, 3>& table, Index clip, A* block) {
  if (table.grad.data == nullptr || block == nullptr) return {};
  return relation::vectors(dense(block, table.value.shape[1], table.value.shape[2]), -clip, clip,
                           relation::Order::key_minus_query);
}

}  // namespace

Index Shaw::rows() const {
  check_clip("Shaw", clip);
  return 2 * clip + 1;
}

Index Shaw::row(Index distance) const {
  check_clip("Shaw", clip);
  return std::clamp(distance, -clip, clip) + clip;
}

template <class A>
ShawTerm<A>::ShawTerm(const Shaw& shaw, Param<A, 2> key, Param<A, 2> value)
    : ShawTerm(shaw, shared(key), shared(value)) {}

template <class A>
ShawTerm<A>::ShawTerm(const Shaw& shaw, Param<A, 3> key, Param<A, 3> value)
    : clip_(shaw.clip), key_(key), value_(value) {
  check_clip("ShawTerm", clip_);
  if (key.value.data == nullptr && value.value.data == nullptr) {
    throw ShapeError("[ShawTerm] key, value: one of the tables must be given, got neither");
  }
  check_table("key", key_, shaw.rows());
  check_table("value", value_, shaw.rows());
}

template <class A>
void ShawTerm<A>::check(const char* function, const Problem& problem) const {
  check_whole(function, "Shaw", problem);
  const bool scores = problem.dim != 0 || problem.value_dim == 0;
  if (key_.value.data != nullptr && scores) {
    check_heads(function, "Shaw.key", key_, problem.heads);
    check_dim(function, "Shaw.key", key_.value.shape[2], problem);
  }
  if (value_.value.data != nullptr && problem.value_dim != 0) {
    check_heads(function, "Shaw.value", value_, problem.heads);
    if (value_.value.shape[2] != problem.value_dim) {
      throw ShapeError(concat("[", function, "] Shaw.value: must have v's dim of ", problem.value_dim, ", got ",
                              value_.value.shape[2]));
    }
  }
}

template <class A>
void ShawTerm<A>::add_scores(const Tile<A>& tile, A* s) const {
  if (key_.value.data == nullptr) return;
  const auto key = vectors_of(key_, clip_, tile.head);
  relation::over_runs(tile, [&](const relation::Run<A>& run) {
    relation::add_query_scores(run, relation::meet(run, key), {run.tile.q, run.tile.q_stride}, key,
                               s + run.i * tile.stride + run.j, tile.scratch);
  });
}

template <class A>
void ShawTerm<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (key_.value.data == nullptr) return;
  const auto key = vectors_of(key_, clip_, tile.head);
  const auto d_key = grads_of(key_, clip_, grads.params);
  if (d_key.first == nullptr && grads.d_q == nullptr) return;
  relation::over_runs(tile, [&](const relation::Run<A>& run) {
    A* d_q = grads.d_q == nullptr ? nullptr : grads.d_q + run.i * grads.d_q_stride;
    relation::add_query_score_grads(run, relation::meet(run, key), {run.tile.q, run.tile.q_stride}, key,
                                    d_s + run.i * tile.stride + run.j, {d_q, grads.d_q_stride}, d_key, tile.scratch);
  });
}

template <class A>
void ShawTerm<A>::add_values(const Tile<A>& tile, const A* p, Index value_dim, A* o, Index o_stride) const {
  if (value_.value.data == nullptr) return;
  const auto value = vectors_of(value_, clip_, tile.head);
  relation::over_runs(tile, [&](const relation::Run<A>& run) {
    const auto [band, least] = relation::meet(run, value);
    // Probabilities are added up by distance first: o_i += Σ_ρ (Σ_j p_ij) V[ρ].
    std::fill_n(tile.scratch, run.tile.rows * band.width, A{0});
    tiles::scatter_band(run.tile.rows, run.tile.cols, band, p + run.i * tile.stride + run.j, tile.stride, tile.scratch,
                        band.width);
    tiles::add_multiply_nn(run.tile.rows, band.width, value_dim, A{1}, tile.scratch, band.width, value.at(least),
                           value.step, o + run.i * o_stride, o_stride);
  });
}

template <class A>
void ShawTerm<A>::add_value_grads(const Tile<A>& tile, const A* p, Index value_dim, const A* d_o, Index d_o_stride,
                                  A* d_p, const TileGrads<A>& grads) const {
  if (value_.value.data == nullptr) return;
  const auto value = vectors_of(value_, clip_, tile.head);
  const auto d_value = grads_of(value_, clip_, grads.params == nullptr ? nullptr : grads.params + grad_size(key_));
  relation::over_runs(tile, [&](const relation::Run<A>& run) {
    const auto [band, least] = relation::meet(run, value);
    const Index rows = run.tile.rows, cols = run.tile.cols;
    const Index at = run.i * tile.stride + run.j;
    const A* d_o_rows = d_o + run.i * d_o_stride;
    if (d_value.first != nullptr) {  // dV[ρ] += Σ_i (Σ_j p_ij) dO_i
      std::fill_n(tile.scratch, rows * band.width, A{0});
      tiles::scatter_band(rows, cols, band, p + at, tile.stride, tile.scratch, band.width);
      tiles::add_multiply_tn(rows, band.width, value_dim, A{1}, tile.scratch, band.width, d_o_rows, d_o_stride,
                             d_value.at(least), d_value.step);
    }
    if (d_p != nullptr) {  // dp_ij += dO_i · V[ρ]
      tiles::multiply_nt(rows, band.width, value_dim, A{1}, d_o_rows, d_o_stride, value.at(least), value.step,
                         tile.scratch, band.width);
      tiles::add_band(rows, cols, band, tile.scratch, band.width, d_p + at, tile.stride);
    }
  });
}

template <class A>
Index ShawTerm<A>::param_size() const {
  return grad_size(key_) + grad_size(value_);
}

template <class A>
void ShawTerm<A>::collect(Index, Index head, const A* d_params) const {
  if (key_.grad.data != nullptr) relation::collect_rows(d_params, relation::table_of(key_.grad, head));
  if (value_.grad.data != nullptr) {
    relation::collect_rows(d_params + grad_size(key_), relation::table_of(value_.grad, head));
  }
}

template <class A>
Index ShawTerm<A>::scratch_size(Index rows, Index cols) const {
  return relation::product_size(rows, cols, 2 * clip_ + 1);
}

template class ShawTerm<float>;
template class ShawTerm<double>;

void describe_shaw(Describer& to) {
  to.home("shaw", {"Shaw et al.", 2018, "arXiv 1803.02155"});
  to.record("Shaw", Shaw{},
            "Relative position representations: a learned vector for each clipped distance, added to keys and to "
            "values.\n\n"
            "    s_ij <- s_ij + scale q_i K[rho]      o_i <- o_i + sum_j p_ij V[rho]\n"
            "    rho = clip(n - m, -clip, clip) + clip\n\n"
            "Shaw, Uszkoreit, Vaswani 2018, arXiv 1803.02155.")
      .member("clip", &Shaw::clip, "Farther distances share the last row: the paper's k.")
      .method("rows", &Shaw::rows, {}, "Of the tables: 2 clip + 1.")
      .method("row", &Shaw::row, {"distance"}, "The row of a distance, key minus query; far ones share the ends.");
  to.encoding<Shaw, 3, 3>(
        "ShawTerm",
        "Shaw's two sites, scores and values; either table may be left out.\n\n"
        "    s_ij <- s_ij + scale q_i K[rho]      o_i <- o_i + sum_j p_ij V[rho]\n"
        "    rho = clip(n - m, -clip, clip) + clip\n\n"
        "key, value [2 clip + 1, dim], shared by all heads, or [heads, 2 clip + 1, dim]; row 0 is for keys `clip` or\n"
        "more before the query. Positions are whole numbers.\n\nShaw, Uszkoreit, Vaswani 2018, arXiv 1803.02155.",
        {Parameter("key", {or_one("heads"), {"2 clip + 1", &Shaw::rows}, "dim"}, "Vectors that meet the query.")
             .starts(glorot())
             .draws(normal(1))
             .may_be_left_out(),
         Parameter("value", {or_one("heads"), {"2 clip + 1", &Shaw::rows}, "value_dim"},
                   "Vectors that join the values.")
             .starts(glorot())
             .draws(normal(1))
             .may_be_left_out()},
        make_with_spec<ShawTerm>)
      .form(Form::rows_by_index)
      .reads_content()
      .called("shaw", "Shaw's relative positions", "vectors per distance meet queries, and join values",
              [](const ExampleSize&) { return Shaw{}; })
      .also({"shaw_relative", "relative_position_representations"});
}

}  // namespace bearing
