#include <gtest/gtest.h>
#include <bearing/error.hpp>
#include <bearing/scores.hpp>
#include <vector>

#include "support/errors.hpp"
#include "support/guarded.hpp"
#include "support/own_terms.hpp"
#include "support/workers.hpp"

namespace bearing {
namespace {

using test::Carried;
using test::Content;
using test::expect_error;
using test::Guarded;
using test::Layout;
using test::Strengths;
using test::Suffix;

constexpr Index batch = 2, heads = 3, q_len = 67, k_len = 131, dim = 3;
/// Sums of 131 products of p (below 2) with numbers of up to 131 · 131: an error of 2^-53 of some 10^6.
constexpr double value_tolerance = 1e-8;

struct Tensors {
  explicit Tensors(Layout layout)
      : p({batch, heads, q_len, k_len}, layout == Layout::padded ? Layout::one_head : layout),
        d_p({batch, heads, q_len, k_len}, layout),
        out({batch, heads, q_len, dim}, layout) {
    test::Random random(9);
    for (auto* x : {&p, &d_p, &out}) x->fill(random);
  }
  Guarded<double> p, d_p, out;
};

double vector(const Positions& q_positions, const Positions& k_positions, Index b, Index i, Index j, Index d) {
  return k_positions.real(0, b, j) - q_positions.real(0, b, i) + static_cast<double>(d);
}

TEST(AddValues, TermsAddUpInEveryLayoutAndThoseOfScoresAloneAreLeftOut) {
  const Carried carried{Strengths(heads)};
  const Suffix suffix;
  const Content content{Strengths(heads)};  // would need queries and keys, but has nothing to do here
  const Positions q_positions(64), k_positions;
  test::Workers three(3);
  for (const Layout layout : test::writable_layouts) {
    SCOPED_TRACE(test::name(layout));
    Tensors x(layout);
    std::vector<double> wanted;
    x.out.for_each([&](Index b, Index h, Index i, Index d) {
      double sum = x.out.view()(b, h, i, d), after = 0;
      for (Index j = k_len - 1; j >= 0; --j) {
        after += k_positions.real(0, b, j);
        sum += x.p.view()(b, h, i, j) * (carried.c[h] * vector(q_positions, k_positions, b, i, j, d) + after);
      }
      wanted.push_back(sum);
    });
    add_values(with(content, carried, suffix), q_positions, k_positions, x.p.read(), x.out.view(), three);
    const std::vector<double> got = x.out.values();
    for (std::size_t n = 0; n < wanted.size(); ++n) ASSERT_NEAR(got[n], wanted[n], value_tolerance) << n;
    EXPECT_TRUE(x.out.guards_intact());
  }
}

TEST(AddValues, BackwardAddsTheGradientsInEveryLayout) {
  const Carried carried{Strengths(heads)};
  const Positions q_positions(64), k_positions;
  for (const Layout layout : test::writable_layouts) {
    SCOPED_TRACE(test::name(layout));
    Tensors x(layout);
    std::vector<double> wanted, d_c(heads);
    x.d_p.for_each([&](Index b, Index h, Index i, Index j) {
      double sum = 0;
      for (Index d = 0; d < dim; ++d) sum += x.out.view()(b, h, i, d) * vector(q_positions, k_positions, b, i, j, d);
      wanted.push_back(x.d_p.view()(b, h, i, j) + carried.c[h] * sum);
      d_c[static_cast<std::size_t>(h)] += x.p.view()(b, h, i, j) * sum;
    });
    std::fill(carried.c.grad.begin(), carried.c.grad.end(), 0.0);
    add_values_backward(with(carried), q_positions, k_positions, x.p.read(), x.out.read(), x.d_p.view(),
                        test::backwards(2));
    const std::vector<double> got = x.d_p.values();
    for (std::size_t n = 0; n < wanted.size(); ++n) ASSERT_NEAR(got[n], wanted[n], value_tolerance) << n;
    EXPECT_TRUE(x.d_p.guards_intact());
    const std::vector<double> once = carried.c.grad;
    for (std::size_t h = 0; h < d_c.size(); ++h) EXPECT_NEAR(once[h], d_c[h], value_tolerance);

    add_values_backward(with(carried), q_positions, k_positions, x.p.read(), x.out.read());  // d_p not wanted
    for (std::size_t h = 0; h < d_c.size(); ++h) EXPECT_NEAR(carried.c.grad[h], 2 * once[h], value_tolerance);
  }
}

TEST(AddValues, EmptyExtentsAreServed) {
  const Carried carried{Strengths(3)};
  for (const auto& shape : {std::array<Index, 5>{0, 3, 4, 5, 2}, {1, 0, 4, 5, 2}, {1, 3, 0, 5, 2}, {1, 3, 4, 5, 0}}) {
    const std::vector<double> p(60, 1.0);
    const auto [b, h, i, j, d] = shape;
    add_values(with(carried), {}, {}, bhtd(p.data(), b, h, i, j), bhtd<double>(nullptr, b, h, i, d));
    add_values_backward(with(carried), {}, {}, bhtd(p.data(), b, h, i, j), bhtd<const double>(nullptr, b, h, i, d));
  }
  // Without keys nothing is added, whatever counts stand beside the empty one.
  std::vector<double> out(24, 1.0);
  add_values(with(carried), {}, {}, bhtd<const double>(nullptr, 1, 3, 4, 0), bhtd(out.data(), 1, 3, 4, 2));
  EXPECT_EQ(out, std::vector<double>(24, 1.0));
  const View<const double, 4> vast{nullptr, {Index{1} << 40, Index{1} << 40, 0, 5}, {}};
  add_values_backward(with(carried), {}, {}, vast, vast);
}

TEST(AddValues, WrongCallsAreRefusedBeforeAnythingIsWritten) {
  const Carried carried{Strengths(2)};
  std::vector<double> memory(200, 3.0);
  const View<const double, 4> p = bhtd<const double>(memory.data(), 1, 2, 3, 4);
  const View<double, 4> out = bhtd(memory.data() + 50, 1, 2, 3, 5), d_p = bhtd(memory.data() + 100, 1, 2, 3, 4);
  const auto forward = [&](View<const double, 4> a, View<double, 4> b, const char* text) {
    expect_error<ShapeError>([&] { add_values(with(carried), {}, {}, a, b); }, text);
    EXPECT_EQ(memory, std::vector<double>(200, 3.0)) << text;
  };
  const auto backward = [&](View<const double, 4> b, View<double, 4> c, const char* text) {
    expect_error<ShapeError>([&] { add_values_backward(with(carried), {}, {}, p, b, c); }, text);
    EXPECT_EQ(memory, std::vector<double>(200, 3.0)) << text;
    EXPECT_EQ(carried.c.grad, std::vector<double>(2)) << text;
  };
  forward({nullptr, p.shape, p.stride}, out,
          "[add_values] p: must have memory, got a null pointer; shape is [1, 2, 3, 4]");
  forward(p, {nullptr, out.shape, out.stride},
          "[add_values] out: must have memory, got a null pointer; shape is [1, 2, 3, 5]");
  forward(p, {out.data, {1, 2, -3, 5}, out.stride},
          "[add_values] out: must have extents of at least 0, got shape [1, 2, -3, 5]");
  forward(p, {out.data, {1, 2, 4, 5}, out.stride},
          "[add_values] out: must be [batch, heads, q_len, value_dim] of probabilities with shape [1, 2, 3, 4], got "
          "[1, 2, 4, 5]");
  forward(p, {out.data, out.shape, {30, 0, 5, 1}},
          "[add_values] out: no two elements may share memory, got strides [30, 0, 5, 1] for shape [1, 2, 3, 5]");
  forward(p, {memory.data(), out.shape, out.stride},
          "[add_values] out: must share no memory with p, got tensors that overlap");
  backward({out.data, {1, 2, 4, 5}, out.stride}, d_p,
           "[add_values_backward] d_out: must be [batch, heads, q_len, value_dim] of probabilities with shape [1, 2, "
           "3, 4], got [1, 2, 4, 5]");
  backward(out, {d_p.data, {1, 2, 3, 5}, d_p.stride},
           "[add_values_backward] d_p: must have p's shape [1, 2, 3, 4], got [1, 2, 3, 5]");
  backward(out, {d_p.data, d_p.shape, {24, 12, 0, 1}},
           "[add_values_backward] d_p: no two elements may share memory, got strides [24, 12, 0, 1] for shape [1, 2, "
           "3, 4]");
  backward(out, {out.data, d_p.shape, d_p.stride},
           "[add_values_backward] d_p: must share no memory with d_out, got tensors that overlap");
  expect_error<ShapeError>([&] { add_values(with(carried), Positions(dense(memory.data(), 0, 1, 3)), {}, p, out); },
                           "[add_values] q_positions: must have 1 to 4 axes, got 0");
}

}  // namespace
}  // namespace bearing
