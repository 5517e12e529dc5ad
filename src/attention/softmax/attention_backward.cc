#include <algorithm>
#include <bearing/attention.hpp>

#include "attention/shared/extents.hpp"
#include "attention/shared/schedule.hpp"
#include "attention/softmax/attention_call.hpp"
#include "attention/softmax/backward.hpp"
#include "attention/softmax/backward_checks.hpp"

namespace bearing {

namespace {

constexpr const char* function = "attention_backward";

/// Whether a kv head's gradients should come from the same scores, which takes five products (S, dP, dQ, dK, dV), or
/// those of queries and those of keys each from their own: seven, for S and dP come twice, but in pieces enough for any
/// number of workers. Together is as fast where the last round of heads leaves few enough workers idle.
template <class A>
bool together(const BackwardPlan<A>& plan, const Executor& on) {
  if (!plan.key_side()) return false;
  if (plan.scores.call.whole_rows) return true;  // no block of keys knows its scores alone
  if (!plan.query_side()) return false;
  const Index heads = plan.scores.call.problem.batch * plan.scores.call.problem.kv_heads;
  const Index workers = workers_of(on), rounds = pieces(heads, workers);
  return 5 * rounds * workers <= 7 * heads;
}

template <class A>
void run(BackwardPlan<A>& plan, const Executor& on) {
  using Work = BackwardWork<A>;
  const Problem& problem = plan.scores.call.problem;
  const bool joined = together(plan, on);
  // Where a sum over all of a head has one order, its blocks are no units of their own.
  const bool whole_q = plan.score_params || plan.q_params, whole_k = plan.k_params;
  const Index q_blocks = whole_q ? 1 : plan.row_blocks(), k_blocks = whole_k ? 1 : plan.key_blocks();
  const Index kv_units = problem.batch * problem.kv_heads;
  const Index query_units = plan.query_side() && !joined ? problem.batch * problem.heads * q_blocks : 0;
  const Index key_units = plan.key_side() && !joined ? kv_units * k_blocks : 0;
  const Index units = joined ? kv_units : query_units + key_units;

  const BackwardUnits kind = joined ? BackwardUnits::together : BackwardUnits::apart;
  std::vector<Work> workers = make_workers<Work>(on, units, plan, kind);
  if (!plan.anchors.empty()) {
    const Index blocks = plan.row_blocks();
    share_units(on, workers, problem.batch * problem.heads * blocks, [&](Work& work, Index unit) {
      const Index head = unit / blocks;
      work.anchors(head / problem.heads, head % problem.heads, unit % blocks * plan.rows);
    });
  }
  share_units(on, workers, units, [&](Work& work, Index unit) {
    if (joined) return work.head(unit / problem.kv_heads, unit % problem.kv_heads);
    if (unit < query_units) {
      const Index head = unit / q_blocks, b = head / problem.heads, h = head % problem.heads;
      return whole_q ? work.queries(b, h) : work.query_block(b, h, unit % q_blocks * plan.rows);
    }
    const Index n = unit - query_units, head = n / k_blocks, b = head / problem.kv_heads, h = head % problem.kv_heads;
    whole_k ? work.keys(b, h) : work.key_block(b, h, n % k_blocks * plan.cols);
  });
}

}  // namespace

template <class T, class O>
void attention_backward(const AttentionInputs<T>& in, const std::type_identity_t<AttentionResults<O>>& results,
                        const std::type_identity_t<AttentionGrads<O>>& grads,
                        const std::type_identity_t<TermList<Compute<T>>>& terms,
                        const std::type_identity_t<AttentionOptions<Compute<T>>>& options, const Executor& on) {
  check_not_paged(function, in);
  using A = Compute<T>;
  const AttentionCall<A> call(function, in, terms, options);
  check_results(call, results);
  check_grads(call, results, grads);
  BackwardPlan<A> plan(call, {HeadRows<A>(results.out), HeadRows<A>(results.d_out), results.lse, results.d_lse},
                       {ResultRows<A>(grads.d_q), ResultRows<A>(grads.d_k), ResultRows<A>(grads.d_v)});
  run(plan, on);
  plan.collect();
}

#define BEARING_INSTANTIATE(T, O)                                                                                     \
  template void attention_backward<T, O>(const AttentionInputs<T>&, const std::type_identity_t<AttentionResults<O>>&, \
                                         const std::type_identity_t<AttentionGrads<O>>&,                              \
                                         const std::type_identity_t<TermList<Compute<T>>>&,                           \
                                         const std::type_identity_t<AttentionOptions<Compute<T>>>&, const Executor&);
BEARING_EACH_NUMBER_AND_RESULT(BEARING_INSTANTIATE)
#undef BEARING_INSTANTIATE

}  // namespace bearing
