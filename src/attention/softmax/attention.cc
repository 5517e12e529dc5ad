#include <algorithm>
#include <bearing/attention.hpp>
#include <cmath>
#include <limits>

#include "attention/amx/amx_forward.hpp"
#include "attention/decode/decode.hpp"
#include "attention/shared/extents.hpp"
#include "attention/shared/row_kernels.hpp"
#include "attention/shared/schedule.hpp"
#include "attention/shared/value_turner.hpp"
#include "attention/softmax/attention_call.hpp"
#include "attention/softmax/softmax_forward.hpp"
#include "tensor_checks.hpp"

namespace bearing {

namespace {

/// Divides by the sums of weights, turns back what values were turned by, rounds once, and stores.
template <class A>
void store(const FinishedRows<A>& rows, ValueTurner<A>& turner, const ResultRows<A>& out, View<A, 3> lse) {
  const Index value_dim = out.dim();
  for (Index i = 0; i < rows.rows; ++i) {
    const A divisor = rows.divisor[i], sum = rows.sum[i];
    if (sum != 0) attend::divide(value_dim, divisor, rows.out + i * value_dim);
    if (lse.data == nullptr) continue;
    lse(rows.b, rows.h, rows.row + i) =
        sum == 0 ? -std::numeric_limits<A>::infinity() : rows.max_scale * rows.max[i] + std::log(sum);
  }
  turner.turn(rows.b, rows.h, rows.row, rows.rows, rows.out, value_dim);
  for (Index i = 0; i < rows.rows; ++i) {
    if (rows.sum[i] == 0) std::fill_n(rows.out + i * value_dim, value_dim, A{0});  // no key
  }
  out.store(rows.out, value_dim, rows.rows, rows.b, rows.h, rows.row);
}

/// A worker: its memory and forward of a block of queries, and what turns their results back.
template <class Work, class A>
struct Worker {
  /// Throws std::bad_alloc.
  explicit Worker(const AttentionPlan<A>& plan)
      : work(plan),
        turner(plan.call.value_rows, *plan.call.problem.q_positions, Side::query, plan.call.problem.value_dim) {}

  Work work;
  ValueTurner<A> turner;
};

/// Work: a worker's memory, and its forward of a block of queries.
template <class Work, class A>
void run(const AttentionPlan<A>& plan, const ResultRows<A>& out, View<A, 3> lse, const Executor& on) {
  const Problem& problem = plan.call.problem;
  // A unit is all queries of a kv head, whose keys are packed once; or fewer, if there are not enough for all workers.
  const Index blocks = pieces(problem.q_len, plan.extents.rows);
  const Index heads = problem.batch * problem.kv_heads, head_blocks = plan.call.group() * blocks;
  const Index wanted = on.run == nullptr ? 1 : 4 * workers_of(on);
  const Index parts = std::clamp<Index>(pieces(wanted, heads), 1, head_blocks), units = heads * parts;
  std::vector<Worker<Work, A>> workers = make_workers<Worker<Work, A>>(on, units, plan);
  share_units(on, workers, units, [&](Worker<Work, A>& worker, Index unit) {
    const Index head = unit / parts, part = unit % parts;
    const Index b = head / problem.kv_heads, kv_head = head % problem.kv_heads;
    for (Index n = part * head_blocks / parts; n < (part + 1) * head_blocks / parts; ++n) {
      store(worker.work.block(b, kv_head * plan.call.group() + n / blocks, n % blocks * plan.extents.rows),
            worker.turner, out, lse);
    }
  });
}

template <class A>
void attend_checked(const AttentionCall<A>& call, const ResultRows<A>& out, View<A, 3> lse, const Executor& on) {
  const Problem& problem = call.problem;
  if (problem.batch == 0 || problem.heads == 0 || problem.q_len == 0) return;
  if (problem.value_dim == 0 && lse.data == nullptr) return;  // and nothing bounds how many rows there are
  if (decodes(call)) return decode(call, out, lse, on);
  AttentionPlan<A> plan(call);
  if constexpr (std::is_same_v<A, float>) {
    if (AmxForward::serves(plan)) {
      plan.extents.rows = AmxForward::block_rows(plan);
      return run<AmxForward>(plan, out, lse, on);
    }
  }
  run<ForwardWork<A>>(plan, out, lse, on);
}

}  // namespace

template <class T, class O>
void attention(const AttentionInputs<T>& in, View<O, 4> out, const std::type_identity_t<View<Compute<T>, 3>>& lse,
               const std::type_identity_t<TermList<Compute<T>>>& terms,
               const std::type_identity_t<AttentionOptions<Compute<T>>>& options, const Executor& on) {
  using A = Compute<T>;
  const AttentionCall<A> call("attention", in, terms, options);
  call.check_outputs(out, lse);
  attend_checked(call, ResultRows<A>(out), lse, on);
}

#define BEARING_INSTANTIATE(T, O)                                                  \
  template void attention<T, O>(const AttentionInputs<T>&, View<O, 4>,             \
                                const std::type_identity_t<View<Compute<T>, 3>>&,  \
                                const std::type_identity_t<TermList<Compute<T>>>&, \
                                const std::type_identity_t<AttentionOptions<Compute<T>>>&, const Executor&);
BEARING_EACH_NUMBER_AND_RESULT(BEARING_INSTANTIATE)
#undef BEARING_INSTANTIATE

}  // namespace bearing
