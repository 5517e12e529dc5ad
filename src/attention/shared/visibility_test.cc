#include "attention/shared/visibility.hpp"

#include <gtest/gtest.h>
#include <algorithm>
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
