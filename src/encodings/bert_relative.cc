#include <algorithm>
#include <bearing/encodings/bert_relative.hpp>
#include <bearing/error.hpp>

#include "terms/relation.hpp"
#include "text.hpp"

namespace bearing {

using relation::Order;
using text::concat;

namespace {

void check(const char* function, const BertRelative& bert) {
  if (bert.max_position_embeddings >= 1 && bert.max_position_embeddings <= max_position) return;
  throw RangeError(
      concat("[", function, "] max_position_embeddings: must be 1 to 2^31, got ", bert.max_position_embeddings));
}

void check(const char* function, const Wav2Vec2BertRelative& clipped) {
  const auto [left, right] = clipped;
  if (left >= 0 && right >= 0 && left <= max_position && right <= max_position) return;
  throw RangeError(concat("[", function, "] left, right: must be 0 to 2^31, got ", left, ", ", right));
}

template <class A>
void check_table(const Param<A, 2>& table, const char* rows_are, Index rows) {
  if (table.value.data == nullptr || table.value.shape[0] != rows) {
    throw ShapeError(concat("[BertRelativeTerm] table: must be [", rows_are, ", dim] = [", rows, ", dim], shape is ",
                            table.value.shape));
  }
  check_features("BertRelativeTerm", "table", table);
}

Order order_of(bool query_minus_key) { return query_minus_key ? Order::query_minus_key : Order::key_minus_query; }

}  // namespace

Index BertRelative::rows() const {
  check("BertRelative", *this);
  return 2 * max_position_embeddings - 1;
}

Index BertRelative::row(Index distance) const {
  check("BertRelative", *this);
  if (distance <= -max_position_embeddings || distance >= max_position_embeddings) {
    throw RangeError(concat("[BertRelative] distance: must be less than max_position_embeddings = ",
                            max_position_embeddings, " either way, got ", distance));
  }
  return max_position_embeddings - 1 - distance;
}

Index Wav2Vec2BertRelative::row(Index distance) const {
  check("Wav2Vec2BertRelative", *this);
  return std::clamp(distance, -left, right) + left;
}

Index Wav2Vec2BertRelative::rows() const {
  check("Wav2Vec2BertRelative", *this);
  return left + right + 1;
}

template <class A>
BertRelativeTerm<A>::BertRelativeTerm(const BertRelative& bert, Param<A, 2> table)
    : query_minus_key_(true), with_keys_(bert.type == BertRelativeType::relative_key_query), table_(table) {
  bearing::check("BertRelativeTerm", bert);
  least_ = 1 - bert.max_position_embeddings;
  most_ = bert.max_position_embeddings - 1;
  check_table(table, "2 max_position_embeddings - 1", bert.rows());
}

template <class A>
BertRelativeTerm<A>::BertRelativeTerm(const Wav2Vec2BertRelative& clipped, Param<A, 2> table)
    : query_minus_key_(false), with_keys_(false), table_(table) {
  bearing::check("BertRelativeTerm", clipped);
  least_ = -clipped.left;
  most_ = clipped.right;
  check_table(table, "left + right + 1", clipped.rows());
}

template <class A>
void BertRelativeTerm<A>::check(const char* function, const Problem& problem) const {
  check_whole(function, "BertRelative", problem);
  check_dim(function, "BertRelative.table", table_.value.shape[1], problem);
  if (!query_minus_key_) return;  // clipped: every distance has a row
  for (Index b = 0; b < problem.batch && problem.q_len > 0 && problem.k_len > 0; ++b) {
    const auto [least, most] = relation::reach(problem, b);
    if (least < least_ || most > most_) {
      throw RangeError(concat("[", function, "] q_positions, k_positions: must be less than max_position_embeddings = ",
                              most_ + 1, " apart for BertRelative, got ", std::max(-least, most)));
    }
  }
}

template <class A>
void BertRelativeTerm<A>::add_scores(const Tile<A>& tile, A* s) const {
  const auto vectors = relation::vectors(table_.value, least_, most_, order_of(query_minus_key_));
  relation::over_runs(tile, [&](const relation::Run<A>& run) {
    const relation::Meeting met = relation::meet(run, vectors);
    A* to = s + run.i * tile.stride + run.j;
    relation::add_query_scores(run, met, {run.tile.q, run.tile.q_stride}, vectors, to, tile.scratch);
    if (!with_keys_) return;
    const Index width = met.band.width;
    tiles::multiply_nt(run.tile.cols, width, tile.dim, tile.scale, run.tile.k, tile.k_stride, vectors.at(met.least),
                       vectors.step, tile.scratch, width);
    tiles::add_key_band(run.tile.rows, run.tile.cols, met.band, tile.scratch, width, to, tile.stride);
  });
}

template <class A>
void BertRelativeTerm<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  const Order order = order_of(query_minus_key_);
  const auto vectors = relation::vectors(table_.value, least_, most_, order);
  relation::Vectors<A> d_vectors;
  if (grads.params != nullptr) {
    d_vectors =
        relation::vectors(dense(grads.params, table_.value.shape[0], table_.value.shape[1]), least_, most_, order);
  }
  relation::over_runs(tile, [&](const relation::Run<A>& run) {
    const relation::Meeting met = relation::meet(run, vectors);
    const A* from = d_s + run.i * tile.stride + run.j;
    A* d_q = grads.d_q == nullptr ? nullptr : grads.d_q + run.i * grads.d_q_stride;
    relation::add_query_score_grads(run, met, {run.tile.q, run.tile.q_stride}, vectors, from, {d_q, grads.d_q_stride},
                                    d_vectors, tile.scratch);
    if (!with_keys_) return;
    const Index cols = run.tile.cols, width = met.band.width;
    std::fill_n(tile.scratch, cols * width, A{0});
    tiles::scatter_key_band(run.tile.rows, cols, met.band, from, tile.stride, tile.scratch, width);
    if (grads.d_k != nullptr) {  // d_k_j += scale Σ_i dS_ij E[ρ]
      tiles::add_multiply_nn(cols, width, tile.dim, tile.scale, tile.scratch, width, vectors.at(met.least),
                             vectors.step, grads.d_k + run.j * grads.d_k_stride, grads.d_k_stride);
    }
    if (d_vectors.first != nullptr) {  // dE[ρ] += scale Σ dS_ij k_j
      tiles::add_multiply_tn(cols, width, tile.dim, tile.scale, tile.scratch, width, run.tile.k, tile.k_stride,
                             d_vectors.at(met.least), d_vectors.step);
    }
  });
}

template <class A>
void BertRelativeTerm<A>::collect(Index, Index, const A* d_params) const {
  relation::collect_rows(d_params, table_.grad);
}

template <class A>
Index BertRelativeTerm<A>::scratch_size(Index rows, Index cols) const {
  const Index operands = with_keys_ ? std::max(rows, cols) : rows;
  return operands * std::min(rows + cols - 1, table_.value.shape[0]);
}

template class BertRelativeTerm<float>;
template class BertRelativeTerm<double>;

}  // namespace bearing
