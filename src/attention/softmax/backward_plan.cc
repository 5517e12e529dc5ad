#include "attention/softmax/backward_plan.hpp"

#include <algorithm>
#include <type_traits>

#include "attention/amx/amx_grads.hpp"
#include "attention/softmax/softmax_kernels.hpp"

namespace bearing {

namespace {

template <class A>
bool any_params(const TermList<A>& terms) {
  return std::any_of(terms.begin(), terms.end(), [](const Term<A>& term) { return term.param_size > 0; });
}

}  // namespace

// A block of keys, and one of queries, fill 128 KiB for each of their arrays, so that all of them stay in a second
// cache of 1 MiB. A slab is a multiple of a strip, of tiles' too; its rows of d_o stay in the first cache beside its
// scores' columns.
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
  const Index lses = problem.batch * problem.heads * problem.q_len;
  for (Index x = 0; x < lses && anchors.empty(); ++x) {
    const Index head = x / problem.q_len, i = x % problem.q_len;
    if (is_anchored(from.lse(head / problem.heads, head % problem.heads, i))) anchors.resize(size(lses));
  }
  if constexpr (std::is_same_v<A, float>) on_tiles = AmxGrads::serves(*this);
  const Index numbers = Index{128} * 1024 / static_cast<Index>(sizeof(A));
  const Index features = std::max({problem.dim, call.in_dim, problem.value_dim, Index{1}});
  const Index all_cols = round_up(std::max<Index>(problem.k_len, 1), rows_at_once);
  cols = std::min(std::clamp<Index>(numbers / features / rows_at_once * rows_at_once, rows_at_once, 256), all_cols);
  tile_cols = call.whole_rows ? all_cols : cols;
  slab = on_tiles ? 3 * attend::amx::strip_rows : 6 * attend::strip_rows<A>();
  if (call.whole_rows) slab = std::clamp<Index>(65536 / all_cols / 4 * 4, 4, slab);
  rows = slab * std::clamp<Index>(numbers / features / slab, 1, std::max<Index>(288 / slab, 1));
  rows = std::min(rows, std::max<Index>(problem.q_len, 1));
  slab = std::min(slab, rows);
  want_q = grads.d_q.given() || q_params;
  want_k = grads.d_k.given() || k_params;
  want_v = grads.d_v.given();
  if (call.options.sinks.grad.data != nullptr) d_sinks.resize(size(problem.batch * problem.heads * row_blocks()));
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

template struct BackwardPlan<double>;
template struct BackwardPlan<float>;

}  // namespace bearing
