#include <bearing/encodings/rope_gradients.hpp>
#include <bearing/encodings/rope_rebase.hpp>
#include <bearing/error.hpp>

#include <cstring>
#include <vector>

#include "support/errors.hpp"
#include "support/rotation.hpp"
#include "support/workers.hpp"

// Halves of each axis' own block of the head, [y y' x x'] in place of [y x y' x'].

namespace bearing {
namespace {

using test::Guarded;
using test::Layout;
using test::PositionTensor;
using test::Random;

Rope gemma4(Index head_dim = 8, double base = 16) {
  const Index pairs = head_dim / 4;
  return {.head_dim = head_dim, .base = base, .pairing = Pairing::half, .axes = RopeAxes::blocks({pairs, pairs})};
}

// transformers 5.24.0, apply_multidimensional_rope() of Gemma 4's vision tower on float64 rows with its own float32 cos
// and sin: heads of 8, base 16 (whose powers a float holds), x = 1/8, 2/8, … at (2, 5) and (7, 1).
TEST(RopeBlocks, AreThoseOfGemma4sVisionTower) {
  const std::vector<double> wanted{-0.393004883, -0.0203171372, -0.0423928909, 0.558647662, 1.01634763, -0.712492846,
                                   -0.351123258, 1.02706084,    -0.0552165285, -1.6987865,  1.77572552, 0.962613374,
                                   -0.699766748, 1.20078881,    2.38045719,    2.37078178};
  std::vector<double> x(16);
  for (std::size_t i = 0; i < 16; ++i) x[i] = static_cast<double>(i + 1) / 8;
  const std::vector<Index> at{2, 7, 5, 1};
  const RopeTable<double> table(gemma4(), 8);
  rotate(table, bhtd(x.data(), 1, 1, 2, 8), Positions(dense(at.data(), 2, 1, 2)));
  // cos and sin err by half an ulp below 1 in float32, and a result has two products with numbers up to 2.
  for (std::size_t i = 0; i < 16; ++i) EXPECT_NEAR(x[i], wanted[i], 4 * 0x1p-25 + 1e-9) << i;
}

/// The same rotation, block by block, each a window of the head with its own axis.
template <class T>
void rotate_windows(const Rope& rope, View<T, 4> x, const PositionTensor<double>& at) {
  Index begin = 0, axis = 0;
  for (const Index pairs : rope.axes.pairs) {
    const Rope window{.head_dim = rope.head_dim,
                      .rotary_dim = 2 * pairs,
                      .base = rope.base,
                      .pairing = rope.pairing,
                      .part = RotaryPart::window(begin)};
    const View<const double, 2> of_axis{&at.view()(axis++, 0, 0), {at.batch, at.time}, {at.time, 1}};
    rotate(RopeTable<Compute<T>>(window, 40), x, Positions(of_axis));
    begin += 2 * pairs;
  }
}

TEST(RopeBlocks, HaveTheBitsOfOneWindowForEachAxis) {
  Random random(3);
  const std::vector<std::vector<Index>> all{{2, 2}, {1, 5, 2}, {16, 16}, {32, 64}, {3, 8, 1, 4}};
  for (const std::vector<Index>& pairs : all) {
    Rope rope{.pairing = Pairing::half, .axes = RopeAxes::blocks(pairs)};
    for (const Index count : pairs) rope.head_dim += 2 * count;
    const Index axes = std::ssize(pairs);
    PositionTensor<double> at(axes, 2, 5);
    at.fill(random, -3, 50);
    test::for_each_type([&](auto type) {
      using T = decltype(type);
      const RopeTable<Compute<T>> table(rope, 40);
      for (const Layout layout : {Layout::bhtd, Layout::bthd, Layout::padded}) {
        Guarded<T> x({2, 3, 5, rope.head_dim}, layout), out({2, 3, 5, rope.head_dim}, Layout::bhtd);
        x.fill(random);
        rotate_to<T>(table, x.read(), out.view(), at);
        const std::vector<T> from_another = out.values();
        rotate(table, x.view(), at);
        EXPECT_EQ(std::memcmp(x.values().data(), from_another.data(), from_another.size() * sizeof(T)), 0);
        out.fill(random);
        Guarded<T> again({2, 3, 5, rope.head_dim}, layout);
        again.copy(View<const T, 4>(out.view()));
        rotate(table, out.view(), at);
        rotate_windows<T>(rope, again.view(), at);
        EXPECT_EQ(std::memcmp(out.values().data(), again.values().data(), from_another.size() * sizeof(T)), 0)
            << test::type_name<T>();
      }
    });
  }
}

// From heads inside to heads outside: later blocks are read in the second layout, whose tokens' phases take more
// memory.
TEST(RopeBlocks, TurnFromOneLayoutIntoTheOther) {
  constexpr Index time = 600, heads = 2, dim = 64;
  const RopeTable<float> table(gemma4(dim), 4);
  std::vector<double> at(2 * time);
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = static_cast<double>(i % 97);
  const Positions positions(dense(at.data(), 2, 1, time));
  std::vector<float> x(time * heads * dim), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1021) / 512 - 1;
  const View<float, 4> in = bthd(x.data(), 1, time, heads, dim), out = bhtd(y.data(), 1, heads, time, dim);
  rotate_to(table, View<const float, 4>(in), out, positions);
  rotate(table, in, positions);
  for (Index t = 0; t < time; ++t) {
    for (Index h = 0; h < heads; ++h) {
      ASSERT_EQ(std::memcmp(&in(0, h, t, 0), &out(0, h, t, 0), dim * sizeof(float)), 0) << "token " << t;
    }
  }
}

TEST(RopeBlocks, TurnBackAndHaveTheSameBitsForAnyNumberOfThreads) {
  Random random(4);
  const RopeTable<double> table(gemma4(32, 100), 20);
  PositionTensor<double> at(2, 2, 70);
  at.fill(random, 0, 19);
  Guarded<double> x({2, 8, 70, 32}, Layout::bhtd), y({2, 8, 70, 32}, Layout::bhtd), z({2, 8, 70, 32}, Layout::bhtd);
  x.fill(random);
  rotate_to<double>(table, x.read(), y.view(), at);
  for (Index workers : {2, 7}) {
    test::Workers threads(workers);
    rotate_to<double>(table, x.read(), z.view(), at, threads);
    EXPECT_TRUE(test::same_bits(z.values(), y.values()));
  }
  rotate_backward(table, y.view(), at);
  const std::vector<double> before = x.values(), after = y.values();
  for (std::size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(after[i], before[i], 1e-14);
}

TEST(RopeBlocks, NeighboursAreThoseOfTheWhole) {
  Rope blocks = gemma4(), whole = gemma4();
  blocks.pairing = whole.pairing = Pairing::interleaved;
  whole.axes = RopeAxes::axial({2, 2});
  EXPECT_TRUE(resolve(blocks).blocks.empty());
  EXPECT_EQ(resolve(blocks).quarter_turns, resolve(whole).quarter_turns);
}

TEST(RopeBlocks, KeysMoveWithinTheirBlocks) {
  Random random(5);
  const RopeFrequencies f = resolve(gemma4(16));
  PositionTensor<double> before(2, 1, 4), after(2, 1, 4);
  before.fill(random, 0, 30), after.fill(random, 0, 30);
  Guarded<double> k({1, 2, 4, 16}, Layout::bhtd), wanted({1, 2, 4, 16}, Layout::bhtd);
  k.fill(random);
  reference::rotate(f, k.read(), after, wanted.view());
  reference::rotate(f, k.read(), before, k.view());
  rebase(f, before, f, after, k.view());
  const std::vector<double> moved = k.values(), there = wanted.values();
  for (std::size_t i = 0; i < moved.size(); ++i) EXPECT_NEAR(moved[i], there[i], 1e-13);
  const RopeFrequencies whole =
      resolve(Rope{.head_dim = 16, .base = 16, .pairing = Pairing::half, .axes = RopeAxes::axial({4, 4})});
  test::expect_error<ShapeError>([&] { rebase(f, before, whole, after, k.view()); },
                                 "[rebase] to: must halve the same blocks as from, [4, 4], got []");
}

TEST(RopeBlocks, MustAddUp) {
  RopeFrequencies f = resolve(gemma4());
  f.blocks = {2, 1};
  test::expect_error<ShapeError>([&] { RopeTable<float>(f, 4); },
                                 "[RopeFrequencies] blocks: must add up to 4, got [2, 1]");
  f.blocks = {2, 3};
  test::expect_error<ShapeError>([&] { RopeTable<float>(f, 4); },
                                 "[RopeFrequencies] blocks: must be positive and add up to 4, got [2, 3]");
}

}  // namespace
}  // namespace bearing
