#include <gtest/gtest.h>
#include <bearing/encodings/rope.hpp>
#include <bearing/reference.hpp>
#include <cstdint>
#include <vector>

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
using test::reference_rotation;
using test::Shape;

/// One call of rotate(), described so that a failure can be repeated.
struct Case {
  Rope rope;
  Shape shape{};  // batch, heads, time; the head comes from the rope
  Layout in = Layout::bhtd, out = Layout::bhtd;
  bool in_place = false;
  std::uint64_t seed = 0;
};

std::string describe(const char* type, const Case& c) {
  return std::string("reproduce: ") + type + ", " + test::describe(c.rope) + ", x " + test::describe(c.shape) +
         ", from " + test::name(c.in) + (c.in_place ? " in place" : std::string(" to ") + test::name(c.out)) +
         ", seed " + std::to_string(c.seed);
}

/// Rotates on every target and compares with the guards and with the first target's bits, these with the reference.
template <class T>
void run(const Case& c) {
  SCOPED_TRACE(describe(test::type_name<T>(), c));
  Random random(c.seed);
  Guarded<T> x(c.shape, c.in);
  x.fill(random);
  PositionTensor<Index> at(1, c.shape[0], c.shape[2]);
  at.fill(random, -5, 200);  // within the table, past it and before it
  const RopeTable<Compute<T>> table(c.rope, 150);
  const auto expected = reference_rotation(table.frequencies(), x, at);
  std::vector<T> first;
  test::on_every_target([&] {
    Guarded<T> y(c.shape, c.in_place ? c.in : c.out);
    if (c.in_place) {
      y.copy(x.read());
      rotate(table, y.view(), at);
    } else {
      rotate_to(table, x.read(), y.view(), at);
    }
    EXPECT_TRUE(y.guards_intact()) << "wrote beside its output";
    EXPECT_TRUE(x.guards_intact()) << "wrote beside its input";
    if (first.empty()) {
      EXPECT_TRUE(is_rotation(table.frequencies(), x, expected, y));
      EXPECT_TRUE(y.says_something()) << "mostly zeros";
      first = y.values();
    } else {
      EXPECT_TRUE(test::same_bits(y.values(), first)) << "not the bits of the best target";
    }
  });
}

// Every size and part with every type; shapes and layouts take turns, so that each meets each several times.
TEST(Rotate, EqualsTheReferenceForEveryTypeSizePartShapeAndLayoutOnEveryTarget) {
  constexpr Index batches[] = {1, 3, 1, 2}, heads[] = {1, 5, 2}, times[] = {1, 11, 33, 4, 16};
  std::uint64_t n = 0;
  for (Index head_dim : test::head_dims) {
    for (const Rope& rope : test::ropes(head_dim)) {
      test::for_each_type([&](auto type) {
        using T = decltype(type);
        for (int turn = 0; turn < 5; ++turn, ++n) {
          const bool big = turn == 0 && head_dim <= 128;
          Case c{.rope = rope, .seed = n};
          c.shape = {big ? 3 : batches[n % 4], big ? 5 : heads[n % 3], big ? 33 : times[n % 5], head_dim};
          c.in_place = n % 2 == 0;
          c.in = n % 11 == 5 && !c.in_place ? Layout::one_head : test::writable_layouts[n % 6];
          c.out = test::writable_layouts[(n / 6) % 6];
          run<T>(c);
        }
      });
    }
    if (testing::Test::HasFailure()) return;  // one size says enough
  }
}

TEST(Rotate, EveryPairOfLayoutsGivesTheBitsOfDenseMemory) {
  Random random(100);
  const Shape shape{2, 3, 7, 20};
  for (Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    const Rope rope{.head_dim = 20, .rotary_dim = 16, .pairing = pairing, .part = RotaryPart::window(2)};
    test::for_each_type([&](auto type) {
      using T = decltype(type);
      const RopeTable<Compute<T>> table(rope, 10);
      Guarded<T> dense_x(shape, Layout::bhtd), dense_y(shape, Layout::bhtd);
      dense_x.fill(random);
      rotate_to(table, dense_x.read(), dense_y.view(), Positions(3));
      for (Layout in : test::writable_layouts) {
        for (Layout out : test::writable_layouts) {
          Guarded<T> x(shape, in), y(shape, out);
          x.copy(dense_x.read());
          rotate_to(table, x.read(), y.view(), Positions(3));
          EXPECT_TRUE(test::same_bits(y.values(), dense_y.values())) << test::name(in) << " to " << test::name(out);
          EXPECT_TRUE(y.guards_intact() && x.guards_intact()) << test::name(in) << " to " << test::name(out);
        }
        Guarded<T> y(shape, in);
        y.copy(dense_x.read());
        rotate(table, y.view(), Positions(3));
        EXPECT_TRUE(test::same_bits(y.values(), dense_y.values())) << test::name(in) << " in place";
        EXPECT_TRUE(y.guards_intact()) << test::name(in) << " in place";
      }
    });
  }
}

TEST(Rotate, EmptyBatchesHeadsAndSequencesAreNothingToDo) {
  const RopeTable<float> table(Rope{.head_dim = 8, .pairing = Pairing::half}, 10);
  std::vector<float> memory(200, 7);
  for (const Shape& shape : {Shape{0, 2, 3, 8}, Shape{2, 0, 3, 8}, Shape{2, 3, 0, 8}, Shape{0, 0, 0, 8}}) {
    const auto x = bhtd(memory.data(), shape[0], shape[1], shape[2], shape[3]);
    rotate(table, x, {});
    rotate_backward(table, x, {});
    rotate_to(table, View<const float, 4>(x), x, {});
    View<float, 4> nowhere = x;
    nowhere.data = nullptr;
    rotate(table, nowhere, {});
  }
  EXPECT_EQ(memory, std::vector<float>(200, 7));
}

TEST(Rotate, HasTheSameBitsForAnyNumberOfThreads) {
  Random random(101);
  const Rope rope{.head_dim = 96, .rotary_dim = 64, .pairing = Pairing::half};
  test::for_each_type([&](auto type) {
    using T = decltype(type);
    for (const Shape& shape : {Shape{1, 1, 1, 96}, Shape{1, 8, 1, 96}, Shape{3, 5, 33, 96}, Shape{1, 2, 700, 96}}) {
      const RopeTable<Compute<T>> table(rope, 100);
      Guarded<T> x(shape, Layout::bthd);
      x.fill(random);
      PositionTensor<Index> at(1, shape[0], shape[2]);
      at.fill(random, 0, 5000);
      Guarded<T> serial(shape, Layout::bthd);
      rotate_to(table, x.read(), serial.view(), at);
      const auto compare = [&](const Executor& on) {
        Guarded<T> y(shape, Layout::bthd);
        rotate_to(table, x.read(), y.view(), at, on);
        EXPECT_TRUE(test::same_bits(y.values(), serial.values())) << on.workers << " workers";
        EXPECT_TRUE(y.guards_intact());
      };
      for (Index workers : {1, 2, 3, 7, 16}) {
        test::Workers threads(workers);
        compare(threads);
        compare(test::backwards(workers));
      }
    }
  });
}

TEST(Rotate, OneTableServesThirtyTwoThreads) {
  const RopeTable<float> table(Rope{.head_dim = 32, .pairing = Pairing::half}, 64);
  const RopeTable<float> compact(Rope{.head_dim = 32, .pairing = Pairing::half}, 64, {.memory = TableMemory::compact});
  const std::vector<float> x = [] {
    Random random(102);
    std::vector<float> values(32 * 100);
    for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
    return values;
  }();
  std::vector<float> wanted = x, wanted_compact = x;
  rotate(table, bhtd(wanted.data(), 1, 1, 100, 32), {});
  rotate(compact, bhtd(wanted_compact.data(), 1, 1, 100, 32), {});
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int n = 0; n < 32; ++n) {
    threads.emplace_back([&, n] {
      std::vector<float> y = x;
      rotate(n % 2 == 0 ? table : compact, bhtd(y.data(), 1, 1, 100, 32), {});
      right += y == (n % 2 == 0 ? wanted : wanted_compact) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 32);
}

// A rotated pair is within 3 ulp, 3.6e-7, of its norm; the norm of a row of 64 pairs averages that out.
TEST(Rotate, KeepsTheNormOfTenThousandRows) {
  Random random(103);
  const RopeTable<float> table(Rope{.head_dim = 128, .base = 500'000, .pairing = Pairing::half}, 8192);
  Guarded<float> x({100, 1, 100, 128}, Layout::bhtd), y({100, 1, 100, 128}, Layout::bhtd);
  x.fill(random);
  PositionTensor<Index> at(1, 100, 100);
  at.fill(random, 0, 1 << 20);
  rotate_to(table, x.read(), y.view(), at);
  double worst = 0, moved = 0;
  for (Index b = 0; b < 100; ++b) {
    for (Index t = 0; t < 100; ++t) {
      double before = 0, after = 0, difference = 0;
      for (Index d = 0; d < 128; ++d) {
        const double u = x.view()(b, 0, t, d), v = y.view()(b, 0, t, d);
        before += u * u, after += v * v, difference += (u - v) * (u - v);
      }
      worst = std::max(worst, std::abs(std::sqrt(after / before) - 1));
      moved += difference / before / 10'000;
    }
  }
  EXPECT_LE(worst, 4e-7);
  EXPECT_GT(moved, 0.5) << "hardly anything was rotated";
  EXPECT_TRUE(is_rotation(table.frequencies(), x, reference_rotation(table.frequencies(), x, at), y));
}

// Either score is a sum of 128 products of float numbers that are each within 3 ulp: ~3·2^-23·|q||k| at the very worst,
// summed here in double, so that what is measured is the rotation.
TEST(Rotate, TenThousandScoresDependOnTheDistanceAlone) {
  Random random(104);
  const Index count = 10'000, dim = 128;
  const RopeTable<float> table(Rope{.head_dim = dim, .pairing = Pairing::interleaved}, 4096);
  Guarded<float> q({1, 1, count, dim}, Layout::bhtd), k({1, 1, count, dim}, Layout::bhtd);
  q.fill(random);
  k.fill(random);
  PositionTensor<Index> q_positions(1, 1, count), k_positions(1, 1, count), q_moved(1, 1, count), k_moved(1, 1, count);
  q_positions.fill(random, 0, 1 << 17);
  k_positions.fill(random, 0, 1 << 17);
  for (std::size_t n = 0; n < q_positions.values.size(); ++n) {
    const Index shift = random.integer(1, 1 << 20);
    q_moved.values[n] = q_positions.values[n] + shift;
    k_moved.values[n] = k_positions.values[n] + shift;
  }
  const auto rotated = [&](const Guarded<float>& x, const Positions& at) {
    Guarded<float> y({1, 1, count, dim}, Layout::bhtd);
    rotate_to(table, x.read(), y.view(), at);
    return y;
  };
  const auto q_here = rotated(q, q_positions), k_here = rotated(k, k_positions);
  const auto q_there = rotated(q, q_moved), k_there = rotated(k, k_moved);
  double worst = 0, meaningful = 0;
  for (Index t = 0; t < count; ++t) {
    double here = 0, there = 0, across = 0, q_norm = 0, k_norm = 0;
    for (Index d = 0; d < dim; ++d) {
      const auto at = [&](const Guarded<float>& x) { return static_cast<double>(x.view()(0, 0, t, d)); };
      here += at(q_here) * at(k_here);
      there += at(q_there) * at(k_there);
      across += at(q_there) * at(k_here);
      q_norm += at(q) * at(q), k_norm += at(k) * at(k);
    }
    const double scale = std::sqrt(q_norm * k_norm);
    worst = std::max(worst, std::abs(here - there) / scale);
    meaningful += std::abs(here - across) > 1e-3 * scale ? 1 : 0;
  }
  EXPECT_LE(worst, 2e-6);
  EXPECT_GT(meaningful, 0.9 * count) << "moving one side alone must change the score";
  RecordProperty("worst", std::to_string(worst));
}

TEST(Rotate, RealPositionsEqualTheReference) {
  Random random(105);
  const Rope rope{.head_dim = 64, .pairing = Pairing::half};
  test::for_each_type([&](auto type) {
    using T = decltype(type);
    const RopeTable<Compute<T>> table(rope, 100);
    Guarded<T> x({2, 3, 11, 64}, Layout::bthd), y({2, 3, 11, 64}, Layout::bthd);
    x.fill(random);
    PositionTensor<double> at(1, 2, 11);
    at.fill(random, -50, 150);
    rotate_to(table, x.read(), y.view(), at);
    EXPECT_TRUE(is_rotation(table.frequencies(), x, reference_rotation(table.frequencies(), x, at), y));
  });
}

/// All the ways to say the same positions give the same bits.
TEST(Rotate, PositionsMayBeStatedInManyWays) {
  Random random(106);
  const RopeTable<float> table(Rope{.head_dim = 16, .pairing = Pairing::half}, 50);
  const Shape shape{2, 3, 9, 16};
  Guarded<float> x(shape, Layout::bhtd);
  x.fill(random);
  const auto rotated = [&](const Positions& at) {
    Guarded<float> y(shape, Layout::bhtd);
    rotate_to(table, x.read(), y.view(), at);
    return y.values();
  };
  std::vector<Index> both;
  std::vector<double> real;
  for (Index b = 0; b < 2; ++b) {
    for (Index t = 0; t < 9; ++t) both.push_back(45 + t), real.push_back(static_cast<double>(45 + t));
  }
  const std::vector<std::int32_t> narrow(both.begin(), both.end()), narrow_firsts = {45, 45};
  const std::vector<Index> firsts = {45, 45};
  const auto wanted = rotated(Positions(45));
  EXPECT_EQ(rotated(dense(both.data(), 9)), wanted);
  EXPECT_EQ(rotated(dense(both.data(), 2, 9)), wanted);
  EXPECT_EQ(rotated(dense(both.data(), 1, 2, 9)), wanted);
  EXPECT_EQ(rotated(dense(both.data(), 1, 9)), wanted);
  EXPECT_EQ(rotated(dense(both.data(), 1, 1, 9)), wanted);
  EXPECT_EQ(rotated(dense(narrow.data(), 9)), wanted);
  EXPECT_EQ(rotated(dense(narrow.data(), 2, 9)), wanted);
  EXPECT_EQ(rotated(dense(real.data(), 9)), wanted);
  EXPECT_EQ(rotated(Positions::starting_at(dense(firsts.data(), 2))), wanted);
  EXPECT_EQ(rotated(Positions::starting_at(dense(narrow_firsts.data(), 2))), wanted);
  EXPECT_EQ(rotated(View<const Index, 2>{both.data(), {2, 9}, {0, 1}}), wanted);
  std::vector<Index> backwards(both.rbegin(), both.rend());
  EXPECT_EQ(rotated(View<const Index, 1>{backwards.data() + 17, {9}, {-1}}), wanted);
  EXPECT_NE(rotated(Positions(44)), wanted);
}

TEST(Rotate, SequencesThatStartAtDifferentPositionsEqualTheReference) {
  Random random(107);
  const RopeTable<float> table(Rope{.head_dim = 16, .pairing = Pairing::interleaved}, 50);
  const std::vector<Index> firsts = {3, 4000, -20};
  for (Index time : {1, 7}) {
    Guarded<float> x({3, 2, time, 16}, Layout::bhtd), y({3, 2, time, 16}, Layout::bhtd);
    x.fill(random);
    const Positions at = Positions::starting_at(dense(firsts.data(), 3));
    rotate_to(table, x.read(), y.view(), at);
    PositionTensor<Index> written(1, 3, time);
    for (Index b = 0; b < 3; ++b) {
      for (Index t = 0; t < time; ++t) {
        written.values[static_cast<std::size_t>(b * time + t)] = firsts[static_cast<std::size_t>(b)] + t;
      }
    }
    EXPECT_TRUE(is_rotation(table.frequencies(), x, reference_rotation(table.frequencies(), x, written), y));
  }
}

TEST(Rotate, QueriesAndKeysInOneCallEqualTwoCalls) {
  Random random(108);
  const Rope rope{.head_dim = 32, .pairing = Pairing::half};
  test::for_each_type([&](auto type) {
    using T = decltype(type);
    const RopeTable<Compute<T>> table(rope, 20);
    const auto compare = [&](Index q_time, const Positions& q_positions, Index k_time, const Positions& k_positions,
                             bool shared) {
      const Shape q_shape{2, 6, q_time, 32}, k_shape{2, 2, k_time, 32};
      Guarded<T> q(q_shape, Layout::bthd), k(k_shape, Layout::padded);
      q.fill(random);
      k.fill(random);
      Guarded<T> q_alone(q_shape, Layout::bhtd), k_alone(k_shape, Layout::bhtd);
      rotate_to(table, q.read(), q_alone.view(), q_positions);
      rotate_to(table, k.read(), k_alone.view(), k_positions);
      test::Workers on(3);
      shared ? rotate(table, q.view(), k.view(), q_positions, on)
             : rotate(table, q.view(), q_positions, k.view(), k_positions, on);
      EXPECT_TRUE(test::same_bits(q.values(), q_alone.values()));
      EXPECT_TRUE(test::same_bits(k.values(), k_alone.values()));
      EXPECT_TRUE(q.guards_intact() && k.guards_intact());
    };
    PositionTensor<Index> at(1, 2, 5), k_positions(1, 2, 9);
    at.fill(random, 0, 100);
    k_positions.fill(random, 0, 100);
    compare(5, Positions(7), 5, Positions(7), true);
    compare(5, at, 5, at, true);
    compare(5, Positions(30), 9, Positions(0), false);
    compare(5, at, 9, k_positions, false);
    compare(0, Positions(0), 9, k_positions, false);
  });
}

/// Forms with several axes, each with positions that differ from axis to axis.
TEST(Rotate, PositionsWithSeveralAxesEqualTheReference) {
  Random random(109);
  struct Form {
    Index head_dim, axes;
    RopeAxes form;
  };
  const std::vector<Form> forms = {
      {128, 3, RopeAxes::sections({16, 24, 24})}, {128, 3, RopeAxes::interleaved({24, 20, 20})},
      {64, 2, RopeAxes::axial({16, 16})},         {64, 2, RopeAxes::strided({16, 16})},
      {64, 2, RopeAxes::interleaved({16, 16})},   {12, 3, RopeAxes::listed({1, 2, 1, 2, 0, 0})},
      {20, 4, RopeAxes::sections({1, 2, 3, 4})},  {80, 2, RopeAxes::axial({10, 30})},
  };
  for (const Form& form : forms) {
    for (Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      const Rope rope{.head_dim = form.head_dim, .pairing = pairing, .axes = form.form};
      test::for_each_type([&](auto type) {
        using T = decltype(type);
        SCOPED_TRACE(std::string(test::type_name<T>()) + ", " + test::describe(rope));
        const RopeTable<Compute<T>> table(rope, 40);
        ASSERT_EQ(table.frequencies().axes, form.axes);
        const Shape shape{2, 3, 7, form.head_dim};
        Guarded<T> x(shape, Layout::bthd);
        x.fill(random);
        PositionTensor<Index> at(form.axes, 2, 7), text(1, 2, 7);
        at.fill(random, 0, 60);
        text.fill(random, 0, 60);
        PositionTensor<double> real(form.axes, 2, 7);
        real.fill(random, -1, 50);
        const auto expected = reference_rotation(table.frequencies(), x, at);
        const auto expected_real = reference_rotation(table.frequencies(), x, real);
        const auto expected_text = reference_rotation(table.frequencies(), x, text);
        test::on_every_target([&] {
          Guarded<T> y(shape, Layout::bhtd);
          rotate_to(table, x.read(), y.view(), at);
          EXPECT_TRUE(is_rotation(table.frequencies(), x, expected, y));
          rotate_to(table, x.read(), y.view(), real);
          EXPECT_TRUE(is_rotation(table.frequencies(), x, expected_real, y));
          rotate_to(table, x.read(), y.view(), text);
          EXPECT_TRUE(is_rotation(table.frequencies(), x, expected_text, y));
          rotate_to(table, x.read(), y.view(), Positions(5));
          EXPECT_TRUE(is_rotation(table.frequencies(), x, reference_rotation(table.frequencies(), x, Positions(5)), y));
          rotate_backward_to(table, y.read(), y.view(), Positions(5));
          EXPECT_TRUE(y.guards_intact());
        });
      });
    }
  }
}

TEST(Rotate, CompactTablesRotateWithinTheSameBounds) {
  Random random(110);
  const Rope rope{.head_dim = 128, .base = 500'000, .pairing = Pairing::half};
  test::for_each_type([&](auto type) {
    using T = decltype(type);
    const RopeTable<Compute<T>> table(rope, 100'000, {.memory = TableMemory::compact});
    Guarded<T> x({2, 2, 33, 128}, Layout::bthd);
    x.fill(random);
    PositionTensor<Index> at(1, 2, 33);
    at.fill(random, -10, 120'000);
    const auto expected = reference_rotation(table.frequencies(), x, at);
    std::vector<T> first;
    test::on_every_target([&] {
      Guarded<T> y({2, 2, 33, 128}, Layout::bthd);
      rotate_to(table, x.read(), y.view(), at);
      EXPECT_TRUE(is_rotation(table.frequencies(), x, expected, y));
      if (first.empty()) first = y.values();
      EXPECT_TRUE(test::same_bits(y.values(), first));
    });
  });
}

TEST(Rotate, InfinitiesAndNansStayWithinTheirPair) {
  const RopeTable<float> table(Rope{.head_dim = 8, .pairing = Pairing::interleaved}, 4);
  std::vector<float> x = {1, 2, INFINITY, 3, 4, 5, NAN, 6};
  rotate(table, bhtd(x.data(), 1, 1, 1, 8), Positions(1));
  EXPECT_TRUE(std::isfinite(x[0]) && std::isfinite(x[1]) && std::isfinite(x[4]) && std::isfinite(x[5]));
  EXPECT_TRUE(std::isinf(x[2]) && std::isinf(x[3]));
  EXPECT_TRUE(std::isnan(x[6]) && std::isnan(x[7]));
}

TEST(Rotate, ElementsThatPassThroughKeepTheirBitsEvenSignallingNans) {
  const RopeTable<float> table(Rope{.head_dim = 8, .rotary_dim = 4, .pairing = Pairing::half}, 4);
  Bfloat16 x[8], y[8];
  for (int n = 0; n < 8; ++n) x[n] = Bfloat16::from_bits(static_cast<std::uint16_t>(0x7F81 + n));  // signalling NaNs
  rotate_to<Bfloat16>(table, bhtd<const Bfloat16>(x, 1, 1, 1, 8), bhtd(y, 1, 1, 1, 8), Positions(2));
  EXPECT_EQ(std::memcmp(x + 4, y + 4, 4 * sizeof(Bfloat16)), 0);
}

TEST(Rotate, AGivenTableIsTakenAsItIs) {
  std::vector<float> cos = {1, 2, 3, 4, 5, 6}, sin = {-1, -2, -3, -4, -5, -6};
  const Rope rope{.head_dim = 6, .rotary_dim = 4, .pairing = Pairing::half, .part = RotaryPart::last()};
  const View<const float, 2> transposed{cos.data(), {3, 2}, {1, 3}};
  const auto table = RopeTable<float>::from_cos_sin(rope, transposed, dense<const float>(sin.data(), 3, 2));
  cos.assign(6, 99);  // the table has copied
  EXPECT_EQ(table.length(), 3);
  EXPECT_EQ(table.cos()(1, 0), 2);
  EXPECT_EQ(table.cos()(1, 1), 5);
  EXPECT_EQ(table.sin()(2, 1), -6);
  std::vector<float> x = {7, 8, 1, 0, 0, 1};
  rotate(table, bhtd(x.data(), 1, 1, 1, 6), Positions(1));
  // cos = (2, 5), sin = (−3, −4) on the pairs (1, 0) and (0, 1)
  EXPECT_EQ(x, (std::vector<float>{7, 8, 2, 4, -3, 5}));
}

// Times 1.5, every other significand lies in the middle between two numbers of bfloat16.
TEST(Rotate, MiddlesBetweenTwoBfloat16RoundToTheEvenOneOnEveryTarget) {
  const std::vector<float> cos(64, 1.5f), sin(64, 0.0f);
  std::vector<Bfloat16> x;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bool finite = (bits & 0x7F80) != 0x7F80;
    x.push_back(Bfloat16::from_bits(static_cast<std::uint16_t>(finite ? bits : bits & 0x807F)));
  }
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    const auto table = RopeTable<float>::from_cos_sin(Rope{.head_dim = 128, .pairing = pairing},
                                                      dense(cos.data(), 1, 64), dense(sin.data(), 1, 64));
    test::on_every_target([&] {
      std::vector<Bfloat16> y = x;
      rotate(table, bthd(y.data(), 1, 1, 512, 128), Positions(0));
      Index wrong = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        wrong += static_cast<float>(y[i]) != static_cast<float>(Bfloat16(1.5f * static_cast<float>(x[i])));
      }
      EXPECT_EQ(wrong, 0);
    });
  }
}

}  // namespace
}  // namespace bearing
