#include <gtest/gtest.h>
#include <bearing/encodings/rope_gradients.hpp>
#include <bearing/encodings/rope_rebase.hpp>
#include <bearing/encodings/xpos.hpp>

#include <iostream>

#include "support/rotation.hpp"
#include "support/targets.hpp"
#include "support/workers.hpp"

namespace bearing {
namespace {

using test::Guarded;
using test::is_rotation;
using test::Layout;
using test::PositionTensor;
using test::Random;
using test::Shape;

/// What a rebase should make of cached keys, in double: turned back to position 0, then on to the new one.
template <class T>
std::vector<double> reference_rebase(const RopeFrequencies& from, const Positions& old_positions,
                                     const RopeFrequencies& to, const Positions& new_positions, const Guarded<T>& k) {
  RopeFrequencies back = from;
  back.attention_factor = 1 / from.attention_factor;
  std::vector<double> values = k.doubles();
  const auto [batch, heads, time, dim] = k.view().shape;
  const auto view = bhtd(values.data(), batch, heads, time, dim);
  reference::rotate_backward(back, view, old_positions, view);
  reference::rotate(to, view, new_positions, view);
  return values;
}

struct Move {
  const char* name;
  RopeFrequencies from, to;
  Index axes = 1;
};

std::vector<Move> moves() {
  std::vector<double> short_factor(16, 1.0), long_factor(16);
  for (std::size_t i = 0; i < 16; ++i) long_factor[i] = 1 + static_cast<double>(i);
  std::vector<Move> all;
  for (Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    const Rope plain{.head_dim = 32, .base = 500'000, .pairing = pairing};
    all.push_back({"K-shift", resolve(plain), resolve(plain)});

    Rope dynamic = plain;
    dynamic.scaling = DynamicNtkScaling{.factor = 2, .trained_length = 4096};
    all.push_back({"dynamic NTK grows", resolve(dynamic, 4096), resolve(dynamic, 8192)});

    Rope longrope = plain;
    longrope.scaling = LongRopeScaling{.short_factor = short_factor,
                                       .long_factor = long_factor,
                                       .trained_length = 4096,
                                       .factor = 32,
                                       .short_mscale = 1.1,
                                       .long_mscale = 1.3};
    all.push_back({"LongRoPE switches", resolve(longrope, 4096), resolve(longrope, 4097)});

    Rope yarn{.head_dim = 20,
              .rotary_dim = 10,
              .pairing = pairing,
              .scaling = YarnScaling{.factor = 8, .trained_length = 64},
              .part = RotaryPart::last()};
    all.push_back({"YaRN keeps its attention factor", resolve(yarn), resolve(yarn)});

    Rope mrope = plain;
    mrope.axes = RopeAxes::sections({4, 6, 6});
    all.push_back({"M-RoPE moves each axis", resolve(mrope), resolve(mrope), 3});
  }
  return all;
}

TEST(RopeRebase, EqualsTurningBackAndRotatingAgainForEveryMoveTypeLayoutAndTarget) {
  Random random(1);
  std::size_t n = 0;
  for (const Move& move : moves()) {
    test::for_each_type([&](auto type) {
      using T = decltype(type);
      for (Layout layout : test::writable_layouts) {
        SCOPED_TRACE(std::string(move.name) + ", " + test::type_name<T>() + ", " + test::name(layout));
        const bool big = ++n % 5 == 0;
        const Shape shape{2, big ? 5 : 2, big ? 33 : 5, move.to.head_dim};
        PositionTensor<Index> old_positions(move.axes, 2, shape[2]), new_positions(move.axes, 2, shape[2]);
        old_positions.fill(random, 0, 1 << 20);
        new_positions.fill(random, 0, 1 << 20);
        Guarded<T> k(shape, layout);
        k.fill(random);
        const auto expected = reference_rebase(move.from, old_positions, move.to, new_positions, k);
        std::vector<T> first;
        test::on_every_target([&] {
          Guarded<T> moved(shape, layout);
          moved.copy(k.read());
          rebase(move.from, old_positions, move.to, new_positions, moved.view());
          EXPECT_TRUE(is_rotation(move.to, k, expected, moved));
          EXPECT_TRUE(moved.guards_intact());
          EXPECT_TRUE(moved.says_something());
          if (first.empty()) first = moved.values();
          EXPECT_TRUE(test::same_bits(moved.values(), first)) << "not the bits of the best target";
        });
      }
    });
  }
}

// The cached key was rotated by the kernel, 3 ulp, and moved, 3 ulp more (times a'/a); the same in bf16, where either
// rounding may take half an ulp of each element, so 2^-8 of the pair's norm.
TEST(RopeRebase, OfCachedKeysEqualsRotatingThemAfreshWithTheNewEncoding) {
  Random random(2);
  for (const Move& move : moves()) {
    SCOPED_TRACE(move.name);
    test::for_each_type([&](auto type) {
      using T = decltype(type);
      const Shape shape{2, 3, 9, move.to.head_dim};
      PositionTensor<Index> old_positions(move.axes, 2, 9), new_positions(move.axes, 2, 9);
      old_positions.fill(random, 0, 8192);
      new_positions.fill(random, 0, 8192);
      Guarded<T> k(shape, Layout::bthd), cached(shape, Layout::bthd), fresh(shape, Layout::bthd);
      k.fill(random);
      rotate_to(RopeTable<Compute<T>>(move.from, 100), k.read(), cached.view(), old_positions);
      rotate_to(RopeTable<Compute<T>>(move.to, 100), k.read(), fresh.view(), new_positions);
      rebase(move.from, old_positions, move.to, new_positions, cached.view());
      const double epsilon = std::is_same_v<T, double>    ? 1e-13
                             : std::is_same_v<T, float>   ? 9 * 0x1p-23
                             : std::is_same_v<T, Float16> ? 3 * 0x1p-11
                                                          : 3 * 0x1p-8;
      for (Index b = 0; b < 2; ++b) {
        for (Index h = 0; h < 3; ++h) {
          for (Index t = 0; t < 9; ++t) {
            for (Index i = 0; i < move.to.pairs(); ++i) {
              const auto [u, v] = test::elements(move.to, i);
              const auto at = [&](const Guarded<T>& x, Index d) { return test::to_double(x.view()(b, h, t, d)); };
              const double norm = std::hypot(at(fresh, u), at(fresh, v));
              const double off = std::hypot(at(fresh, u) - at(cached, u), at(fresh, v) - at(cached, v));
              // Below f16's normal range an element is only good to 2^-25.
              ASSERT_LE(off, epsilon * norm + (std::is_same_v<T, Float16> ? 3 * 0x1p-24 : 0)) << "pair " << i;
            }
          }
        }
      }
    });
  }
}

TEST(RopeRebase, ToTheSamePlaceChangesNoBit) {
  Random random(3);
  for (const Move& move : moves()) {
    test::for_each_type([&](auto type) {
      using T = decltype(type);
      Guarded<T> k({2, 2, 7, move.to.head_dim}, Layout::bthd);
      k.fill(random);
      PositionTensor<double> at(move.axes, 2, 7);
      at.fill(random, -0x1p31, 0x1p31);
      const auto before = k.doubles();
      rebase(move.to, at, move.to, at, k.view());
      EXPECT_EQ(k.doubles(), before) << move.name;
      shift(move.to, 0, k.view());
      EXPECT_EQ(k.doubles(), before) << move.name;
    });
  }
}

// The two products are each reduced before they are subtracted: far positions cost nothing.
TEST(RopeRebase, FarAndRealPositionsAreAsExactAsNearOnes) {
  Random random(4);
  const RopeFrequencies from = resolve({.head_dim = 64, .base = 10'000, .pairing = Pairing::half});
  const RopeFrequencies to = resolve({.head_dim = 64, .base = 11'000, .pairing = Pairing::half});
  for (int repeat = 0; repeat < 5; ++repeat) {
    Guarded<double> k({1, 2, 50, 64}, Layout::bhtd);
    k.fill(random);
    PositionTensor<double> old_positions(1, 1, 50), new_positions(1, 1, 50);
    old_positions.fill(random, -0x1p31, 0x1p31);
    new_positions.fill(random, -0x1p31, 0x1p31);
    const auto expected = reference_rebase(from, old_positions, to, new_positions, k);
    Guarded<double> moved({1, 2, 50, 64}, Layout::bhtd);
    moved.copy(k.read());
    rebase(from, old_positions, to, new_positions, moved.view());
    EXPECT_TRUE(is_rotation(to, k, expected, moved));
    Guarded<float> narrow({1, 2, 50, 64}, Layout::bhtd), narrow_moved({1, 2, 50, 64}, Layout::bhtd);
    narrow.copy(k.read());
    narrow_moved.copy(k.read());
    const auto narrow_expected = reference_rebase(from, old_positions, to, new_positions, narrow);
    rebase(from, old_positions, to, new_positions, narrow_moved.view());
    EXPECT_TRUE(is_rotation(to, narrow, narrow_expected, narrow_moved));
  }
}

TEST(RopeRebase, PositionsThatServeAllAxesMayMoveToPositionsWithTheirOwn) {
  Random random(5);
  const RopeFrequencies f = resolve({.head_dim = 32, .pairing = Pairing::half, .axes = RopeAxes::sections({4, 6, 6})});
  PositionTensor<Index> text(1, 2, 5), image(3, 2, 5);
  text.fill(random, 0, 1000);
  image.fill(random, 0, 1000);
  Guarded<double> k({2, 2, 5, 32}, Layout::bhtd), moved({2, 2, 5, 32}, Layout::bhtd), back({2, 2, 5, 32}, Layout::bhtd);
  k.fill(random);
  moved.copy(k.read());
  rebase(f, text, f, image, moved.view());
  EXPECT_TRUE(is_rotation(f, k, reference_rebase(f, text, f, image, k), moved));
  back.copy(moved.read());
  rebase(f, image, f, text, back.view());
  EXPECT_TRUE(is_rotation(f, moved, reference_rebase(f, image, f, text, moved), back));
}

// The product of the other extents alone does not fit 64 bits.
TEST(Rotations, OfEmptyTensorsTakeAnyOtherExtents) {
  constexpr Index many = Index{1} << 31;
  const Rope rope{.head_dim = 8, .pairing = Pairing::half};
  const RopeFrequencies f = resolve(rope);
  const RopeTable<float> table(f, 10);
  float number = 7;
  std::vector<double> d_theta(4, 0.25);
  for (const auto& shape : {std::array<Index, 4>{2 * many, 0, many, 8}, {many, many, 0, 8}}) {
    const View<float, 4> none{&number, shape, {0, 0, 0, 1}};
    const View<const float, 4> read = none;
    rotate(table, none, {});
    rotate(table, none, none, {});
    rotate_to(table, read, none, {});
    rotate_backward(table, none, {});
    rebase(f, {}, f, {}, none);
    shift(f, 1, none);
    rebase(Xpos{.rope = rope}, {}, {}, none);
    rotate_parameter_gradients(f, read, read, {}, {.inv_freq = dense(d_theta.data(), 4)});
  }
  EXPECT_EQ(number, 7);
  EXPECT_EQ(d_theta, std::vector<double>(4, 0.25));
}

TEST(RopeRebase, AShiftMovesEveryTokenByTheSameAndDoesNotApplyTheAttentionFactorAgain) {
  Random random(6);
  for (const Move& move : moves()) {
    SCOPED_TRACE(move.name);
    test::for_each_type([&](auto type) {
      using T = decltype(type);
      for (Index by : {Index{1}, Index{-512}, Index{1'000'003}}) {
        Guarded<T> k({2, 3, 11, move.to.head_dim}, Layout::padded), moved({2, 3, 11, move.to.head_dim}, Layout::padded);
        k.fill(random);
        moved.copy(k.read());
        const auto expected = reference_rebase(move.to, Positions(0), move.to, Positions(by), k);
        test::Workers on(3);
        shift(move.to, by, moved.view(), on);
        EXPECT_TRUE(is_rotation(move.to, k, expected, moved)) << "by " << by;
        EXPECT_TRUE(moved.guards_intact());
      }
    });
  }
}

TEST(RopeRebase, HasTheSameBitsForAnyNumberOfThreads) {
  Random random(7);
  for (const Move& move : moves()) {
    Guarded<float> k({3, 5, 65, move.to.head_dim}, Layout::bthd);
    k.fill(random);
    PositionTensor<Index> old_positions(move.axes, 3, 65), new_positions(move.axes, 3, 65);
    old_positions.fill(random, 0, 9999);
    new_positions.fill(random, 0, 9999);
    const auto moved = [&](const Executor& on) {
      Guarded<float> y({3, 5, 65, move.to.head_dim}, Layout::bthd);
      y.copy(k.read());
      rebase(move.from, old_positions, move.to, new_positions, y.view(), on);
      return y.values();
    };
    const auto serial = moved({});
    for (Index workers : {1, 2, 3, 7, 16}) {
      test::Workers threads(workers);
      EXPECT_TRUE(test::same_bits(moved(threads), serial)) << move.name << ", " << workers;
      EXPECT_TRUE(test::same_bits(moved(test::backwards(workers)), serial)) << move.name << ", " << workers;
    }
  }
}

/// Errors of many shifts, relative to each pair's norm.
struct Growth {
  double root_mean_square = 0, worst = 0;
};

std::vector<Index> random_steps() {
  Random random(8);
  std::vector<Index> steps;
  for (int n = 0; n < 1000; ++n) steps.push_back(random.integer(-300, 300));
  return steps;
}

template <class T>
Growth after(const char* what, const std::vector<Index>& steps) {
  Random random(8);
  const RopeFrequencies f = resolve({.head_dim = 128, .base = 500'000, .pairing = Pairing::half});
  const Shape shape{1, 8, 16, 128};
  Guarded<T> k(shape, Layout::bhtd);
  k.for_each([&](Index b, Index h, Index t, Index d) {  // not near 0, where a relative error says little
    const double value = random.uniform(0.5, 2);
    k.view()(b, h, t, d) = test::from_double<T>(random.integer(0, 1) == 0 ? value : -value);
  });
  const Guarded<T> start = [&] {
    Guarded<T> copy(shape, Layout::bhtd);
    copy.copy(k.read());
    return copy;
  }();
  Index total = 0;
  for (const Index by : steps) {
    shift(f, by, k.view());
    total += by;
  }
  const auto expected = reference_rebase(f, Positions(0), f, Positions(total), start);
  const auto got = k.doubles();
  Growth growth;
  for (std::size_t row = 0; row < 8 * 16; ++row) {
    for (std::size_t i = 0; i < 64; ++i) {
      const std::size_t u = row * 128 + i, v = u + 64;
      const double off = std::hypot(got[u] - expected[u], got[v] - expected[v]) / std::hypot(expected[u], expected[v]);
      growth.root_mean_square += off * off / (8 * 16 * 64);
      growth.worst = std::max(growth.worst, off);
    }
  }
  growth.root_mean_square = std::sqrt(growth.root_mean_square);
  std::cout << steps.size() << " shifts " << what << ": error " << growth.root_mean_square
            << " of the pair's norm in the mean, " << growth.worst << " at worst\n";
  return growth;
}

// One shift: 3 ulp of the norm, at most 3·2^-23 of it; a thousand may add up to a thousand times that.
TEST(RopeRebase, AThousandShiftsInFloatStayWithinAThousandTimesOneShiftsBound) {
  const Growth random = after<float>("by random steps in float32", random_steps());
  EXPECT_LE(random.worst, 1000 * 3 * 0x1p-23);
  EXPECT_GT(random.worst, 0);
  EXPECT_LE(after<float>("by -1 in float32", std::vector<Index>(1000, -1)).worst, 1000 * 3 * 0x1p-23);
  EXPECT_LE(after<float>("by -100 in float32", std::vector<Index>(10, -100)).worst, 10 * 3 * 0x1p-23);
}

// bf16 keeps 8 bits: an ulp is at most 2^-7 of an element, so one rounding leaves an element's error with a variance of
// at most (2^-7)²/12 of its square, and a pair's of its norm's. Roundings of a thousand different angles are as good as
// independent: their root mean square is at most √(1000/12)·2^-7 = 0.071. Adding up instead, they would reach
// 2^-9·1000. f16 has three bits more.
TEST(RopeRebase, AThousandDifferentShiftsIn16BitsGrowLikeIndependentRoundings) {
  const Growth bf16 = after<Bfloat16>("by random steps in bfloat16", random_steps());
  EXPECT_LE(bf16.root_mean_square, std::sqrt(1000.0 / 12) * 0x1p-7);
  EXPECT_GT(bf16.root_mean_square, 1e-3) << "no rounding at all: was anything shifted?";
  const Growth f16 = after<Float16>("by random steps in float16", random_steps());
  EXPECT_LE(f16.root_mean_square, std::sqrt(1000.0 / 12) * 0x1p-10);
}

// A turn below half an ulp of both elements (2^-9 of one in bf16) leaves the pair as it was: a pair with θ = 2^-10
// turns by 1 radian in a thousand steps, and is off by 2·sin(1/2). So the worst pair is off by more than 0.9 of its
// norm, and the same way in fewer calls costs no more than these calls may: 2^-8 each, 2^-11 in f16.
TEST(RopeRebase, AThousandShiftsByOneTokenIn16BitsErrInTheSameDirection) {
  EXPECT_GT(after<Bfloat16>("by -1 in bfloat16", std::vector<Index>(1000, -1)).worst, 2 * std::sin(0.5));
  EXPECT_LE(after<Bfloat16>("by -100 in bfloat16", std::vector<Index>(10, -100)).worst, 10 * 0x1p-8);
  EXPECT_GT(after<Float16>("by -1 in float16", std::vector<Index>(1000, -1)).worst, 2 * std::sin(0.5 / 8));
  EXPECT_LE(after<Float16>("by -100 in float16", std::vector<Index>(10, -100)).worst, 10 * 0x1p-11);
}

TEST(RopeRebase, ThereAndBackReturnsWithinTwoShiftsBound) {
  Random random(9);
  const RopeFrequencies f = resolve({.head_dim = 64, .pairing = Pairing::interleaved});
  Guarded<float> k({1, 4, 32, 64}, Layout::bhtd), moved({1, 4, 32, 64}, Layout::bhtd);
  k.fill(random);
  moved.copy(k.read());
  shift(f, 777, moved.view());
  EXPECT_NE(moved.values(), k.values());
  shift(f, -777, moved.view());
  for (Index t = 0; t < 32; ++t) {
    for (Index i = 0; i < 32; ++i) {
      const double u = k.view()(0, 0, t, 2 * i), v = k.view()(0, 0, t, 2 * i + 1);
      const double bound = 6 * test::ulp<float>(std::hypot(u, v));
      EXPECT_NEAR(moved.view()(0, 0, t, 2 * i), u, bound);
      EXPECT_NEAR(moved.view()(0, 0, t, 2 * i + 1), v, bound);
    }
  }
}

}  // namespace
}  // namespace bearing
