#include <algorithm>
#include <bearing/reference/linear_attention.hpp>
#include <cmath>
#include <vector>

#include "terms/score_call.hpp"

namespace bearing::reference {

namespace {

double feature(FeatureMap map, double x) {
  if (map == FeatureMap::identity) return x;
  if (map == FeatureMap::relu) return x > 0 ? x : 0;
  return x > 0 ? x + 1 : std::exp(x);
}
double slope(FeatureMap map, double x) {
  if (map == FeatureMap::identity) return 1;
  if (map == FeatureMap::relu) return x > 0 ? 1 : 0;
  return x > 0 ? 1 : std::exp(x);
}

/// Features of one side's rows, and the same turned: [batch, heads, time, …].
class Rows {
 public:
  Rows(const TermList<double>& terms, View<const double, 4> x, const Positions& at, Side side, FeatureMap map)
      : terms_(terms), x_(x), at_(at), side_(side), map_(map), params_(terms, x.shape[0], x.shape[1]) {
    dims_.push_back(x.shape[3]);
    for (const Term<double>& term : terms) {
      dims_.push_back(term.out_dim == nullptr ? dims_.back() : term.out_dim(term.self, dims_.back()));
    }
    each([&](Index b, Index h, Index t) {
      std::vector<double> row(size(dims_[0]));
      for (Index d = 0; d < dims_[0]; ++d) row[size(d)] = feature(map, x(b, h, t, d));
      features_.push_back(row);
      for (Index i = 0; i < terms.size; ++i) row = turn(i, b, h, t, row);
      turned_.push_back(row);
    });
  }

  const std::vector<double>& features(Index b, Index h, Index t) const { return features_[place(b, h, t)]; }
  const std::vector<double>& turned(Index b, Index h, Index t) const { return turned_[place(b, h, t)]; }
  Index rows_dim() const { return dims_.back(); }

  /// d_x, unless it is empty, and the parameters' gradients, from those of features and turned features.
  void backward(const std::vector<double>& d_features, const std::vector<double>& d_turned, View<double, 4> d_x) {
    each([&](Index b, Index h, Index t) {
      std::vector<std::vector<double>> stages{features(b, h, t)};
      for (Index i = 0; i < terms_.size; ++i) stages.push_back(turn(i, b, h, t, stages.back()));
      const auto from = d_turned.begin() + static_cast<std::ptrdiff_t>(place(b, h, t)) * rows_dim();
      std::vector<double> d(from, from + rows_dim());
      for (Index i = terms_.size; i-- > 0;) {
        std::vector<double> d_row(size(dims_[size(i)]));
        open(i, b, h, t, [&](const Term<double>& term, const RowTile& tile) {
          term.turn_grads(term.self, tile, stages[size(i)].data(), d.data(), d_row.data(), params_.block(b, h, i));
        });
        d = d_row;
      }
      if (d_x.data == nullptr) return;
      for (Index e = 0; e < dims_[0]; ++e) {
        const double sum = d[size(e)] + d_features[place(b, h, t) * size(dims_[0]) + size(e)];
        d_x(b, h, t, e) = sum * slope(map_, x_(b, h, t, e));
      }
    });
  }
  void collect() { params_.collect(); }

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }
  std::size_t place(Index b, Index h, Index t) const { return size((b * x_.shape[1] + h) * x_.shape[2] + t); }

  template <class Body>
  void each(const Body& body) const {
    for (Index b = 0; b < x_.shape[0]; ++b) {
      for (Index h = 0; h < x_.shape[1]; ++h) {
        for (Index t = 0; t < x_.shape[2]; ++t) body(b, h, t);
      }
    }
  }

  /// body(term, tile) for one row.
  template <class Body>
  void open(Index i, Index b, Index h, Index t, const Body& body) const {
    const Term<double>& term = terms_.terms[size(i)];
    RowTile tile{.batch = b, .head = h, .row = t, .rows = 1};
    std::array<double, max_axes> p{};
    for (Index axis = 0; axis < max_axes; ++axis) {
      p[size(axis)] = at_.real(std::min(axis, at_.axes() - 1), b, t);
      tile.at[size(axis)] = &p[size(axis)];
    }
    tile.dim = tile.x_stride = dims_[size(i)];
    tile.y_stride = dims_[size(i + 1)];
    tile.side = side_;
    std::vector<double> scratch(size(term.turn_scratch == nullptr ? 0 : term.turn_scratch(term.self, tile.dim)));
    tile.scratch = scratch.data();
    body(term, tile);
  }
  std::vector<double> turn(Index i, Index b, Index h, Index t, const std::vector<double>& x) const {
    std::vector<double> y(size(dims_[size(i + 1)]));
    open(i, b, h, t,
         [&](const Term<double>& term, const RowTile& tile) { term.turn(term.self, tile, x.data(), y.data()); });
    return y;
  }

  const TermList<double>& terms_;
  View<const double, 4> x_;
  const Positions& at_;
  Side side_;
  FeatureMap map_;
  std::vector<Index> dims_;
  std::vector<std::vector<double>> features_, turned_;
  ParamBlocks<double> params_;
};

/// The encodings among a call's that turn rows, or those by which the state decays.
TermList<double> some_of(const TermList<double>& terms, bool turn) {
  TermList<double> some;
  for (const Term<double>& term : terms) {
    if (turn ? term.turn != nullptr : term.log_decay != nullptr) {
      some.terms[static_cast<std::size_t>(some.size++)] = term;
    }
  }
  return some;
}

bool sees(const LinearAttentionInputs<double>& in, Mask mask, Index b, Index i, Index j) {
  if (mask == Mask::causal) return in.k_positions.real(0, b, j) <= in.q_positions.real(0, b, i);
  if (mask == Mask::causal_top_left) return j <= i;
  if (mask == Mask::causal_bottom_right) return j - in.k.shape[2] <= i - in.q.shape[2];
  return true;
}

/// ln of what is kept in each channel of the state at each step: from key to key, and from the last key that a query
/// sees to the query.
class Decays {
 public:
  Decays(const TermList<double>& terms, const LinearAttentionInputs<double>& in, Mask mask, Index dim)
      : in_(in), terms_(some_of(terms, false)), dim_(dim), params_(terms_, in.k.shape[0], in.k.shape[1]) {
    const auto [batch, heads, k_len, in_dim] = in.k.shape;
    keys_.resize(place(batch, 0, 0, 0)), d_keys_ = keys_;
    own_.resize(static_cast<std::size_t>(batch * in.q.shape[1] * in.q.shape[2])), d_own_ = own_;
    seen_.resize(static_cast<std::size_t>(batch * in.q.shape[2]));
    for (Index b = 0; b < batch; ++b) {
      for (Index i = 0; i < in.q.shape[2]; ++i) {
        while (seen(b, i) < k_len && sees(in, mask, b, i, seen(b, i))) ++seen(b, i);
      }
      for (Index h = 0; h < in.q.shape[1]; ++h) {
        each_step(Side::query, b, h, [&](const Term<double>& term, const StepTile& tile, Index i, Index) {
          term.log_decay(term.self, tile, &own_[own(b, h, i)]);
        });
      }
      for (Index h = 0; h < heads; ++h) {
        each_step(Side::key, b, h, [&](const Term<double>& term, const StepTile& tile, Index t, Index) {
          std::vector<double> log(static_cast<std::size_t>(tile.channels));
          term.log_decay(term.self, tile, log.data());
          for (Index c = 0; c < dim_; ++c) keys_[place(b, h, t, c)] += log[tile.channels > 1 ? size(c) : 0];
        });
      }
    }
  }

  /// What is left of every channel of key j for query i of head h, at [j + 1]; first, of the state before the call.
  std::vector<double> for_query(Index b, Index h, Index i) const {
    std::vector<double> left(size((in_.k.shape[2] + 1) * dim_), 1);
    for (Index c = 0; c < dim_ && terms_.size > 0; ++c) {
      double log = own_[own(b, h, i)];
      for (Index j = seen_[row(b, i)]; j >= 0; --j) {
        left[size(j * dim_ + c)] = std::exp(log);
        if (j > 0) log += keys_[place(b, h / group(), j - 1, c)];
      }
    }
    return left;
  }
  /// … at the end of the call.
  double at_end(Index b, Index kv, Index j, Index c) const {
    return terms_.size == 0 ? 1 : std::exp(sum(b, kv, j + 1, in_.k.shape[2], c));
  }
  /// d: the gradient of the logarithm of what is left.
  void add_query(Index b, Index h, Index i, Index j, Index c, double d) {
    if (terms_.size == 0) return;
    d_own_[own(b, h, i)] += d;
    for (Index t = j + 1; t < seen(b, i); ++t) d_keys_[place(b, h / group(), t, c)] += d;
  }
  void add_end(Index b, Index kv, Index j, Index c, double d) {
    for (Index t = j + 1; t < in_.k.shape[2] && terms_.size > 0; ++t) d_keys_[place(b, kv, t, c)] += d;
  }

  void collect() {
    for (Index b = 0; b < in_.k.shape[0]; ++b) {
      for (Index h = 0; h < in_.k.shape[1]; ++h) {
        each_side(Side::key, b, h, [&](const Term<double>& term, const StepTile& tile, double* params) {
          std::vector<double> d(size(tile.rows * tile.channels));
          for (Index t = 0; t < tile.rows; ++t) {
            for (Index c = 0; c < dim_; ++c) {
              d[size(tile.channels > 1 ? t * dim_ + c : t)] += d_keys_[place(b, h, t, c)];
            }
          }
          term.log_decay_grads(term.self, tile, d.data(), params);
        });
      }
      for (Index h = 0; h < in_.q.shape[1]; ++h) {
        each_side(Side::query, b, h, [&](const Term<double>& term, const StepTile& tile, double* params) {
          term.log_decay_grads(term.self, tile, &d_own_[own(b, h, 0)], params);
        });
      }
    }
    params_.collect();
  }

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }
  Index group() const { return in_.q.shape[1] / in_.k.shape[1]; }
  std::size_t row(Index b, Index i) const { return size(b * in_.q.shape[2] + i); }
  Index& seen(Index b, Index i) { return seen_[row(b, i)]; }
  std::size_t own(Index b, Index h, Index i) const { return size((b * in_.q.shape[1] + h) * in_.q.shape[2] + i); }
  std::size_t place(Index b, Index h, Index t, Index c) const {
    return size(((b * in_.k.shape[1] + h) * in_.k.shape[2] + t) * dim_ + c);
  }
  double sum(Index b, Index kv, Index from, Index to, Index c) const {
    double all = 0;
    for (Index t = from; t < to; ++t) all += keys_[place(b, kv, t, c)];
    return all;
  }
  double key_at(Index b, Index t) const {
    if (t >= 0) return in_.k_positions.real(0, b, t);
    return (in_.k.shape[2] > 0 ? in_.k_positions.real(0, b, 0) : in_.q_positions.real(0, b, 0)) - 1;
  }

  /// body(term, tile of all steps of a side, where its parameters' gradients go)
  template <class Body>
  void each_side(Side side, Index b, Index h, const Body& body) {
    const Index rows = side == Side::key ? in_.k.shape[2] : in_.q.shape[2];
    const Index kv = side == Side::key ? h : h / group();
    std::vector<double> from, to;
    for (Index t = 0; t < rows; ++t) {
      from.push_back(key_at(b, (side == Side::key ? t : seen(b, t)) - 1));
      to.push_back(side == Side::key ? key_at(b, t) : std::max(from.back(), in_.q_positions.real(0, b, t)));
    }
    for (Index x = 0; x < terms_.size; ++x) {
      const Term<double>& term = terms_.terms[size(x)];
      if (side == Side::query && term.counts_tokens) continue;
      StepTile tile{.batch = b, .head = kv, .rows = rows, .from = from.data(), .to = to.data(), .side = side};
      tile.channels = term.by_channel && side == Side::key ? dim_ : 1;
      body(term, tile, params_.block(b, kv, x));
    }
  }
  /// body(term, tile of one step, t, channels)
  template <class Body>
  void each_step(Side side, Index b, Index h, const Body& body) {
    each_side(side, b, h, [&](const Term<double>& term, const StepTile& all, const double*) {
      for (Index t = 0; t < all.rows; ++t) {
        StepTile one = all;
        one.row = t, one.rows = 1, one.from += t, one.to += t;
        body(term, one, t, all.channels);
      }
    });
  }

  const LinearAttentionInputs<double>& in_;
  TermList<double> terms_;
  Index dim_;
  ParamBlocks<double> params_;
  std::vector<double> keys_, own_, d_keys_, d_own_;
  std::vector<Index> seen_;
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}

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
    over_keys([&](Index j) { sum += dot(f, k.features(b, kv, j)); });
    if (state.z.data == nullptr) return sum;
    for (std::size_t d = 0; d < f.size(); ++d) sum += f[d] * state.z(b, kv, static_cast<Index>(d));
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

}  // namespace

void linear_attention(const LinearAttentionInputs<double>& in, View<double, 4> out, const LinearState<double>& state,
                      const TermList<double>& terms, const LinearAttentionOptions& options) {
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
        for (Index e = 0; state.z.data != nullptr && e < in.k.shape[3]; ++e) {
          state.z(b, h, e) += k.features(b, h, j)[static_cast<std::size_t>(e)];
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
  static void add(double factor, const std::vector<double>& x, double* to) {
    for (std::size_t d = 0; d < x.size(); ++d) to[d] += factor * x[d];
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
  at.over_keys([&, &b = b, &kv = kv](Index j) {  // denominator += f·f_j
    Sums::add(d_denominator, at.k.features(b, kv, j), d_f);
    Sums::add(d_denominator, f, Sums::row(sums.k_features, at.in.k, dim, b, kv, j));
  });
  for (Index e = 0; e < dim; ++e) {  // denominator += f·z
    if (start.z.data != nullptr) d_f[e] += d_denominator * start.z(b, kv, e);
    const Index place = (b * at.in.k.shape[1] + kv) * dim + e;
    sums.z[static_cast<std::size_t>(place)] += d_denominator * f[static_cast<std::size_t>(e)];
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
        for (Index j = 0; j < time; ++j) Sums::row(sums.k_features, sums.in.k, dim, b, h, j)[e] += d_state.z(b, h, e);
        d_state.z(b, h, e) += sums.z[static_cast<std::size_t>((b * heads + h) * dim + e)];
      }
    }
  }
}

}  // namespace

void linear_attention_backward(const LinearAttentionInputs<double>& in, const View<const double, 4>& d_out,
                               const LinearState<const double>& start, const LinearAttentionGrads<double>& grads,
                               const TermList<double>& terms, const LinearAttentionOptions& options) {
  const TermList<double> rows = some_of(terms, true);
  Rows q(rows, in.q, in.q_positions, Side::query, options.feature_map);
  Rows k(rows, in.k, in.k_positions, Side::key, options.feature_map);
  Decays decays(terms, in, options.mask, q.rows_dim());
  Sums sums(in, q.rows_dim());
  over_queries(in, start, options, q, k, decays, [&](const Query& query) { add_query(query, d_out, start, sums); });
  add_state(grads.d_state, start, k, decays, sums);
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
