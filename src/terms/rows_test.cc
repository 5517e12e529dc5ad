#include <gtest/gtest.h>
#include <bearing/error.hpp>
#include <bearing/rows.hpp>
#include <vector>

#include "support/errors.hpp"
#include "support/guarded.hpp"
#include "support/own_terms.hpp"
#include "support/workers.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Guarded;
using test::Layout;
using test::Ramp;
using test::Strengths;
using test::Twice;

constexpr Index batch = 2, heads = 3, time = 131, dim = 3;
/// Sums of up to 2 · 131 · 3 products of numbers below 150: an error of 2^-53 of some 10^5.
constexpr double row_tolerance = 1e-9;

/// The first head of a tensor of one head: [batch, time, dim].
template <class T>
View<T, 3> rows_of(View<T, 4> x) {
  return {x.data, {x.shape[0], x.shape[2], x.shape[3]}, {x.stride[0], x.stride[2], x.stride[3]}};
}

TEST(InputRows, AreFilledAndAddedInEveryLayoutForAnyExecutor) {
  const Ramp ramp;
  const std::vector<Index> firsts{5, -9};
  const Positions at = Positions::starting_at({firsts.data(), {batch}, {1}});
  test::Workers three(3);
  for (const Executor& on : {Executor{}, Executor(three), test::backwards(4)}) {
    for (const Layout layout : test::writable_layouts) {
      SCOPED_TRACE(test::name(layout));
      Guarded<double> x({batch, 1, time, dim}, layout);
      const auto p = [&](Index b, Index t, Index d) { return ramp.c[0] * (at.real(0, b, t) + static_cast<double>(d)); };
      fill(ramp, at, rows_of(x.view()), on);
      x.for_each([&](Index b, Index, Index t, Index d) { ASSERT_EQ(x.view()(b, 0, t, d), p(b, t, d)); });
      add(ramp, at, rows_of(x.view()), on);
      x.for_each([&](Index b, Index, Index t, Index d) { ASSERT_EQ(x.view()(b, 0, t, d), 2 * p(b, t, d)); });
      EXPECT_TRUE(x.guards_intact());

      test::Random random(2);
      x.fill(random);
      double d_c = 0;
      x.for_each([&](Index b, Index, Index t, Index d) { d_c += x.view()(b, 0, t, d) * p(b, t, d) / ramp.c[0]; });
      ramp.c.grad[0] = 1;
      add_backward(ramp, at, rows_of(x.read()), on);
      EXPECT_NEAR(ramp.c.grad[0], 1 + d_c, row_tolerance);
    }
  }
}

TEST(InputRows, OfOneSequenceAreThoseOfABatchOfOne) {
  const Ramp ramp;
  std::vector<double> one(12), batched(12);
  fill(ramp, Positions(3), dense(one.data(), 4, 3));
  fill(ramp, Positions(3), dense(batched.data(), 1, 4, 3));
  EXPECT_EQ(one, batched);
  add(ramp, Positions(3), dense(one.data(), 4, 3));
  add(ramp, Positions(3), dense(batched.data(), 1, 4, 3));
  EXPECT_EQ(one, batched);
  add_backward(ramp, Positions(3), dense<const double>(one.data(), 4, 3));
  const double grad = ramp.c.grad[0];
  ramp.c.grad[0] = 0;
  add_backward(ramp, Positions(3), dense<const double>(batched.data(), 1, 4, 3));
  EXPECT_NE(grad, 0);
  EXPECT_EQ(ramp.c.grad[0], grad);
}

TEST(InputRows, EmptyExtentsAreServed) {
  const Ramp ramp, none{.numbers = 0};
  fill(ramp, {}, dense<double>(nullptr, 0, 4, 3));
  fill(ramp, {}, dense<double>(nullptr, 2, 0, 3));
  fill(none, {}, dense<double>(nullptr, 2, 4, 0));
  add(none, {}, dense<double>(nullptr, 2, 4, 0));
  add_backward(ramp, {}, dense<const double>(nullptr, 2, 0, 3));
  add_backward(none, {}, dense<const double>(nullptr, 2, 4, 0));
}

TEST(InputRows, WrongCallsAreRefusedBeforeAnythingIsWritten) {
  const Ramp ramp;
  std::vector<double> memory(60, 1.0);
  const auto wrong = [&](View<double, 3> x, const Positions& at, const std::string& text) {
    expect_error<ShapeError>([&] { fill(ramp, at, x); }, "[fill] rows: " + text);
    expect_error<ShapeError>([&] { add(ramp, at, x); }, "[add] x: " + text);
    EXPECT_EQ(memory, std::vector<double>(60, 1.0));
  };
  const auto good = dense(memory.data(), 2, 4, 3);
  wrong(dense<double>(nullptr, 2, 4, 3), {}, "must have memory, got a null pointer; shape is [2, 4, 3]");
  wrong(dense(memory.data(), -2, -4, 3), {}, "must have extents of at least 0, got shape [-2, -4, 3]");
  wrong(dense(memory.data(), 2, 4, 5), {}, "must be [batch, time, dim] with dim = 3, got shape [2, 4, 5]");
  wrong({memory.data(), {2, 4, 3}, {0, 3, 1}}, {},
        "no two elements may share memory, got strides [0, 3, 1] for shape [2, 4, 3]");
  wrong({memory.data(), {2, 4, 3}, {12, 2, 1}}, {},
        "no two elements may share memory, got strides [12, 2, 1] for shape [2, 4, 3]");
  expect_error<ShapeError>([&] { fill(ramp, Positions(dense(memory.data(), 0, 2, 4)), good); },
                           "[fill] positions: must have 1 to 4 axes, got 0");
  expect_error<ShapeError>([&] { fill(ramp, Positions(dense(memory.data(), 5, 2, 4)), good); },
                           "[fill] positions: must have 1 to 4 axes, got 5");
  expect_error<ShapeError>([&] { add_backward(ramp, {}, dense<const double>(nullptr, 2, 4, 3)); },
                           "[add_backward] d_x: must have memory, got a null pointer; shape is [2, 4, 3]");
  // What is only read may share memory: one gradient for all sequences.
  add_backward(ramp, {}, View<const double, 3>{memory.data(), {2, 4, 3}, {0, 3, 1}});
  EXPECT_EQ(ramp.c.grad[0], 2 * (4 * 3 + 3 * 6));  // Σ (t + d) over 4 tokens and 3 features, twice
}

/// A call's tensors, with rows of y twice as long as those of x.
struct Turned {
  explicit Turned(Layout layout, Index wide = 2 * dim)
      : x({batch, heads, time, dim}, layout == Layout::padded ? Layout::one_head : layout),
        y({batch, heads, time, wide}, layout),
        d_y({batch, heads, time, wide}, layout),
        d_x({batch, heads, time, dim}, layout) {
    test::Random random(4);
    for (auto* t : {&x, &y, &d_y, &d_x}) t->fill(random);
  }
  Guarded<double> x, y, d_y, d_x;
};

TEST(TurnedRows, MayBeLongerAndLieInAnyLayout) {
  const Twice twice{Strengths(heads)};
  const Positions at(2);
  test::Workers three(3);
  for (const Layout layout : test::writable_layouts) {
    SCOPED_TRACE(test::name(layout));
    Turned r(layout);
    turn(twice, Side::key, at, r.x.read(), r.y.view(), three);
    const auto x = r.x.view(), y = r.y.view(), d_y = r.d_y.view(), d_x = r.d_x.view();
    r.x.for_each([&](Index b, Index h, Index t, Index d) {
      ASSERT_EQ(y(b, h, t, d), x(b, h, t, d));
      ASSERT_EQ(y(b, h, t, d + dim), twice.c[h] * at.real(0, b, t) * x(b, h, t, d));
    });
    EXPECT_TRUE(r.y.guards_intact());

    std::fill(twice.c.grad.begin(), twice.c.grad.end(), 0.0);
    turn_backward(twice, Side::key, at, r.x.read(), r.d_y.read(), r.d_x.view(), test::backwards(3));
    std::vector<double> d_c(heads);
    r.x.for_each([&](Index b, Index h, Index t, Index d) {
      const double m = at.real(0, b, t);
      ASSERT_NEAR(d_x(b, h, t, d), d_y(b, h, t, d) + twice.c[h] * m * d_y(b, h, t, d + dim), row_tolerance);
      d_c[static_cast<std::size_t>(h)] += m * x(b, h, t, d) * d_y(b, h, t, d + dim);
    });
    for (std::size_t h = 0; h < d_c.size(); ++h) EXPECT_NEAR(twice.c.grad[h], d_c[h], row_tolerance);
    EXPECT_TRUE(r.d_x.guards_intact());
  }
}

TEST(TurnedRows, InPlaceAreThoseElsewhere) {
  const Twice twice{Strengths(heads), false};
  for (const Layout layout : {Layout::bhtd, Layout::bthd, Layout::reversed}) {
    Turned r(layout, dim);
    const Positions at(2);
    turn(twice, Side::query, at, r.x.read(), r.y.view());
    turn_backward(twice, Side::query, at, r.x.read(), r.d_y.read(), r.d_x.view());
    Turned same(layout, dim);
    turn(twice, Side::query, at, same.x.read(), same.x.view());
    EXPECT_EQ(same.x.values(), r.y.values());
    turn_backward(twice, Side::query, at, r.x.read(), same.d_y.read(), same.d_y.view());
    EXPECT_EQ(same.d_y.values(), r.d_x.values());
  }
}

TEST(TurnedRows, EmptyExtentsAreServed) {
  const Twice twice{Strengths(heads)};
  for (const auto& s : {std::array<Index, 4>{0, 3, 4, 5}, {1, 0, 4, 5}, {1, 3, 0, 5}, {1, 3, 4, 0}}) {
    const auto x = bhtd<double>(nullptr, s[0], s[1], s[2], s[3]);
    const auto y = bhtd<double>(nullptr, s[0], s[1], s[2], 2 * s[3]);
    turn(twice, Side::query, {}, x, y);
    turn_backward(twice, Side::query, {}, x, y, x);
  }
}

TEST(TurnedRows, WrongCallsAreRefusedBeforeAnythingIsWritten) {
  const Twice twice{Strengths(2), false};
  std::vector<double> memory(100, 1.0);
  const auto x = bhtd<const double>(memory.data(), 1, 2, 3, 4);
  const auto y = bhtd(memory.data() + 30, 1, 2, 3, 4), d_x = bhtd(memory.data() + 60, 1, 2, 3, 4);
  const auto forward = [&](View<const double, 4> from, View<double, 4> to, const char* text) {
    expect_error<ShapeError>([&] { turn(twice, Side::query, {}, from, to); }, text);
    EXPECT_EQ(memory, std::vector<double>(100, 1.0));
  };
  const auto backward = [&](View<const double, 4> d_y, View<double, 4> to, const char* text) {
    expect_error<ShapeError>([&] { turn_backward(twice, Side::query, {}, x, d_y, to); }, text);
    EXPECT_EQ(memory, std::vector<double>(100, 1.0));
    EXPECT_EQ(twice.c.grad, std::vector<double>(2));
  };
  forward({nullptr, x.shape, x.stride}, y, "[turn] x: must have memory, got a null pointer; shape is [1, 2, 3, 4]");
  forward(x, {nullptr, y.shape, y.stride}, "[turn] y: must have memory, got a null pointer; shape is [1, 2, 3, 4]");
  forward({x.data, {1, -2, -3, 4}, x.stride}, y, "[turn] x: must have extents of at least 0, got shape [1, -2, -3, 4]");
  forward(x, bhtd(y.data, 1, 2, 3, 5),
          "[turn] y: must be [batch, heads, time, 4] for x with shape [1, 2, 3, 4], got [1, 2, 3, 5]");
  forward(x, {y.data, y.shape, {24, 0, 4, 1}},
          "[turn] y: no two elements may share memory, got strides [24, 0, 4, 1] for shape [1, 2, 3, 4]");
  forward(x, bhtd(memory.data() + 4, 1, 2, 3, 4),
          "[turn] y: must be the input's own view or share no memory with it, got views that overlap");
  forward(x, bthd(memory.data(), 1, 3, 2, 4),
          "[turn] y: must be the input's own view or share no memory with it, got views that overlap");
  backward(bhtd<const double>(y.data, 1, 2, 3, 5), d_x,
           "[turn_backward] d_y: must be [batch, heads, time, 4] for x with shape [1, 2, 3, 4], got [1, 2, 3, 5]");
  backward(y, bhtd(d_x.data, 1, 2, 3, 5), "[turn_backward] d_x: must have x's shape [1, 2, 3, 4], got [1, 2, 3, 5]");
  backward(y, {nullptr, d_x.shape, d_x.stride},
           "[turn_backward] d_x: must have memory, got a null pointer; shape is [1, 2, 3, 4]");
  backward(y, bhtd(y.data + 1, 1, 2, 3, 4),
           "[turn_backward] d_x: must be the input's own view or share no memory with it, got views that overlap");
  expect_error<ShapeError>([&] { turn(twice, Side::query, Positions(dense(memory.data(), 0, 1, 3)), x, y); },
                           "[turn] positions: must have 1 to 4 axes, got 0");
}

}  // namespace
}  // namespace bearing
