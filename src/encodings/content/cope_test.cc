#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/attention.hpp>
#include <bearing/encodings/cope.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/cope.hpp>
#include <bearing/scores.hpp>
#include <cerrno>
#include <utility>

#include "support/errors.hpp"
#include "support/naive_attention.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Place;
using test::Score;
using test::ScoreCase;

constexpr Index heads = 2, dim = 5;

// Scales either way, one table for all heads and one for each, caps that are reached and one that leaves one position.
struct Made {
  Cope cope;
  Index tables;
};
const std::vector<Made> made = {
    {{.max_pos = 4}, heads},
    {{.max_pos = 9, .gate_scale = CopeScale::one}, 1},
    {{.max_pos = 150, .score_scale = CopeScale::softmax}, heads},
    {{.max_pos = 1}, heads},
};

// Keys must stand in order, and a reference needs all of them: offsets only, one case at a time.
const std::vector<ScoreCase> cases = {
    {1, heads, heads, 1, 1, dim, Place::offsets},
    {2, heads, heads, 11, 7, dim, Place::offsets, 1, 3, 0},
    {1, heads, heads, 67, 131, dim, Place::offsets, 1, 64, 0},
    {3, heads, 1, 1, 37, dim, Place::offsets, 1, 36, 0},
    {1, heads, heads, 5, 4, dim, Place::offsets, 1, 0, 1},
};

/// All keys of a score's head and their positions, from what a reference is told of one score.
struct Keys {
  explicit Keys(const Score& s, Index k_len) : rows{s.k.data - s.j * dim, {k_len, dim}, {dim, 1}} {
    for (Index t = 0; t < k_len; ++t) at_.push_back(s.n + static_cast<double>(t - s.j));
  }
  View<const double, 1> at() const { return dense(at_.data(), rows.shape[0]); }
  View<const double, 2> rows;

 private:
  std::vector<double> at_;
};

/// How near a position that a case meets comes to a whole number, where the score has a kink.
double nearest_kink(const Cope& cope, const ScoreCase& c, double scale) {
  test::ScoreData data(c);
  double nearest = 1;
  test::over_scores(c, [&](Index b, Index h, Index i, Index j) {
    const Score s = data.at(b, h, i, j, scale);
    const Keys keys(s, c.k_len);
    const double p = reference::cope_position(cope, s.q, keys.rows, s.m, keys.at(), s.j, scale);
    if (p > 0 && p < static_cast<double>(cope.max_pos)) nearest = std::min(nearest, std::abs(p - std::round(p)));
  });
  return nearest;
}

TEST(Cope, AgreesWithItsReferenceInScoresAndGradients) {
  for (const auto& [cope, tables] : made) {
    Params params(Params::Shapes{{tables, cope.max_pos, dim}});
    const auto make = [&cope = cope]<class A>(Params& p) { return CopeTerm<A>(cope, p.param<A, 3>(0)); };
    for (const ScoreCase& c : cases) {
      const auto reference = [&c, &cope = cope](const Params& p, const Score& s) {
        const Keys keys(s, c.k_len);
        return reference::cope(cope, p.value<3>(0), s.h, s.q, keys.rows, s.m, keys.at(), s.j, s.scale);
      };
      // In float up to 131 gates are off by 2^-24 each, and a position's slope is at most 10: 2^-13.6. In double so
      // with 2^-53, but the running sum of up to 100 rounds to 2^-47 at each step, either way: √131 of that times the
      // slope.
      test::expect_reference_scores(make, params, {c}, reference, 0x1p-42);
      // A step of 2^-17 in q or k moves a product by as much, a gate by a quarter of it and a position by 37 of those
      // at most: 2^-13 from a kink is enough. Float moves it by less.
      if (c.q_len * c.k_len <= 400) {
        ASSERT_GT(nearest_kink(cope, c, 0.375), 0x1p-13);
        test::expect_gradients(make, params, {c}, reference);
        test::expect_float_gradients(make, params, {c});
      }
      test::expect_same_bits_for_any_executor(make, params, {c});
    }
  }
}

/// q, k and E of one head with one feature each.
struct OneFeature {
  std::vector<double> q, k, e;
  Positions q_positions = {}, k_positions = {};

  std::vector<double> scores(const Cope& cope, double scale = 1) const {
    const auto n = [](const std::vector<double>& x) { return static_cast<Index>(x.size()); };
    const CopeTerm<double> term(cope, {dense(e.data(), 1, n(e), 1)});
    std::vector<double> s(q.size() * k.size());
    add_scores(with(term),
               {q_positions, k_positions, bhtd(q.data(), 1, 1, n(q), 1), bhtd(k.data(), 1, 1, n(k), 1), scale},
               bhtd(s.data(), 1, 1, n(q), n(k)));
    return s;
  }
};

TEST(Cope, WideOpenGatesCountTokens) {
  // σ(40) is 1 to the last bit but one: positions are i − j + 1, and E's rows are found whole.
  const OneFeature open{{1, 1, 1, 1}, {40, 40, 40, 40}, {0, 10, 20, 30, 40}};
  const std::vector<double> s = open.scores({.max_pos = 5});
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      EXPECT_NEAR(s[i * 4 + j], j <= i ? 10 * static_cast<double>(i - j + 1) : 0, 1e-14);
    }
  }
}

TEST(Cope, AClosedGateIsNotCounted) {
  // The middle key does not count: the key before it is one position away, as is the query's own.
  const OneFeature closed{{1, 1, 1}, {40, -40, 40}, {0, 10, 20, 30}};
  const std::vector<double> s = closed.scores({.max_pos = 4});
  EXPECT_NEAR(s[6], 20, 1e-14);
  EXPECT_NEAR(s[7], 10, 1e-14);
  EXPECT_NEAR(s[8], 10, 1e-14);
}

TEST(Cope, HalfOpenGatesInterpolate) {
  const OneFeature half{{2, 2, 2}, {0, 0, 0}, {1, 5, 7}};
  EXPECT_EQ(half.scores({.max_pos = 3}), (std::vector<double>{6, 0, 0, 10, 6, 0, 12, 10, 6}));
  OneFeature capped = half;
  capped.e.pop_back();
  EXPECT_EQ(capped.scores({.max_pos = 2}), (std::vector<double>{6, 0, 0, 10, 6, 0, 10, 10, 6}));
  EXPECT_EQ(half.scores({.max_pos = 3, .score_scale = CopeScale::softmax}, 0.5)[0], 3);
}

TEST(Cope, ScalesAreWhereTheSpecSays) {
  const OneFeature one{{2}, {3}, {0, 1}};
  const auto gate = [](double logit) { return 1 / (1 + std::exp(-logit)); };
  EXPECT_DOUBLE_EQ(one.scores({.max_pos = 2}, 0.25)[0], 2 * gate(1.5));
  EXPECT_DOUBLE_EQ(one.scores({.max_pos = 2, .gate_scale = CopeScale::one}, 0.25)[0], 2 * gate(6));
  EXPECT_DOUBLE_EQ(one.scores({.max_pos = 2, .score_scale = CopeScale::softmax}, 0.25)[0], 0.5 * gate(1.5));
}

TEST(Cope, PositionsDecideWhichKeysAreSeen) {
  // Real positions, repeated ones, queries in any order; against the reference.
  const std::vector<double> q_positions = {4.5, -1, 2, 9}, k_positions = {0, 0, 2, 2.5, 4.5, 4.5, 8};
  OneFeature some{{0.5, -1, 2, 1},
                  {1, -2, 0.3, 0.7, -0.1, 2, 1},
                  {1, -2, 3, 0.5},
                  Positions(dense(q_positions.data(), 4)),
                  Positions(dense(k_positions.data(), 7))};
  const Cope cope{.max_pos = 4};
  const std::vector<double> s = some.scores(cope, 0.7);
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 0; j < 7; ++j) {
      const double truth = reference::cope(
          cope, dense<const double>(some.e.data(), 1, 4, 1), 0,
          dense<const double>(&some.q[static_cast<std::size_t>(i)], 1), dense<const double>(some.k.data(), 7, 1),
          q_positions[static_cast<std::size_t>(i)], dense(k_positions.data(), 7), j, 0.7);
      // Seven gates of at most 1, their sum rounded seven times and each of them twice; slopes of up to 10.
      EXPECT_NEAR(s[static_cast<std::size_t>(i * 7 + j)], truth, 9 * 7 * 10 * 0x1p-53);
    }
  }
  EXPECT_EQ(std::count(s.begin() + 7, s.begin() + 14, 0.0), 7);  // before all keys
}

TEST(Cope, PaddingOnTheLeftChangesNothing) {
  const OneFeature bare{{1, 2, -1}, {0.5, -1, 2}, {1, 4, 9, 16}};
  OneFeature padded = bare;
  padded.k.insert(padded.k.begin(), {7, -3});
  padded.q_positions = Positions(2);
  const std::vector<double> s = bare.scores({.max_pos = 4}), p = padded.scores({.max_pos = 4});
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) EXPECT_EQ(s[i * 3 + j], p[i * 5 + j + 2]);
  }
}

TEST(Cope, GatesFarOutLeaveNoErrnoAndKeepTheirSlopes) {
  const OneFeature far{{1}, {-5000, 5000}, {0, 3, 7}, Positions(1)};
  errno = 0;
  EXPECT_EQ(far.scores({.max_pos = 3}), (std::vector<double>{3, 3}));
  EXPECT_EQ(errno, 0);

  // z is 0, 1: the score is the gate, and d_k its slope times q, e^-20 to 4e-9 of itself; float's rounding is 2^-24.
  const float q = 1, e[] = {0, 1}, d_s = 1;
  for (const float k : {20.0f, -20.0f}) {
    float d_k = 0;
    const CopeTerm<float> term({.max_pos = 2}, {dense(e, 1, 2, 1)});
    add_scores_backward(with(term), {{}, {}, bhtd(&q, 1, 1, 1, 1), bhtd(&k, 1, 1, 1, 1)}, bhtd(&d_s, 1, 1, 1, 1),
                        {{}, bhtd(&d_k, 1, 1, 1, 1)});
    EXPECT_NEAR(static_cast<double>(d_k) * std::exp(20.0), 1, 1e-7);
  }
}

TEST(Cope, AttentionSlopesAreThoseOfItsLoss) {
  // A whole causal attention: central differences of Σ d_out · out, in q, which CoPE enters twice, and in k.
  const ScoreCase c{1, heads, heads, 6, 6, dim};
  test::ScoreData data(c, 5);
  const std::vector<double> v(data.k().rbegin(), data.k().rend()), d_out(data.q().rbegin(), data.q().rend());
  const Cope cope{.max_pos = 4};
  Params params(Params::Shapes{{heads, cope.max_pos, dim}});
  const CopeTerm<double> term(cope, params.param<double, 3>(0));
  const auto attend = [&] {
    test::NaiveAttention attention{bhtd<const double>(data.q().data(), 1, heads, 6, dim),
                                   bhtd<const double>(data.k().data(), 1, heads, 6, dim),
                                   bhtd(v.data(), 1, heads, 6, dim), bhtd(d_out.data(), 1, heads, 6, dim), 0.5};
    attention.causal = true;
    attention.run(with(term));
    return attention;
  };
  const auto loss = [&] {
    const test::NaiveAttention attention = attend();
    double sum = 0;
    for (std::size_t x = 0; x < d_out.size(); ++x) sum += attention.out[x] * d_out[x];
    return sum;
  };
  ASSERT_GT(nearest_kink(cope, c, 0.5), 0x1p-13);
  const test::NaiveAttention attention = attend();
  const auto compare = [&](std::vector<double>& values, const std::vector<double>& grads) {
    const double step = 0x1p-17;
    for (std::size_t x = 0; x < values.size(); ++x) {
      const double value = values[x];
      values[x] = value + step;
      const double above = loss();
      values[x] = value - step;
      const double below = loss();
      values[x] = value;
      EXPECT_NEAR(grads[x], (above - below) / (2 * step), 1e-8);  // as in expect_gradients, of 36 scores
    }
  };
  compare(data.q(), attention.d_q);
  compare(data.k(), attention.d_k);
}

TEST(Cope, AttentionsMasksCloseGates) {
  // Keys that key_mask hides, in the middle too, count no more than if they were not there; other sequences neither.
  const Index k_len = 9;
  test::Random random(11);
  std::vector<double> q, k, v, e, d_out;
  for (std::vector<double>* x : {&q, &k, &v}) {
    for (Index n = 0; n < k_len * dim; ++n) x->push_back(random.uniform(-1, 1));
  }
  for (Index n = 0; n < 4 * dim; ++n) e.push_back(random.uniform(-1, 1));
  d_out = v;
  std::reverse(d_out.begin(), d_out.end());
  const bool shown[k_len] = {true, true, false, true, false, false, true, true, true};
  const std::vector<Index> there = {0, 1, 3, 6, 7, 8};
  struct Got {
    std::vector<double> out, d_q, d_k, d_v, d_e;
  };
  const auto run = [&](const std::vector<double>& keys, const std::vector<double>& values, const Positions& at,
                       const AttentionOptions<double>& options) {
    const Index n = static_cast<Index>(keys.size()) / dim;
    Got got{q, q, keys, values, std::vector<double>(e.size())};
    const CopeTerm<double> term({.max_pos = 4}, {dense(e.data(), 1, 4, dim), dense(got.d_e.data(), 1, 4, dim)});
    const auto rows = [](auto& x, Index time) { return bhtd(x.data(), 1, 1, time, dim); };
    const AttentionInputs<double> in{rows(q, k_len), rows(keys, n), rows(values, n), {}, at};
    std::vector<double> lse(k_len);
    attention<double>(in, rows(got.out, k_len), dense(lse.data(), 1, 1, k_len), with(term), options);
    attention_backward<double>(in,
                               {rows(std::as_const(got.out), k_len), dense<const double>(lse.data(), 1, 1, k_len),
                                rows(std::as_const(d_out), k_len)},
                               {rows(got.d_q, k_len), rows(got.d_k, n), rows(got.d_v, n)}, with(term), options);
    return got;
  };
  const auto take = [&](const std::vector<double>& x) {
    std::vector<double> some;
    for (const Index j : there) some.insert(some.end(), x.begin() + j * dim, x.begin() + (j + 1) * dim);
    return some;
  };
  AttentionOptions<double> masked{.mask = Mask::causal};
  masked.key_mask = dense(shown, 1, k_len);
  const Got got = run(k, v, {}, masked);
  const Got truth = run(take(k), take(v), Positions(dense(there.data(), 6)), {.mask = Mask::causal});
  const auto expect_near = [](const std::vector<double>& a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    // Other panels and tiles: some hundred sums of products of about 1 each, 2^-53 of them.
    for (std::size_t x = 0; x < a.size(); ++x) EXPECT_NEAR(a[x], b[x], 0x1p-44);
  };
  expect_near(got.out, truth.out), expect_near(got.d_q, truth.d_q), expect_near(got.d_e, truth.d_e);
  expect_near(take(got.d_k), truth.d_k), expect_near(take(got.d_v), truth.d_v);
}

TEST(Cope, WrongCallsSayWhatMustHold) {
  std::vector<float> memory(2 * 4 * 6), s(2 * 2 * 2, 7.0f);
  const View<const float, 3> e = dense<const float>(memory.data(), 2, 4, 3);
  expect_error<RangeError>([&] { CopeTerm<float>({}, {e}); }, "[CopeTerm] max_pos: must be from 1 to 2^31, got 0");
  expect_error<ShapeError>(
      [&] { CopeTerm<float>({.max_pos = 5}, {e}); },
      "[CopeTerm] embeddings: must be [heads or 1, max_pos = 5, dim] with features side by side, got shape "
      "[2, 4, 3], strides [12, 3, 1]");
  expect_error<ShapeError>(
      [&] {
        CopeTerm<float>({.max_pos = 4}, {{memory.data(), {2, 4, 3}, {24, 6, 2}}});
      },
      "[CopeTerm] embeddings: must be [heads or 1, max_pos = 4, dim] with features side by side, got shape "
      "[2, 4, 3], strides [24, 6, 2]");
  expect_error<ShapeError>(
      [&] {
        CopeTerm<float>({.max_pos = 4}, {e, dense(memory.data(), 2, 4, 2)});
      },
      "[CopeTerm] embeddings.grad: must have the shape of its parameter, [2, 4, 3], got "
      "[2, 4, 2]");

  expect_error<ShapeError>([&] { CopeTerm<float>({.max_pos = 4}, {dense<const float>(nullptr, 2, 4, 3)}); },
                           "[CopeTerm] embeddings: must have memory, got a null pointer; shape is [2, 4, 3]");

  const CopeTerm<float> encoding({.max_pos = 4}, {e});
  const auto scores = bhtd(s.data(), 1, 2, 2, 2);
  expect_error<ShapeError>(
      [&] { add_scores(with(encoding), {}, scores); },
      "[add_scores] Cope.embeddings: must be for queries and keys of 2 heads of 0 features, got shape [2, 4, 3]");
  const Index falling[] = {3, 2};
  const ScoreInputs<float> in{{},
                              Positions(dense(falling, 2)),
                              bhtd<const float>(memory.data(), 1, 2, 2, 3),
                              bhtd<const float>(memory.data(), 1, 2, 2, 3)};
  expect_error<RangeError>(
      [&] { add_scores(with(encoding), in, scores); },
      "[add_scores] k_positions: must not fall along a sequence for Cope, got 2 after 3 for token 1 of sequence 0");
  EXPECT_EQ(s, std::vector<float>(8, 7.0f));
}

}  // namespace
}  // namespace bearing
