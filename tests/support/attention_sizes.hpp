#pragma once

#include <algorithm>
#include <bearing/reference/attention.hpp>
#include <cmath>
#include <vector>

// Sizes of what attention sums: rounding goes with them, and not with sums that may cancel.

namespace bearing::test {

/// Of each tensor, the largest size of what one of its numbers is summed of.
struct AttentionSizes {
  double out = 0, d_q = 0, d_k = 0, d_v = 0, d_sinks = 0;
};

/// The largest number of each row, or the sum of all its sizes.
enum class RowSize { largest, sum };
inline std::vector<double> row_sizes(View<const double, 4> x, RowSize what) {
  std::vector<double> sizes;
  for (Index row = 0; row < x.shape[0] * x.shape[1] * x.shape[2]; ++row) {
    const Index t = row % x.shape[2], h = row / x.shape[2] % x.shape[1], b = row / x.shape[2] / x.shape[1];
    double size = 0;
    for (Index d = 0; d < x.shape[3]; ++d) {
      const double number = std::abs(x(b, h, t, d));
      size = what == RowSize::sum ? size + number : std::max(size, number);
    }
    sizes.push_back(size);
  }
  return sizes;
}

/// Those of attention whose weights p are known, with |x| the largest number of a row:
///
///     out_i   Σ_j p_ij |v_ij| =: V_i         d_v_j  Σ_i p_ij |d_o_i|
///     d_s_ij  p_ij (‖d_o_i‖₁ (|v_ij| + V_i) + |d_lse_i|) =: D_ij, of whose two halves the one is taken from the other
///     d_q_i   scale Σ_j D_ij |k_j|           d_k_j  scale Σ_i D_ij |q_i|         d_sink  Σ_i ‖d_o_i‖₁ V_i + |d_lse_i|
inline AttentionSizes attention_sizes(const reference::Attention& in, View<const double, 4> d_out,
                                      View<const double, 3> d_lse, const std::vector<double>& weights) {
  AttentionSizes sizes;
  const auto [batch, heads, q_len, dim] = in.q.shape;
  const Index kv_heads = in.k.shape[1], k_len = in.k.shape[2];
  const auto at = [](Index x) { return static_cast<std::size_t>(x); };
  const std::vector<double> q = row_sizes(in.q, RowSize::largest), k = row_sizes(in.k, RowSize::largest);
  const std::vector<double> v = row_sizes(in.v, RowSize::largest), o = row_sizes(d_out, RowSize::largest);
  const std::vector<double> o_sum = row_sizes(d_out, RowSize::sum);
  std::vector<double> d_k(k.size()), d_v(k.size()), d_sinks(at(heads)), values(at(k_len));
  for (Index row = 0; row < batch * heads * q_len; ++row) {
    const Index i = row % q_len, h = row / q_len % heads, b = row / q_len / heads;
    const Index keys = (b * kv_heads + h / (heads / kv_heads)) * k_len;
    const auto p = [&](Index j) { return weights[at(row * k_len + j)]; };
    double value = 0, d_q = 0;
    for (Index j = 0; j < k_len; ++j) {
      if (p(j) == 0) continue;  // what nobody sees may hold anything
      values[at(j)] = v[at(keys + j)];
      if (in.values.data != nullptr) {
        double most = 0;
        for (Index d = 0; d < in.values.shape[4]; ++d) most = std::max(most, std::abs(in.values(b, h, i, j, d)));
        values[at(j)] += most;
      }
      value += p(j) * values[at(j)];
    }
    sizes.out = std::max(sizes.out, value);
    if (d_out.data == nullptr) continue;
    const double of_lse = d_lse.data == nullptr ? 0 : std::abs(d_lse(b, h, i));
    for (Index j = 0; j < k_len; ++j) {
      if (p(j) == 0) continue;
      const double d_s = p(j) * (o_sum[at(row)] * (values[at(j)] + value) + of_lse);
      d_q += std::abs(in.scale) * d_s * k[at(keys + j)];
      d_k[at(keys + j)] += std::abs(in.scale) * d_s * q[at(row)];
      d_v[at(keys + j)] += p(j) * o[at(row)];
    }
    d_sinks[at(h)] += o_sum[at(row)] * value + of_lse;
    sizes.d_q = std::max(sizes.d_q, d_q);
  }
  for (const double size : d_k) sizes.d_k = std::max(sizes.d_k, size);
  for (const double size : d_v) sizes.d_v = std::max(sizes.d_v, size);
  for (const double size : d_sinks) sizes.d_sinks = std::max(sizes.d_sinks, size);
  return sizes;
}

}  // namespace bearing::test
