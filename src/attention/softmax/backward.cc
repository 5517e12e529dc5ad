#include "attention/softmax/backward.hpp"
#include "attention/shared/extents.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "attention/softmax/backward_kernels.hpp"
#include "attention/softmax/softmax_kernels.hpp"

// What a worker does around its tiles: rows of queries and keys come in, sums of gradients go out.

namespace bearing {

namespace {

template <class A>
bool any_params(const TermList<A>& terms) {
  return std::any_of(terms.begin(), terms.end(), [](const Term<A>& term) { return term.param_size > 0; });
}

}  // namespace

// A block of keys, and one of queries, fill 128 KiB for each of their arrays, so that all of them stay in a second
// cache of 1 MiB. A slab is a multiple of a strip; its rows of d_o stay in the first cache beside its scores' columns.
template <class A>
BackwardPlan<A>::BackwardPlan(const AttentionCall<A>& call, const BackwardResults<A>& from, const BackwardGrads<A>& to)
    : results(from),
      grads(to),
      scores(call),
      score_params(any_params(call.acting)),
      q_params(any_params(call.rows)),
      k_params(q_params),
      term_blocks(call.acting, call.problem.batch, call.problem.heads),
      q_blocks(call.rows, call.problem.batch, call.problem.heads),
      k_blocks(call.rows, call.problem.batch, call.problem.kv_heads) {
  const Problem& problem = call.problem;
  const Index numbers = Index{128} * 1024 / static_cast<Index>(sizeof(A));
  const Index features = std::max({problem.dim, call.in_dim, problem.value_dim, Index{1}});
  const Index all_cols = round_up(std::max<Index>(problem.k_len, 1), rows_at_once);
  cols = std::min(std::clamp<Index>(numbers / features / rows_at_once * rows_at_once, rows_at_once, 256), all_cols);
  tile_cols = call.whole_rows ? all_cols : cols;
  slab = 6 * attend::strip_rows<A>();
  if (call.whole_rows) slab = std::clamp<Index>(65536 / all_cols / 4 * 4, 4, slab);
  rows = slab * std::clamp<Index>(numbers / features / slab, 1, std::max<Index>(288 / slab, 1));
  rows = std::min(rows, std::max<Index>(problem.q_len, 1));
  slab = std::min(slab, rows);
  want_q = grads.d_q.given() || q_params;
  want_k = grads.d_k.given() || k_params;
  want_v = grads.d_v.given();
  if (call.options.sinks.grad.data != nullptr) d_sinks.resize(size(problem.batch * problem.heads * row_blocks()));
  const Index lses = problem.batch * problem.heads * problem.q_len;
  for (Index x = 0; x < lses && anchors.empty(); ++x) {
    const Index head = x / problem.q_len, i = x % problem.q_len;
    if (is_anchored(from.lse(head / problem.heads, head % problem.heads, i))) anchors.resize(size(lses));
  }
}

template <class A>
void BackwardPlan<A>::collect() {
  term_blocks.collect();
  q_blocks.collect();
  k_blocks.collect();
  if (d_sinks.empty()) return;
  const Problem& problem = scores.call.problem;
  for (Index h = 0; h < problem.heads; ++h) {
    double sum = 0;
    for (Index b = 0; b < problem.batch; ++b) {
      for (Index n = 0; n < row_blocks(); ++n) sum += d_sinks[size((b * problem.heads + h) * row_blocks() + n)];
    }
    scores.call.options.sinks.grad(h) += static_cast<A>(sum);
  }
}

template <class A>
BackwardWork<A>::BackwardWork(BackwardPlan<A>& plan, BackwardUnits units)
    : plan_(&plan),
      q_rows_(plan.scores.call.q),
      out_rows_(plan.results.out),
      d_out_rows_(plan.results.d_out),
      q_turner_(plan.scores.call.rows, *plan.scores.call.problem.q_positions, Side::query, rows_at_once,
                plan.scores.call.in_dim),
      keys_(plan, units),
      diagonals_(plan.scores),
      tiles_(plan.scores.tiled ? plan.scores.call.acting : TermList<A>{}, plan.scores.call.problem,
             plan.scores.tiled ? TileExtents{plan.slab, plan.tile_cols} : TileExtents{0, 0}, ScoreRoom::in_place,
             RowRoom::none, RowRoom::none),
      stride_(plan.tile_cols + 64 / static_cast<Index>(sizeof(A))) {  // a line more, so that columns use all of a cache
  const AttentionCall<A>& call = plan.scores.call;
  const Problem& problem = call.problem;
  const Index rows = plan.rows, dim = problem.dim, value_dim = problem.value_dim;
  const bool turns = call.rows.size > 0;
  direct_q_ = q_rows_.same() && q_rows_.contiguous();
  direct_d_out_ = d_out_rows_.same() && d_out_rows_.contiguous();
  direct_out_ = out_rows_.same() && out_rows_.plain();
  q_in_ = AlignedArray<A>(rows * call.in_dim);
  q_turned_.resize(size_if(turns, rows * dim));
  d_out_in_ = AlignedArray<A>(rows * value_dim);
  d_q_.resize(size_if(plan.want_q, rows * dim));
  for (std::vector<A>* numbers : {&along_, &log2_sum_}) numbers->resize(size(rows));
  origin_.resize(size_if(!plan.anchors.empty(), rows));
  sees_.resize(size(rows));
  row_first_.resize(size(plan.slab)), row_end_.resize(size(plan.slab));
  s_.resize(size(plan.slab * stride_));
  d_p_.resize(s_.size());
  slopes_.resize(size_if(call.options.soft_cap > 0, plan.slab * stride_));
  const bool diagonals = plan.score_params && call.distances_only;
  slab_diagonals_.resize(size_if(diagonals, plan.slab + plan.tile_cols + attend::panel_width<A>()));
  d_diagonals_.resize(size_if(diagonals, problem.q_len + problem.k_len));
  run_in_.resize(size(rows_at_once * std::max(dim, value_dim)));
  run_out_.resize(size_if(turns, rows_at_once * call.in_dim));
}

template <class A>
void BackwardWork<A>::open_head(Index b, Index h) {
  b_ = b, h_ = h;
  diagonals_.open(b, h);
  std::fill(d_diagonals_.begin(), d_diagonals_.end(), A{0});
}

/// What the diagonals' sums make of the parameters of biases by distance.
template <class A>
void BackwardWork<A>::close_head() {
  if (d_diagonals_.empty() || tiled()) return;
  const AttentionCall<A>& call = plan_->scores.call;
  over_diagonals(call, b_, [&](Index x, Index n, const double* distances) {
    for (Index t = 0; t < call.acting.size; ++t) {
      const Term<A>& term = call.acting.terms[size(t)];
      A* params = plan_->term_blocks.block(b_, h_, t);
      if (term.bias_grads == nullptr || params == nullptr) continue;
      term.bias_grads(term.self, h_, n, distances, d_diagonals_.data() + x, params);
    }
  });
}

template <class A>
Columns BackwardWork<A>::see(Index row) {
  const Problem& problem = plan_->scores.call.problem;
  row_ = row, rows_ = std::min(plan_->rows, problem.q_len - row);
  Columns all{problem.k_len, 0};
  for (Index i = 0; i < rows_; ++i) {
    Columns& sees = sees_[size(i)];
    sees = plan_->scores.visibility.of(b_, row + i);
    const A lse = plan_->results.lse(b_, h_, row + i);
    if (lse == -std::numeric_limits<A>::infinity()) sees = {};
    if (!sees.empty()) all = {std::min(all.first, sees.first), std::max(all.end, sees.end)};
  }
  return all;
}

template <class A>
void BackwardWork<A>::open_queries() {
  const AttentionCall<A>& call = plan_->scores.call;
  const Index dim = call.problem.dim;
  q_in_rows_ = q_rows_.read(direct_q_, b_, h_, row_, rows_, q_in_.data());
  d_out_ = d_out_rows_.read(direct_d_out_, b_, h_, row_, rows_, d_out_in_.data());
  clear_blind_rows();
  q_ = q_in_rows_;
  if (q_turner_.turns()) {
    for (Index i = 0; i < rows_; i += rows_at_once) {
      q_turner_.turn(b_, h_, row_ + i, std::min(rows_at_once, rows_ - i), q_ + i * call.in_dim, call.in_dim,
                     q_turned_.data() + i * dim);
    }
    q_ = q_turned_.data();
  }
}

template <class A>
void BackwardWork<A>::open_rows() {
  open_queries();
  const Index value_dim = plan_->scores.call.problem.value_dim;
  // D_i = d_o_i·o_i − d_lse_i
  for (Index i = 0; i < rows_; i += rows_at_once) {
    const Index n = std::min(rows_at_once, rows_ - i);
    const A* out = out_rows_.read(direct_out_, b_, h_, row_ + i, n, run_in_.data());
    attend::row_products(n, value_dim, d_out_ + i * value_dim, value_dim, out,
                         direct_out_ ? out_rows_.row_stride() : value_dim, along_.data() + i);
  }
  const View<const A, 3>&lse = plan_->results.lse, &d_lse = plan_->results.d_lse;
  anchored_ = false;
  for (Index i = 0; i < rows_; ++i) {
    const A row_lse = lse(b_, h_, row_ + i);
    const bool anchored = is_anchored(row_lse);
    const Anchor<A> at = anchored ? plan_->anchor(b_, h_, row_ + i)
                                  : Anchor<A>{0, std::min(row_lse, 2 * largest_lse<A>) * std::numbers::log2e_v<A>, 0};
    anchored_ = anchored_ || anchored;
    log2_sum_[size(i)] = at.log2_sum;
    if (!origin_.empty()) origin_[size(i)] = at.origin;
    if (d_lse.data != nullptr) along_[size(i)] -= d_lse(b_, h_, row_ + i);
  }
  if (want_q_) std::fill(d_q_.begin(), d_q_.end(), A{0});
}

/// Queries that see nothing count for nothing, whatever they and their gradients hold: wild ones become zeros.
template <class A>
void BackwardWork<A>::clear_blind_rows() {
  const Visibility& visibility = plan_->scores.visibility;
  const Index dim = q_rows_.dim(), value_dim = d_out_rows_.dim();
  for (Index i = 0; i < rows_; ++i) {
    const Columns sees = sees_[size(i)];
    if (!sees.empty() && !visibility.holes(b_)) continue;
    if (!wild(q_in_rows_ + i * dim, dim) && !wild(d_out_ + i * value_dim, value_dim)) continue;
    if (visibility.anything(b_, h_, row_ + i, 1, sees)) continue;
    if (q_in_rows_ != q_in_.data()) std::copy_n(q_in_rows_, rows_ * dim, q_in_.data());
    if (d_out_ != d_out_in_.data()) std::copy_n(d_out_, rows_ * value_dim, d_out_in_.data());
    q_in_rows_ = q_in_.data(), d_out_ = d_out_in_.data();
    std::fill_n(q_in_.data() + i * dim, dim, A{0});
    std::fill_n(d_out_in_.data() + i * value_dim, value_dim, A{0});
  }
}

/// The rows' gradients go back through their encodings, to the caller.
template <class A>
void BackwardWork<A>::close_rows() {
  const AttentionCall<A>& call = plan_->scores.call;
  add_sinks();
  for (Index i = 0; want_q_ && i < rows_; i += rows_at_once) {
    const Index n = std::min(rows_at_once, rows_ - i);
    const A* d_rows = d_q_.data() + i * call.problem.dim;
    if (q_turner_.turns()) {
      q_turner_.turn_grads(b_, h_, row_ + i, n, q_in_rows_ + i * call.in_dim, d_rows, run_out_.data(),
                           [&](Index t) { return plan_->q_blocks.block(b_, h_, t); });
      d_rows = run_out_.data();
    }
    plan_->grads.d_q.store(d_rows, call.in_dim, n, b_, h_, row_ + i);
  }
}

/// p_sink = exp(sink − lse), and no value: d_sink = −Σ_i p_sink (d_o_i·o_i − d_lse_i)
template <class A>
void BackwardWork<A>::add_sinks() {
  if (plan_->d_sinks.empty()) return;
  const Problem& problem = plan_->scores.call.problem;
  const double sink = static_cast<double>(plan_->scores.call.options.sinks.value(h_));
  double sum = 0;
  for (Index i = 0; i < rows_; ++i) {
    const double lse = static_cast<double>(plan_->results.lse(b_, h_, row_ + i));
    if (std::max(sink, lse) == -std::numeric_limits<double>::infinity()) continue;
    const bool anchored = is_anchored(plan_->results.lse(b_, h_, row_ + i));
    // Not below what exp() can do without an error.
    const double p = anchored ? static_cast<double>(plan_->anchor(b_, h_, row_ + i).sink)
                              : std::exp(std::clamp(sink - lse, -700.0, 0.0));
    sum -= p * static_cast<double>(along_[size(i)]);
  }
  plan_->d_sinks[size((b_ * problem.heads + h_) * plan_->row_blocks() + row_ / plan_->rows)] = sum;
}

template <class A>
Columns BackwardWork<A>::meeting(Index col, Columns all) const {
  const Columns cols{std::max(all.first, col), std::min(all.end, col + plan_->tile_cols)};
  if (cols.empty()) return {};
  const Visibility& visibility = plan_->scores.visibility;
  if (visibility.holes(b_) && !visibility.anything(b_, h_, row_, rows_, cols)) return {};
  // Keys that are hidden take part in running sums too.
  return plan_->scores.call.whole_rows ? Columns{0, visibility.existing(b_)} : cols;
}

template <class A>
void BackwardWork<A>::block(Index row) {
  want_q_ = plan_->want_q, want_params_ = plan_->score_params;
  const Columns all = see(row);
  open_rows();
  const Index width = plan_->tile_cols;
  for (Index col = all.first / width * width; col < all.end; col += width) {
    const Columns cols = meeting(col, all);
    if (!cols.empty()) meet(cols, Products::all);
  }
  close_rows();
}

template <class A>
void BackwardWork<A>::query_block(Index b, Index h, Index row) {
  open_head(b, h);
  block(row);
}

template <class A>
void BackwardWork<A>::queries(Index b, Index h) {
  open_head(b, h);
  const Index q_len = plan_->scores.call.problem.q_len;
  for (Index row = 0; row < q_len; row += plan_->rows) block(row);
  close_head();
}

template <class A>
void BackwardWork<A>::head(Index b, Index kv_head) {
  const Index group = plan_->scores.call.group(), k_len = plan_->scores.call.problem.k_len;
  keys_.open_grads(b, kv_head, 0, k_len);
  for (Index h = kv_head * group; h < (kv_head + 1) * group; ++h) queries(b, h);
  keys_.close_grads(b, kv_head, 0, k_len);
}

template <class A>
void BackwardWork<A>::keys(Index b, Index kv_head) {
  const Index k_len = plan_->scores.call.problem.k_len;
  for (Index col = 0; col < k_len; col += plan_->cols) key_block(b, kv_head, col);
}

template <class A>
void BackwardWork<A>::key_block(Index b, Index kv_head, Index col) {
  const Index group = plan_->scores.call.group(), q_len = plan_->scores.call.problem.q_len;
  const Index end = std::min(col + plan_->cols, plan_->scores.call.problem.k_len);
  want_q_ = want_params_ = false;
  keys_.open_grads(b, kv_head, col, end);
  for (Index h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    open_head(b, h);
    for (Index row = 0; row < q_len; row += plan_->rows) {
      const Columns cols = meeting(col, see(row));
      if (cols.empty()) continue;
      open_rows();
      meet(cols, Products::all);
    }
  }
  keys_.close_grads(b, kv_head, col, end);
}

#define BEARING_INSTANTIATE(A)     \
  template struct BackwardPlan<A>; \
  template class BackwardWork<A>;
BEARING_INSTANTIATE(double)
BEARING_INSTANTIATE(float)
#undef BEARING_INSTANTIATE

}  // namespace bearing
