#include <gtest/gtest.h>
#include <bearing/bearing.hpp>

#include "support/failing_allocation.hpp"

namespace bearing {
namespace {

using test::fail_each_allocation;

const Rope plain{.head_dim = 64, .pairing = Pairing::half};
const Rope wide{.head_dim = 1024, .pairing = Pairing::interleaved};  // more scratch than a stack frame offers

TEST(Allocation, ResolvingFailsCleanly) {
  const std::vector<double> factors(32, 2.0);
  const RopeScaling scalings[] = {NoScaling{},
                                  LinearScaling{2},
                                  NtkScaling{2},
                                  DynamicNtkScaling{2, 64},
                                  AlphaScaling{2},
                                  NtkByPartsScaling{.factor = 2, .trained_length = 64},
                                  YarnScaling{.factor = 2, .trained_length = 64},
                                  DeepseekYarnScaling{.factor = 2, .trained_length = 64},
                                  LongRopeScaling{factors, factors, 64, 2},
                                  Llama3Scaling{},
                                  ProportionalScaling{.fraction = 0.5},
                                  ExplicitFrequencies{factors},
                                  FrequencyDivisors{factors}};
  for (const RopeScaling& scaling : scalings) {
    Rope rope = plain;
    rope.scaling = scaling;
    EXPECT_GT(fail_each_allocation(scaling_name(scaling), [&] { resolve(rope, 128); }), 0);
    EXPECT_GT(fail_each_allocation("as_float32", [&] { resolve(rope, 128, Angles::as_float32); }), 0);
    fail_each_allocation("base_gradient", [&] { base_gradient(rope, dense(factors.data(), 32), 128); });
  }
  fail_each_allocation("resolve_explicit", [&] { resolve_explicit(plain, dense(factors.data(), 32)); });
  Rope axes = plain;
  axes.axes = RopeAxes::interleaved({12, 10, 10});
  EXPECT_GT(fail_each_allocation("axes", [&] { resolve(axes); }), 0);
}

TEST(Allocation, BuildingAndCopyingTablesFailsCleanly) {
  EXPECT_GT(fail_each_allocation("full", [] { RopeTable<float>(plain, 100); }), 0);
  EXPECT_GT(fail_each_allocation("full double", [] { RopeTable<double>(plain, 100); }), 0);
  EXPECT_GT(fail_each_allocation("compact", [] { RopeTable<float>(plain, 100'000, {.memory = TableMemory::compact}); }),
            0);
  EXPECT_GT(fail_each_allocation("xpos", [] { XposTable<float>({.rope = plain}, 100); }), 0);
  const std::vector<float> numbers(320, 0.5f);
  EXPECT_GT(fail_each_allocation("from_cos_sin",
                                 [&] {
                                   const auto view = dense(numbers.data(), 10, 32);
                                   RopeTable<float>::from_cos_sin(plain, view, view);
                                 }),
            0);

  const RopeTable<float> table(plain, 100);
  EXPECT_GT(fail_each_allocation("copy", [&] { RopeTable<float> copy(table); }), 0);
  RopeTable<float> assigned(wide, 7);
  const float cos = assigned.cos()(6, 3);
  EXPECT_GT(fail_each_allocation(
                "assignment", [&] { assigned = table; },
                [&] { return assigned.length() == 7 && assigned.cos()(6, 3) == cos; }),
            0);
  EXPECT_EQ(assigned.length(), 100);
  EXPECT_EQ(assigned.cos()(99, 5), table.cos()(99, 5));
}

/// Tensors that must be as they were when a call has failed.
template <class T>
struct Tensors {
  std::vector<T> q = std::vector<T>(6 * 1024), k = std::vector<T>(6 * 1024);
  std::vector<T> q_before, k_before;

  Tensors() {
    for (std::size_t n = 0; n < q.size(); ++n) {
      q[n] = T(static_cast<float>(n % 97));
      k[n] = T(static_cast<float>(n % 89));
    }
    q_before = q, k_before = k;
  }
  View<T, 4> q_view() { return bhtd(q.data(), 1, 2, 3, 1024); }
  View<T, 4> k_view() { return bhtd(k.data(), 1, 2, 3, 1024); }
  bool untouched() const { return q == q_before && k == k_before; }
};

template <class T>
void rotations_fail_cleanly() {
  const RopeTable<Compute<T>> table(wide, 2), compact(wide, 1000, {.memory = TableMemory::compact});
  const RopeFrequencies frequencies = resolve(wide);
  const auto check = [&](const char* name, auto call) {
    Tensors<T> x;
    fail_each_allocation(
        name, [&] { call(x); }, [&] { return x.untouched(); });
    EXPECT_FALSE(x.untouched()) << name << ": with enough memory nothing happened";
  };
  check("rotate", [&](Tensors<T>& x) { rotate(table, x.q_view(), Positions(1)); });
  check("rotate compact", [&](Tensors<T>& x) { rotate(compact, x.q_view(), Positions(1)); });
  check("rotate out of place",
        [&](Tensors<T>& x) { rotate_to(table, View<const T, 4>(x.q_view()), x.k_view(), Positions(1)); });
  check("rotate both", [&](Tensors<T>& x) { rotate(table, x.q_view(), x.k_view(), Positions(1)); });
  check("backward", [&](Tensors<T>& x) { rotate_backward(table, x.q_view(), Positions(1)); });
  check("rebase", [&](Tensors<T>& x) { rebase(frequencies, Positions(1), frequencies, Positions(5), x.k_view()); });
  check("shift", [&](Tensors<T>& x) { shift(frequencies, 5, x.k_view()); });
  check("xpos rebase", [&](Tensors<T>& x) { rebase(Xpos{.rope = wide}, Positions(1), Positions(5), x.k_view()); });
}

TEST(Allocation, RotationsFailBeforeTheyWrite) {
  rotations_fail_cleanly<double>();
  rotations_fail_cleanly<float>();
  rotations_fail_cleanly<Bfloat16>();
  rotations_fail_cleanly<Float16>();
}

TEST(Allocation, FillAndGradientsFailBeforeTheyWrite) {
  const RopeFrequencies frequencies = resolve(plain);
  std::vector<double> cos(320, 9), sin(320, 9), d_theta(32, 9), d_at(10, 9);
  const auto untouched = [&] {
    for (const auto* memory : {&cos, &sin, &d_theta, &d_at}) {
      for (double value : *memory) {
        if (value != 9) return false;
      }
    }
    return true;
  };
  fail_each_allocation(
      "fill", [&] { fill(frequencies, Positions(3), dense(cos.data(), 10, 32), dense(sin.data(), 10, 32)); },
      untouched);
  std::fill(cos.begin(), cos.end(), 9);
  std::fill(sin.begin(), sin.end(), 9);
  const std::vector<double> y(640, 0.5), d_y(640, 0.25);
  EXPECT_GT(fail_each_allocation(
                "gradients",
                [&] {
                  rotate_parameter_gradients(
                      frequencies, bhtd(y.data(), 1, 1, 10, 64), bhtd(d_y.data(), 1, 1, 10, 64), Positions(1),
                      {.inv_freq = dense(d_theta.data(), 32), .positions = dense(d_at.data(), 1, 1, 10)});
                },
                untouched),
            0);
}

TEST(Allocation, AnErrorThatCannotBeWordedIsABadAllocToo) {
  const RopeTable<float> table(plain, 10);
  std::vector<float> x(70);
  for (long n = 0; n < 50; ++n) {
    const long before = living;
    bool out_of_memory = false, worded = false;
    allocations_left = n;
    try {
      rotate(table, bhtd(x.data(), 1, 1, 1, 70), {});
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    } catch (const ShapeError&) {
      worded = true;
    }
    allocations_left = never;
    EXPECT_TRUE(out_of_memory || worded) << n;
    EXPECT_EQ(living, before) << n;
    if (worded) return;
  }
  FAIL() << "never enough memory";
}

}  // namespace
}  // namespace bearing
