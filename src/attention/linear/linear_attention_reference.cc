#include <bearing/reference/linear_attention.hpp>
#include <vector>

#include "attention/linear/decay_reference.hpp"
#include "attention/linear/linear_reference.hpp"

namespace bearing::reference {

namespace {

/// One query, as the definition has it.
struct Query {
  const LinearAttentionInputs<double>& in;
  const LinearState<const double>& state;
  const LinearAttentionOptions& options;
  const Rows &q, &k;
  Decays& decays;
  Index b, h, kv, i;

  /// body(j) for the keys that it sees
  template <class Body>
  void over_keys(const Body& body) const {
    for (Index j = 0; j < in.k.shape[2]; ++j) {
      if (sees(in, options.mask, b, i, j)) body(j);
    }
  }
  std::vector<double> lefts = decays.for_query(b, h, i);

  /// Of the turned rows, whose decay channel e of the features has. Decays by channel need as many of both; others are
  /// the same for all.
  Index channel(Index e) const { return in.q.shape[3] == q.rows_dim() ? e : 0; }
  double left(Index j, Index c) const { return lefts[static_cast<std::size_t>((j + 1) * q.rows_dim() + c)]; }
  double weight(Index j) const {
    double sum = 0;
    for (Index c = 0; c < q.rows_dim(); ++c) {
      const auto at = static_cast<std::size_t>(c);
      sum += q.turned(b, h, i)[at] * k.turned(b, kv, j)[at] * left(j, c);
    }
    return sum;
  }
  double denominator() const {
    if (options.normaliser == Normaliser::none) return 1;
    const std::vector<double>& f = q.features(b, h, i);
    double sum = options.epsilon;
    for (Index e = 0; e < in.q.shape[3]; ++e) {
      const auto at = static_cast<std::size_t>(e);
      over_keys([&](Index j) { sum += f[at] * k.features(b, kv, j)[at] * left(j, channel(e)); });
      if (state.z.data != nullptr) sum += f[at] * left(-1, channel(e)) * state.z(b, kv, e);
    }
    return sum;
  }
  double numerator(Index d) const {
    double sum = 0;
    over_keys([&](Index j) { sum += weight(j) * in.v(b, kv, j, d); });
    if (state.s.data == nullptr) return sum;
    for (Index e = 0; e < q.rows_dim(); ++e) {
      sum += q.turned(b, h, i)[static_cast<std::size_t>(e)] * left(-1, e) * state.s(b, kv, e, d);
    }
    return sum;
  }
};

/// body(query) for all queries.
template <class Body>
void over_queries(const LinearAttentionInputs<double>& in, const LinearState<const double>& state,
                  const LinearAttentionOptions& options, const Rows& q, const Rows& k, Decays& decays,
                  const Body& body) {
  for (Index b = 0; b < in.q.shape[0]; ++b) {
    for (Index h = 0; h < in.q.shape[1]; ++h) {
      const Index kv = h / (in.q.shape[1] / in.k.shape[1]);
      for (Index i = 0; i < in.q.shape[2]; ++i) body(Query{in, state, options, q, k, decays, b, h, kv, i});
    }
  }
}

/// z is not looked at where nothing divides.
template <class A>
LinearState<A> used(const LinearState<A>& state, const LinearAttentionOptions& options) {
  return {state.s, options.normaliser == Normaliser::none ? View<A, 3>{} : state.z};
}

}  // namespace

void linear_attention(const LinearAttentionInputs<double>& in, View<double, 4> out, const LinearState<double>& given,
                      const TermList<double>& terms, const LinearAttentionOptions& options) {
  const LinearState<double> state = used(given, options);
  const TermList<double> rows = some_of(terms, true);
  const Rows q(rows, in.q, in.q_positions, Side::query, options.feature_map);
  const Rows k(rows, in.k, in.k_positions, Side::key, options.feature_map);
  Decays decays(terms, in, options.mask, q.rows_dim());
  over_queries(in, {state.s, state.z}, options, q, k, decays, [&](const Query& query) {
    const double denominator = query.denominator();
    for (Index d = 0; d < out.shape[3]; ++d) {
      out(query.b, query.h, query.i, d) = denominator == 0 ? 0 : query.numerator(d) / denominator;
    }
  });
  for (Index b = 0; b < in.k.shape[0]; ++b) {
    for (Index h = 0; h < in.k.shape[1]; ++h) {
      for (Index e = 0; state.s.data != nullptr && e < k.rows_dim(); ++e) {
        for (Index d = 0; d < in.v.shape[3]; ++d) state.s(b, h, e, d) *= decays.at_end(b, h, -1, e);
      }
      for (Index j = 0; j < in.k.shape[2]; ++j) {
        for (Index e = 0; state.s.data != nullptr && e < k.rows_dim(); ++e) {
          const double turned = k.turned(b, h, j)[static_cast<std::size_t>(e)] * decays.at_end(b, h, j, e);
          for (Index d = 0; d < in.v.shape[3]; ++d) state.s(b, h, e, d) += turned * in.v(b, h, j, d);
        }
      }
      for (Index e = 0; state.z.data != nullptr && e < in.k.shape[3]; ++e) {
        const Index c = in.k.shape[3] == k.rows_dim() ? e : 0;
        state.z(b, h, e) *= decays.at_end(b, h, -1, c);
        for (Index j = 0; j < in.k.shape[2]; ++j) {
          state.z(b, h, e) += k.features(b, h, j)[static_cast<std::size_t>(e)] * decays.at_end(b, h, j, c);
        }
      }
    }
  }
}

namespace {

/// What the backward adds up.
struct Sums {
  const LinearAttentionInputs<double>& in;
  Index rows_dim;
  std::vector<double> q_features, q_turned, k_features, k_turned, values, s, z;

  Sums(const LinearAttentionInputs<double>& inputs, Index turned) : in(inputs), rows_dim(turned) {
    const auto rows = [](View<const double, 4> x, Index dim) {
      return std::vector<double>(static_cast<std::size_t>(x.shape[0] * x.shape[1] * x.shape[2] * dim));
    };
    q_features = rows(in.q, in.q.shape[3]), q_turned = rows(in.q, rows_dim);
    k_features = rows(in.k, in.k.shape[3]), k_turned = rows(in.k, rows_dim);
    values = rows(in.v, in.v.shape[3]);
    const Index heads = in.k.shape[0] * in.k.shape[1];
    s.resize(static_cast<std::size_t>(heads * rows_dim * in.v.shape[3]));
    z.resize(static_cast<std::size_t>(heads * in.k.shape[3]));
  }
  /// Row t of head h of sequence b.
  static double* row(std::vector<double>& of, View<const double, 4> like, Index dim, Index b, Index h, Index t) {
    return of.data() + ((b * like.shape[1] + h) * like.shape[2] + t) * dim;
  }
};

/// One query's part in all gradients.
void add_query(const Query& at, View<const double, 4> d_out, const LinearState<const double>& start, Sums& sums) {
  const double denominator = at.denominator();
  if (denominator == 0) return;
  const auto [b, h, kv, i] = std::array<Index, 4>{at.b, at.h, at.kv, at.i};
  const Index dim = at.in.q.shape[3], rows_dim = sums.rows_dim, value_dim = at.in.v.shape[3];
  double* d_a = Sums::row(sums.q_turned, at.in.q, rows_dim, b, h, i);
  double* d_f = Sums::row(sums.q_features, at.in.q, dim, b, h, i);
  const std::vector<double>&a = at.q.turned(b, h, i), &f = at.q.features(b, h, i);
  at.over_keys([&, &b = b, &h = h, &i = i, &kv = kv](Index j) {  // numerator += (a·b_j) v_j
    const double weight = at.weight(j);
    double d_weight = 0;
    for (Index d = 0; d < value_dim; ++d) {
      const double d_numerator = d_out(b, h, i, d) / denominator;
      d_weight += d_numerator * at.in.v(b, kv, j, d);
      Sums::row(sums.values, at.in.v, value_dim, b, kv, j)[d] += d_numerator * weight;
    }
    double* d_b = Sums::row(sums.k_turned, at.in.k, rows_dim, b, kv, j);
    for (Index c = 0; c < rows_dim; ++c) {
      const auto x = static_cast<std::size_t>(c);
      const double key = at.k.turned(b, kv, j)[x], left = at.left(j, c);
      d_a[c] += d_weight * key * left;
      d_b[c] += d_weight * a[x] * left;
      at.decays.add_query(b, h, i, j, c, d_weight * a[x] * key * left);
    }
  });
  double d_denominator = 0;
  for (Index d = 0; d < value_dim; ++d) {
    const double d_numerator = d_out(b, h, i, d) / denominator;
    d_denominator -= d_numerator * at.numerator(d) / denominator;
    for (Index e = 0; e < rows_dim; ++e) {  // numerator += a·S
      const double query = a[static_cast<std::size_t>(e)], left = at.left(-1, e);
      if (start.s.data != nullptr) {
        d_a[e] += d_numerator * left * start.s(b, kv, e, d);
        at.decays.add_query(b, h, i, -1, e, d_numerator * query * left * start.s(b, kv, e, d));
      }
      const Index place = ((b * at.in.k.shape[1] + kv) * rows_dim + e) * value_dim + d;
      sums.s[static_cast<std::size_t>(place)] += d_numerator * query * left;
    }
  }
  if (at.options.normaliser == Normaliser::none) return;
  for (Index e = 0; e < dim; ++e) {
    const Index c = at.channel(e);
    const double query = f[static_cast<std::size_t>(e)], before = at.left(-1, c);
    at.over_keys([&, &b = b, &h = h, &i = i, &kv = kv](Index j) {  // denominator += f·f_j
      const double key = at.k.features(b, kv, j)[static_cast<std::size_t>(e)], left = at.left(j, c);
      d_f[e] += d_denominator * key * left;
      Sums::row(sums.k_features, at.in.k, dim, b, kv, j)[e] += d_denominator * query * left;
      at.decays.add_query(b, h, i, j, c, d_denominator * query * key * left);
    });
    if (start.z.data != nullptr) {  // denominator += f·z
      d_f[e] += d_denominator * before * start.z(b, kv, e);
      at.decays.add_query(b, h, i, -1, c, d_denominator * query * before * start.z(b, kv, e));
    }
    const Index place = (b * at.in.k.shape[1] + kv) * dim + e;
    sums.z[static_cast<std::size_t>(place)] += d_denominator * query * before;
  }
}

/// The state after the call is the one before it and all keys: S += b_j v_jᵀ, z += f_j. Its gradient goes to the keys,
/// and joins the one of the state before.
void add_state(const LinearState<double>& d_state, const LinearState<const double>& start, const Rows& k,
               Decays& decays, Sums& sums) {
  const auto [batch, heads, time, dim] = sums.in.k.shape;
  const Index rows_dim = sums.rows_dim, value_dim = sums.in.v.shape[3];
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < heads; ++h) {
      for (Index e = 0; d_state.s.data != nullptr && e < rows_dim; ++e) {
        for (Index d = 0; d < value_dim; ++d) {
          for (Index j = 0; j < time; ++j) {
            const double d_left = d_state.s(b, h, e, d) * decays.at_end(b, h, j, e);
            const double key = k.turned(b, h, j)[static_cast<std::size_t>(e)], value = sums.in.v(b, h, j, d);
            Sums::row(sums.k_turned, sums.in.k, rows_dim, b, h, j)[e] += d_left * value;
            Sums::row(sums.values, sums.in.v, value_dim, b, h, j)[d] += d_left * key;
            decays.add_end(b, h, j, e, d_left * key * value);
          }
          d_state.s(b, h, e, d) *= decays.at_end(b, h, -1, e);
          if (start.s.data != nullptr) decays.add_end(b, h, -1, e, d_state.s(b, h, e, d) * start.s(b, h, e, d));
          d_state.s(b, h, e, d) += sums.s[static_cast<std::size_t>(((b * heads + h) * rows_dim + e) * value_dim + d)];
        }
      }
      for (Index e = 0; d_state.z.data != nullptr && e < dim; ++e) {
        const Index c = dim == rows_dim ? e : 0;
        for (Index j = 0; j < time; ++j) {
          const double d_key = d_state.z(b, h, e) * decays.at_end(b, h, j, c);
          Sums::row(sums.k_features, sums.in.k, dim, b, h, j)[e] += d_key;
          decays.add_end(b, h, j, c, d_key * k.features(b, h, j)[static_cast<std::size_t>(e)]);
        }
        d_state.z(b, h, e) *= decays.at_end(b, h, -1, c);
        if (start.z.data != nullptr) decays.add_end(b, h, -1, c, d_state.z(b, h, e) * start.z(b, h, e));
        d_state.z(b, h, e) += sums.z[static_cast<std::size_t>((b * heads + h) * dim + e)];
      }
    }
  }
}

}  // namespace

void linear_attention_backward(const LinearAttentionInputs<double>& in, const View<const double, 4>& d_out,
                               const LinearState<const double>& given, const LinearAttentionGrads<double>& grads,
                               const TermList<double>& terms, const LinearAttentionOptions& options) {
  const LinearState<const double> start = used(given, options);
  const TermList<double> rows = some_of(terms, true);
  Rows q(rows, in.q, in.q_positions, Side::query, options.feature_map);
  Rows k(rows, in.k, in.k_positions, Side::key, options.feature_map);
  Decays decays(terms, in, options.mask, q.rows_dim());
  Sums sums(in, q.rows_dim());
  over_queries(in, start, options, q, k, decays, [&](const Query& query) { add_query(query, d_out, start, sums); });
  add_state(used(grads.d_state, options), start, k, decays, sums);
  q.backward(sums.q_features, sums.q_turned, grads.d_q);
  k.backward(sums.k_features, sums.k_turned, grads.d_k);
  if (grads.d_v.data != nullptr) {
    const auto [batch, heads, time, dim] = in.v.shape;
    for (Index b = 0; b < batch; ++b) {
      for (Index h = 0; h < heads; ++h) {
        for (Index j = 0; j < time; ++j) {
          for (Index d = 0; d < dim; ++d) grads.d_v(b, h, j, d) = Sums::row(sums.values, in.v, dim, b, h, j)[d];
        }
      }
    }
  }
  q.collect();
  k.collect();
  decays.collect();
}

}  // namespace bearing::reference
