#include <gtest/gtest.h>
#include <bearing/rows.hpp>
#include <bearing/scores.hpp>
#include <vector>

#include "support/failing_allocation.hpp"
#include "support/own_terms.hpp"
#include "support/workers.hpp"

namespace bearing {
namespace {

using test::fail_each_allocation;
using test::Strengths;

constexpr Index heads = 2, q_len = 70, k_len = 140, dim = 3;

/// Tensors that must be as they were when a call has failed; every one that is not contiguous needs room of its own.
struct Tensors {
  std::vector<double> numbers = std::vector<double>(4 * heads * q_len * k_len, 2.0);
  test::Near near{Strengths(heads)};
  test::Content content{Strengths(heads)};
  test::Carried carried{Strengths(heads)};
  test::Ramp ramp{};
  test::Twice twice{Strengths(heads)};

  View<double, 4> tensor(Index number, Index rows, Index cols) {  // columns far apart
    return {numbers.data() + number * heads * q_len * k_len, {1, heads, rows, cols}, {0, rows * cols, 1, rows}};
  }
  bool untouched() const {
    for (const double number : numbers) {
      if (number != 2) return false;
    }
    for (const Strengths* c : {&near.c, &content.c, &carried.c, &ramp.c, &twice.c}) {
      for (const double grad : c->grad) {
        if (grad != 0) return false;
      }
    }
    return true;
  }
};

template <class Call>
void expect_clean_failures(const char* name, const Call& call) {
  Tensors x;
  const long allocations = fail_each_allocation(
      name, [&] { call(x, test::backwards(2)); }, [&] { return x.untouched(); });
  EXPECT_GT(allocations, 0) << name;
  EXPECT_FALSE(x.untouched()) << name << ": with enough memory nothing happened";
}

TEST(Allocation, ScoresAndValuesFailBeforeTheyWrite) {
  const auto inputs = [](Tensors& x) {
    return ScoreInputs<double>{Positions(2), {}, x.tensor(1, q_len, dim), x.tensor(2, k_len, dim)};
  };
  expect_clean_failures("add_scores", [&](Tensors& x, const Executor& on) {
    add_scores(with(x.near, x.content), inputs(x), x.tensor(0, q_len, k_len), on);
  });
  expect_clean_failures("add_scores_backward", [&](Tensors& x, const Executor& on) {
    add_scores_backward(with(x.near, x.content), inputs(x), x.tensor(0, q_len, k_len), {x.tensor(3, q_len, dim), {}},
                        on);
  });
  expect_clean_failures("bias_matrix", [&](Tensors& x, const Executor& on) {
    const View<double, 3> bias{x.numbers.data(), {heads, q_len, k_len}, {1, heads, heads * q_len}};
    bias_matrix(with(x.near), Positions(2), {}, bias, on);
  });
  expect_clean_failures("add_values", [&](Tensors& x, const Executor& on) {
    add_values(with(x.carried), Positions(2), {}, x.tensor(0, q_len, k_len), x.tensor(1, q_len, dim), on);
  });
  expect_clean_failures("add_values_backward", [&](Tensors& x, const Executor& on) {
    add_values_backward(with(x.carried), Positions(2), {}, x.tensor(0, q_len, k_len), x.tensor(1, q_len, dim),
                        x.tensor(2, q_len, k_len), on);
  });
}

TEST(Allocation, RowsFailBeforeTheyWrite) {
  const auto rows = [](Tensors& x) {
    return View<double, 3>{x.numbers.data(), {2, q_len, dim}, {q_len, 1, 2 * q_len}};
  };
  expect_clean_failures("fill", [&](Tensors& x, const Executor& on) { fill(x.ramp, Positions(1), rows(x), on); });
  expect_clean_failures("add", [&](Tensors& x, const Executor& on) { add(x.ramp, Positions(1), rows(x), on); });
  expect_clean_failures("add_backward", [&](Tensors& x, const Executor& on) {
    add_backward(x.ramp, Positions(1), View<const double, 3>(rows(x)), on);
  });
  expect_clean_failures("turn", [&](Tensors& x, const Executor& on) {
    turn(x.twice, Side::query, Positions(1), x.tensor(0, q_len, dim), x.tensor(1, q_len, 2 * dim), on);
  });
  expect_clean_failures("turn_backward", [&](Tensors& x, const Executor& on) {
    turn_backward(x.twice, Side::query, Positions(1), x.tensor(0, q_len, dim), x.tensor(1, q_len, 2 * dim),
                  x.tensor(2, q_len, dim), on);
  });
}

}  // namespace
}  // namespace bearing
