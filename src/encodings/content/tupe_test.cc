#include <gtest/gtest.h>
#include <bearing/encodings/tupe.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/tupe.hpp>
#include <bearing/scores.hpp>
#include <numeric>

#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/naive_attention.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Score;

// The longest position of score_cases() is 3 · 131 / 2 + 2 + 64.
constexpr Index heads = 2, dim = 3, rows = 270;

const std::vector<Tupe> specs = {
    {},
    {.cls = TupeCls::tied},
    {.rel_pos_bins = 32},
    {.rel_pos_bins = 8, .max_rel_pos = 20},
    {.rel_pos_bins = 16, .max_rel_pos = 40, .cls = TupeCls::tied},
};

Index bias_rows(const Tupe& tupe) {
  return tupe.rel_pos_bins + (tupe.cls == TupeCls::untied && tupe.rel_pos_bins > 0 ? 1 : 0);
}

template <class A>
TupeBias<A> bias(const Tupe& tupe, Params& params) {
  return {tupe, params.param<A, 3>(0), params.param<A, 3>(1),
          tupe.rel_pos_bins > 0 ? params.param<A, 2>(2) : Param<A, 2>{}};
}

Params tables(const Tupe& tupe, Index table_rows) {
  return Params(Params::Shapes{{heads, table_rows, dim}, {heads, table_rows, dim}, {bias_rows(tupe), heads}});
}

TEST(Tupe, AgreesWithItsReferenceInScoresAndGradients) {
  for (const Tupe& tupe : specs) {
    Params params = tables(tupe, rows);
    const auto make = [&tupe]<class A>(Params& p) { return bias<A>(tupe, p); };
    const auto reference = [&tupe](const Params& p, const Score& s) {
      return reference::tupe(tupe, p.value<3>(0), p.value<3>(1), p.value<2>(2), s.h, s.m, s.n);
    };
    const auto cases = test::score_cases(heads, 0);
    test::expect_reference_scores(make, params, cases, reference);
    test::expect_gradients(make, params, cases, reference);
    test::expect_float_gradients(make, params, cases);
    test::expect_same_bits_for_any_executor(make, params, cases);
  }
}

TEST(Tupe, EveryRowOfAShortTableHasItsGradient) {
  // Few rows, so that [CLS] and all of its numbers are among the elements whose gradients are compared.
  for (const Tupe& tupe : specs) {
    Params params = tables(tupe, 12);
    const auto make = [&tupe]<class A>(Params& p) { return bias<A>(tupe, p); };
    const auto reference = [&tupe](const Params& p, const Score& s) {
      return reference::tupe(tupe, p.value<3>(0), p.value<3>(1), p.value<2>(2), s.h, s.m, s.n);
    };
    test::ScoreCase c{2, heads, heads, 11, 7, 0};
    test::expect_gradients(make, params, {c}, reference);
    c.k_len = 4, c.q_len = 3, c.place = test::Place::shuffled;  // positions up to 8
    test::expect_gradients(make, params, {c}, reference);
  }
}

/// TUPE with one head and one feature, query rows 1, 2, 3, … and key rows 10, 20, 30, …; unscaled.
std::vector<double> small(const Tupe& tupe, const std::vector<double>& bins, Index length) {
  std::vector<double> q(5), k(5), s(static_cast<std::size_t>(length * length));
  for (std::size_t r = 0; r < 5; ++r) {
    q[r] = static_cast<double>(r + 1);
    k[r] = 10 * q[r];
  }
  Param<double, 2> table{};
  if (!bins.empty()) table.value = dense(bins.data(), static_cast<Index>(bins.size()), 1);
  const TupeBias<double> encoding(tupe, {dense<const double>(q.data(), 1, 5, 1)},
                                  {dense<const double>(k.data(), 1, 5, 1)}, table);
  bias_matrix(with(encoding), {}, {}, dense(s.data(), 1, length, length));
  for (double& x : s) x = std::round(x * std::sqrt(2.0) * 1e6) / 1e6;
  return s;
}

TEST(Tupe, ClsHasTwoNumbersAndItsRowComesLast) {
  // θ1 = 1 · 10 from [CLS], itself included; θ2 = 2 · 20 to [CLS]; tokens 1 and 2 have rows 2 and 3.
  EXPECT_EQ(small({}, {}, 3), (std::vector<double>{10, 10, 10, 40, 90, 120, 40, 120, 160}));
  EXPECT_EQ(small({.cls = TupeCls::tied}, {}, 2), (std::vector<double>{10, 20, 20, 40}));
}

TEST(Tupe, ClsHasBucketsOfItsOwn) {
  // Four buckets, both ways two: 0 at the token itself, 1 before it, 2 + 1 after it; 2 and 4 are [CLS]'s.
  const double unit = std::sqrt(0.5);
  std::vector<double> bins = {1000, 2000, 3000, 4000, 5000};
  for (double& b : bins) b *= unit;  // small() multiplies with √2
  EXPECT_EQ(small({.rel_pos_bins = 4, .max_rel_pos = 4}, bins, 3),
            (std::vector<double>{3010, 3010, 3010, 5040, 1090, 4120, 5040, 2120, 1160}));
}

TEST(Tupe, BiasMatrixServesAllLayers) {
  // It looks at no words: the matrix, once, is what add_scores() adds whatever q, k and scale are.
  const Tupe tupe{.rel_pos_bins = 8, .max_rel_pos = 20};
  Params params = tables(tupe, 12);
  const auto encoding = bias<double>(tupe, params);
  std::vector<double> once(heads * 7 * 9), q(heads * 7 * 4, 3.0), k(heads * 9 * 4, 2.0), s(once.size());
  bias_matrix(with(encoding), Positions(2), {}, dense(once.data(), heads, 7, 9));
  add_scores(
      with(encoding),
      {Positions(2), {}, bhtd<const double>(q.data(), 1, heads, 7, 4), bhtd<const double>(k.data(), 1, heads, 9, 4), 5},
      bhtd(s.data(), 1, heads, 7, 9));
  EXPECT_EQ(once, s);
}

/// x [rows, inner] · wᵀ [out, inner]: what the golden data states as a projection, as [heads, rows, out/heads] views.
std::vector<double> project(const std::vector<double>& x, const std::vector<double>& w, std::size_t inner) {
  const std::size_t n = x.size() / inner, out = w.size() / inner;
  std::vector<double> y(n * out);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t o = 0; o < out; ++o) {
      y[r * out + o] = std::inner_product(&x[r * inner], &x[r * inner] + inner, &w[o * inner], 0.0);
    }
  }
  return y;
}

TEST(Tupe, AttentionIsThatOfTheGoldenDataForwardAndBackward) {
  const rapidjson::Document golden = test::golden("attention/tupe_b2h4kv2q7k7d16c.json");
  const Index batch = 2, H = 4, kv = 2, length = 7, features = 16, model = H * features;
  std::vector<std::vector<double>> kept;
  kept.reserve(16);
  const auto activation = [&](const char* name, Index of_heads, Index last) {
    kept.push_back(test::tensor(golden[name]).data);
    return bhtd<const double>(kept.back().data(), batch, of_heads, length, last);
  };
  const auto parameter = [&](const char* kind, const char* name) { return test::tensor(golden[kind][name]).data; };
  const auto split = [&](auto* data) {
    return View<std::remove_pointer_t<decltype(data)>, 3>{data, {H, length, features}, {features, model, 1}};
  };

  const std::vector<double> pos = parameter("params", "pos"), u_q = parameter("params", "u_q"),
                            u_k = parameter("params", "u_k"), bins = parameter("params", "bias_table");
  const std::vector<double> pq = project(pos, u_q, model), pk = project(pos, u_k, model);
  std::vector<double> d_pq(pq.size()), d_pk(pk.size()), d_bins(bins.size());
  const Tupe tupe{.rel_pos_bins = 32, .max_rel_pos = 128, .cls = TupeCls::tied};
  const TupeBias<double> encoding(tupe, {split(pq.data()), split(d_pq.data())}, {split(pk.data()), split(d_pk.data())},
                                  {dense(bins.data(), 32, H), dense(d_bins.data(), 32, H)});
  EXPECT_NEAR(golden["scale"].GetDouble(), tupe_softmax_scale(features), 0x1p-54);  // a power instead of a root
  test::NaiveAttention attention{activation("q", H, features), activation("k", kv, features),
                                 activation("v", kv, features), activation("grad_out", H, features),
                                 tupe_softmax_scale(features)};
  attention.causal = true;
  attention.run(with(encoding));

  test::expect_tensor(attention.lse, activation("logsumexp", H, 1), "logsumexp");
  test::expect_tensor(attention.out, activation("out", H, features), "out");
  test::expect_tensor(attention.d_q, activation("grad_q", H, features), "d_q");
  test::expect_tensor(attention.d_k, activation("grad_k", kv, features), "d_k");
  test::expect_tensor(attention.d_v, activation("grad_v", kv, features), "d_v");

  // The caller's products, backward: d_pos = d_pq · u_q + d_pk · u_k, d_u = d_pᵀ · pos.
  std::vector<double> d_pos(pos.size()), d_u_q(u_q.size()), d_u_k(u_k.size());
  const auto n = static_cast<std::size_t>(model);
  for (std::size_t r = 0; r < 7; ++r) {
    for (std::size_t o = 0; o < n; ++o) {
      for (std::size_t x = 0; x < n; ++x) {
        d_pos[r * n + x] += d_pq[r * n + o] * u_q[o * n + x] + d_pk[r * n + o] * u_k[o * n + x];
        d_u_q[o * n + x] += d_pq[r * n + o] * pos[r * n + x];
        d_u_k[o * n + x] += d_pk[r * n + o] * pos[r * n + x];
      }
    }
  }
  const auto compare = [&](const std::vector<double>& got, const char* name) {
    const std::vector<double> wanted = parameter("grad_params", name);
    test::expect_tensor(got, bhtd(wanted.data(), 1, 1, 1, static_cast<Index>(wanted.size())), name);
  };
  compare(d_pos, "pos");
  compare(d_u_q, "u_q");
  compare(d_u_k, "u_k");
  compare(d_bins, "bias_table");
}

TEST(Tupe, WrongTablesSayWhatMustHold) {
  std::vector<float> memory(2 * 8 * 6);
  const Param<float, 3> good{dense<const float>(memory.data(), 2, 8, 3)};
  const auto make = [](const Tupe& tupe, Param<float, 3> query, Param<float, 3> key, Param<float, 2> bins = {}) {
    return [=] { TupeBias<float>(tupe, query, key, bins); };
  };
  expect_error<ShapeError>(
      make({}, {}, good),
      "[TupeBias] query: must be [heads, rows, dim] of at least 2 rows with features side by side, "
      "got shape [0, 0, 0], strides [0, 0, 0]");
  expect_error<ShapeError>(make({}, good, {{memory.data(), {2, 8, 3}, {48, 6, 2}}}),
                           "[TupeBias] key: must be [heads, rows, dim] of at least 2 rows with features side by side, "
                           "got shape [2, 8, 3], strides [48, 6, 2]");
  expect_error<ShapeError>(make({}, good, {dense<const float>(memory.data(), 2, 7, 3)}),
                           "[TupeBias] key: must be of the shape of query = [2, 8, 3], got shape [2, 7, 3]");
  expect_error<ShapeError>(make({}, {good.value, dense(memory.data(), 2, 8, 2)}, good),
                           "[TupeBias] query.grad: must have the shape of its parameter, [2, 8, 3], got [2, 8, 2]");
  expect_error<RangeError>(make({.rel_pos_bins = -1}, good, good),
                           "[TupeBias] rel_pos_bins: must be at least 0, got -1");
  expect_error<ShapeError>(make({}, good, good, {dense<const float>(memory.data(), 33, 2)}),
                           "[TupeBias] bias: must be empty, as the spec has no rel_pos_bins");
  expect_error<ShapeError>(make({.rel_pos_bins = 32}, good, good, {dense<const float>(memory.data(), 32, 2)}),
                           "[TupeBias] bias: must be [rel_pos_bins + 1, heads] = [33, 2], got shape [32, 2]");
  expect_error<ShapeError>(make({.rel_pos_bins = 32, .cls = TupeCls::tied}, good, good),
                           "[TupeBias] bias: must be [rel_pos_bins, heads] = [32, 2], got nothing");
  expect_error<RangeError>([] { tupe_softmax_scale(0); }, "[tupe_softmax_scale] dim: must be at least 1, got 0");
}

TEST(Tupe, WrongCallsSayWhatMustHold) {
  std::vector<float> memory(2 * 4 * 3), s(3 * 2 * 2, 7.0f);
  const Param<float, 3> vectors{dense<const float>(memory.data(), 2, 4, 3)};
  const TupeBias<float> encoding({}, vectors, vectors);
  EXPECT_EQ(encoding.length(), 3);
  expect_error<ShapeError>([&] { bias_matrix(with(encoding), {}, {}, dense(s.data(), 3, 2, 2)); },
                           "[bias_matrix] Tupe.query: must be for 3 heads, got shape [2, 4, 3]");
  expect_error<RangeError>(
      [&] { bias_matrix(with(encoding), Positions(2), {}, dense(s.data(), 2, 2, 2)); },
      "[bias_matrix] q_positions: must be from 0 to 2, as Tupe has no other vectors, got 3 for token 1 of "
      "sequence 0");
  expect_error<RangeError>(
      [&] { bias_matrix(with(encoding), {}, Positions(-1), dense(s.data(), 2, 2, 2)); },
      "[bias_matrix] k_positions: must be from 0 to 2, as Tupe has no other vectors, got -1 for token 0 of "
      "sequence 0");
  const double half[] = {0, 0.5};
  expect_error<RangeError>(
      [&] { bias_matrix(with(encoding), {}, Positions(dense(half, 2)), dense(s.data(), 2, 2, 2)); },
      "[bias_matrix] k_positions: must be whole numbers for Tupe, got 0.5 for token 1 of sequence 0");
  EXPECT_EQ(s, std::vector<float>(12, 7.0f));
}

}  // namespace
}  // namespace bearing
