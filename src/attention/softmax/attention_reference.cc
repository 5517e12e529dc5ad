#include <algorithm>
#include <bearing/reference/attention.hpp>
#include <cmath>
#include <limits>
#include <vector>

namespace bearing::reference {

namespace {

/// One query's sequence: the queries and keys among which it stands. All of them, but for packed ones.
struct Sequence {
  Index q_first, q_end, k_first, k_end;
  bool holds(Index j) const { return k_first <= j && j < k_end; }
};
template <class A>
Sequence sequence_of(const AttentionOptions<A>& options, Index q_len, Index k_len, Index b, Index i) {
  Sequence sequence{0, q_len, 0, k_len};
  for (Index s = 0; s + 1 < options.q_starts.shape[0]; ++s) {
    if (options.q_starts(s) <= i && i < options.q_starts(s + 1)) {
      sequence = {options.q_starts(s), options.q_starts(s + 1), options.k_starts(s), options.k_starts(s + 1)};
    }
  }
  if (options.k_lengths.data != nullptr) sequence.k_end = std::min(sequence.k_end, options.k_lengths(b));
  return sequence;
}

}  // namespace

bool not_after(const Positions& k_positions, Index j, const Positions& q_positions, Index i, Index b) {
  const Index axes = std::max(k_positions.axes(), q_positions.axes());
  for (Index axis = 0; axis < axes; ++axis) {
    const double n = k_positions.real(std::min(axis, k_positions.axes() - 1), b, j);
    const double m = q_positions.real(std::min(axis, q_positions.axes() - 1), b, i);
    if (n < m) return true;
    if (n > m) return false;
  }
  return true;
}

bool holds(const Band& band, double m, double n) {
  const auto chunk = static_cast<double>(band.chunk);
  const double behind = band.chunk == 0 ? m - n : std::floor(m / chunk) - std::floor(n / chunk);
  return (!band.from || behind >= static_cast<double>(*band.from)) &&
         (!band.to || behind < static_cast<double>(*band.to));
}

template <class A>
bool visible(const AttentionOptions<A>& options, const Positions& q_positions, const Positions& k_positions,
             Index q_len, Index k_len, Index b, Index h, Index i, Index j) {
  const Sequence sequence = sequence_of(options, q_len, k_len, b, i);
  // Key minus query: by position, or as the mask by index counts, from the starts or from the ends of the sequence.
  double distance = k_positions.real(0, b, j) - q_positions.real(0, b, i);
  const Index from_start = (j - sequence.k_first) - (i - sequence.q_first);
  const Index from_end = (j - sequence.k_end) - (i - sequence.q_end);
  if (options.mask == Mask::causal_top_left) distance = static_cast<double>(from_start);
  if (options.mask == Mask::causal_bottom_right) distance = static_cast<double>(from_end);

  const bool exists = sequence.holds(j);
  const bool before = options.mask == Mask::none ||
                      (options.mask == Mask::causal ? not_after(k_positions, j, q_positions, i, b) : distance <= 0);
  const bool not_too_early = options.window.before < 0 || distance >= -static_cast<double>(options.window.before);
  const bool not_too_late = options.window.after < 0 || distance <= static_cast<double>(options.window.after);
  const bool in_band = holds(options.band, q_positions.real(0, b, i), k_positions.real(0, b, j));
  const bool no_padding = options.key_mask.data == nullptr || options.key_mask(b, j);
  const bool allowed = options.visible.data == nullptr || options.visible(b, h, i, j);
  return exists && before && not_too_early && not_too_late && in_band && no_padding && allowed;
}

template bool visible(const AttentionOptions<double>&, const Positions&, const Positions&, Index, Index, Index, Index,
                      Index, Index);
template bool visible(const AttentionOptions<float>&, const Positions&, const Positions&, Index, Index, Index, Index,
                      Index, Index);

namespace {

/// One query's row, everything of it at once.
struct Row {
  std::vector<double> p;    ///< [k_len], 0 for keys that are not seen
  std::vector<double> x;    ///< [k_len] scale · q·k
  std::vector<double> out;  ///< [value_dim]
  double sink = 0;          ///< the sink's probability
  double lse = -std::numeric_limits<double>::infinity();
};

Index kv_head(const Attention& in, Index h) { return h / (in.q.shape[1] / in.k.shape[1]); }

/// Feature d of what key j gives to query i.
double value(const Attention& in, Index b, Index h, Index i, Index j, Index d) {
  const double v = in.v(b, kv_head(in, h), j, d);
  return in.values.data == nullptr ? v : v + in.values(b, h, i, j, d);
}

double capped(double x, double cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }
double cap_slope(double x, double cap) {
  const double t = cap > 0 ? std::tanh(x / cap) : 0;
  return 1 - t * t;
}

Row row(const Attention& in, Index b, Index h, Index i) {
  const Index k_len = in.k.shape[2], dim = in.q.shape[3], value_dim = in.v.shape[3];
  const double nothing = -std::numeric_limits<double>::infinity();
  std::vector<double> s(static_cast<std::size_t>(k_len), nothing);
  Row row{std::vector<double>(s.size()), std::vector<double>(s.size()),
          std::vector<double>(static_cast<std::size_t>(value_dim))};
  const double sink = in.sinks.data == nullptr ? nothing : in.sinks(h);
  double max = sink;
  for (Index j = 0; j < k_len; ++j) {
    if (in.visible && !in.visible(b, h, i, j)) continue;
    const auto at = static_cast<std::size_t>(j);
    double product = 0;
    for (Index d = 0; d < dim; ++d) product += in.q(b, h, i, d) * in.k(b, kv_head(in, h), j, d);
    row.x[at] = in.scale * product;
    s[at] = capped(row.x[at], in.soft_cap) + (in.scores.data == nullptr ? 0 : in.scores(b, h, i, j));
    max = std::max(max, s[at]);
  }
  if (max == nothing) return row;
  double sum = std::exp(sink - max);
  for (const double s_j : s) sum += std::exp(s_j - max);
  row.lse = max + std::log(sum);
  row.sink = std::exp(sink - max) / sum;
  for (Index j = 0; j < k_len; ++j) {
    const auto at = static_cast<std::size_t>(j);
    row.p[at] = std::exp(s[at] - max) / sum;
    if (row.p[at] == 0) continue;
    for (Index d = 0; d < value_dim; ++d) row.out[static_cast<std::size_t>(d)] += row.p[at] * value(in, b, h, i, j, d);
  }
  return row;
}

template <class Body>
void over_rows(const Attention& in, const Body& body) {
  for (Index b = 0; b < in.q.shape[0]; ++b) {
    for (Index h = 0; h < in.q.shape[1]; ++h) {
      for (Index i = 0; i < in.q.shape[2]; ++i) body(b, h, i, row(in, b, h, i));
    }
  }
}

}  // namespace

void attention(const Attention& in, View<double, 4> out, View<double, 3> lse, View<double, 4> p) {
  over_rows(in, [&](Index b, Index h, Index i, const Row& row) {
    if (lse.data != nullptr) lse(b, h, i) = row.lse;
    for (Index d = 0; out.data != nullptr && d < in.v.shape[3]; ++d) {
      out(b, h, i, d) = row.out[static_cast<std::size_t>(d)];
    }
    for (Index j = 0; p.data != nullptr && j < in.k.shape[2]; ++j) p(b, h, i, j) = row.p[static_cast<std::size_t>(j)];
  });
}

namespace {

void clear(View<double, 4> x) {
  if (x.data == nullptr) return;
  for (Index b = 0; b < x.shape[0]; ++b) {
    for (Index h = 0; h < x.shape[1]; ++h) {
      for (Index t = 0; t < x.shape[2]; ++t) {
        for (Index d = 0; d < x.shape[3]; ++d) x(b, h, t, d) = 0;
      }
    }
  }
}

}  // namespace

void attention_backward(const Attention& in, View<const double, 4> d_out, View<const double, 3> d_lse,
                        const AttentionGradients& grads) {
  for (const View<double, 4>& grad : {grads.d_q, grads.d_k, grads.d_v, grads.d_scores}) clear(grad);
  for (Index h = 0; grads.d_sinks.data != nullptr && h < grads.d_sinks.shape[0]; ++h) grads.d_sinks(h) = 0;

  over_rows(in, [&](Index b, Index h, Index i, const Row& row) {
    const Index kv = kv_head(in, h), dim = in.q.shape[3], value_dim = in.v.shape[3];
    double along = d_lse.data == nullptr ? 0 : d_lse(b, h, i);  // d_lse_i − d_o_i·o_i
    for (Index d = 0; d < value_dim; ++d) along -= d_out(b, h, i, d) * row.out[static_cast<std::size_t>(d)];
    if (grads.d_sinks.data != nullptr) grads.d_sinks(h) += row.sink * along;
    for (Index j = 0; j < in.k.shape[2]; ++j) {
      const double p = row.p[static_cast<std::size_t>(j)], x = row.x[static_cast<std::size_t>(j)];
      if (p == 0) continue;
      double d_p = 0;
      for (Index d = 0; d < value_dim; ++d) d_p += d_out(b, h, i, d) * value(in, b, h, i, j, d);
      const double d_s = p * (d_p + along), d_x = in.scale * cap_slope(x, in.soft_cap) * d_s;
      if (grads.d_scores.data != nullptr) grads.d_scores(b, h, i, j) = d_s;
      for (Index d = 0; grads.d_v.data != nullptr && d < value_dim; ++d) {
        grads.d_v(b, kv, j, d) += p * d_out(b, h, i, d);
      }
      for (Index d = 0; d < dim; ++d) {
        if (grads.d_q.data != nullptr) grads.d_q(b, h, i, d) += d_x * in.k(b, kv, j, d);
        if (grads.d_k.data != nullptr) grads.d_k(b, kv, j, d) += d_x * in.q(b, h, i, d);
      }
    }
  });
}

}  // namespace bearing::reference
