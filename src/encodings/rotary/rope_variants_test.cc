#include <gtest/gtest.h>
#include <bearing/encodings/rope_variants.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <cstring>
#include <numbers>

#include "support/errors.hpp"
#include "support/row_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;

template <class T>
std::vector<T> rotated(const RopeTable<T>& table, const test::RowData& data, bool back = false) {
  std::vector<T> y;
  if (back) {
    rotate_backward_to<T>(table, data.template x<T>(), data.like_x(y), data.at());
  } else {
    rotate_to<T>(table, data.template x<T>(), data.like_x(y), data.at());
  }
  return y;
}

TEST(HighFrequencyRope, TurnsPairsThatCompleteATurnWithinTheTrainedLength) {
  const Rope rope{.head_dim = 64, .pairing = Pairing::half};
  const RopeFrequencies all = resolve(rope), high = high_frequency(all, 512);
  Index kept = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    const bool completes = 2 * std::numbers::pi / all.inv_freq[i] <= 512;  // its wavelength
    EXPECT_EQ(high.inv_freq[i], completes ? all.inv_freq[i] : 0);
    kept += completes ? 1 : 0;
  }
  EXPECT_EQ(kept, 16);  // 10,000^(−i/32) ≥ 2π/512: i ≤ 15.28
  const test::RowData data({.time = 20, .dim = 64, .first = 5}, 64);
  const std::vector<double> a = rotated(RopeTable<double>(all, 30), data),
                            b = rotated(RopeTable<double>(high, 30), data);
  for (std::size_t x = 0; x < a.size(); ++x) {
    EXPECT_EQ(b[x], x % 32 < 16 ? a[x] : data.x<double>().data[x]);
  }
}

TEST(HighFrequencyRope, KeepsTheOtherNumbersAndEveryPairOfAShortWave) {
  const Rope rope{.head_dim = 8, .pairing = Pairing::half, .scaling = YarnScaling{.factor = 4, .trained_length = 64}};
  const RopeFrequencies all = resolve(rope);
  EXPECT_EQ(high_frequency(all, 10'000'000).inv_freq, all.inv_freq);
  EXPECT_EQ(high_frequency(all, 10'000'000).quarter_turns, all.quarter_turns);
  EXPECT_EQ(high_frequency(all, 64).attention_factor, all.attention_factor);
  expect_error<RangeError>([&] { high_frequency(all, 0); },
                           "[high_frequency] trained_length: must be at least 1, got 0");
}

TEST(NegativeAngle, TurnsTheOtherWayToTheBit) {
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    const Rope rope{.head_dim = 20, .pairing = pairing};
    for (const Angles angles : {Angles::exact, Angles::as_float32}) {
      const RopeFrequencies plain = resolve(rope, 0, angles);
      for (const TableMemory memory : {TableMemory::full, TableMemory::compact}) {
        const RopeTable<float> there(plain, 40, memory), back(negative_angle(plain), 40, memory);
        for (const Index first : {0, 30, 100'000}) {
          const test::RowData data({.batch = 2, .heads = 2, .time = 21, .dim = 20, .first = first}, 20);
          EXPECT_EQ(rotated(back, data), rotated(there, data, true));
          EXPECT_EQ(rotated(back, data, true), rotated(there, data));
        }
      }
    }
  }
}

// NanoChat: x·cos + (x2, −x1)·sin over halves.
TEST(NegativeAngle, IsNanoChatsRotation) {
  const RopeFrequencies plain = resolve({.head_dim = 8, .pairing = Pairing::half});
  const RopeTable<double> table(negative_angle(plain), 16);
  const test::RowData data({.time = 11, .dim = 8}, 8);
  const std::vector<double> y = rotated(table, data);
  for (Index p = 0; p < 11; ++p) {
    for (Index i = 0; i < 4; ++i) {
      const double angle = static_cast<double>(p) * plain.inv_freq[static_cast<std::size_t>(i)];
      const double x1 = data.x<double>()(0, 0, p, i), x2 = data.x<double>()(0, 0, p, i + 4);
      EXPECT_NEAR(y[static_cast<std::size_t>(p * 8 + i)], x1 * std::cos(angle) + x2 * std::sin(angle), 0x1p-49);
      EXPECT_NEAR(y[static_cast<std::size_t>(p * 8 + i + 4)], x2 * std::cos(angle) - x1 * std::sin(angle), 0x1p-49);
    }
  }
}

// RoFormer's rotary values: o_i = Σ_j p_ij R(n_j) v_j. Turned back by the query's own position, R(−m_i) o_i depends on
// distances alone; as it is, it does not.
TEST(RotaryValues, AreRelativeOnceTurnedBackAtTheQuery) {
  constexpr Index time = 6, dim = 8;
  const RopeTable<double> table(Rope{.head_dim = dim, .pairing = Pairing::half}, 0);
  const test::RowData data({.time = time, .dim = dim}, dim);
  test::Random random(9);
  std::vector<double> p(time * time);
  for (double& x : p) x = random.uniform(0, 1);
  const auto output = [&](Index first, bool turn_back) {
    std::vector<double> v(time * dim), o(time * dim);
    rotate_to<double>(table, data.x<double>(), bhtd(v.data(), 1, 1, time, dim), Positions(first));
    for (std::size_t i = 0; i < time; ++i) {
      for (std::size_t j = 0; j < time; ++j) {
        for (std::size_t d = 0; d < dim; ++d) o[i * dim + d] += p[i * time + j] * v[j * dim + d];
      }
    }
    if (turn_back) rotate_backward<double>(table, bhtd(o.data(), 1, 1, time, dim), Positions(first));
    return o;
  };
  const auto apart = [](const std::vector<double>& a, const std::vector<double>& b) {
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
    return most;
  };
  EXPECT_LT(apart(output(0, true), output(1000, true)), 0x1p-48);  // sums of six products below 1
  EXPECT_GT(apart(output(0, false), output(1000, false)), 1);
}

}  // namespace
}  // namespace bearing
