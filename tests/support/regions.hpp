#pragma once

#include <bearing/reference/regions.hpp>
#include <deque>

#include "support/attention.hpp"

// Attention in regions: what a call gives, and what it must, by the reference over rows that are turned region by
// region.

namespace bearing::test {

/// One region of a call, in double: where its rows are turned, the rows, and what its encodings add to scores.
struct RegionRowsOfCall {
  std::vector<double> q_at, k_at;
  TurnedRows q, k;
  std::vector<double> scores;

  RegionRowsOfCall(const AttentionProblem& problem, const Region& region, const TermList<double>& terms)
      : q_at(placed(region.q, problem.q_positions, problem.q)),
        k_at(placed(region.k, problem.k_positions, problem.k)),
        q(terms, Side::query, Positions(dense<const double>(q_at.data(), problem.q.shape[0], problem.q.shape[2])),
          problem.q),
        k(terms, Side::key, Positions(dense<const double>(k_at.data(), problem.k.shape[0], problem.k.shape[2])),
          problem.k) {}

  static std::vector<double> placed(const Placing& placing, const Positions& at, View<const double, 4> x) {
    std::vector<double> to;
    for (Index n = 0; n < x.shape[0] * x.shape[2]; ++n) {
      to.push_back(placing(at.real(0, n / x.shape[2], n % x.shape[2])));
    }
    return to;
  }
};

/// What attention_in_regions() and its backward must give, as attention_truth() says it of attention().
inline AttentionTruth regions_truth(const AttentionProblem& problem, std::span<const Region> regions,
                                    const TermList<double>& terms) {
  const auto [batch, heads, q_len, dim] = problem.q.shape;
  const Index kv_heads = problem.k.shape[1], k_len = problem.k.shape[2], value_dim = problem.v.shape[3];
  const AttentionOptions<double>& options = problem.options;
  TermList<double> others;  // all but row encodings
  for (const Term<double>& term : terms) {
    if (term.turn == nullptr) others.terms[static_cast<std::size_t>(others.size++)] = term;
  }
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<Index>(dim, 1))));
  const auto scores_of = [&, b = batch, h = heads, n = q_len](std::vector<double>& x) {
    if (x.empty()) x = zeros(b * h * n * k_len);
    return bhtd(x.data(), b, h, n, k_len);
  };
  const auto region_at = [&](Index b, Index i, Index j) {
    return reference::region_of(regions, problem.q_positions.real(0, b, i), problem.k_positions.real(0, b, j));
  };
  std::deque<RegionRowsOfCall> parts;
  std::vector<reference::RegionRows> rows;
  std::vector<double> added;
  const auto inputs_of = [&](const RegionRowsOfCall& part) {
    return ScoreInputs<double>{problem.q_positions, problem.k_positions, part.q.turned(), part.k.turned(), scale};
  };
  const auto each_score = [&, b_end = batch, h_end = heads, i_end = q_len](const auto& body) {
    for (Index x = 0; x < b_end * h_end * i_end * k_len; ++x) {
      const Index b = x / k_len / i_end / h_end;
      body(static_cast<std::size_t>(x), region_at(b, x / k_len % i_end, x % k_len));
    }
  };
  scores_of(added);
  for (const Region& region : regions) {
    RegionRowsOfCall& part = parts.emplace_back(problem, region, terms);
    rows.push_back({part.q.turned(), part.k.turned()});
    add_scores(others, inputs_of(part), scores_of(part.scores));
  }
  each_score([&](std::size_t x, Index r) { added[x] = parts[static_cast<std::size_t>(r)].scores[x]; });

  const auto sees = [&, n = q_len](Index b, Index h, Index i, Index j) {
    return reference::visible(options, problem.q_positions, problem.k_positions, n, k_len, b, h, i, j);
  };
  const reference::Attention in{problem.q, problem.k, problem.v,          scale, options.soft_cap, scores_of(added),
                                {},        sees,      options.sinks.value};
  AttentionTruth truth;
  truth.out = zeros(batch * heads * q_len * value_dim), truth.lse = zeros(batch * heads * q_len);
  reference::attention_in_regions(in, rows, region_at, bhtd(truth.out.data(), batch, heads, q_len, value_dim),
                                  dense(truth.lse.data(), batch, heads, q_len), scores_of(truth.p));
  for (std::size_t x = 0; x < truth.p.size(); ++x) {
    const double lse = truth.lse[x / static_cast<std::size_t>(k_len)];
    if (truth.p[x] > 0x1p-40) truth.score_size = std::max(truth.score_size, std::abs(lse + std::log(truth.p[x])));
  }
  truth.sizes = attention_sizes(in, problem.d_out, problem.d_lse, truth.p);
  if (problem.d_out.data == nullptr) return truth;

  std::deque<std::vector<double>> d_rows;
  std::vector<reference::RegionRowGrads> row_grads;
  for (const reference::RegionRows& one : rows) {
    const auto like = [&](View<const double, 4> x) {
      return bhtd(d_rows.emplace_back(zeros(x.size())).data(), x.shape[0], x.shape[1], x.shape[2], x.shape[3]);
    };
    const View<double, 4> d_q = like(one.q);
    row_grads.push_back({d_q, like(one.k)});
  }
  std::vector<double> d_scores;
  truth.d_v = zeros(problem.v.size()), truth.d_sinks = zeros(options.sinks.value.data == nullptr ? 0 : heads);
  reference::attention_in_regions_backward(
      in, rows, region_at, problem.d_out, problem.d_lse, row_grads,
      {.d_v = bhtd(truth.d_v.data(), batch, kv_heads, k_len, value_dim),
       .d_scores = scores_of(d_scores),
       .d_sinks = dense(truth.d_sinks.data(), static_cast<Index>(truth.d_sinks.size()))});
  truth.d_q = zeros(problem.q.size()), truth.d_k = zeros(problem.k.size());
  for (std::size_t r = 0; r < parts.size(); ++r) {
    std::vector<double> own = d_scores;
    each_score([&](std::size_t x, Index region) { own[x] = region == static_cast<Index>(r) ? own[x] : 0; });
    add_scores_backward(others, inputs_of(parts[r]), scores_of(own), {row_grads[r].d_q, row_grads[r].d_k});
    const std::vector<double> d_q = parts[r].q.backward(d_rows[2 * r]), d_k = parts[r].k.backward(d_rows[2 * r + 1]);
    for (std::size_t x = 0; x < d_q.size(); ++x) truth.d_q[x] += d_q[x];
    for (std::size_t x = 0; x < d_k.size(); ++x) truth.d_k[x] += d_k[x];
  }
  return truth;
}

/// What attention_in_regions() and its backward give.
template <class T, class O = T>
AttentionGot<T, O> in_regions(const AttentionData<T>& data, std::span<const Region> regions,
                              const TermList<Compute<T>>& terms, const Executor& on = {}) {
  using A = Compute<T>;
  const AttentionCase& c = data.the_case();
  const std::array<Index, 4> out_shape{c.batch, c.heads, c.q_len, c.value_dim};
  Guarded<O> out(out_shape, c.outputs), d_out(out_shape, Layout::padded);
  Guarded<O> d_q({c.batch, c.heads, c.q_len, c.dim}, c.outputs), d_k({c.batch, c.kv_heads, c.k_len, c.dim}, c.outputs);
  Guarded<O> d_v({c.batch, c.kv_heads, c.k_len, c.value_dim}, c.outputs);
  AttentionGot<T, O> got;
  std::vector<A> d_lse;
  for (Index row = 0; row < c.batch * c.heads * c.q_len; ++row) {
    d_lse.push_back(static_cast<A>(data.lse_weight(static_cast<std::size_t>(row))));
  }
  std::size_t n = 0;
  d_out.for_each(
      [&](Index b, Index h, Index i, Index d) { d_out.view()(b, h, i, d) = from_double<O>(data.out_weight(n++)); });
  got.lse.resize(d_lse.size(), A{7});
  got.d_sinks.resize(static_cast<std::size_t>(c.options.sinks.value.shape[0]));
  const View<A, 3> lse = dense(got.lse.data(), c.batch, c.heads, c.q_len);
  const View<const A, 3> d_lses = dense<const A>(d_lse.data(), c.batch, c.heads, c.q_len);
  attention_in_regions<T, O>(data.inputs(), regions, out.view(), lse, terms, data.options(), on);
  attention_in_regions_backward<T, O>(
      data.inputs(), regions, {out.read(), lse, d_out.read(), d_lses}, {d_q.view(), d_k.view(), d_v.view()}, terms,
      data.options(dense(got.d_sinks.data(), static_cast<Index>(got.d_sinks.size()))), on);
  EXPECT_TRUE(out.guards_intact() && d_q.guards_intact() && d_k.guards_intact() && d_v.guards_intact())
      << "written beside a result: " << describe(c);
  got.out = out.values(), got.d_q = d_q.values(), got.d_k = d_k.values(), got.d_v = d_v.values();
  return got;
}

/// Both agree. Tolerances are those of attention(): the parts' sums are of the size of the whole.
template <class T, class O = T>
void expect_regions(const AttentionData<T>& data, const AttentionTruth& truth, std::span<const Region> regions,
                    const TermList<Compute<T>>& terms) {
  const AttentionCase& c = data.the_case();
  const auto got = in_regions<T, O>(data, regions, terms);
  const double size = 2 * std::max(4.0, truth.score_size);
  expect_close(got.out, truth.out, truth.score_size, c.k_len, "out of " + describe(c), truth.sizes.out);
  expect_close(got.lse, truth.lse, truth.score_size, c.k_len, "lse of " + describe(c), 1);
  expect_close(got.d_q, truth.d_q, size, c.k_len, "d_q of " + describe(c), truth.sizes.d_q);
  expect_close(got.d_k, truth.d_k, size, c.k_len, "d_k of " + describe(c), truth.sizes.d_k);
  expect_close(got.d_v, truth.d_v, size, c.k_len, "d_v of " + describe(c), truth.sizes.d_v);
  expect_close(got.d_sinks, truth.d_sinks, size, c.k_len, "d_sinks of " + describe(c), truth.sizes.d_sinks);
}

}  // namespace bearing::test
