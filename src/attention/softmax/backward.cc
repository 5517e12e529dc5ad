#include "attention/softmax/backward.hpp"

#include <algorithm>

// Units of work, and the blocks that they are made of.

namespace bearing {

template <class A>
void BackwardWork<A>::open_head(Index b, Index h, bool want_params) {
  parts_.want_params = want_params;
  parts_.biases.open(b, h);
  parts_.d_biases.open(b, want_params);
}

template <class A>
void BackwardWork<A>::block(Index b, Index h, Index row) {
  BackwardQueries<A>& queries = parts_.queries;
  const Columns all = queries.see(b, h, row);
  parts_.open_queries();
  queries.open_grads();
  const Index width = parts_.plan->tile_cols;
  for (Index col = all.first / width * width; col < all.end; col += width) {
    const Columns cols = queries.meeting(col, all);
    if (!cols.empty()) add_grads(parts_, cols);
  }
  queries.close_grads();
}

template <class A>
void BackwardWork<A>::query_block(Index b, Index h, Index row) {
  open_head(b, h, parts_.plan->score_params);
  block(b, h, row);
}

template <class A>
void BackwardWork<A>::queries(Index b, Index h) {
  open_head(b, h, parts_.plan->score_params);
  const Index q_len = parts_.plan->scores.call.problem.q_len;
  for (Index row = 0; row < q_len; row += parts_.plan->rows) block(b, h, row);
  parts_.d_biases.close(b, h);
}

template <class A>
void BackwardWork<A>::head(Index b, Index kv_head) {
  const Index group = parts_.plan->scores.call.group(), k_len = parts_.plan->scores.call.problem.k_len;
  parts_.keys.open_grads(b, kv_head, 0, k_len);
  for (Index h = kv_head * group; h < (kv_head + 1) * group; ++h) queries(b, h);
  parts_.keys.close_grads(b, kv_head, 0, k_len);
}

template <class A>
void BackwardWork<A>::keys(Index b, Index kv_head) {
  const Index k_len = parts_.plan->scores.call.problem.k_len;
  for (Index col = 0; col < k_len; col += parts_.plan->cols) key_block(b, kv_head, col);
}

template <class A>
void BackwardWork<A>::key_block(Index b, Index kv_head, Index col) {
  const BackwardPlan<A>& plan = *parts_.plan;
  const Index group = plan.scores.call.group(), q_len = plan.scores.call.problem.q_len;
  const Index end = std::min(col + plan.cols, plan.scores.call.problem.k_len);
  BackwardQueries<A>& queries = parts_.queries;
  parts_.keys.open_grads(b, kv_head, col, end);
  for (Index h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    open_head(b, h, false);
    for (Index row = 0; row < q_len; row += plan.rows) {
      const Columns cols = queries.meeting(col, queries.see(b, h, row));
      if (cols.empty()) continue;
      parts_.open_queries();
      add_grads(parts_, cols);
    }
  }
  parts_.keys.close_grads(b, kv_head, col, end);
}

template class BackwardWork<double>;
template class BackwardWork<float>;

}  // namespace bearing
