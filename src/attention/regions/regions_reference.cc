#include <algorithm>
#include <bearing/reference/regions.hpp>
#include <cmath>
#include <vector>

// Every score is written out, by the rows of its own region. What follows is attention over scores alone.

namespace bearing::reference {

Index region_of(std::span<const Region> regions, double m, double n) {
  for (std::size_t r = 0; r < regions.size(); ++r) {
    if (holds(regions[r].band, m, n)) return static_cast<Index>(r);
  }
  return -1;
}

namespace {

using RegionAt = std::function<Index(Index, Index, Index)>;

/// Scores of all pairs, and attention that has nothing but them.
struct Written {
  std::vector<double> scores, slopes;
  Attention attention;

  Written(const Attention& in, std::span<const RegionRows> rows, const RegionAt& region);
};

Written::Written(const Attention& in, std::span<const RegionRows> rows, const RegionAt& region) : attention(in) {
  const auto [batch, heads, q_len, q_dim] = in.q.shape;
  const Index k_len = in.k.shape[2], group = heads / in.k.shape[1];
  for (Index x = 0; x < batch * heads * q_len * k_len; ++x) {
    const Index j = x % k_len, i = x / k_len % q_len, h = x / k_len / q_len % heads, b = x / k_len / q_len / heads;
    const RegionRows& own = rows[static_cast<std::size_t>(region(b, i, j))];
    double product = 0;
    for (Index d = 0; d < own.q.shape[3]; ++d) product += own.q(b, h, i, d) * own.k(b, h / group, j, d);
    const double s = in.scale * product, t = in.soft_cap > 0 ? std::tanh(s / in.soft_cap) : 0;
    const double added = in.scores.data == nullptr ? 0 : in.scores(b, h, i, j);
    scores.push_back((in.soft_cap > 0 ? in.soft_cap * t : s) + added);
    slopes.push_back(in.scale * (1 - t * t));
  }
  attention.soft_cap = 0, attention.scale = 0;
  attention.scores = dense<const double>(scores.data(), batch, heads, q_len, k_len);
}

}  // namespace

void attention_in_regions(const Attention& in, std::span<const RegionRows> rows, const RegionAt& region,
                          View<double, 4> out, View<double, 3> lse, View<double, 4> p) {
  attention(Written(in, rows, region).attention, out, lse, p);
}

void attention_in_regions_backward(const Attention& in, std::span<const RegionRows> rows, const RegionAt& region,
                                   View<const double, 4> d_out, View<const double, 3> d_lse,
                                   std::span<const RegionRowGrads> row_grads, const AttentionGradients& grads) {
  const auto [batch, heads, q_len, q_dim] = in.q.shape;
  const Index k_len = in.k.shape[2], group = heads / in.k.shape[1];
  const Written written(in, rows, region);
  std::vector<double> d_scores(written.scores.size());
  AttentionGradients of_scores = grads;
  of_scores.d_q = of_scores.d_k = {};
  of_scores.d_scores =
      grads.d_scores.data != nullptr ? grads.d_scores : dense(d_scores.data(), batch, heads, q_len, k_len);
  attention_backward(written.attention, d_out, d_lse, of_scores);
  for (const RegionRowGrads& one : row_grads) {
    for (const View<double, 4>& x : {one.d_q, one.d_k}) std::fill_n(x.data, x.size(), 0.0);
  }
  for (Index x = 0; x < batch * heads * q_len * k_len; ++x) {
    const Index j = x % k_len, i = x / k_len % q_len, h = x / k_len / q_len % heads, b = x / k_len / q_len / heads;
    const auto r = static_cast<std::size_t>(region(b, i, j));
    const RegionRows& own = rows[r];
    const double d_s = of_scores.d_scores(b, h, i, j) * written.slopes[static_cast<std::size_t>(x)];
    for (Index d = 0; d < own.q.shape[3]; ++d) {
      row_grads[r].d_q(b, h, i, d) += d_s * own.k(b, h / group, j, d);
      row_grads[r].d_k(b, h / group, j, d) += d_s * own.q(b, h, i, d);
    }
  }
}

}  // namespace bearing::reference
