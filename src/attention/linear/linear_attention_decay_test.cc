#include <gtest/gtest.h>
#include <bearing/encodings/forgetting.hpp>
#include <bearing/encodings/gated_decay.hpp>
#include <bearing/encodings/pope.hpp>
#include <bearing/encodings/retention.hpp>
#include <bearing/error.hpp>
#include <bearing/linear_attention.hpp>
#include <cmath>

#include "support/decay_cases.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/targets.hpp"
#include "support/workers.hpp"

// Linear attention whose state decays, against the recurrence, the reference and central differences.

namespace bearing {
namespace {

using test::Decaying;
using test::LinearCase;

/// A rate per head: what is left of a state falls with the distance.
struct ByHead {
  static constexpr const char* name = "retention";
  template <class A>
  using Encoding = RetentionBias<A>;
  static Index numbers(const LinearCase& c) { return c.kv_heads; }
  static double number(test::Random& random, const LinearCase&) { return random.uniform(0.01, 0.6); }
  template <class A>
  static Encoding<A> make(const LinearCase& c, std::vector<A>& x, std::vector<A>& d) {
    return Encoding<A>({dense<const A>(x.data(), c.kv_heads), dense(d.data(), c.kv_heads)});
  }
};

/// A gate per token and head.
struct ByToken {
  static constexpr const char* name = "forgetting";
  template <class A>
  using Encoding = ForgettingBias<A>;
  static Index numbers(const LinearCase& c) { return c.batch * c.kv_heads * c.k_len; }
  static double number(test::Random& random, const LinearCase&) { return random.uniform(-0.6, 0); }
  template <class A>
  static Encoding<A> make(const LinearCase& c, std::vector<A>& x, std::vector<A>& d) {
    return Encoding<A>(
        {dense<const A>(x.data(), c.batch, c.kv_heads, c.k_len), dense(d.data(), c.batch, c.kv_heads, c.k_len)},
        c.k_len - c.q_len);
  }
};

/// A gate per token and channel.
struct ByChannel {
  static constexpr const char* name = "gates by channel";
  template <class A>
  using Encoding = GatedDecayTerm<A>;
  static Index numbers(const LinearCase& c) { return c.batch * c.kv_heads * c.k_len * c.dim; }
  static double number(test::Random& random, const LinearCase&) { return random.uniform(-0.6, 0); }
  template <class A>
  static Encoding<A> make(const LinearCase& c, std::vector<A>& x, std::vector<A>& d) {
    return Encoding<A>({bhtd<const A>(x.data(), c.batch, c.kv_heads, c.k_len, c.dim),
                        bhtd(d.data(), c.batch, c.kv_heads, c.k_len, c.dim)},
                       c.k_len - c.q_len);
  }
};

LinearCase causal(Index time, Index dim, Index value_dim) {
  return {.q_len = time,
          .k_len = time,
          .dim = dim,
          .value_dim = value_dim,
          .mask = Mask::causal,
          .map = FeatureMap::identity,
          .normaliser = Normaliser::none};
}

/// The same with features and a denominator.
LinearCase divided(LinearCase c) {
  c.map = FeatureMap::elu_plus_one, c.normaliser = Normaliser::sum;
  return c;
}

/// body<Kind>() for each kind of decay.
template <class Body>
void each_kind(const Body& body) {
  body.template operator()<ByHead>();
  body.template operator()<ByToken>();
  body.template operator()<ByChannel>();
}

TEST(Decay, IsTheRecurrence) {
  const LinearCase c = causal(100, 6, 5);
  Decaying<double, ByHead> data(c);
  data.run_forward();
  const auto q = data.q.read(), k = data.k.read(), v = data.v.read();
  for (Index h = 0; h < c.heads; ++h) {
    std::vector<double> s(30);
    const double kept = std::exp(-data.numbers[static_cast<std::size_t>(h)]);
    for (Index t = 0; t < c.q_len; ++t) {
      for (Index d = 0; d < 5; ++d) {
        double o = 0, size = 0;
        for (Index e = 0; e < 6; ++e) {
          double& x = s[static_cast<std::size_t>(e * 5 + d)];
          x = kept * x + k(0, h, t, e) * v(0, h, t, d);
          o += q(0, h, t, e) * x;
          size += std::abs(q(0, h, t, e)) * 2 / (1 - kept) * 16;  // numbers are below 4
        }
        ASSERT_NEAR(data.out.view()(0, h, t, d), o, size * 0x1p-45) << t;
      }
    }
  }
}

TEST(Decay, AgreesWithTheReferenceAtBlocksEdges) {
  each_kind([]<class Kind>() {
    for (const Index time : {1, 2, 31, 32, 33, 63, 64, 65, 129}) {
      for (const LinearCase& c : {causal(time, 6, 5), divided(causal(time, 6, 5))}) {
        test::expect_decay<double, Kind>(c);
        test::expect_decay<float, Kind>(c);
      }
    }
    for (const Index dim : {2, 16, 34}) {
      for (const Index value_dim : {1, 33}) {
        test::expect_decay<float, Kind>(causal(66, dim, value_dim));
        test::expect_decay<float, Kind>(divided(causal(66, dim, value_dim)));
      }
    }
    LinearCase relu = divided(causal(70, 6, 5));
    relu.map = FeatureMap::relu, relu.epsilon = 0.5;
    test::expect_decay<double, Kind>(relu);
  });
}

TEST(Decay, ServesMasksGroupsAndOffsets) {
  for (const Mask mask : {Mask::causal, Mask::causal_top_left, Mask::causal_bottom_right}) {
    LinearCase c = causal(70, 6, 5);
    c.batch = 2, c.heads = 4, c.mask = mask, c.rope = true, c.k_len = 140, c.q_first = 200;
    test::expect_decay<double, ByHead>(c);
    test::expect_decay<float, ByHead>(c);
    test::expect_decay<double, ByHead>(divided(c));
    c.k_len = 5;
    test::expect_decay<double, ByHead>(c);
    c.k_len = 100, c.q_first = 30;
    if (mask == Mask::causal_top_left) continue;
    each_kind([&]<class Kind>() {
      test::expect_decay<double, Kind>(c);
      test::expect_decay<double, Kind>(divided(c));
    });
  }
}

TEST(Decay, AgreesOnEveryTargetInEveryTypeAndLayout) {
  each_kind([]<class Kind>() {
    LinearCase c = causal(70, 10, 37);
    c.batch = 2, c.heads = 4, c.rope = true;
    test::expect_decay_on_every_target<double, Kind>(c);
    test::expect_decay_on_every_target<float, Kind>(c);
    test::expect_decay_on_every_target<double, Kind>(divided(c));
    test::expect_decay_on_every_target<float, Kind>(divided(c));
    c.inputs = c.outputs = test::Layout::bthd;
    test::expect_decay_on_every_target<Bfloat16, Kind>(c);
    test::expect_decay_on_every_target<Float16, Kind>(c);
  });
}

TEST(Decay, GivesCentralDifferences) {
  each_kind([]<class Kind>() {
    LinearCase c = causal(5, 4, 3);
    c.batch = 2, c.heads = 4, c.rope = true;
    test::expect_decay_differences<Kind>(c);
    test::expect_decay_differences<Kind>(divided(c));
    test::expect_decay_differences<Kind>(causal(35, 2, 2));
    test::expect_decay_differences<Kind>(divided(causal(35, 2, 2)));
  });
}

/// Outputs and states of one call, or of several.
void expect_continuations(const LinearCase& c) {
  for (const std::vector<Index>& cuts : std::vector<std::vector<Index>>{{0, 1, 2, 40, 100}, {0, 32, 33, 100}}) {
    Decaying<double, ByHead> whole(c), pieces(c);
    whole.run_forward();
    const std::vector<double> once = whole.out.doubles(), cut = pieces.with_terms([&](const TermList<double>&list) {
      Decaying<double, ByHead>::State state(pieces.c, 0);
      for (std::size_t n = 0; n + 1 < cuts.size(); ++n) {
        linear_attention<double>(pieces.inputs(cuts[n], cuts[n + 1]),
                                 pieces.piece(pieces.out.view(), cuts[n], cuts[n + 1]), state.view(), list,
                                 pieces.c.options());
      }
      return pieces.out.doubles();
    });
    const double bound = 2 * whole.bounds(0x1p-53).out;
    for (std::size_t x = 0; x < once.size(); ++x) ASSERT_NEAR(cut[x], once[x], bound) << x;
  }
}

TEST(Decay, ContinuesFromAState) {
  LinearCase c = causal(100, 6, 5);
  c.heads = 4;
  expect_continuations(c);
  expect_continuations(divided(c));
}

/// Backward from a state and to one, against the reference.
template <class Kind>
void expect_gradients_of_states(const LinearCase& c) {
  SCOPED_TRACE(std::string(Kind::name) + " " + test::describe(c));
  Decaying<double, Kind> data(c), truth(c);
  using State = typename Decaying<double, Kind>::State;
  State start(data.c, 0.5), d_state(data.c, 0.25), d_truth(data.c, 0.25), end(data.c, 0.5), end_truth(data.c, 0.5);
  const auto run = [&](auto& of, State& to, State& last, auto forward, auto backward) {
    of.with_terms([&](const TermList<double>& list) {
      forward(of.inputs(), of.out.view(), last.view(), list, of.c.options());
      LinearAttentionGrads<double> grads = of.grads();
      grads.d_state = to.view();
      backward(of.inputs(), of.d_out.read(), start.read(), grads, list, of.c.options());
    });
  };
  run(
      data, d_state, end, [](auto&&... x) { linear_attention<double>(x...); },
      [](auto&&... x) { linear_attention_backward<double>(x...); });
  run(
      truth, d_truth, end_truth, [](auto&&... x) { reference::linear_attention(x...); },
      [](auto&&... x) { reference::linear_attention_backward(x...); });
  const test::LinearBounds bounds = truth.bounds(0x1p-53);
  // A sum of products of numbers below 4; a state of 1/2 makes no denominator smaller.
  const double some = 64 * 0x1p-53 * 4 * 16 * static_cast<double>(c.q_len + 8);
  test::expect_rounded(data.out, truth.out, bounds.out + some, "out");
  test::expect_rounded(data.d_q, truth.d_q, bounds.d_q + some, "d_q");
  test::expect_rounded(data.d_k, truth.d_k, bounds.d_k + some, "d_k");
  test::expect_rounded(data.d_v, truth.d_v, bounds.d_v + some, "d_v");
  for (std::size_t x = 0; x < end.s.size(); ++x) {
    ASSERT_NEAR(end.s[x], end_truth.s[x], some);
    ASSERT_NEAR(d_state.s[x], d_truth.s[x], some);
  }
  for (std::size_t x = 0; x < end.z.size() && c.normaliser == Normaliser::sum; ++x) {
    ASSERT_NEAR(end.z[x], end_truth.z[x], some);
    ASSERT_NEAR(d_state.z[x], d_truth.z[x], some);
  }
  const double bound = test::decay_bound(truth, bounds, static_cast<double>(2 * c.q_len)) + some * 100;
  for (std::size_t x = 0; x < data.d_numbers.size(); ++x) {
    ASSERT_NEAR(data.d_numbers[x], truth.d_numbers[x], bound) << "number " << x;
  }
}

TEST(Decay, GivesGradientsOfStates) {
  each_kind([]<class Kind>() {
    for (const Index time : {1, 5, 32, 40, 70}) {
      LinearCase c = causal(time, 6, 5);
      c.batch = 2, c.heads = 4, c.rope = true;
      expect_gradients_of_states<Kind>(c);
      expect_gradients_of_states<Kind>(divided(c));
      c.value_dim = 0;  // z decays all the same
      expect_gradients_of_states<Kind>(divided(c));
    }
  });
}

/// o is the mean of the values by weights that fall with what lies between, in a recurrence of two sums.
TEST(Decay, DividesBySumsThatDecayToo) {
  const LinearCase c = divided(causal(100, 6, 5));
  Decaying<double, ByToken> data(c);
  data.run_forward();
  const auto feature = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
  const auto q = data.q.read(), k = data.k.read(), v = data.v.read();
  for (Index h = 0; h < c.heads; ++h) {
    std::vector<double> s(30), z(6);
    for (Index t = 0; t < c.q_len; ++t) {
      const double kept = std::exp(data.numbers[static_cast<std::size_t>(h * c.k_len + t)]);
      double o = 0, n = 0;
      for (Index e = 0; e < 6; ++e) {
        const double f = feature(k(0, h, t, e)), query = feature(q(0, h, t, e));
        double &sum = z[static_cast<std::size_t>(e)], &x = s[static_cast<std::size_t>(e * 5 + 2)];
        sum = kept * sum + f, x = kept * x + f * v(0, h, t, 2);
        n += query * sum, o += query * x;
      }
      ASSERT_NEAR(data.out.view()(0, h, t, 2), o / n, 4 * 0x1p-44) << t;  // a mean of numbers below 4
    }
  }
}

/// Gaps in positions count, between real numbers too.
TEST(Decay, GoesByPositions) {
  LinearCase c = causal(70, 4, 3);
  Decaying<double, ByHead> data(c), truth(c);
  std::vector<double> at;
  for (Index t = 0; t < c.q_len; ++t) at.push_back(1000 + 0.5 * static_cast<double>(t) + (t > 40 ? 7.25 : 0));
  const Positions positions(dense<const double>(at.data(), c.q_len));
  LinearAttentionInputs<double> in = data.inputs();
  in.q_positions = in.k_positions = positions;
  data.with_terms([&](const auto& list) { linear_attention<double>(in, data.out.view(), {}, list, data.c.options()); });
  LinearAttentionInputs<double> same = truth.inputs();
  same.q_positions = same.k_positions = positions;
  truth.with_terms(
      [&](const auto& list) { reference::linear_attention(same, truth.out.view(), {}, list, truth.c.options()); });
  test::expect_rounded(data.out, truth.out, test::LinearBounds(truth.c, truth, 0x1p-53).out, "out");
  double o = 0;  // of the last query, over all keys
  for (Index j = 0; j < 70; ++j) {
    double product = 0;
    for (Index d = 0; d < 4; ++d) product += data.q.view()(0, 1, 69, d) * data.k.view()(0, 1, j, d);
    o += product * std::exp(-data.numbers[1] * (at[69] - at[static_cast<std::size_t>(j)])) * data.v.view()(0, 1, j, 2);
  }
  EXPECT_NEAR(data.out.view()(0, 1, 69, 2), o, 1e-12);
}

TEST(Decay, OfNothingChangesNoNumber) {
  const LinearCase c = causal(70, 6, 5);
  Decaying<double, ByHead> data(c), plain(c);
  std::fill(data.numbers.begin(), data.numbers.end(), 0.0);
  data.run_forward();
  const std::vector<double> got = data.out.doubles(), wanted = plain.forward({});
  const double bound = test::LinearBounds(data.c, plain, 0x1p-53).out;
  for (std::size_t x = 0; x < got.size(); ++x) ASSERT_NEAR(got[x], wanted[x], bound);
}

TEST(Decay, OfEverythingLeavesAQueryItsOwnKey) {
  const LinearCase c = causal(70, 6, 5);
  for (const double rate : {100.0, 1e4, 1e300}) {
    Decaying<float, ByHead> data(c);
    std::fill(data.numbers.begin(), data.numbers.end(), static_cast<float>(std::min(rate, 1e38)));
    data.run_forward();
    data.run_backward();
    for (Index t = 0; t < 70; ++t) {
      double product = 0, size = 0;
      for (Index d = 0; d < 6; ++d) {
        const double one = static_cast<double>(data.q.view()(0, 0, t, d)) * data.k.view()(0, 0, t, d);
        product += one, size += std::abs(one);
      }
      const double value = data.v.view()(0, 0, t, 1);
      ASSERT_NEAR(data.out.view()(0, 0, t, 1), product * value, 8 * 0x1p-24 * size * std::abs(value)) << rate;
    }
    for (const float d : data.d_numbers) EXPECT_TRUE(std::isfinite(d));
  }
}

/// A gate of 0 closes: what comes after it is a sequence of its own.
TEST(Decay, OfNothingKeptBeginsAnew) {
  const LinearCase c = causal(70, 6, 5);
  Decaying<double, ByChannel> data(c), later(c);
  const Index cut = 45;
  for (Index h = 0; h < c.kv_heads; ++h) {
    for (Index e = 0; e < 6; ++e) data.numbers[static_cast<std::size_t>((h * 70 + cut) * 6 + e)] = -HUGE_VAL;
  }
  data.run_forward();
  data.run_backward();
  const std::vector<double> got = data.out.doubles();
  later.k.for_each([&](Index b, Index h, Index t, Index d) {
    if (t < cut) later.k.view()(b, h, t, d) = 0;
  });
  later.run_forward();
  const std::vector<double> wanted = later.out.doubles();
  const double bound = test::LinearBounds(data.c, later, 0x1p-53).out;
  for (Index h = 0; h < c.heads; ++h) {
    for (Index x = cut * 5; x < 70 * 5; ++x) {
      ASSERT_NEAR(got[static_cast<std::size_t>(h * 350 + x)], wanted[static_cast<std::size_t>(h * 350 + x)], bound);
    }
  }
  const double none = test::decay_bound(data, test::LinearBounds(data.c, data, 0x1p-53), 1);
  for (Index e = 0; e < 6; ++e) EXPECT_NEAR(data.d_numbers[static_cast<std::size_t>(cut * 6 + e)], 0, none);
}

TEST(Decay, HasTheSameBitsForAnyNumberOfThreads) {
  each_kind([]<class Kind>() {
    LinearCase c = divided(causal(200, 10, 70));
    c.batch = 3, c.heads = 4, c.rope = true;
    const auto bits = [&](const Executor& on) {
      Decaying<float, Kind> data(c);
      data.run_forward(on);
      data.run_backward(on);
      std::vector<double> all = data.out.doubles();
      for (const auto* x : {&data.d_q, &data.d_k, &data.d_v}) {
        const std::vector<double> more = x->doubles();
        all.insert(all.end(), more.begin(), more.end());
      }
      all.insert(all.end(), data.d_numbers.begin(), data.d_numbers.end());
      return all;
    };
    const std::vector<double> once = bits({});
    for (const Index count : {2, 7}) {
      test::Workers workers(count);
      EXPECT_EQ(bits(workers), once) << count << " workers";
      EXPECT_EQ(bits(test::backwards(count)), once) << count << " backwards";
    }
  });
}

TEST(Decay, MakesNoDenormals) {
  LinearCase c = causal(2048, 16, 8);
  c.heads = 4;
  test::on_every_target([&] {
    for (const float rate : {0.001F, 0.3F, 3.0F, 40.0F, 80.0F}) {
      Decaying<float, ByHead> data(c);
      std::fill(data.numbers.begin(), data.numbers.end(), rate);
      EXPECT_FALSE(test::meets_denormals([&] { data.run_forward(); })) << rate;
      EXPECT_FALSE(test::meets_denormals([&] { data.run_backward(); })) << rate;
    }
  });
}

TEST(Decay, RefusesWhatItCannotServe) {
  const auto refuse = [](const auto& spoil, const std::string& text) {
    Decaying<double, ByHead> data(causal(4, 2, 2));
    LinearAttentionOptions options = data.c.options();
    LinearAttentionInputs<double> in = data.inputs();
    spoil(data, in, options);
    const std::vector<double> before = data.out.doubles();
    const auto call = [&] {
      data.with_terms([&](const auto& list) { linear_attention<double>(in, data.out.view(), {}, list, options); });
    };
    test::expect_error<RangeError>(call, "[linear_attention] " + text);
    EXPECT_EQ(data.out.doubles(), before);
  };
  refuse([](auto&, auto&, auto& options) { options.mask = Mask::none; },
         "mask: must be a causal one if the state decays from key to key, got none");
  refuse([](auto& data, auto&, auto&) { data.numbers[1] = -0.5; }, "rates: must be finite and at least 0, got -0.5");
  refuse(
      [](auto&, auto& in, auto& options) {
        in.k_positions = Positions(Index{2}), options.mask = Mask::causal_top_left;
      },
      "q_positions: must be at least those of the keys that a query sees, as the state decays from them to it, got 0 "
      "for query 0 and 2 for key 0 of sequence 0");
  Decaying<double, ByToken> growing(causal(4, 2, 2));
  growing.numbers[3] = 0.5;
  test::expect_error<RangeError>(
      [&] { growing.run_forward(); },
      "[linear_attention] terms: a decay's logarithm must be at most 0, as a state that grows "
      "has no end, got 0.5 for token 3 of head 0 of sequence 0");
  Decaying<double, ByChannel> channels(divided(causal(4, 2, 2)));
  const PopeRows<double> pope(Pope{.head_dim = 2});
  channels.with_terms([&](TermList<double> list) {
    list.terms[static_cast<std::size_t>(list.size++)] = erase<double>(pope);
    test::expect_error<ShapeError>(
        [&] { linear_attention<double>(channels.inputs(), channels.out.view(), {}, list, channels.c.options()); },
        "[linear_attention] normaliser: must be none if each channel decays on its own and encodings change the rows' "
        "dimension, as the features then have other channels, got sum for rows of 4 and features of 2");
  });
  Decaying<double, ByToken> tokens(causal(4, 2, 2));
  LinearAttentionInputs<double> in = tokens.inputs();
  in.q_positions = Positions(Index{1});
  const auto call = [&] {
    tokens.with_terms(
        [&](const auto& list) { linear_attention<double>(in, tokens.out.view(), {}, list, tokens.c.options()); });
  };
  test::expect_error<RangeError>(call,
                                 "[linear_attention] mask: must let query i see the keys up to its own, number k_len - "
                                 "q_len + i, as the state decays from token to token, got 2 keys of 4 for query 0 of "
                                 "sequence 0");
}

// After a pause: all weights are small alike, below what counts.
TEST(Decay, AQueryFarBehindItsLastKeyHasWhatItHadThere) {
  const Index n = 33, dim = 2;
  const std::vector<float> ones(static_cast<std::size_t>(n * dim), 1.0f);
  std::vector<float> v(static_cast<std::size_t>(n), 10.0f), out(1);
  v.back() = 1;
  const RetentionBias<float> rate(Retention{{1.0}});
  const auto at = [&](Index gap) {
    linear_attention<float>({bhtd<const float>(ones.data(), 1, 1, 1, dim), bhtd<const float>(ones.data(), 1, 1, n, dim),
                             bhtd<const float>(v.data(), 1, 1, n, 1), Positions(n - 1 + gap)},
                            bhtd(out.data(), 1, 1, 1, 1), {}, with(rate), {.mask = Mask::causal});
    return out[0];
  };
  double weighted = 0, sum = 0;
  for (Index j = 0; j < n; ++j) {
    const double weight = std::exp(-static_cast<double>(n - 1 - j));
    weighted += weight * v[static_cast<std::size_t>(j)], sum += weight;
  }
  const float there = at(0);
  EXPECT_NEAR(there, weighted / sum, 1e-5);
  for (const Index gap : {1, 17, 32, 33, 34, 80, 1000}) EXPECT_EQ(at(gap), there) << gap;
}

}  // namespace
}  // namespace bearing
