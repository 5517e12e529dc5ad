#include "attention/shared/visibility.hpp"

#include <gtest/gtest.h>
#include <algorithm>
#include <array>
#include <bearing/reference/attention.hpp>
#include <vector>

#include "support/random.hpp"

// What Visibility says at once against what it says of each pair of query and key.

namespace bearing {
namespace {

using test::Random;

/// Masks, windows, bands, lengths and packed sequences at random.
struct RandomCall {
  std::vector<Index> q_starts, k_starts, lengths;
  std::vector<double> q_at, k_at;
  Positions q_positions, k_positions;
  Problem problem;
  AttentionOptions<float> options{.mask = Mask::none};

  explicit RandomCall(std::uint64_t seed) {
    Random random(seed);
    const auto one_in = [&](Index n) { return random.integer(1, n) == 1; };
    problem.q_len = random.integer(0, 9), problem.k_len = random.integer(0, 9);
    constexpr Mask masks[] = {Mask::none, Mask::causal, Mask::causal_top_left, Mask::causal_bottom_right};
    options.mask = masks[random.integer(0, 3)];
    if (one_in(3)) options.window.before = random.integer(0, 4);
    if (one_in(3)) options.window.after = random.integer(0, 4);
    if (one_in(4)) options.band.to = random.integer(1, 5);
    if (one_in(6)) options.band.from = random.integer(0, 2);
    if (one_in(2)) options.band.chunk = random.integer(0, 3);
    if (one_in(3)) {
      lengths = {random.integer(0, problem.k_len)};
      options.k_lengths = dense(lengths.data(), Index{1});
    }
    if (one_in(2)) pack(random, random.integer(1, 4));
    q_positions = Positions(random.integer(-3, 6));
    if (one_in(4)) {
      for (Index j = 0; j < problem.k_len; ++j) k_at.push_back(random.uniform(0, 8));
      if (one_in(2)) std::sort(k_at.begin(), k_at.end());
      k_positions = Positions(dense(k_at.data(), Index{1}, problem.k_len));
    }
    problem.q_positions = &q_positions, problem.k_positions = &k_positions;
  }
  RandomCall(const RandomCall&) = delete;
  RandomCall& operator=(const RandomCall&) = delete;

  void pack(Random& random, Index sequences) {
    for (auto* starts : {&q_starts, &k_starts}) {
      const Index len = starts == &q_starts ? problem.q_len : problem.k_len;
      for (Index s = 0; s < sequences; ++s) starts->push_back(s == 0 ? 0 : random.integer(0, len));
      starts->push_back(len);
      std::sort(starts->begin(), starts->end());
    }
    options.q_starts = dense(q_starts.data(), sequences + 1), options.k_starts = dense(k_starts.data(), sequences + 1);
  }
};

TEST(Visibility, ConcealsWhereAKeyIsSeenByNobody) {
  int shown = 0, concealed = 0, packed_shown = 0;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    const RandomCall call(seed);
    const Visibility visibility(call.problem, call.options);
    bool all = true;
    for (Index j = 0; j < visibility.existing(0); ++j) {
      bool any = false;
      for (Index i = 0; i < call.problem.q_len; ++i) any = any || visibility.sees(0, 0, i, j);
      all = all && any;
    }
    EXPECT_TRUE(all || visibility.conceals(0)) << "seed " << seed;
    concealed += visibility.conceals(0);
    shown += !visibility.conceals(0);
    packed_shown += !visibility.conceals(0) && call.q_starts.size() > 2;
  }
  EXPECT_GT(concealed, 1000);
  EXPECT_GT(shown, 1000);
  EXPECT_GT(packed_shown, 500);
}

/// Positions on some axes, in a box so small that many are equal on the first ones; in order or not.
std::vector<Index> places(Random& random, Index axes, Index time) {
  std::vector<std::array<Index, 3>> at(static_cast<std::size_t>(time));
  for (auto& place : at) {
    for (Index& p : place) p = random.integer(0, 2);
  }
  if (random.integer(0, 1) == 1) std::sort(at.begin(), at.end());
  std::vector<Index> numbers;
  for (Index axis = 0; axis < axes; ++axis) {
    for (const auto& place : at) numbers.push_back(place[static_cast<std::size_t>(axis)]);
  }
  return numbers;
}

TEST(Visibility, GoesByAllAxesOfPositions) {
  int by_a_later_axis = 0;
  for (std::uint64_t seed = 0; seed < 5'000; ++seed) {
    RandomCall call(seed);
    Random random(seed + 1'000'000);
    const Index q_axes = random.integer(1, 3), k_axes = q_axes == 1 || random.integer(0, 1) == 0 ? q_axes : 1;
    const std::vector<Index> q_at = places(random, q_axes, call.problem.q_len),
                             k_at = places(random, k_axes, call.problem.k_len);
    call.q_positions = Positions(dense(q_at.data(), q_axes, 1, call.problem.q_len));
    if (random.integer(0, 4) > 0) call.k_positions = Positions(dense(k_at.data(), k_axes, 1, call.problem.k_len));
    const Visibility visibility(call.problem, call.options);
    for (Index i = 0; i < call.problem.q_len; ++i) {
      for (Index j = 0; j < call.problem.k_len; ++j) {
        const bool wanted = reference::visible(call.options, call.q_positions, call.k_positions, call.problem.q_len,
                                               call.problem.k_len, 0, 0, i, j);
        ASSERT_EQ(visibility.sees(0, 0, i, j), wanted) << "seed " << seed << ", query " << i << ", key " << j;
        by_a_later_axis += call.options.mask == Mask::causal && !wanted &&
                           call.q_positions.real(0, 0, i) == call.k_positions.real(0, 0, j);
      }
    }
  }
  EXPECT_GT(by_a_later_axis, 1000);
}

TEST(Visibility, OfAPictureInATextAPatchSeesTheOnesBeforeIt) {
  const Index at[3][9] = {{0, 1, 2, 2, 2, 2, 2, 2, 5}, {0, 1, 2, 2, 2, 3, 3, 3, 5}, {0, 1, 2, 3, 4, 2, 3, 4, 5}};
  const Positions positions(dense(&at[0][0], Index{3}, 1, 9));
  const AttentionOptions<float> options{.mask = Mask::causal};
  for (const Index past : {0, 4}) {  // also with keys of a cache before the queries
    const Positions queries(View<const Index, 3>{&at[0][past], {3, 1, 9 - past}, {9, 9, 1}});
    const Problem problem{.q_len = 9 - past, .k_len = 9, .q_positions = &queries, .k_positions = &positions};
    const Visibility visibility(problem, options);
    EXPECT_FALSE(visibility.holes(0));
    for (Index i = 0; i < problem.q_len; ++i) {
      EXPECT_EQ(visibility.of(0, i).first, 0);
      EXPECT_EQ(visibility.of(0, i).end, past + i + 1);
    }
  }
}

TEST(Visibility, ConcealsNothingInPackedSequencesThatSeeAllOfTheirKeys) {
  Positions at;
  Problem problem{.q_len = 10, .k_len = 10, .q_positions = &at, .k_positions = &at};
  const Index starts[] = {0, 4, 5, 5, 10};
  for (Mask mask : {Mask::none, Mask::causal, Mask::causal_top_left, Mask::causal_bottom_right}) {
    AttentionOptions<float> options{.mask = mask};
    options.q_starts = options.k_starts = dense(starts, Index{5});
    EXPECT_FALSE(Visibility(problem, options).conceals(0));
    options.window.before = 1;
    EXPECT_FALSE(Visibility(problem, options).conceals(0));
  }
}

}  // namespace
}  // namespace bearing
