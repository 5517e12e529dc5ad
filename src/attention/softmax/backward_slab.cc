#include "attention/softmax/backward_slab.hpp"

#include <algorithm>

#include "attention/softmax/softmax_kernels.hpp"

namespace bearing {

template <class A>
SlabScores<A>::SlabScores(const BackwardPlan<A>& plan)
    : stride_(plan.tile_cols + 64 / static_cast<Index>(sizeof(A))),  // a line more, so that columns use all of a cache
      s_(size(plan.whole(plan.slab) * stride_)),
      d_p_(s_.size()),
      slopes_(size_if(plan.scores.call.options.soft_cap > 0, plan.slab * stride_)),
      seen_(plan.slab) {}

template <class A>
DiagonalGrads<A>::DiagonalGrads(BackwardPlan<A>& plan) : plan_(&plan) {
  const AttentionCall<A>& call = plan.scores.call;
  if (!plan.score_params || !call.distances_only) return;
  slab_.resize(size(plan.slab + plan.tile_cols + attend::panel_width<A>()));
  head_.resize(size(call.problem.q_len + call.problem.k_len));
}

template <class A>
void DiagonalGrads<A>::open(Index b, bool wanted) {
  wanted_ = wanted && !head_.empty() && plan_->scores.by_diagonal(b);
  if (wanted_) std::fill(head_.begin(), head_.end(), A{0});
}

template <class A>
void DiagonalGrads<A>::close(Index b, Index h) {
  if (!wanted_) return;
  const AttentionCall<A>& call = plan_->scores.call;
  over_diagonals(call, b, [&](Index x, Index n, const double* distances) {
    for (Index t = 0; t < call.acting.size; ++t) {
      const Term<A>& term = call.acting.terms[size(t)];
      A* params = plan_->term_blocks.block(b, h, t);
      if (term.bias_grads == nullptr || params == nullptr) continue;
      term.bias_grads(term.self, h, n, distances, head_.data() + x, params);
    }
  });
}

template <class A>
void DiagonalGrads<A>::open_slab() {
  if (wanted_) std::fill(slab_.begin(), slab_.end(), A{0});
}

/// The slab's diagonal 0 is that of its last row and first column.
template <class A>
void DiagonalGrads<A>::close_slab(const Slab& slab, Index row) {
  if (!wanted_) return;
  const Index last_row = row + slab.rows.end - 1;
  const Index n = slab.rows.end - slab.rows.first - 1 + slab.cols.end - slab.cols.first;
  A* to = head_.data() + (plan_->scores.call.problem.q_len - 1 - last_row + slab.cols.first);
  for (Index x = 0; x < n; ++x) to[x] += slab_[size(x)];
}

#define BEARING_INSTANTIATE(A)  \
  template class SlabScores<A>; \
  template class DiagonalGrads<A>;
BEARING_INSTANTIATE(double)
BEARING_INSTANTIATE(float)
#undef BEARING_INSTANTIATE

}  // namespace bearing
