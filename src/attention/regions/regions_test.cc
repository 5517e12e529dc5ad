#include <bearing/regions.hpp>

#include <gtest/gtest.h>
#include <bearing/error.hpp>
#include <bearing/reference/regions.hpp>
#include <cmath>
#include <limits>

#include "support/errors.hpp"

// The regions that papers draw: the distance of every pair, against the papers' own words.

namespace bearing {
namespace {

/// The distance at which a query at m meets a key at n.
double distance(const std::vector<Region>& regions, double m, double n) {
  const Index r = reference::region_of(regions, m, n);
  EXPECT_GE(r, 0) << m << " " << n;
  const Region& region = regions[static_cast<std::size_t>(r)];
  return region.q(m) - region.k(n);
}

template <class Wanted>
void expect_distances(const std::vector<Region>& regions, Index length, const Wanted& wanted) {
  for (Index m = 0; m < length; ++m) {
    for (Index n = 0; n <= m; ++n) {
      ASSERT_EQ(distance(regions, static_cast<double>(m), static_cast<double>(n)), wanted(m, n)) << m << " " << n;
    }
  }
}

TEST(Regions, OfSelfExtendGoOnInGroups) {
  for (const Index group : {1, 2, 3, 8}) {
    for (const Index window : {0, 1, 5, 16, 100}) {
      expect_distances(regions(SelfExtend{.group = group, .window = window}), 90, [&](Index m, Index n) {
        return static_cast<double>(m - n < window ? m - n : m / group + window - window / group - n / group);
      });
    }
  }
}

TEST(Regions, OfReRopeStayAtTheWindow) {
  for (const Index window : {0, 1, 7, 64}) {
    expect_distances(regions(ReRope{.window = window}), 90,
                     [&](Index m, Index n) { return static_cast<double>(std::min(m - n, window)); });
    expect_distances(regions(ReRope{.window = window, .step = 0.25}), 90, [&](Index m, Index n) {
      return m - n < window ? static_cast<double>(m - n)
                            : static_cast<double>(window) + static_cast<double>(m - n - window) / 4;
    });
  }
}

TEST(Regions, OfDualChunkNeverPassTheChunkSize) {
  for (const auto& [chunk, local] : {std::pair<Index, Index>{16, 4}, {16, 0}, {16, 8}, {16, 12}, {5, 4}, {1, 0}}) {
    const Index s = chunk - local;
    double most = 0;
    expect_distances(
        regions(DualChunk{.chunk_size = chunk, .local_size = local}), 90, [&, c = chunk](Index m, Index n) {
          const Index key = n % s, behind = m / s - n / s;
          const Index query = behind == 0 ? m % s : behind == 1 ? std::min(m % s + s, c) : std::min(2 * s - 1, c);
          most = std::max(most, static_cast<double>(query - key));
          return static_cast<double>(query - key);
        });
    EXPECT_LE(most, static_cast<double>(chunk));
  }
}

// The promise of local_size: the keys nearest to a query are met at their true distances, across a chunk's border too.
TEST(Regions, OfDualChunkKeepTheNearestKeysWhereTheyAre) {
  const Index chunk = 20, local = 8, s = chunk - local;
  const std::vector<Region> all = regions(DualChunk{.chunk_size = chunk, .local_size = local});
  for (Index m = 0; m < 100; ++m) {
    for (Index n = std::max<Index>(0, m - local); n <= m; ++n) {
      if (m / s - n / s > 1) continue;  // local_size is longer than a chunk
      EXPECT_EQ(distance(all, static_cast<double>(m), static_cast<double>(n)), static_cast<double>(m - n)) << m << n;
    }
  }
}

TEST(Regions, HoldEveryPairOnceBetweenWholeNumbersToo) {
  for (const auto& all : {regions(SelfExtend{.group = 3, .window = 5}), regions(ReRope{.window = 4, .step = 0.5}),
                          regions(DualChunk{.chunk_size = 9, .local_size = 2})}) {
    for (double m = -12; m < 30; m += 0.75) {
      for (double n = -12; n < 30; n += 0.625) {
        Index times = 0;
        for (const Region& region : all) times += reference::holds(region.band, m, n) ? 1 : 0;
        ASSERT_EQ(times, 1) << m << " " << n;
      }
    }
  }
}

TEST(Regions, PlaceRows) {
  EXPECT_EQ(Placing{}(2.5), 2.5);
  EXPECT_EQ((Placing{.period = 4}(-1)), 3);
  EXPECT_EQ((Placing{.group = 4}(-1)), -1);
  EXPECT_EQ((Placing{.period = 10, .group = 2, .step = 3, .offset = 1}(17)), 10);
  EXPECT_EQ((Placing{.offset = 5, .most = 6}(17)), 6);
  EXPECT_EQ((Placing{.group = 3}(std::exp2(31) - 1)), 715827882);
}

TEST(Regions, RefuseNumbersThatWillNotDo) {
  const auto refuse = [](const auto& spec, const char* text) {
    test::expect_error<RangeError>([&] { (void)regions(spec); }, text);
  };
  refuse(SelfExtend{.group = 0, .window = 4}, "[SelfExtend] group: must be from 1 to 2^31, got 0");
  refuse(SelfExtend{.group = 2, .window = -1}, "[SelfExtend] window: must be from 0 to 2^31, got -1");
  refuse(ReRope{.window = -1}, "[ReRope] window: must be from 0 to 2^31, got -1");
  refuse(ReRope{.window = 1, .step = 1.5}, "[ReRope] step: must be from 0 to 1, got 1.5");
  refuse(ReRope{.window = 1, .step = std::numeric_limits<double>::quiet_NaN()},
         "[ReRope] step: must be from 0 to 1, got nan");
  refuse(DualChunk{.chunk_size = 4, .local_size = 4}, "[DualChunk] chunk_size: must be from 5 to 2^31, got 4");
  refuse(DualChunk{.chunk_size = 4, .local_size = -2}, "[DualChunk] local_size: must be from 0 to 2^31, got -2");
}

}  // namespace
}  // namespace bearing
