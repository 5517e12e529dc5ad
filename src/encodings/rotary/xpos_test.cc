#include <gtest/gtest.h>
#include <bearing/encodings/xpos.hpp>
#include <bearing/error.hpp>
#include <bearing/reference.hpp>

#include "support/golden.hpp"
#include "support/rotation.hpp"
#include "support/targets.hpp"
#include "support/workers.hpp"

namespace bearing {
namespace {

using test::Guarded;
using test::Layout;
using test::PositionTensor;
using test::Random;
using test::Shape;

Xpos xpos_of(Index head_dim, double centre = 0, double scale_base = 512) {
  return {.rope = {.head_dim = head_dim, .pairing = Pairing::interleaved}, .scale_base = scale_base, .centre = centre};
}

template <class T>
std::vector<double> reference_xpos(const Xpos& xpos, int exponent, const Guarded<T>& x, const Positions& at) {
  std::vector<double> values = x.doubles();
  const auto [batch, heads, time, dim] = x.view().shape;
  const auto view = bhtd(values.data(), batch, heads, time, dim);
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < heads; ++h) {
      for (Index t = 0; t < time; ++t) {
        const double p = at.real(0, b, t);
        const auto head = dense(&view(b, h, t, 0), dim);
        reference::rotate_xpos(xpos, exponent, dense(&p, 1), head, head);
      }
    }
  }
  return values;
}

TEST(Xpos, TorchscalesNumbersComeOut) {
  const auto golden = test::golden("relative/xpos_L5_d16_off3_sb512.json");
  const Index length = golden["length"].GetInt64(), offset = golden["offset"].GetInt64();
  // There, min_pos = −((length + offset) // 2) is added to every index: our centre.
  const Xpos xpos = xpos_of(16, static_cast<double>((length + offset) / 2), golden["scale_base"].GetDouble());
  const auto zeta = xpos_decay(xpos), wanted_zeta = test::numbers(golden["scale"]);
  ASSERT_EQ(zeta.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(zeta[i], wanted_zeta[i], 1e-15);

  const XposTable<double> table(xpos, length + offset);
  const auto x = test::tensor(golden["x"]);
  const auto up = test::tensor(golden["upscaled"]), down = test::tensor(golden["downscaled"]);
  std::vector<double> q = x.data, k = x.data;
  rotate(table.q, bhtd(q.data(), 2, 1, length, 16), Positions(offset));
  rotate(table.k, bhtd(k.data(), 2, 1, length, 16), Positions(offset));
  for (std::size_t n = 0; n < q.size(); ++n) {
    EXPECT_NEAR(q[n], up.data[n], 2e-12) << n;
    EXPECT_NEAR(k[n], down.data[n], 2e-12) << n;
  }
}

TEST(Xpos, TablesEqualTheReferenceForEveryTypeAndPairingOnEveryTarget) {
  Random random(1);
  for (Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    for (double centre : {0.0, 250.0, -17.5}) {
      Xpos xpos = xpos_of(40, centre);
      xpos.rope.rotary_dim = 32;
      xpos.rope.pairing = pairing;
      xpos.rope.part = RotaryPart::last();
      test::for_each_type([&](auto type) {
        using T = decltype(type);
        SCOPED_TRACE(std::string(test::type_name<T>()) + ", " + test::describe(xpos.rope) + ", centre " +
                     std::to_string(centre));
        const XposTable<Compute<T>> table(xpos, 500);
        Guarded<T> x({2, 3, 11, 40}, Layout::bthd);
        x.fill(random);
        PositionTensor<double> at(1, 2, 11);
        at.fill(random, -50, 1000);
        for (std::size_t n = 0; n < 11; ++n) at.values[n] = std::round(at.values[n]);
        const auto q = reference_xpos(xpos, +1, x, at), k = reference_xpos(xpos, -1, x, at);
        std::vector<T> first;
        test::on_every_target([&] {
          Guarded<T> y({2, 3, 11, 40}, Layout::padded);
          rotate_to(table.q, x.read(), y.view(), at);
          EXPECT_TRUE(test::is_rotation(table.q.frequencies(), x, q, y)) << "queries";
          rotate_to(table.k, x.read(), y.view(), at);
          EXPECT_TRUE(test::is_rotation(table.k.frequencies(), x, k, y)) << "keys";
          EXPECT_TRUE(y.guards_intact());
          if (first.empty()) first = y.values();
          EXPECT_TRUE(test::same_bits(y.values(), first)) << "not the bits of the best target";
        });
      });
    }
  }
}

struct Scores {
  std::vector<double> values;  // [queries, keys]
};

template <class T>
Scores scores(const Xpos& xpos, const Guarded<T>& q, const Guarded<T>& k, const Positions& q_positions,
              const Positions& k_positions) {
  const XposTable<Compute<T>> table(xpos, 100);
  Guarded<T> q_turned(q.view().shape, Layout::bhtd), k_turned(k.view().shape, Layout::bhtd);
  rotate_to(table.q, q.read(), q_turned.view(), q_positions);
  rotate_to(table.k, k.read(), k_turned.view(), k_positions);
  Scores result;
  for (Index i = 0; i < q.view().shape[2]; ++i) {
    for (Index j = 0; j < k.view().shape[2]; ++j) {
      double sum = 0;
      for (Index d = 0; d < q.view().shape[3]; ++d) {
        sum += test::to_double(q_turned.view()(0, 0, i, d)) * test::to_double(k_turned.view()(0, 0, j, d));
      }
      result.values.push_back(sum);
    }
  }
  return result;
}

// A score is a sum of 32 products whose factors are, at distances up to 64, at most ζ_0^-(64/512) ≈ 1.2 times those of
// plain RoPE: 32·4·1.2·2^-50 for double.
TEST(Xpos, ScoresDoNotDependOnTheCentre) {
  Random random(2);
  Guarded<double> q({1, 1, 64, 32}, Layout::bhtd), k({1, 1, 64, 32}, Layout::bhtd);
  q.fill(random);
  k.fill(random);
  const auto at_zero = scores(xpos_of(32, 0), q, k, {}, {});
  for (double centre : {31.5, 2000.0, -500.0}) {
    const auto elsewhere = scores(xpos_of(32, centre), q, k, {}, {});
    for (std::size_t n = 0; n < at_zero.values.size(); ++n) {
      EXPECT_NEAR(elsewhere.values[n], at_zero.values[n], 32 * 4 * 1.2 * 0x1p-46) << centre;
    }
  }
}

TEST(Xpos, ScoresDependOnTheDistanceAloneAndShrinkWithIt) {
  Random random(3);
  Guarded<double> q({1, 1, 40, 32}, Layout::bhtd), k({1, 1, 40, 32}, Layout::bhtd);
  q.fill(random);
  k.fill(random);
  const auto here = scores(xpos_of(32), q, k, {}, {});
  const auto there = scores(xpos_of(32), q, k, Positions(1000), Positions(1000));
  for (std::size_t n = 0; n < here.values.size(); ++n) EXPECT_NEAR(here.values[n], there.values[n], 32 * 8 * 0x1p-46);
  // With one pair of equal unit vectors, the score at distance Δ is ζ^(Δ/scale_base)·cos(Δ): ζ_0 = 0.4/1.4.
  const Xpos one = {.rope = {.head_dim = 2, .pairing = Pairing::half}, .scale_base = 64};
  Guarded<double> u({1, 1, 40, 2}, Layout::bhtd);
  u.for_each([&](Index b, Index h, Index t, Index d) { u.view()(b, h, t, d) = d == 0 ? 1 : 0; });
  const auto decay = scores(one, u, u, {}, {});
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const double distance = static_cast<double>(i - j);
      EXPECT_NEAR(decay.values[i * 40 + j], std::pow(0.4 / 1.4, distance / 64) * std::cos(distance), 1e-14);
    }
  }
}

// What other implementations get wrong: their centre follows the length of each call.
TEST(Xpos, KeysCachedByAnEarlierCallFitLaterQueries) {
  Random random(4);
  Guarded<double> q({1, 1, 20, 16}, Layout::bhtd), k({1, 1, 20, 16}, Layout::bhtd);
  q.fill(random);
  k.fill(random);
  const auto at_once = scores(xpos_of(16, 10), q, k, {}, {});
  const XposTable<double> table(xpos_of(16, 10), 8);
  std::vector<double> cache = k.doubles(), queries = q.doubles();
  rotate(table.k, bhtd(cache.data(), 1, 1, 13, 16), {});
  for (Index t = 13; t < 20; ++t) rotate(table.k, bhtd(cache.data() + t * 16, 1, 1, 1, 16), Positions(t));
  rotate(table.q, bhtd(queries.data(), 1, 1, 20, 16), {});
  for (Index i = 0; i < 20; ++i) {
    for (Index j = 0; j < 20; ++j) {
      double sum = 0;
      for (Index d = 0; d < 16; ++d) {
        sum += queries[static_cast<std::size_t>(i * 16 + d)] * cache[static_cast<std::size_t>(j * 16 + d)];
      }
      EXPECT_EQ(sum, at_once.values[static_cast<std::size_t>(i * 20 + j)]);
    }
  }
}

TEST(Xpos, BackwardIsTheTransposeWithTheDecayStillMultiplied) {
  Random random(5);
  const Xpos xpos = xpos_of(32, 100);
  const XposTable<double> table(xpos, 50);
  Guarded<double> x({1, 2, 9, 32}, Layout::bhtd), y({1, 2, 9, 32}, Layout::bhtd), forward({1, 2, 9, 32}, Layout::bhtd),
      backward({1, 2, 9, 32}, Layout::bhtd);
  x.fill(random);
  y.fill(random);
  for (const RopeTable<double>* side : {&table.q, &table.k}) {
    rotate_to(*side, x.read(), forward.view(), Positions(700));
    rotate_backward_to(*side, y.read(), backward.view(), Positions(700));
    double left = 0, right = 0, norms = 0;
    x.for_each([&](Index b, Index h, Index t, Index d) {
      left += forward.view()(b, h, t, d) * y.view()(b, h, t, d);
      right += x.view()(b, h, t, d) * backward.view()(b, h, t, d);
      norms += std::abs(forward.view()(b, h, t, d) * y.view()(b, h, t, d));
    });
    EXPECT_NEAR(left, right, 1e-12 * norms);
  }
}

TEST(Xpos, CachedKeysMoveToOtherPositions) {
  Random random(6);
  const Xpos xpos = xpos_of(32, 64);
  test::for_each_type([&](auto type) {
    using T = decltype(type);
    SCOPED_TRACE(test::type_name<T>());
    Guarded<T> k({2, 2, 9, 32}, Layout::bthd), cached({2, 2, 9, 32}, Layout::bthd);
    k.fill(random);
    PositionTensor<Index> old_positions(1, 2, 9), new_positions(1, 2, 9);
    old_positions.fill(random, 0, 2000);
    new_positions.fill(random, 0, 2000);
    // Exact in double: undone as a query's factor would, turned back, and rotated afresh.
    cached.copy(k.read());
    std::vector<double> expected = k.doubles();
    const auto view = bhtd(expected.data(), 2, 2, 9, 32);
    const auto zeta = xpos_decay(xpos);
    const RopeFrequencies f = resolve(xpos.rope);
    reference::rotate_backward(f, view, old_positions, view);
    reference::rotate(f, view, new_positions, view);
    k.for_each([&](Index b, Index h, Index t, Index d) {
      const double by = static_cast<double>(new_positions.view()(0, b, t) - old_positions.view()(0, b, t));
      view(b, h, t, d) *= std::pow(zeta[static_cast<std::size_t>(d / 2)], -by / 512);
    });
    std::vector<T> first;
    test::on_every_target([&] {
      Guarded<T> moved({2, 2, 9, 32}, Layout::bthd);
      moved.copy(k.read());
      rebase(xpos, old_positions, new_positions, moved.view());
      EXPECT_TRUE(test::is_rotation(f, k, expected, moved));
      EXPECT_TRUE(moved.guards_intact());
      if (first.empty()) first = moved.values();
      EXPECT_TRUE(test::same_bits(moved.values(), first));
    });
  });
}

// The frequencies of a table that was made for some length are given as they are, each rounded to a double.
TEST(Xpos, KeysOfAScalingThatDependsOnTheLengthMoveByTheirTablesFrequencies) {
  Random random(8);
  Xpos xpos = xpos_of(32);
  xpos.rope.scaling = DynamicNtkScaling{.factor = 4, .trained_length = 64};
  const XposTable<double> table(xpos, 512, {.seq_len = 512});
  Guarded<double> k({1, 2, 5, 32}, Layout::bhtd), moved({1, 2, 5, 32}, Layout::bhtd),
      fresh({1, 2, 5, 32}, Layout::bhtd);
  k.fill(random);
  rotate_to(table.k, k.read(), moved.view(), Positions(3));
  rotate_to(table.k, k.read(), fresh.view(), Positions(400));
  EXPECT_THROW(rebase(xpos, Positions(3), Positions(400), moved.view()), RangeError);
  xpos.rope.scaling = ExplicitFrequencies{table.k.frequencies().inv_freq};
  rebase(xpos, Positions(3), Positions(400), moved.view());
  const auto wanted = fresh.doubles(), got = moved.doubles();
  for (std::size_t n = 0; n < wanted.size(); ++n) EXPECT_NEAR(got[n], wanted[n], 1e-12) << n;
}

TEST(Xpos, FrequenciesServeTheLengthThatIsSaidNotThatOfTheTable) {
  Xpos xpos = xpos_of(16);
  xpos.rope.scaling = DynamicNtkScaling{.factor = 4, .trained_length = 64};
  const XposTable<double> table(xpos, 8, {.seq_len = 256});
  EXPECT_EQ(table.q.frequencies().inv_freq, resolve(xpos.rope, 256).inv_freq);
  EXPECT_EQ(table.k.frequencies().inv_freq, resolve(xpos.rope, 256).inv_freq);
}

TEST(Xpos, HasTheSameBitsForAnyNumberOfThreads) {
  Random random(7);
  Guarded<float> x({2, 3, 65, 32}, Layout::bthd);
  x.fill(random);
  const auto turned = [&](const Executor& on) {
    const XposTable<float> table(xpos_of(32), 40, {}, on);
    Guarded<float> y({2, 3, 65, 32}, Layout::bthd);
    rotate_to(table.k, x.read(), y.view(), Positions(7), on);
    rebase(xpos_of(32), Positions(7), Positions(70), y.view(), on);
    return y.values();
  };
  const auto serial = turned({});
  for (Index workers : {2, 3, 7, 16}) {
    test::Workers threads(workers);
    EXPECT_TRUE(test::same_bits(turned(threads), serial)) << workers;
  }
}

// ζ_0 = 0.4/1.4 reaches 2^-100 at a distance of 512·100/log2(3.5) = 28,328.7 tokens.
TEST(Xpos, FactorsThatLeaveTheRangeAreRefusedAndNothingIsWritten) {
  EXPECT_NO_THROW(XposTable<float>(xpos_of(16), 28'329));
  EXPECT_THROW(XposTable<float>(xpos_of(16), 28'330), RangeError);
  EXPECT_NO_THROW(XposTable<float>(xpos_of(16, 28'328), 56'657));
  EXPECT_THROW(XposTable<float>(xpos_of(16, -28'329), 1), RangeError);
  const XposTable<float> table(xpos_of(16), 10);
  std::vector<float> x(32, 3);
  const auto view = bhtd(x.data(), 1, 1, 2, 16);
  EXPECT_THROW(rotate(table.q, view, Positions(28'328)), RangeError);
  EXPECT_THROW(rotate(table.k, view, Positions(-28'329)), RangeError);
  EXPECT_THROW(rebase(xpos_of(16), Positions(0), Positions(28'329), view), RangeError);
  EXPECT_EQ(x, std::vector<float>(32, 3));
  EXPECT_NO_THROW(rotate(table.q, view, Positions(28'327)));
}

}  // namespace
}  // namespace bearing
