#include <algorithm>
#include <bearing/encodings/shaw.hpp>
#include <bearing/error.hpp>

#include "describe/describer.hpp"
#include "terms/checks.hpp"
#include "terms/relation.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

template <class A>
void check_table(const char* argument, const Param<A, 3>& table, Index rows) {
  if (table.value.data == nullptr && table.value.size() == 0) {
    if (table.grad.data == nullptr) return;
    throw ShapeError(concat("[ShawTerm] ", argument, ".grad: must be empty where the table is left out, got shape ",
                            table.grad.shape));
  }
  if (table.value.shape[1] != rows) {
    throw ShapeError(
        concat("[ShawTerm] ", argument, ": must have 2 * clip + 1 = ", rows, " rows, got shape ", table.value.shape));
  }
  check_tensor("ShawTerm", argument, table.value);
  check_features("ShawTerm", argument, table);
}

template <class A>
void check_heads(const char* function, const char* argument, const Param<A, 3>& table, Index heads) {
  if (table.value.shape[0] == 1 || table.value.shape[0] == heads) return;
  throw ShapeError(concat("[", function, "] ", argument, ": must be one table for all heads or one for each of ", heads,
                          ", got ", table.value.shape[0]));
}

}  // namespace

Index Shaw::rows() const {
  check_clip("Shaw", clip);
  return 2 * clip + 1;
}

Index Shaw::row(Index distance) const {
  check_clip("Shaw", clip);
  if (outside == ShawOutside::zero && (distance < -clip || distance > clip)) return -1;
  return std::clamp(distance, -clip, clip) + clip;
}

template <class A>
ShawTerm<A>::ShawTerm(const Shaw& shaw, Param<A, 2> key, Param<A, 2> value)
    : ShawTerm(shaw, Param<A, 3>{relation::shared(key.value), relation::shared(key.grad)},
               Param<A, 3>{relation::shared(value.value), relation::shared(value.grad)}) {}

template <class A>
ShawTerm<A>::ShawTerm(const Shaw& shaw, Param<A, 3> key, Param<A, 3> value) : shaw_(shaw), key_(key), value_(value) {
  check_clip("ShawTerm", shaw.clip);
  if (key.value.data == nullptr && value.value.data == nullptr && key.value.size() == 0 && value.value.size() == 0) {
    throw ShapeError("[ShawTerm] key, value: one of the tables must be given, got neither");
  }
  check_table("key", key_, shaw.rows());
  check_table("value", value_, shaw.rows());
  const auto [in_key, in_value] = grad_block(0, 0).offsets();
  IndexMap map{.zero = shaw.clip, .least = -shaw.clip, .most = shaw.clip};
  if (shaw.outside == ShawOutside::zero) map.from = -shaw.clip, map.to = shaw.clip;
  if (key.value.data != nullptr) scores_.add({.table = key.value, .map = map, .table_block = in_key});
  if (value.value.data != nullptr) values_.add({.table = value.value, .map = map, .table_block = in_value});
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
  relation::add_scores(rows_by_index(), tile, s);
}

template <class A>
void ShawTerm<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  relation::add_score_grads(rows_by_index(), tile, d_s, grads);
}

template <class A>
void ShawTerm<A>::add_values(const Tile<A>& tile, const A* p, Index value_dim, A* o, Index o_stride) const {
  relation::add_values(values_by_index(), tile, p, value_dim, o, o_stride);
}

template <class A>
void ShawTerm<A>::add_value_grads(const Tile<A>& tile, const A* p, Index value_dim, const A* d_o, Index d_o_stride,
                                  A* d_p, const TileGrads<A>& grads) const {
  relation::add_value_grads(values_by_index(), tile, p, value_dim, d_o, d_o_stride, d_p, grads);
}

template <class A>
Index ShawTerm<A>::scratch_size(Index rows, Index cols) const {
  return std::max(relation::scratch_size(rows_by_index(), rows, cols),
                  relation::scratch_size(values_by_index(), rows, cols));
}

template class ShawTerm<float>;
template class ShawTerm<double>;

template <>
struct describe::Words<ShawOutside> {
  static constexpr const char* all[] = {"clip", "zero"};
};

void describe_shaw(Describer& to) {
  to.home("shaw", {"Shaw et al.", 2018, "arXiv 1803.02155"});
  to.record("Shaw", Shaw{},
            "Relative position representations: a learned vector for each clipped distance, added to keys and to "
            "values.\n\n"
            "    s_ij <- s_ij + scale q_i K[rho]      o_i <- o_i + sum_j p_ij V[rho]\n"
            "    rho = clip(n - m, -clip, clip) + clip\n\n"
            "Shaw, Uszkoreit, Vaswani 2018, arXiv 1803.02155.")
      .member("clip", &Shaw::clip, "The farthest distance that has a row of its own: the paper's k.")
      .member("outside", &Shaw::outside, "What is added for farther distances: the last row, or nothing.")
      .method("rows", &Shaw::rows, {}, "Rows of a table: 2 clip + 1.")
      .method("row", &Shaw::row, {"distance"},
              "The row of a distance, key minus query; farther ones share the last rows.");
  const auto dim = [](const Record&, const Sizes& of) { return of.dim == 0 ? Extent::any : of.dim; };
  to.encoding<Shaw, 3, 3>(
        "ShawTerm",
        "Shaw's two sites, scores and values; either table may be left out.\n\n"
        "    s_ij <- s_ij + scale q_i K[rho]      o_i <- o_i + sum_j p_ij V[rho]\n"
        "    rho = clip(n - m, -clip, clip) + clip\n\n"
        "key, value [2 clip + 1, dim], shared by all heads, or [heads, 2 clip + 1, dim]; row 0 is for keys `clip` or\n"
        "more before the query. Positions are whole numbers.\n\nShaw, Uszkoreit, Vaswani 2018, arXiv 1803.02155.",
        {Parameter("key", {or_one("heads"), {"2 clip + 1", &Shaw::rows}, "dim"},
                   "Vectors that the query is multiplied with.")
             .starts(glorot())
             .draws(normal(1))
             .may_be_left_out(),
         Parameter("value", {or_one("heads"), {"2 clip + 1", &Shaw::rows}, usually("value_dim", dim)},
                   "Vectors that are added to the values.")
             .starts(glorot())
             .draws(normal(1))
             .may_be_left_out()},
        make_with_spec<ShawTerm>)
      .form(Form::rows_by_index)
      .needs_one()
      .whole_positions()
      .reads_content()
      .called("shaw", "Shaw's relative positions", "vectors per distance meet queries, and join values",
              [](const ExampleSize&) { return Shaw{}; })
      .also({"shaw_relative", "relative_position_representations", "music_transformer"});
}

}  // namespace bearing
