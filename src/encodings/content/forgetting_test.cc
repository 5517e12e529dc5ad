#include <gtest/gtest.h>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/forgetting.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/alibi.hpp>
#include <bearing/reference/forgetting.hpp>
#include <limits>

#include "support/errors.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Place;
using test::Score;
using test::ScoreCase;

TEST(Forgetting, AgreesWithItsReference) {
  // Keys are all tokens, queries the last of them.
  for (const Place place : {Place::offsets, Place::shuffled}) {
    for (const ScoreCase& c : {ScoreCase{1, 2, 2, 1, 1, 0, place}, ScoreCase{2, 3, 3, 9, 9, 0, place},
                               ScoreCase{3, 2, 2, 1, 37, 0, place}, ScoreCase{2, 1, 1, 5, 17, 0, place},
                               ScoreCase{1, 2, 2, 67, 131, 0, place}, ScoreCase{1, 1, 1, 300, 300, 0, place}}) {
      Params params(Params::Shapes{{c.batch, c.heads, c.k_len}}, -1, 0);
      const Index past = c.k_len - c.q_len;
      const auto make = [past]<class A>(Params& p) { return ForgettingBias<A>(p.param<A, 3>(0), past); };
      const auto reference = [past](const Params& p, const Score& s) {
        const View<const double, 3> all = p.value<3>(0);
        return reference::forgetting({&all(s.b, s.h, Index{0}), {all.shape[2]}, {1}}, past + s.i, s.j);
      };
      test::expect_reference_scores(make, params, {c}, reference);
      test::expect_gradients(make, params, {c}, reference);
      test::expect_float_gradients(make, params, {c});
      test::expect_same_bits_for_any_executor(make, params, {c});
    }
  }
}

TEST(Forgetting, EqualForgettingIsCausalAlibi) {
  const std::vector<double> log_forget(20, -0.125);
  const ForgettingBias<double> bias({dense(log_forget.data(), 1, 1, 20)});
  std::vector<double> s(400);
  add_scores(with(bias), {}, bhtd(s.data(), 1, 1, 20, 20));
  const Alibi alibi{{0.125}, AlibiForm::causal};
  for (Index i = 0; i < 20; ++i) {
    for (Index j = 0; j < 20; ++j) {
      EXPECT_EQ(s[static_cast<std::size_t>(20 * i + j)],
                reference::alibi(alibi, 0, static_cast<double>(i), static_cast<double>(j)));
    }
  }
}

TEST(Forgetting, FloatKeepsNearScoresAccurateLateInALongSequence) {
  // c reaches −60,000, whose float32 neighbours are 2^-8 apart.
  const Index time = 120'000;
  const std::vector<float> log_forget(static_cast<std::size_t>(time), -0.5f - 0x1p-20f);
  const ForgettingBias<float> bias({dense(log_forget.data(), 1, 1, time)}, time - 1);
  std::vector<float> s(static_cast<std::size_t>(time));
  add_scores(with(bias), {}, bhtd(s.data(), 1, 1, 1, time));
  for (std::size_t d = 0; d < 8; ++d) {
    EXPECT_EQ(s[s.size() - 1 - d], -static_cast<float>(d) * (0.5f + 0x1p-20f));
  }
}

TEST(Forgetting, ScoresOfLaterKeysGetAndGiveNothing) {
  Params params(Params::Shapes{{1, 1, 6}}, -1, 0);
  const ForgettingBias<double> bias(params.param<double, 3>(0));
  std::vector<double> s(36, 0.0), d_s(36, NAN);
  add_scores(with(bias), {}, bhtd(s.data(), 1, 1, 6, 6));
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = i; j < 6; ++j) EXPECT_EQ(s[6 * i + j], 0);
    for (std::size_t j = 0; j < i; ++j) d_s[6 * i + j] = 1;
  }
  add_scores_backward(with(bias), {}, bhtd<const double>(d_s.data(), 1, 1, 6, 6));
  EXPECT_EQ(params.grads(0), (std::vector<double>{0, 5, 8, 9, 8, 5}));  // t·(6 − t) pairs with j < t ≤ i
}

TEST(Forgetting, OtherGatesThanThoseItWasMadeWithAreRefused) {
  Params params(Params::Shapes{{1, 2, 5}}, -1, 0);
  const ForgettingBias<double> bias(params.param<double, 3>(0));
  std::vector<double> s(2 * 5 * 5, 7.0);
  params.values(0)[8] -= 0.5;  // as an optimiser's step does
  expect_error<ShapeError>(
      [&] { add_scores(with(bias), {}, bhtd(s.data(), 1, 2, 5, 5)); },
      "[add_scores] log_forget: must be unchanged since ForgettingBias was made: make a new one for new "
      "gates, got another value for token 3 of head 1 of sequence 0");
  EXPECT_EQ(s, std::vector<double>(50, 7.0));
}

TEST(Forgetting, InACacheThatIsNotFullQueriesAreTheTokensAtTheirPositions) {
  // Two sequences that stand at different tokens of a cache of 40: each has the scores and gradients of its filled
  // part.
  const Index room = 40, heads = 2, q_len = 3;
  Params whole(Params::Shapes{{2, heads, room}}, -1, 0);
  const std::vector<Index> firsts{17, 0};
  const ForgettingBias<double> bias(whole.param<double, 3>(0), std::nullopt);
  std::vector<double> s(static_cast<std::size_t>(2 * heads * q_len * room)), d_s = s;
  test::Random random(5);
  for (double& x : d_s) x = random.uniform(-1, 1);
  const auto view = [&](auto* data) { return bhtd(data, 2, heads, q_len, room); };
  const Positions at = Positions::starting_at(dense(firsts.data(), 2));
  add_scores(with(bias), {at}, view(s.data()));
  add_scores_backward(with(bias), {at}, view(std::as_const(d_s).data()));
  for (Index b = 0; b < 2; ++b) {
    const Index past = firsts[static_cast<std::size_t>(b)], filled = past + q_len;
    Params part(Params::Shapes{{1, heads, filled}}, -1, 0);
    for (Index h = 0; h < heads; ++h) {
      for (Index t = 0; t < filled; ++t) {
        part.values(0)[static_cast<std::size_t>(h * filled + t)] = whole.value<3>(0)(b, h, t);
      }
    }
    const ForgettingBias<double> of_part(part.param<double, 3>(0), past);
    std::vector<double> wanted(static_cast<std::size_t>(heads * q_len * filled)), d_wanted;
    for (Index h = 0; h < heads; ++h) {
      for (Index i = 0; i < q_len; ++i) {
        for (Index j = 0; j < filled; ++j) d_wanted.push_back(view(d_s.data())(b, h, i, j));
      }
    }
    add_scores(with(of_part), {}, bhtd(wanted.data(), 1, heads, q_len, filled));
    add_scores_backward(with(of_part), {}, bhtd<const double>(d_wanted.data(), 1, heads, q_len, filled));
    for (Index h = 0; h < heads; ++h) {
      for (Index i = 0; i < q_len; ++i) {
        for (Index j = 0; j < room; ++j) {
          const double here = j < filled ? wanted[static_cast<std::size_t>((h * q_len + i) * filled + j)] : 0;
          ASSERT_EQ(view(s.data())(b, h, i, j), here) << b << ' ' << h << ' ' << i << ' ' << j;
        }
      }
      for (Index t = 0; t < room; ++t) {
        const double here = t < filled ? part.grads(0)[static_cast<std::size_t>(h * filled + t)] : 0;
        ASSERT_EQ(whole.grads(0)[static_cast<std::size_t>((b * heads + h) * room + t)], here)
            << b << ' ' << h << ' ' << t;
      }
    }
  }
}

TEST(Forgetting, PositionsThatNameNoTokenAreRefused) {
  Params params(Params::Shapes{{1, 1, 6}}, -1, 0);
  const ForgettingBias<double> bias(params.param<double, 3>(0), std::nullopt);
  std::vector<double> s(12, 7.0);
  const auto call = [&](const Positions& q, const Positions& k) {
    return [&s, &bias, q, k] { add_scores(with(bias), {q, k}, bhtd(s.data(), 1, 1, 2, 6)); };
  };
  const std::string must =
      "[add_scores] q_positions: must rise by one from token to token and be from 0 to 5 where past "
      "is None, got ";
  expect_error<RangeError>(call(5, 0), must + "6 for query 1 of sequence 0");
  expect_error<RangeError>(call(-1, 0), must + "-1 for query 0 of sequence 0");
  const std::vector<double> real{2.5, 3.5};
  expect_error<RangeError>(call(dense(real.data(), 2), 0), must + "2.5 for query 0 of sequence 0");
  const std::vector<Index> apart{1, 3};
  expect_error<RangeError>(call(dense(apart.data(), 2), 0), must + "3 for query 1 of sequence 0");
  expect_error<RangeError>(
      call(2, 1),
      "[add_scores] k_positions: must be 0, 1, 2, …, as keys are tokens in their order, where past "
      "is None, got 1 for key 0 of sequence 0");
  EXPECT_EQ(s, std::vector<double>(12, 7.0));
}

TEST(Forgetting, WrongCallsSayWhatMustHold) {
  Params params(Params::Shapes{{1, 2, 5}, {1, 2, 4}});
  const Param<double, 3> five = params.param<double, 3>(0), four = params.param<double, 3>(1);
  expect_error<ShapeError>(
      [&] {
        ForgettingBias<double>(Param<double, 3>{five.value, four.grad});
      },
      "[ForgettingBias] log_forget.grad: must have the shape of its parameter, [1, 2, 5], got "
      "[1, 2, 4]");
  const double zero = 0;
  expect_error<ShapeError>(
      [&] {
        ForgettingBias<double>(Param<double, 3>{{&zero, {2, 4, -1}, {20, 5, 1}}});
      },
      "[ForgettingBias] log_forget: must have extents of at least 0, got shape [2, 4, -1]");
  expect_error<ShapeError>(
      [&] {
        ForgettingBias<double>(Param<double, 3>{{&zero, {1, 2, 3}, {0, 0, Index{1} << 61}}});
      },
      "[ForgettingBias] log_forget: must span at most 2^60 bytes, got strides [0, 0, 2305843009213693952] for shape "
      "[1, 2, 3]");
  std::vector<double> s(2 * 5 * 5, 7.0);
  const ForgettingBias<double> all(five), last(five, 3);
  expect_error<ShapeError>([&] { add_scores(with(all), {}, bhtd(s.data(), 1, 2, 4, 4)); },
                           "[add_scores] log_forget: must be [batch, heads, k_len] = [1, 2, 4], got shape [1, 2, 5]");
  expect_error<ShapeError>(
      [&] { add_scores(with(all), {}, bhtd(s.data(), 1, 2, 2, 5)); },
      "[add_scores] past: must be k_len - q_len = 3, the tokens before the first query, got 0; for a cache "
      "that is longer than what is filled, past None takes tokens by their positions");
  expect_error<ShapeError>([&] { add_scores(with(last), {}, bhtd(s.data(), 1, 2, 5, 5)); },
                           "[add_scores] past: must be k_len - q_len = 0, the tokens before the first query, got 3");
  const ForgettingBias<double> far(five, std::numeric_limits<Index>::max());
  expect_error<ShapeError>(
      [&] { add_scores(with(far), {}, bhtd(s.data(), 1, 2, 5, 5)); },
      "[add_scores] past: must be k_len - q_len = 0, the tokens before the first query, got 9223372036854775807");
  params.values(0)[7] = -INFINITY;
  expect_error<RangeError>([&] { ForgettingBias<double>{five}; },
                           "[ForgettingBias] log_forget: must be finite, got -inf for token 2 of head 1 of sequence 0");
  EXPECT_EQ(s, std::vector<double>(50, 7.0));
}

}  // namespace
}  // namespace bearing
