#include <gtest/gtest.h>
#include <bearing/encodings/forgetting.hpp>
#include <bearing/encodings/gated_decay.hpp>
#include <bearing/error.hpp>
#include <bearing/linear_attention.hpp>
#include <bearing/reference/gated_decay.hpp>
#include <cmath>

#include "support/errors.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Place;
using test::Score;
using test::ScoreCase;

TEST(GatedDecay, AgreesWithItsReference) {
  // Keys are all tokens, queries the last of them.
  for (const ScoreCase& c :
       {ScoreCase{1, 2, 2, 1, 1, 6}, ScoreCase{2, 4, 2, 9, 9, 6, Place::shuffled}, ScoreCase{3, 2, 1, 1, 37, 8},
        ScoreCase{2, 1, 1, 5, 17, 11}, ScoreCase{1, 2, 2, 67, 131, 6}, ScoreCase{1, 1, 1, 150, 150, 3}}) {
    Params params(Params::Shapes{{c.batch, c.heads, c.k_len, c.dim}}, -1, 0);
    const Index past = c.k_len - c.q_len;
    const auto make = [past]<class A>(Params& p) { return GatedDecayTerm<A>(p.param<A, 4>(0), past); };
    const auto reference = [past](const Params& p, const Score& s) {
      const View<const double, 4> all = p.value<4>(0);
      const View<const double, 2> of_head{
          &all(s.b, s.h, Index{0}, Index{0}), {all.shape[2], all.shape[3]}, {all.stride[2], all.stride[3]}};
      return reference::gated_decay(of_head, s.q, s.k, s.scale, past + s.i, s.j);
    };
    test::expect_reference_scores(make, params, {c}, reference);
    test::expect_gradients(make, params, {c}, reference);
    test::expect_float_gradients(make, params, {c});
    test::expect_same_bits_for_any_executor(make, params, {c});
  }
}

/// Of one head and sequence: what is left of the products, q and k being all ones.
std::vector<double> kept(const std::vector<double>& log, Index time, Index dim) {
  const std::vector<double> ones(static_cast<std::size_t>(time * dim), 1.0);
  std::vector<double> s(static_cast<std::size_t>(time * time), static_cast<double>(dim));
  ScoreInputs<double> in;
  in.q = in.k = bhtd<const double>(ones.data(), 1, 1, time, dim);
  const GatedDecayTerm<double> gates({bhtd<const double>(log.data(), 1, 1, time, dim)});
  add_scores(with(gates), in, bhtd(s.data(), 1, 1, time, time));
  return s;
}

TEST(GatedDecay, KeepsOfEachChannelWhatItsGatesSay) {
  const std::vector<double> s = kept({-1, -2, std::log(0.5), std::log(0.25), std::log(0.125), 0}, 3, 2);
  EXPECT_DOUBLE_EQ(s[3], 0.5 + 0.25);              // token 1 of key 0
  EXPECT_DOUBLE_EQ(s[6], 0.5 * 0.125 + 0.25 * 1);  // token 2 of key 0
  EXPECT_DOUBLE_EQ(s[7], 0.125 + 1);               // token 2 of key 1
  for (const int own : {0, 4, 8}) EXPECT_EQ(s[static_cast<std::size_t>(own)], 2);
}

TEST(GatedDecay, AGateOfNothingClosesTheDoor) {
  const std::vector<double> s = kept({0, 0, -HUGE_VAL, -HUGE_VAL, -HUGE_VAL, 0}, 3, 2);
  EXPECT_EQ(s[3], 0);
  EXPECT_EQ(s[6], 0);
  EXPECT_EQ(s[7], 1);
}

TEST(GatedDecay, GatesAlikeInAllChannelsAreForgettingInLinearAttention) {
  const Index time = 70, dim = 5;
  test::Random random(3);
  std::vector<double> x, gates, by_channel;
  for (Index n = 0; n < 3 * time * dim; ++n) x.push_back(random.uniform(-1, 1));
  for (Index t = 0; t < time; ++t) {
    gates.push_back(random.uniform(-0.5, 0));
    by_channel.insert(by_channel.end(), static_cast<std::size_t>(dim), gates.back());
  }
  const auto part = [&](Index n) { return bhtd<const double>(x.data() + n * time * dim, 1, 1, time, dim); };
  const auto run = [&](const auto& encoding) {
    std::vector<double> out(static_cast<std::size_t>(time * dim));
    linear_attention<double>(
        {part(0), part(1), part(2)}, bhtd(out.data(), 1, 1, time, dim), {}, with(encoding),
        {.mask = Mask::causal, .feature_map = FeatureMap::identity, .normaliser = Normaliser::none});
    return out;
  };
  const auto one = run(ForgettingBias<double>({dense<const double>(gates.data(), 1, 1, time)}));
  const auto all = run(GatedDecayTerm<double>({bhtd<const double>(by_channel.data(), 1, 1, time, dim)}));
  for (std::size_t n = 0; n < one.size(); ++n)
    EXPECT_NEAR(all[n], one[n], 0x1p-43) << n;  // sums of at most 2^4 · 2^-49
}

TEST(GatedDecay, InACacheThatIsNotFullQueriesAreTheTokensAtTheirPositions) {
  const Index room = 30, filled = 12, q_len = 4, past = filled - q_len, dim = 3;
  Params whole(Params::Shapes{{1, 1, room, dim}}, -1, 0), part(Params::Shapes{{1, 1, filled, dim}}, -1, 0);
  std::copy_n(whole.values(0).begin(), part.values(0).size(), part.values(0).begin());
  test::Random random(5);
  std::vector<double> x, d_s(static_cast<std::size_t>(q_len * room)), d_part, s = d_s, s_part;
  for (Index n = 0; n < (room + q_len) * dim; ++n) x.push_back(random.uniform(-1, 1));
  for (Index i = 0; i < q_len; ++i) {
    for (Index j = 0; j < filled; ++j) {
      d_part.push_back(d_s[static_cast<std::size_t>(i * room + j)] = random.uniform(-1, 1));
    }
  }
  s_part.resize(d_part.size());
  const auto run = [&](const GatedDecayTerm<double>& gates, const Positions& at, Index k_len, std::vector<double>& to,
                       const std::vector<double>& d) {
    ScoreInputs<double> in{at};
    in.q = bhtd<const double>(x.data() + room * dim, 1, 1, q_len, dim);
    in.k = bhtd<const double>(x.data(), 1, 1, k_len, dim);
    add_scores(with(gates), in, bhtd(to.data(), 1, 1, q_len, k_len));
    add_scores_backward(with(gates), in, bhtd<const double>(d.data(), 1, 1, q_len, k_len));
  };
  run(GatedDecayTerm<double>(whole.param<double, 4>(0), std::nullopt), past, room, s, d_s);
  run(GatedDecayTerm<double>(part.param<double, 4>(0), past), {}, filled, s_part, d_part);
  for (Index i = 0; i < q_len; ++i) {
    for (Index j = 0; j < room; ++j) {
      const double here = j < filled ? s_part[static_cast<std::size_t>(i * filled + j)] : 0;
      ASSERT_DOUBLE_EQ(s[static_cast<std::size_t>(i * room + j)], here) << i << ' ' << j;
    }
  }
  for (std::size_t n = 0; n < whole.grads(0).size(); ++n) {
    ASSERT_NEAR(whole.grads(0)[n], n < part.grads(0).size() ? part.grads(0)[n] : 0, 0x1p-46) << n;
  }
}

TEST(GatedDecay, WrongCallsSayWhatMustHold) {
  Params params(Params::Shapes{{1, 2, 5, 3}, {1, 2, 4, 3}}, -1, 0);
  const Param<double, 4> five = params.param<double, 4>(0), four = params.param<double, 4>(1);
  expect_error<ShapeError>(
      [&] {
        GatedDecayTerm<double>(Param<double, 4>{five.value, four.grad});
      },
      "[GatedDecayTerm] log_decay.grad: must have the shape of its parameter, [1, 2, 5, 3], got "
      "[1, 2, 4, 3]");
  expect_error<ShapeError>(
      [&] {
        GatedDecayTerm<double>(Param<double, 4>{{nullptr, {1, 2, 5, -3}, {}}});
      },
      "[GatedDecayTerm] log_decay: must have extents of at least 0, got shape [1, 2, 5, -3]");
  const std::vector<double> x(2 * 5 * 4, 1.0);
  std::vector<double> s(2 * 5 * 5, 7.0);
  const auto call = [&](const GatedDecayTerm<double>& gates, Index q_len, Index dim) {
    return [&, q_len, dim] {
      ScoreInputs<double> in;
      in.q = bhtd<const double>(x.data(), 1, 2, q_len, dim), in.k = bhtd<const double>(x.data(), 1, 2, 5, dim);
      add_scores(with(gates), in, bhtd(s.data(), 1, 2, q_len, 5));
    };
  };
  const GatedDecayTerm<double> all(five), last(five, 3);
  expect_error<ShapeError>(call(all, 5, 4),
                           "[add_scores] GatedDecay.log_decay: must be [batch, heads, k_len, dim] = "
                           "[1, 2, 5, 4], got shape [1, 2, 5, 3]");
  expect_error<ShapeError>(call(last, 5, 3),
                           "[add_scores] past: must be k_len - q_len = 0, the tokens before the first query, got 3");
  params.values(0)[22] = 0.5;
  expect_error<RangeError>(call(all, 5, 3),
                           "[add_scores] GatedDecay.log_decay: must be at most 0, as a gate keeps a part, got 0.5 for "
                           "channel 1 of token 2 of head 1 of sequence 0");
  EXPECT_EQ(s, std::vector<double>(50, 7.0));
}

}  // namespace
}  // namespace bearing
