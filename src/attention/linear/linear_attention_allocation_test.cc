#include <gtest/gtest.h>
#include <bearing/linear_attention.hpp>
#include <vector>

#include "support/failing_allocation.hpp"
#include "support/own_terms.hpp"
#include "support/workers.hpp"

namespace bearing {
namespace {

constexpr Index heads = 2, time = 70, dim = 3, value_dim = 2;

/// Tensors, states and a parameter's gradient that must be as they were when a call has failed.
struct Tensors {
  std::vector<double> numbers = std::vector<double>(16 * heads * time * 2 * dim, 2.0);
  test::Twice twice{test::Strengths(heads)};

  View<double, 4> tensor(Index number, Index rows, Index cols) {
    return bhtd(numbers.data() + number * heads * time * 2 * dim, 1, heads, rows, cols);
  }
  LinearState<double> state() {
    const View<double, 4> z = tensor(11, 1, dim);
    return {tensor(10, 2 * dim, value_dim), dense(z.data, 1, heads, dim)};
  }
  LinearAttentionInputs<double> inputs() {
    return {tensor(0, time, dim), tensor(1, time, dim), tensor(2, time, value_dim), Positions(2), Positions(1)};
  }
  bool untouched() const {
    for (const double number : numbers) {
      if (number != 2) return false;
    }
    for (const double grad : twice.c.grad) {
      if (grad != 0) return false;
    }
    return true;
  }
};

template <class Call>
void expect_clean_failures(const char* name, const Call& call) {
  Tensors x;
  const long allocations = test::fail_each_allocation(
      name, [&] { call(x, test::backwards(2)); }, [&] { return x.untouched(); });
  EXPECT_GT(allocations, 0) << name;
  EXPECT_FALSE(x.untouched()) << name << ": with enough memory nothing happened";
}

TEST(LinearAttentionAllocation, FailsBeforeItWrites) {
  const LinearAttentionOptions options{.mask = Mask::causal};
  expect_clean_failures("linear_attention", [&](Tensors& x, const Executor& on) {
    linear_attention<double>(x.inputs(), x.tensor(3, time, value_dim), x.state(), with(x.twice), options, on);
  });
  expect_clean_failures("linear_attention_backward", [&](Tensors& x, const Executor& on) {
    LinearAttentionGrads<double> grads{x.tensor(4, time, dim), x.tensor(5, time, dim), x.tensor(6, time, value_dim)};
    grads.d_state = {x.tensor(7, 2 * dim, value_dim), dense(x.tensor(8, 1, dim).data, 1, heads, dim)};
    linear_attention_backward<double>(x.inputs(), x.tensor(3, time, value_dim), {x.state().s, x.state().z}, grads,
                                      with(x.twice), options, on);
  });
}

}  // namespace
}  // namespace bearing
