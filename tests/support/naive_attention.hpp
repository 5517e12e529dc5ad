#pragma once

#include <gtest/gtest.h>
#include <bearing/scores.hpp>
#include <cmath>
#include <vector>

// Attention as its definition says, in double, over scores that encodings add to: for golden data of whole attentions.

namespace bearing::test {

struct NaiveAttention {
  View<const double, 4> q, k, v, d_out;  ///< [batch, heads or kv_heads, time, dim]
  double scale = 1;
  Positions q_positions = {}, k_positions = {};
  bool causal = false;

  /// Row-major [batch, heads, …], once run() is through.
  std::vector<double> p = {}, lse = {}, out = {}, d_q = {}, d_k = {}, d_v = {};

  /// Forward and backward. Parameters' gradients go where the terms' own go.
  void run(const TermList<double>& terms) {
    const auto [batch, heads, q_len, dim] = q.shape;
    const Index kv_heads = k.shape[1], k_len = k.shape[2], value_dim = v.shape[3];
    const auto zeros = [](Index n) { return std::vector<double>(static_cast<std::size_t>(n)); };
    p = zeros(batch * heads * q_len * k_len), lse = zeros(batch * heads * q_len);
    out = zeros(batch * heads * q_len * value_dim);
    d_q = zeros(q.size()), d_k = zeros(k.size()), d_v = zeros(v.size());
    std::vector<double> d_s = zeros(static_cast<Index>(p.size()));
    const auto scores = bhtd(p.data(), batch, heads, q_len, k_len);
    const auto d_scores = bhtd(d_s.data(), batch, heads, q_len, k_len);
    const auto d_queries = bhtd(d_q.data(), batch, heads, q_len, dim);
    const auto d_keys = bhtd(d_k.data(), batch, kv_heads, k_len, dim);
    const auto outputs = bhtd(out.data(), batch, heads, q_len, value_dim);
    const auto d_values = bhtd(d_v.data(), batch, kv_heads, k_len, value_dim);
    const ScoreInputs<double> in{q_positions, k_positions, q, k, scale};
    add_scores(terms, in, scores);
    const auto over_rows = [&, n = std::array<Index, 3>{batch, heads, q_len}, kv = kv_heads](const auto& body) {
      for (Index b = 0; b < n[0]; ++b) {
        for (Index h = 0; h < n[1]; ++h) {
          for (Index i = 0; i < n[2]; ++i) body(Place{b, h, h / (n[1] / kv), i});
        }
      }
    };
    over_rows([&](const Place& at) { row(at, scores, d_scores, outputs, d_values); });
    add_values(terms, q_positions, k_positions, scores, outputs);
    add_values_backward(terms, q_positions, k_positions, scores, d_out, d_scores);  // d_p, until the next line
    over_rows([&](const Place& at) { row_grads(at, scores, d_scores, d_queries, d_keys); });
    add_scores_backward(terms, in, d_scores, {d_queries, d_keys});
  }

 private:
  struct Place {
    Index b, h, kv, i;
  };

  void row(const Place& at, View<double, 4> s, View<double, 4> d_p, View<double, 4> outputs, View<double, 4> d_values) {
    const auto [b, h, kv, i] = at;
    const auto allowed = [&, b = b, i = i](Index j) {
      return !causal || k_positions.real(0, b, j) <= q_positions.real(0, b, i);
    };
    const Index k_len = k.shape[2];
    double sum = 0;
    for (Index j = 0; j < k_len; ++j) {
      for (Index d = 0; d < q.shape[3]; ++d) s(b, h, i, j) += scale * q(b, h, i, d) * k(b, kv, j, d);
      if (allowed(j)) sum += std::exp(s(b, h, i, j));
    }
    lse[static_cast<std::size_t>((b * q.shape[1] + h) * q.shape[2] + i)] = std::log(sum);
    for (Index j = 0; j < k_len; ++j) {
      const double p_ij = allowed(j) ? std::exp(s(b, h, i, j)) / sum : 0;
      s(b, h, i, j) = p_ij;
      for (Index d = 0; d < v.shape[3]; ++d) {
        outputs(b, h, i, d) += p_ij * v(b, kv, j, d);
        d_values(b, kv, j, d) += p_ij * d_out(b, h, i, d);
        d_p(b, h, i, j) += d_out(b, h, i, d) * v(b, kv, j, d);
      }
    }
  }

  /// d_s holds the probabilities' gradients, and then the scores'.
  void row_grads(const Place& at, View<double, 4> s, View<double, 4> d_s, View<double, 4> d_queries,
                 View<double, 4> d_keys) {
    const auto [b, h, kv, i] = at;
    double d_dot = 0;
    for (Index j = 0; j < k.shape[2]; ++j) d_dot += s(b, h, i, j) * d_s(b, h, i, j);
    for (Index j = 0; j < k.shape[2]; ++j) {
      d_s(b, h, i, j) = s(b, h, i, j) * (d_s(b, h, i, j) - d_dot);
      for (Index d = 0; d < q.shape[3]; ++d) {
        d_queries(b, h, i, d) += scale * d_s(b, h, i, j) * k(b, kv, j, d);
        d_keys(b, kv, j, d) += scale * d_s(b, h, i, j) * q(b, h, i, d);
      }
    }
  }
};

/// What two orders of summing some hundred numbers of up to 20 differ by: 100 · 20 · 2^-53 is 2e-13.
inline constexpr double attention_tolerance = 1e-12;

/// `got` is row-major, `wanted` has the layout of the golden data.
inline void expect_tensor(const std::vector<double>& got, View<const double, 4> wanted, const char* what) {
  ASSERT_EQ(got.size(), static_cast<std::size_t>(wanted.size())) << what;
  std::size_t x = 0;
  for (Index b = 0; b < wanted.shape[0]; ++b) {
    for (Index h = 0; h < wanted.shape[1]; ++h) {
      for (Index i = 0; i < wanted.shape[2]; ++i) {
        for (Index d = 0; d < wanted.shape[3]; ++d, ++x) {
          ASSERT_NEAR(got[x], wanted(b, h, i, d), attention_tolerance)
              << what << ' ' << b << ' ' << h << ' ' << i << ' ' << d;
        }
      }
    }
  }
}

}  // namespace bearing::test
