#include <gtest/gtest.h>
#include <bearing/encodings/rope.hpp>
#include <bearing/reference.hpp>
#include <cstring>

#include "support/golden.hpp"
#include "support/rows.hpp"
#include "support/targets.hpp"
#include "support/workers.hpp"

// Bounds: cos and sin are computed in double with an error below 1e-3 ulp of float wherever they lie, then rounded
// once: ½ + 0.05 ulp leaves room for the attention factor's product in double and nothing else. bf16 and f16 are
// rounded from float: ½ ulp of theirs and 0.55·2^-13 of it at most, so 0.51. double: ¾ ulp of the polynomials, 2
// promised.

namespace bearing {
namespace {

using test::filled;
using test::Random;
using test::TrueFrequency;
using test::used;
using test::WorstUlps;

constexpr Index to_2_24 = Index{1} << 24;
constexpr Index head_dims[] = {128, 64, 80, 96, 256, 10, 2};

Rope rope_of(Index head_dim, double base, Pairing pairing = Pairing::half) {
  return {.head_dim = head_dim, .base = base, .pairing = pairing};
}

std::vector<TrueFrequency> true_frequencies(const Rope& rope) {
  std::vector<TrueFrequency> theta;
  for (Index i = 0; i < rope.head_dim / 2; ++i) theta.push_back(TrueFrequency::power(rope.base, 2 * i, rope.head_dim));
  return theta;
}

template <class P>
std::vector<P> random_positions(Random& random, Index count, double low, double high) {
  std::vector<P> positions(static_cast<std::size_t>(count));
  for (P& p : positions) {
    if constexpr (std::is_integral_v<P>) {
      p = random.integer(static_cast<Index>(low), static_cast<Index>(high));
    } else {
      p = random.uniform(low, high);
    }
  }
  return positions;
}

template <class T, class P>
void compare(WorstUlps& worst, const test::CosSinRows<T>& rows, const std::vector<P>& positions, double base,
             const std::vector<TrueFrequency>& theta, double factor = 1) {
  for (Index t = 0; t < rows.positions; ++t) {
    const double p = static_cast<double>(positions[static_cast<std::size_t>(t)]);
    for (Index i = 0; i < rows.pairs; ++i) {
      worst.see(rows.cos_at(t, i), rows.sin_at(t, i), theta[static_cast<std::size_t>(i)].cos_sin(p, factor), base, i,
                p);
    }
  }
}

/// Random bases, head sizes and positions: about `samples` pairs.
template <class T, class P>
void compare_random(WorstUlps& worst, std::uint64_t seed, Index samples, double low, double high) {
  Random random(seed);
  while (worst.samples() < samples) {
    const Rope rope = rope_of(head_dims[random.integer(0, 6)], std::exp(random.uniform(std::log(2.0), std::log(1e9))));
    const auto positions = random_positions<P>(random, std::min<Index>(20'000 / rope.head_dim, 200), low, high);
    compare(worst, filled<T>(resolve(rope), positions), positions, rope.base, true_frequencies(rope));
  }
}

TEST(RopeTable, AMillionRandomFloatsAreWithin055Ulp) {
  WorstUlps worst(0.55);
  compare_random<float, Index>(worst, 1, 1'000'000, 0, to_2_24);
  RecordProperty("worst_ulp", std::to_string(worst.worst()));
}

TEST(RopeTable, FloatsAreWithinOneUlpAndDoublesWithinTwoToTheLargestPosition) {
  WorstUlps floats(1), doubles(2);
  compare_random<float, Index>(floats, 2, 100'000, -0x1p31, 0x1p31);
  compare_random<double, Index>(doubles, 3, 200'000, -0x1p31, 0x1p31);
  RecordProperty("worst_ulp_float", std::to_string(floats.worst()));
  RecordProperty("worst_ulp_double", std::to_string(doubles.worst()));
}

TEST(RopeTable, RealPositionsAreAsExactAsWholeOnes) {
  WorstUlps floats(0.55), far_floats(1), doubles(2), small(2);
  compare_random<float, double>(floats, 4, 50'000, 0, 0x1p24);
  compare_random<float, double>(far_floats, 5, 50'000, -0x1p31, 0x1p31);
  compare_random<double, double>(doubles, 6, 50'000, -0x1p31, 0x1p31);
  compare_random<double, double>(small, 7, 50'000, -1e-3, 1e-3);
}

TEST(RopeTable, ThePositionsNearestToQuarterTurnsAreExactToo) {
  WorstUlps floats(0.55), far_floats(1), doubles(2);
  for (const Rope& rope : {rope_of(128, 500'000), rope_of(64, 10'000), rope_of(256, 1e6), rope_of(80, 1e7),
                           rope_of(32, 2), rope_of(96, 150'000)}) {
    const auto theta = true_frequencies(rope);
    const RopeFrequencies frequencies = resolve(rope);
    for (Index i = 0; i < frequencies.pairs(); ++i) {
      std::vector<Index> positions;
      for (Index p : theta[static_cast<std::size_t>(i)].near_quarter_turns(max_position)) {
        positions.push_back(p);
        positions.push_back(-p);
      }
      const auto narrow = filled<float>(frequencies, positions);
      const auto wide = filled<double>(frequencies, positions);
      for (Index t = 0; t < narrow.positions; ++t) {
        const Index p = positions[static_cast<std::size_t>(t)];
        const auto truth = theta[static_cast<std::size_t>(i)].cos_sin(static_cast<double>(p));
        (std::abs(p) <= to_2_24 ? floats : far_floats)
            .see(narrow.cos_at(t, i), narrow.sin_at(t, i), truth, rope.base, i, static_cast<double>(p));
        doubles.see(wide.cos_at(t, i), wide.sin_at(t, i), truth, rope.base, i, static_cast<double>(p));
      }
    }
  }
  EXPECT_GT(floats.samples(), 5'000);
  EXPECT_GT(far_floats.samples(), 2'000);
  RecordProperty("worst_ulp_float", std::to_string(floats.worst()));
  RecordProperty("worst_ulp_double", std::to_string(doubles.worst()));
}

TEST(RopeTable, SixteenBitRowsAreRoundedOnce) {
  WorstUlps bfloats(0.51), halves(0.51);
  compare_random<Bfloat16, Index>(bfloats, 8, 100'000, 0, to_2_24);
  compare_random<Float16, Index>(halves, 9, 100'000, 0, to_2_24);
  EXPECT_GT(bfloats.worst(), 0.49) << "so the bound is not idle";
}

TEST(RopeTable, ThePublishedTruthComesOut) {
  const auto golden = test::golden("truth/cos_sin_truth.json");
  WorstUlps floats(0.55), far_floats(1), doubles(2), oracle(0.5);
  for (const auto& row : golden["rows"].GetArray()) {
    const Rope rope = rope_of(row[1].GetInt64(), row[0].GetDouble());
    const Index i = row[2].GetInt64();
    const std::vector<Index> p = {row[3].GetInt64()};
    const double position = static_cast<double>(p[0]);
    const test::TrueCosSin truth{test::parse_truth(row[5].GetString()), test::parse_truth(row[6].GetString())};
    const auto narrow = filled<float>(resolve(rope), p);
    const auto wide = filled<double>(resolve(rope), p);
    (p[0] <= to_2_24 ? floats : far_floats)
        .see(narrow.cos_at(0, i), narrow.sin_at(0, i), truth, rope.base, i, position);
    doubles.see(wide.cos_at(0, i), wide.sin_at(0, i), truth, rope.base, i, position);
    const auto ours = TrueFrequency::power(rope.base, 2 * i, rope.head_dim).cos_sin(position);
    oracle.see(ours.cos.hi, ours.sin.hi, truth, rope.base, i, position);
  }
  EXPECT_EQ(doubles.samples(), 329);
}

// Long runs of rows are computed differently from single ones; both kinds of table are probed along their whole length.
TEST(RopeTable, LongTablesAreWithinTheSameBounds) {
  WorstUlps floats(0.55), doubles(2);
  Random random(10);
  for (const Rope& rope : {rope_of(128, 500'000), rope_of(10, 10'000), rope_of(80, 100)}) {
    const Index length = 30'000;
    const RopeTable<float> narrow(rope, length);
    const RopeTable<double> wide(rope, length);
    ASSERT_EQ(narrow.cos().shape, (std::array<Index, 2>{length, rope.head_dim / 2}));
    const auto theta = true_frequencies(rope);
    for (int n = 0; n < 50'000; ++n) {
      const Index p = random.integer(0, length - 1), i = random.integer(0, rope.head_dim / 2 - 1);
      const auto truth = theta[static_cast<std::size_t>(i)].cos_sin(static_cast<double>(p));
      floats.see(narrow.cos()(p, i), narrow.sin()(p, i), truth, rope.base, i, static_cast<double>(p));
      doubles.see(wide.cos()(p, i), wide.sin()(p, i), truth, rope.base, i, static_cast<double>(p));
    }
  }
}

TEST(RopeTable, CompactTablesStayUnderAMebibyteAndWithinTheSameBounds) {
  for (const Rope& rope : {rope_of(128, 500'000), rope_of(64, 10'000, Pairing::interleaved), rope_of(256, 1e6)}) {
    const Index length = 131'072;
    const RopeTable<float> narrow(rope, length, {.memory = TableMemory::compact});
    const RopeTable<double> wide(rope, length, {.memory = TableMemory::compact});
    EXPECT_LT(narrow.bytes(), std::size_t{1} << 20);
    EXPECT_LT(wide.bytes(), std::size_t{1} << 20);
    EXPECT_LT(RopeTable<float>(rope, max_position, {.memory = TableMemory::compact}).bytes(), std::size_t{1} << 20);
    EXPECT_EQ(narrow.memory(), TableMemory::compact);
    EXPECT_EQ(narrow.length(), length);

    Random random(11);
    const auto theta = true_frequencies(rope);
    WorstUlps floats(0.55), doubles(2);
    const auto positions = random_positions<Index>(random, 400, 0, static_cast<double>(length - 1));
    compare(floats, used(narrow, positions), positions, rope.base, theta);
    compare(doubles, used(wide, positions), positions, rope.base, theta);
    for (std::size_t i = 0; i < theta.size(); ++i) {
      const auto hard = theta[i].near_quarter_turns(length - 1);
      const auto narrow_rows = used(narrow, hard);
      const auto wide_rows = used(wide, hard);
      const Index pair = static_cast<Index>(i);
      for (Index t = 0; t < narrow_rows.positions; ++t) {
        const double p = static_cast<double>(hard[static_cast<std::size_t>(t)]);
        const auto truth = theta[i].cos_sin(p);
        floats.see(narrow_rows.cos_at(t, pair), narrow_rows.sin_at(t, pair), truth, rope.base, pair, p);
        doubles.see(wide_rows.cos_at(t, pair), wide_rows.sin_at(t, pair), truth, rope.base, pair, p);
      }
    }
  }
}

TEST(RopeTable, TheAttentionFactorIsMultipliedIntoCosAndSin) {
  Rope rope = rope_of(64, 10'000);
  rope.scaling = YarnScaling{.factor = 4, .trained_length = 4096};
  const RopeFrequencies frequencies = resolve(rope);
  ASSERT_GT(frequencies.attention_factor, 1.1);
  std::vector<TrueFrequency> theta;
  for (Index i = 0; i < 32; ++i) theta.push_back(TrueFrequency::power(10'000, 2 * i, 64));
  Random random(12);
  const auto positions = random_positions<Index>(random, 500, 0, 0x1p24);
  const auto rows = filled<float>(frequencies, positions);
  const auto wide = filled<double>(frequencies, positions);
  WorstUlps floats(0.55), doubles(2);
  for (Index t = 0; t < rows.positions; ++t) {
    const double p = static_cast<double>(positions[static_cast<std::size_t>(t)]);
    for (Index i = 0; i < 32; ++i) {
      if (frequencies.change[static_cast<std::size_t>(i)] != PairChange::kept) continue;
      const auto truth = theta[static_cast<std::size_t>(i)].cos_sin(p, frequencies.attention_factor);
      floats.see(rows.cos_at(t, i), rows.sin_at(t, i), truth, 10'000, i, p);
      doubles.see(wide.cos_at(t, i), wide.sin_at(t, i), truth, 10'000, i, p);
    }
  }
  EXPECT_GT(floats.samples(), 5'000);
}

TEST(RopeTable, GivenFrequenciesAreTakenAsTheyAreZeroNegativeTinyAndHugeOnesIncluded) {
  const std::vector<double> given = {0, -1, 0.1, -0.0123456789, 1e-9, 0x1p13, 0x1p-800, 1234.5678, -8191.999, 0x1p-40};
  Rope rope = rope_of(20, 10'000);
  rope.scaling = ExplicitFrequencies{given};
  const auto explicit_rope = resolve(rope);
  const auto explicit_view = resolve_explicit(rope, dense(given.data(), 10), 1.25);
  EXPECT_EQ(explicit_rope.inv_freq, given);
  EXPECT_EQ(explicit_view.inv_freq, given);
  EXPECT_EQ(explicit_view.attention_factor, 1.25);
  std::vector<TrueFrequency> theta;
  for (double t : given) theta.push_back(TrueFrequency::exactly(t));
  Random random(13);
  auto positions = random_positions<Index>(random, 300, -0x1p31, 0x1p31);
  positions.insert(positions.end(), {0, 1, -1, max_position, -max_position});
  WorstUlps floats(1), doubles(2), scaled(2);
  compare(floats, filled<float>(explicit_rope, positions), positions, 0, theta);
  compare(doubles, filled<double>(explicit_rope, positions), positions, 0, theta);
  compare(scaled, filled<double>(explicit_view, positions), positions, 0, theta, 1.25);
}

TEST(RopeTable, ANegativePositionTurnsTheOtherWay) {
  const RopeFrequencies frequencies = resolve(rope_of(64, 10'000));
  const auto forth = filled<float>(frequencies, std::vector<Index>{1, 1000, 12'345'678});
  const auto back = filled<float>(frequencies, std::vector<Index>{-1, -1000, -12'345'678});
  for (std::size_t n = 0; n < forth.cos.size(); ++n) {
    EXPECT_EQ(forth.cos[n], back.cos[n]);
    EXPECT_EQ(forth.sin[n], -back.sin[n]);
  }
}

TEST(RopeTable, AsFloat32HasTheBitsOfHuggingFacesOrderOfOperations) {
  Rope yarn = rope_of(64, 10'000);
  yarn.scaling = YarnScaling{.factor = 4, .trained_length = 4096};
  for (const Rope& rope : {rope_of(128, 500'000), rope_of(10, 10'000, Pairing::interleaved), yarn}) {
    const RopeFrequencies frequencies = resolve(rope, 0, Angles::as_float32);
    ASSERT_EQ(frequencies.angles, Angles::as_float32);
    Random random(14);
    const auto positions = random_positions<Index>(random, 2'000, 0, 0x1p20);
    const auto rows = filled<float>(frequencies, positions);
    const auto exact = filled<float>(resolve(rope), positions);
    Index different = 0;
    for (Index t = 0; t < rows.positions; ++t) {
      for (Index i = 0; i < rows.pairs; ++i) {
        const auto wanted =
            reference::cos_sin(frequencies, i, static_cast<double>(positions[static_cast<std::size_t>(t)]));
        ASSERT_EQ(rows.cos_at(t, i), static_cast<float>(wanted.cos)) << "pair " << i << ", row " << t;
        ASSERT_EQ(rows.sin_at(t, i), static_cast<float>(wanted.sin)) << "pair " << i << ", row " << t;
        different += rows.cos_at(t, i) != exact.cos_at(t, i) ? 1 : 0;
      }
    }
    EXPECT_GT(different, rows.positions * rows.pairs / 4) << "the two modes hardly differ: one of them is not in use";
    const RopeTable<float> table(rope, 300, {.angles = Angles::as_float32});
    std::vector<Index> first(300);
    for (Index p = 0; p < 300; ++p) first[static_cast<std::size_t>(p)] = p;
    EXPECT_EQ(used(table, first), filled<float>(resolve(rope, 300, Angles::as_float32), first));
  }
}

/// The same rows through every door: filled, kept in a table, computed when a table is too short, on one or more
/// threads, in runs and one by one.
template <class T>
void all_doors_agree(const Rope& rope) {
  const RopeFrequencies frequencies = resolve(rope);
  std::vector<Index> positions(700);
  for (Index p = 0; p < 700; ++p) positions[static_cast<std::size_t>(p)] = p;
  const auto rows = filled<T>(frequencies, positions);
  const RopeTable<T> full(frequencies, 700), none(frequencies, 0), some(frequencies, 333);
  for (Index p = 0; p < 700; ++p) {
    for (Index i = 0; i < rows.pairs; ++i) {
      ASSERT_EQ(full.cos()(p, i), rows.cos_at(p, i)) << p << ", " << i;
      ASSERT_EQ(full.sin()(p, i), rows.sin_at(p, i)) << p << ", " << i;
    }
  }
  EXPECT_EQ(used(full, positions), rows);
  EXPECT_EQ(used(none, positions), rows);
  EXPECT_EQ(used(some, positions), rows);
  std::vector<double> real(positions.begin(), positions.end());
  EXPECT_EQ(filled<T>(frequencies, real), rows);
  EXPECT_EQ(used(full, real), rows);
  test::CosSinRows<T> run(700, frequencies.pairs());
  fill(frequencies, Positions{}, run.cos_view(), run.sin_view());
  EXPECT_EQ(run, rows);
  for (Index workers : {2, 7}) {
    test::Workers on(workers);
    EXPECT_EQ(filled<T>(frequencies, positions, on), rows);
    const RopeTable<T> threaded(frequencies, 700, TableMemory::full, on);
    EXPECT_EQ(used(threaded, positions, on), rows);
  }
}

TEST(RopeTable, ARowHasTheSameBitsThroughEveryDoor) {
  Rope yarn = rope_of(80, 10'000);
  yarn.scaling = YarnScaling{.factor = 16, .trained_length = 4096};
  for (const Rope& rope : {rope_of(128, 500'000), rope_of(10, 10'000, Pairing::interleaved), yarn, rope_of(2, 10)}) {
    test::on_every_target([&] {
      all_doors_agree<float>(rope);
      all_doors_agree<double>(rope);
    });
  }
}

/// `count` rows from `first` on, made as one run and one by one.
void expect_a_run_like_single_rows(const RopeFrequencies& frequencies, Index first, Index count) {
  std::vector<Index> positions(static_cast<std::size_t>(count));
  for (Index n = 0; n < count; ++n) positions[static_cast<std::size_t>(n)] = first + n;
  const auto rows = filled<float>(frequencies, positions);
  test::CosSinRows<float> run(count, frequencies.pairs());
  fill(frequencies, Positions(first), run.cos_view(), run.sin_view());
  EXPECT_EQ(std::memcmp(run.cos.data(), rows.cos.data(), rows.cos.size() * sizeof(float)), 0) << "from " << first;
  EXPECT_EQ(std::memcmp(run.sin.data(), rows.sin.data(), rows.sin.size() * sizeof(float)), 0) << "from " << first;
}

TEST(RopeTable, RunsHaveTheBitsOfSingleRowsFromAnyPositionOn) {
  for (const Rope& rope : {rope_of(128, 500'000), rope_of(64, 100), rope_of(160, 1e9), rope_of(6, 10)}) {
    const RopeFrequencies frequencies = resolve(rope);
    test::on_every_target([&] {
      for (Index first : {Index{-3'000}, Index{123'456'789}, max_position - 2'100}) {
        expect_a_run_like_single_rows(frequencies, first, 2'100);
      }
      for (Index count : {63, 64, 65, 96, 511, 512, 513, 1'055}) expect_a_run_like_single_rows(frequencies, 7, count);
    });
  }
}

TEST(RopeTable, RunsHaveTheBitsOfSingleRowsWhateverTheFactor) {
  RopeFrequencies frequencies = resolve(rope_of(32, 10'000));
  test::on_every_target([&] {
    for (double factor : {-1.0, 0.7, 1.9999, 1e-30, 1e-33, 1e-38, 1e-45, 1e-320, -1e20, 1e30, 1e38}) {
      frequencies.attention_factor = factor;
      expect_a_run_like_single_rows(frequencies, -300, 1'000);
    }
  });
}

TEST(RopeTable, RowsHaveTheSameBitsOnEveryTarget) {
  Random random(15);
  const RopeFrequencies frequencies = resolve(rope_of(96, 500'000));
  auto positions = random_positions<double>(random, 2'000, -0x1p31, 0x1p31);
  for (Index p : TrueFrequency::power(500'000, 10, 96).near_quarter_turns(max_position)) {
    positions.push_back(static_cast<double>(p));
  }
  const auto floats = filled<float>(frequencies, positions);
  const auto doubles = filled<double>(frequencies, positions);
  const auto bfloats = filled<Bfloat16>(frequencies, positions);
  const auto halves = filled<Float16>(frequencies, positions);
  const RopeTable<float> compact(frequencies, 100'000, TableMemory::compact);
  const auto near = random_positions<Index>(random, 2'000, 0, 99'999);
  const auto compact_rows = used(compact, near);
  test::on_every_target([&] {
    EXPECT_EQ(filled<float>(frequencies, positions), floats);
    EXPECT_EQ(filled<double>(frequencies, positions), doubles);
    EXPECT_EQ(filled<Bfloat16>(frequencies, positions), bfloats);
    EXPECT_EQ(filled<Float16>(frequencies, positions), halves);
    EXPECT_EQ(used(RopeTable<float>(frequencies, 100'000, TableMemory::compact), near), compact_rows);
  });
}

TEST(RopeTable, FillWritesToAnyStridesAndNothingBeside) {
  const RopeFrequencies frequencies = resolve(rope_of(12, 10'000));
  const auto wanted = filled<float>(frequencies, std::vector<Index>{5, 6, 7, 8, 9});
  std::vector<float> memory(1000, -77);
  const View<float, 2> cos{memory.data() + 10, {5, 6}, {13, 2}}, sin{memory.data() + 995, {5, 6}, {-1, -7}};
  fill(frequencies, Positions(5), cos, sin);
  Index written = 0;
  for (float value : memory) written += value != -77 ? 1 : 0;
  EXPECT_EQ(written, 2 * 5 * 6);
  for (Index t = 0; t < 5; ++t) {
    for (Index i = 0; i < 6; ++i) {
      EXPECT_EQ(cos(t, i), wanted.cos_at(t, i));
      EXPECT_EQ(sin(t, i), wanted.sin_at(t, i));
    }
  }
}

// As [cos | sin], where what is written beside a cos is a sin.
TEST(RopeTable, ARunOfRowsThatDoNotFillVectorsLeavesWhatIsBesideThemAlone) {
  constexpr Index pairs = 40, count = 96, row = 2 * pairs;
  const RopeFrequencies frequencies = resolve(rope_of(2 * pairs, 10'000));
  test::CosSinRows<double> wanted(count, pairs);
  fill(frequencies, Positions{}, wanted.cos_view(), wanted.sin_view());
  test::on_every_target([&] {
    std::vector<float> memory(count * row + 64, -77);
    const View<float, 2> cos{memory.data(), {count, pairs}, {row, 1}},
        sin{memory.data() + pairs, cos.shape, cos.stride};
    fill(frequencies, Positions{}, cos, sin);
    for (Index t = 0; t < count; ++t) {
      for (Index i = 0; i < pairs; ++i) {
        ASSERT_EQ(cos(t, i), static_cast<float>(wanted.cos_at(t, i))) << t << ' ' << i;
        ASSERT_EQ(sin(t, i), static_cast<float>(wanted.sin_at(t, i))) << t << ' ' << i;
      }
    }
    EXPECT_EQ(std::vector<float>(memory.end() - 64, memory.end()), std::vector<float>(64, -77));
  });
}

TEST(RopeTable, PositionZeroIsTheAttentionFactorAndZero) {
  Rope rope = rope_of(16, 10'000);
  rope.scaling = YarnScaling{.factor = 8, .trained_length = 512};
  const RopeTable<double> table(rope, 1);
  for (Index i = 0; i < 8; ++i) {
    EXPECT_EQ(table.cos()(0, i), table.frequencies().attention_factor);
    EXPECT_EQ(table.sin()(0, i), 0);
  }
}

TEST(RopeTable, CopiesAndMovesHoldTheSameRows) {
  const std::vector<Index> positions = {0, 5, 99, 100, 12'345};
  for (TableMemory memory : {TableMemory::full, TableMemory::compact}) {
    RopeTable<float> table(rope_of(64, 10'000), 100, {.memory = memory});
    const auto rows = used(table, positions);
    RopeTable<float> copy(table);
    EXPECT_EQ(used(copy, positions), rows);
    const RopeTable<float> moved(std::move(table));
    EXPECT_EQ(used(moved, positions), rows);
    RopeTable<float> other(rope_of(64, 500'000), 3);
    other = copy;
    EXPECT_EQ(used(other, positions), rows);
    EXPECT_EQ(other.length(), 100);
    copy = RopeTable<float>(rope_of(32, 10'000), 7);
    EXPECT_EQ(copy.length(), 7);
    EXPECT_EQ(used(other, positions), rows) << "a copy shares memory with what it was copied from";
  }
}

TEST(RopeTable, ItsSizeIsWhatItKeeps) {
  const RopeTable<float> none(rope_of(128, 10'000), 0), long_one(rope_of(128, 10'000), 1000);
  EXPECT_EQ(none.length(), 0);
  EXPECT_EQ(none.cos().shape, (std::array<Index, 2>{0, 64}));
  EXPECT_GE(long_one.bytes(), 1000u * 128 * sizeof(float));
  EXPECT_LT(long_one.bytes(), 1000u * 128 * sizeof(float) + 4096);
}

TEST(RopeTable, AShortSequenceAfterALongOneGetsTheTableOfAFreshObject) {
  Rope dynamic = rope_of(32, 10'000), longrope = rope_of(32, 10'000);
  dynamic.scaling = DynamicNtkScaling{.factor = 2, .trained_length = 64};
  longrope.scaling = LongRopeScaling{.short_factor = std::vector<double>(16, 1.0),
                                     .long_factor = std::vector<double>(16, 3.0),
                                     .trained_length = 64,
                                     .factor = 4};
  const std::vector<Index> positions = {1, 17, 63};
  for (const Rope& rope : {dynamic, longrope}) {
    const auto fresh = used(RopeTable<float>(rope, 64, {.seq_len = 64}), positions);
    const auto grown = used(RopeTable<float>(rope, 256, {.seq_len = 256}), positions);
    EXPECT_FALSE(fresh == grown) << "the scaling does not depend on the length";
    EXPECT_EQ(used(RopeTable<float>(rope, 256, {.seq_len = 64}), positions), fresh);
    EXPECT_EQ(used(RopeTable<float>(rope, 64, {.seq_len = 256}), positions), grown);
    EXPECT_EQ(used(RopeTable<float>(resolve(rope, 256), 10), positions), grown);
  }
}

}  // namespace
}  // namespace bearing
