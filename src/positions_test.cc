#include <gtest/gtest.h>
#include <bearing/error.hpp>
#include <bearing/positions.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace bearing {
namespace {

constexpr Index largest = std::numeric_limits<Index>::max();
constexpr Index smallest = std::numeric_limits<Index>::min();

template <class Error>
std::string refusal(const Positions& at, Index axes, Index batch, Index time) {
  try {
    at.check("rotate", "positions", axes, batch, time);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Positions, CountFromZeroUnlessSaidOtherwise) {
  const Positions at;
  EXPECT_TRUE(at.is_offset());
  EXPECT_TRUE(at.integral());
  EXPECT_EQ(at.axes(), 1);
  EXPECT_EQ(at.integer(0, 3, 17), 17);
  EXPECT_EQ(at.real(0, 3, 17), 17.0);
  EXPECT_NO_THROW(at.check("rotate", "positions", 1, 4, 4096));
}

// It would lose its fraction.
static_assert(!std::is_constructible_v<Positions, double> && !std::is_convertible_v<float, Positions>);
static_assert(std::is_convertible_v<int, Positions> && std::is_convertible_v<std::uint32_t, Positions>);

TEST(Positions, AnOffsetContinuesACache) {
  const Positions at(126'976);
  EXPECT_EQ(at.first(), 126'976);
  EXPECT_EQ(at.integer(0, 0, 4095), 131'071);
}

TEST(Positions, EverySequenceMayStartElsewhere) {
  const std::vector<Index> firsts{5, -2, 1000};
  const Positions at = Positions::starting_at(dense(firsts.data(), 3));
  EXPECT_FALSE(at.is_offset());
  EXPECT_EQ(at.integer(0, 0, 0), 5);
  EXPECT_EQ(at.integer(0, 1, 7), 5);
  EXPECT_EQ(at.real(0, 2, 1), 1001.0);
  EXPECT_NO_THROW(at.check("rotate", "positions", 1, 3, 1));
  EXPECT_NO_THROW(at.check("rotate", "positions", 3, 3, 4096)) << "one axis serves all three";
}

TEST(Positions, OneRowServesEverySequence) {
  const std::vector<Index> row{9, 0, 9, -4};
  const Positions at(dense(row.data(), 4));
  EXPECT_EQ(at.integer(0, 0, 3), -4);
  EXPECT_EQ(at.integer(0, 25, 3), -4);
  EXPECT_NO_THROW(at.check("rotate", "positions", 1, 26, 4));
}

// ggml and llama.cpp hold positions so.
TEST(Positions, Of32BitsAreReadWhereTheyLie) {
  const std::vector<std::int32_t> data{0, std::numeric_limits<std::int32_t>::min(), 1, 11,
                                       2, std::numeric_limits<std::int32_t>::max()};
  const Positions columns(View<const std::int32_t, 2>{data.data(), {2, 3}, {1, 2}});
  EXPECT_TRUE(columns.integral());
  EXPECT_EQ(columns.integer(0, 1, 0), -max_position);
  EXPECT_EQ(columns.real(0, 1, 2), 2147483647.0);
  EXPECT_NO_THROW(columns.check("rotate", "positions", 1, 2, 3));
  EXPECT_EQ(columns.memory().bytes, 4);
  EXPECT_EQ(columns.memory().data, data.data());
  std::vector<std::int32_t> own{7, -9};
  const Positions at(dense(own.data(), 2)), firsts = Positions::starting_at(dense(own.data(), 2));
  EXPECT_EQ(at.integer(0, 0, 1), -9);
  EXPECT_EQ(firsts.integer(0, 0, 4), 11);
  EXPECT_EQ(firsts.real(0, 1, 4), -5.0);
  EXPECT_EQ(refusal<ShapeError>(at, 1, 1, 3), "[rotate] positions: must have 3 tokens, got 2");
  own[0] = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(refusal<RangeError>(firsts, 1, 2, 3),
            "[rotate] positions: must be from -2^31 to 2^31, got 2147483647 + 2 at [axis 0, batch 0, time 2]");
  EXPECT_EQ(refusal<ShapeError>(Positions(View<const std::int32_t, 1>{nullptr, {3}, {1}}), 1, 1, 3),
            "[rotate] positions: must point to positions, got null");
}

TEST(Positions, ABatchOfOneServesEverySequence) {
  const std::vector<Index> grid{0, 0, 1, 4, 5, 4};
  for (const Positions& at : {Positions(dense(grid.data(), 2, 1, 3)),
                              Positions(View<const Index, 3>{grid.data(), {2, 1, 3}, {3, largest, 1}})}) {
    EXPECT_EQ(at.integer(1, 25, 1), 5);
    EXPECT_EQ(refusal<ShapeError>(at, 2, 26, 3), "accepted");
  }
  EXPECT_EQ(refusal<ShapeError>(Positions(dense(grid.data(), 1, 6)), 1, 4, 6), "accepted");
  EXPECT_EQ(Positions::starting_at(dense(grid.data() + 4, 1)).integer(0, 3, 2), 7);
}

TEST(Positions, AreReadThroughStrides) {
  // [batch 2, time 3] in the columns of a [3, 2] array, and backwards.
  const std::vector<Index> data{0, 10, 1, 11, 2, 12};
  const Positions columns(View<const Index, 2>{data.data(), {2, 3}, {1, 2}});
  EXPECT_EQ(columns.integer(0, 1, 2), 12);
  const Positions backwards(View<const Index, 1>{data.data() + 4, {3}, {-2}});
  EXPECT_EQ(backwards.integer(0, 0, 0), 2);
  EXPECT_EQ(backwards.integer(0, 0, 2), 0);
  EXPECT_NO_THROW(backwards.check("rotate", "positions", 1, 1, 3));
}

TEST(Positions, MayBeRealOnSeveralAxes) {
  const std::vector<double> data{0.5, 1.5, -0.25, 2.75};
  const Positions at(dense(data.data(), 2, 1, 2));
  EXPECT_FALSE(at.integral());
  EXPECT_EQ(at.axes(), 2);
  EXPECT_EQ(at.real(1, 0, 0), -0.25);
  EXPECT_NO_THROW(at.check("rotate", "positions", 2, 1, 2));
}

TEST(Positions, ReachTwoToTheThirtyFirstBothWaysAndNoFarther) {
  const std::vector<Index> ends{max_position, -max_position}, past{max_position + 1, -max_position - 1};
  EXPECT_NO_THROW(Positions(dense(ends.data(), 2)).check("rotate", "positions", 1, 1, 2));
  EXPECT_EQ(refusal<RangeError>(Positions(dense(past.data(), 2)), 1, 1, 2),
            "[rotate] positions: must be from -2^31 to 2^31, got 2147483649 at [axis 0, batch 0, time 0]");
  EXPECT_EQ(refusal<RangeError>(Positions(dense(past.data() + 1, 1)), 1, 1, 1),
            "[rotate] positions: must be from -2^31 to 2^31, got -2147483649 at [axis 0, batch 0, time 0]");
  EXPECT_NO_THROW(Positions(max_position - 3).check("rotate", "positions", 1, 1, 4));
  EXPECT_EQ(refusal<RangeError>(Positions(max_position - 3), 1, 1, 5),
            "[rotate] positions: must be from -2^31 to 2^31, got 2147483645 + 4 at [axis 0, batch 0, time 4]");
}

TEST(Positions, ARunThatDoesNotFitInSixtyFourBitsIsRefused) {
  for (const Index first : {largest, smallest, max_position + 1, -max_position - 1}) {
    EXPECT_NE(refusal<RangeError>(Positions(first), 1, 1, 4), "accepted") << first;
    EXPECT_NE(refusal<RangeError>(Positions::starting_at(dense(&first, 1)), 1, 1, 4), "accepted") << first;
  }
  EXPECT_NE(refusal<RangeError>(Positions(1), 1, 1, largest), "accepted");
  const std::vector<Index> firsts{0, max_position - 1};
  EXPECT_EQ(refusal<RangeError>(Positions::starting_at(dense(firsts.data(), 2)), 1, 2, 3),
            "[rotate] positions: must be from -2^31 to 2^31, got 2147483647 + 2 at [axis 0, batch 1, time 2]");
}

TEST(Positions, ThatAreNoNumbersAreRefusedWithTheirPlace) {
  std::vector<double> data(2 * 2 * 3, 1.0);
  data[1 * 6 + 1 * 3 + 2] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal<RangeError>(Positions(dense(data.data(), 2, 2, 3)), 2, 2, 3),
            "[rotate] positions: must be from -2^31 to 2^31, got nan at [axis 1, batch 1, time 2]");
  data.back() = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refusal<RangeError>(Positions(dense(data.data(), 2, 2, 3)), 2, 2, 3),
            "[rotate] positions: must be from -2^31 to 2^31, got inf at [axis 1, batch 1, time 2]");
  data.back() = -2147483648.5;
  EXPECT_EQ(refusal<RangeError>(Positions(dense(data.data(), 2, 2, 3)), 2, 2, 3),
            "[rotate] positions: must be from -2^31 to 2^31, got -2147483648.5 at [axis 1, batch 1, time 2]");
}

TEST(Positions, OfAClockAreToBeCountedFromTheFirst) {
  const std::string wanted =
      "[rotate] positions: must be from -2^31 to 2^31, got 1700000000000 at [axis 0, batch 0, time 0]; of times on a "
      "clock, subtract the first one";
  const std::vector<Index> whole{1'700'000'000'000};
  EXPECT_EQ(refusal<RangeError>(Positions(dense(whole.data(), 1)), 1, 1, 1), wanted);
  const std::vector<double> real{1.7e12};
  EXPECT_NE(refusal<RangeError>(Positions(dense(real.data(), 1)), 1, 1, 1).find("subtract the first one"),
            std::string::npos);
}

TEST(Positions, OfAnotherShapeAreRefused) {
  const std::vector<Index> data(24, 1);
  EXPECT_EQ(refusal<ShapeError>(Positions(dense(data.data(), 2, 3, 4)), 3, 3, 4),
            "[rotate] positions: must have 3 axes, or 1 for all of them, got 2");
  EXPECT_EQ(refusal<ShapeError>(Positions(dense(data.data(), 2, 3, 4)), 1, 3, 4),
            "[rotate] positions: must have 1 axis, got 2");
  EXPECT_EQ(refusal<ShapeError>(Positions(dense(data.data(), 3, 4)), 1, 2, 4),
            "[rotate] positions: must have 2 sequences, got 3");
  EXPECT_EQ(refusal<ShapeError>(Positions(dense(data.data(), 3, 4)), 1, 3, 5),
            "[rotate] positions: must have 5 tokens, got 4");
  EXPECT_EQ(refusal<ShapeError>(Positions(dense(data.data(), 4)), 1, 3, 3),
            "[rotate] positions: must have 3 tokens, got 4");
  EXPECT_EQ(refusal<ShapeError>(Positions::starting_at(dense(data.data(), 2)), 1, 3, 9),
            "[rotate] positions: must have 3 sequences, got 2");
  EXPECT_EQ(refusal<ShapeError>(Positions(View<const Index, 1>{data.data(), {-1}, {1}}), 1, 1, 2),
            "[rotate] positions: must have 2 tokens, got -1");
  EXPECT_EQ(refusal<ShapeError>(Positions(View<const Index, 2>{data.data(), {-1, 4}, {4, 1}}), 1, 2, 4),
            "[rotate] positions: must have 2 sequences, got -1");
  EXPECT_EQ(refusal<ShapeError>(Positions(View<const double, 3>{nullptr, {1, -1, 4}, {4, 4, 1}}), 1, 2, 4),
            "[rotate] positions: must have 2 sequences, got -1");
  EXPECT_EQ(refusal<ShapeError>(Positions::starting_at(View<const Index, 1>{data.data(), {-1}, {1}}), 1, 2, 4),
            "[rotate] positions: must have 2 sequences, got -1");
}

TEST(Positions, ThatCannotBeCountedAreRefused) {
  const Index zero = 0;
  EXPECT_EQ(refusal<ShapeError>(Positions(View<const Index, 2>{&zero, {3, 2}, {largest / 2, 1}}), 1, 3, 2),
            "[rotate] positions: must span at most 2^60 bytes, got strides [0, 4611686018427387903, 1] for shape "
            "[1, 3, 2]");
  EXPECT_NO_THROW(Positions(View<const Index, 2>{&zero, {1, 1}, {largest, smallest}}).check("rotate", "x", 1, 1, 1));
}

TEST(Positions, FromNowhereAreRefusedUnlessNoneAreRead) {
  const Positions nowhere(View<const Index, 2>{nullptr, {2, 3}, {3, 1}});
  EXPECT_EQ(refusal<ShapeError>(nowhere, 1, 2, 3), "[rotate] positions: must point to positions, got null");
  EXPECT_NO_THROW(Positions(View<const double, 2>{nullptr, {0, 3}, {3, 1}}).check("rotate", "positions", 1, 0, 3));
  EXPECT_NO_THROW(Positions(View<const double, 1>{nullptr, {0}, {1}}).check("rotate", "positions", 1, 2, 0));
  EXPECT_NO_THROW(Positions(largest).check("rotate", "positions", 1, 0, 7)) << "an empty batch has no positions";
}

}  // namespace
}  // namespace bearing
