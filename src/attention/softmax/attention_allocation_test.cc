#include <gtest/gtest.h>
#include <bearing/attention.hpp>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <vector>

#include "support/failing_allocation.hpp"
#include "support/own_terms.hpp"
#include "support/workers.hpp"

namespace bearing {
namespace {

using test::fail_each_allocation;
using test::Strengths;

constexpr Index heads = 2, q_len = 70, k_len = 140, dim = 4;

/// Tensors that must be as they were when a call has failed.
template <class T>
struct Tensors {
  using A = Compute<T>;
  std::vector<T> read = std::vector<T>(heads * k_len * dim, T(0.5f)), out = std::vector<T>(5 * read.size(), T(2.0f));
  std::vector<A> statistics = std::vector<A>(heads * q_len, A{2});
  std::vector<A> sinks = std::vector<A>(heads, A{0}), d_sinks = std::vector<A>(heads, A{2});

  View<const T, 4> rows(Index time) const { return bhtd(read.data(), 1, heads, time, dim); }
  View<T, 4> written(Index number, Index time) {  // features far apart
    return {out.data() + number * heads * k_len * dim, {1, heads, time, dim}, {0, time * dim, 1, time}};
  }
  AttentionInputs<T> inputs() const { return {rows(q_len), rows(k_len), rows(k_len), Positions(k_len - q_len)}; }
  AttentionOptions<A> options() {
    AttentionOptions<A> options{.mask = Mask::causal};
    options.sinks = {dense<const A>(sinks.data(), heads), dense(d_sinks.data(), heads)};
    return options;
  }
  View<A, 3> lse() { return dense(statistics.data(), 1, heads, q_len); }

  bool untouched() const {
    for (const T x : out) {
      if (x != T(2.0f)) return false;
    }
    for (const std::vector<A>* numbers : {&statistics, &d_sinks}) {
      for (const A x : *numbers) {
        if (x != A{2}) return false;
      }
    }
    return true;
  }
};

bool no_gradient(const Strengths& c) {
  for (const double grad : c.grad) {
    if (grad != 0) return false;
  }
  return true;
}

template <class T, class Call>
void expect_clean_failures(const char* name, const Call& call) {
  Tensors<T> x;
  const long allocations = fail_each_allocation(
      name, [&] { call(x, test::backwards(2)); }, [&] { return x.untouched(); });
  EXPECT_GT(allocations, 0) << name;
  EXPECT_FALSE(x.untouched()) << name << ": with enough memory nothing happened";
}

TEST(AttentionAllocation, ForwardFailsBeforeItWrites) {
  const AlibiBias<float> alibi(Alibi::published(heads));
  const RopeTable<float> table(Rope{.head_dim = dim, .pairing = Pairing::half}, 200);
  const RotaryRows<float> rope(table);
  for (const TermList<float>& terms : {TermList<float>{}, with(alibi), with(rope), with(rope, alibi)}) {
    expect_clean_failures<float>("float", [&](Tensors<float>& x, const Executor& on) {
      attention(x.inputs(), x.written(0, q_len), x.lse(), terms, x.options(), on);
    });
    expect_clean_failures<Bfloat16>("bf16", [&](Tensors<Bfloat16>& x, const Executor& on) {
      attention(x.inputs(), x.written(0, q_len), x.lse(), terms, x.options(), on);
    });
    // A decode step, whose work is cut over keys.
    expect_clean_failures<float>("decode", [&](Tensors<float>& x, const Executor& on) {
      AttentionInputs<float> in = x.inputs();
      in.q = x.rows(1), in.q_positions = Positions(k_len - 1);
      attention(in, x.written(0, 1), {x.lse().data, {1, heads, 1}, {heads, 1, 1}}, terms, x.options(), on);
    });
  }
}

TEST(AttentionAllocation, OwnEncodingsAndTheirGradientsToo) {
  const test::Near near{Strengths(heads)};
  const test::Content content{Strengths(heads)};
  const test::Suffix suffix;
  const test::Carried carried{Strengths(heads)};
  const test::Twice twice{Strengths(heads)};
  for (const TermList<double>& terms : {with(near), with(twice, content), with(suffix, carried)}) {
    expect_clean_failures<double>("forward", [&](Tensors<double>& x, const Executor& on) {
      attention(x.inputs(), x.written(0, q_len), x.lse(), terms, x.options(), on);
    });
    Tensors<double> x;
    const AttentionResults<double> results{x.rows(q_len), dense<const double>(x.read.data(), 1, heads, q_len),
                                           x.rows(q_len)};
    long calls = 0;
    const long allocations = fail_each_allocation(
        "backward",
        [&] {
          attention_backward(x.inputs(), results, {x.written(0, q_len), x.written(1, k_len), x.written(2, k_len)},
                             terms, x.options(), test::backwards(2));
          ++calls;
        },
        [&] {
          return x.untouched() && (calls > 0 || (no_gradient(near.c) && no_gradient(content.c) &&
                                                 no_gradient(carried.c) && no_gradient(twice.c)));
        });
    EXPECT_GT(allocations, 0);
    EXPECT_FALSE(x.untouched());
    for (const Strengths* c : {&near.c, &content.c, &carried.c, &twice.c}) std::fill(c->grad.begin(), c->grad.end(), 0);
  }
}

TEST(AttentionAllocation, BackwardFailsBeforeItWrites) {
  const AlibiBias<float> alibi(Alibi::published(heads));
  const RopeTable<float> table(Rope{.head_dim = dim, .pairing = Pairing::half}, 200);
  const RotaryRows<float> rope(table);
  const auto backward = [&](auto& x, const TermList<float>& terms, const Executor& on) {
    const std::vector<float> lse(heads * q_len, 5.0f);
    const auto in = x.inputs();
    attention_backward(in, {x.rows(q_len), dense(lse.data(), 1, heads, q_len), x.rows(q_len)},
                       {x.written(0, q_len), x.written(1, k_len), x.written(2, k_len)}, terms, x.options(), on);
  };
  for (const TermList<float>& terms : {TermList<float>{}, with(alibi), with(rope, alibi)}) {
    expect_clean_failures<float>("float", [&](Tensors<float>& x, const Executor& on) { backward(x, terms, on); });
    expect_clean_failures<Bfloat16>("bf16", [&](Tensors<Bfloat16>& x, const Executor& on) { backward(x, terms, on); });
  }
}

TEST(AttentionAllocation, MergingAllocatesNothing) {
  Tensors<float> x;
  const std::vector<float> lse(heads * q_len);
  EXPECT_EQ(fail_each_allocation("merge",
                                 [&] {
                                   merge<float>(x.rows(q_len), dense(lse.data(), 1, heads, q_len), x.written(0, q_len),
                                                x.lse(), test::backwards(2));
                                 }),
            0);
}

}  // namespace
}  // namespace bearing
