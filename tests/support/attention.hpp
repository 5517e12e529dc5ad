#pragma once

#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/attention.hpp>
#include <bearing/description.hpp>
#include <bearing/reference/attention.hpp>
#include <bearing/rows.hpp>
#include <bearing/scores.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "support/attention_sizes.hpp"
#include "support/guarded.hpp"
#include "support/random.hpp"
#include "support/terms.hpp"

// What every attention is compared with: reference::attention() over the rows, scores and values that the encodings
// give by themselves (turn(), add_scores() and add_values() have references of their own), forward and backward.

namespace bearing::test {

inline std::vector<double> zeros(Index n) { return std::vector<double>(static_cast<std::size_t>(n)); }
inline double largest(const std::vector<double>& numbers) {
  double most = 0;
  for (const double x : numbers) {
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  }
  return most;
}

/// Encodings that live as long as the list that names them.
template <class A>
struct Made {
  TermList<A> list = {};
  std::vector<std::shared_ptr<const void>> owned = {};

  /// Appends an encoding.
  template <class E>
  Made& add(E encoding) {
    const auto kept = std::make_shared<const E>(std::move(encoding));
    return add(erase<A>(*kept), kept);
  }
  Made& add(const bearing::Made<A>& one) { return add(one.term.value(), one.encoding); }
  Made& add(const Made& more) {
    for (const Term<A>& term : more.list) add(term, nullptr);
    owned.insert(owned.end(), more.owned.begin(), more.owned.end());
    return *this;
  }

 private:
  Made& add(const Term<A>& term, std::shared_ptr<const void> kept) {
    list.terms[static_cast<std::size_t>(list.size++)] = term;
    owned.push_back(std::move(kept));
    return *this;
  }
};

/// A row encoding that came as a term.
struct TurningTerm {
  using Arithmetic = double;
  const Term<double>* term;

  void check(const char* function, const Problem& problem) const {
    if (term->check != nullptr) term->check(term->self, function, problem);
  }
  Index out_dim(Index dim) const { return term->out_dim == nullptr ? dim : term->out_dim(term->self, dim); }
  Index turn_scratch(Index dim) const {
    return term->turn_scratch == nullptr ? 0 : term->turn_scratch(term->self, dim);
  }
  void turn(const RowTile& tile, const double* x, double* y) const { term->turn(term->self, tile, x, y); }
  void turn_grads(const RowTile& tile, const double* x, const double* d_y, double* d_x, double* d_params) const {
    term->turn_grads(term->self, tile, x, d_y, d_x, d_params);
  }
  Index param_size() const { return term->param_size; }
  void collect(Index b, Index h, const double* d) const { term->collect(term->self, b, h, d); }
};

/// A call of attention in double, as the reference takes it. Heads, lengths and dims are those of q, k and v.
struct AttentionProblem {
  View<const double, 4> q, k, v;
  Positions q_positions = {}, k_positions = {};
  AttentionOptions<double> options{.mask = Mask::none};
  View<const double, 4> d_out = {};
  View<const double, 3> d_lse = {};
};

/// In the logical order of their axes.
struct AttentionTruth {
  std::vector<double> out, lse, p;
  std::vector<double> d_q, d_k, d_v, d_sinks;
  double score_size = 0;  ///< the largest visible score
  AttentionSizes sizes;   ///< of what is summed
};

/// A query's or a key's rows before and after every row encoding.
class TurnedRows {
 public:
  TurnedRows(const TermList<double>& terms, Side side, const Positions& at, View<const double, 4> x)
      : side_(side), at_(at), rows_{x} {
    for (const Term<double>& term : terms) {
      if (term.turn == nullptr) continue;
      turning_.push_back({&term});
      const auto [batch, heads, time, dim] = rows_.back().shape;
      const Index out_dim = turning_.back().out_dim(dim);
      memory_.push_back(std::make_unique<std::vector<double>>(zeros(batch * heads * time * out_dim)));
      const View<double, 4> y = bhtd(memory_.back()->data(), batch, heads, time, out_dim);
      turn<double>(turning_.back(), side, at, rows_.back(), y);
      rows_.push_back(y);
    }
  }
  View<const double, 4> turned() const { return rows_.back(); }

  /// d_x from the gradient of the turned rows; the encodings' parameters take theirs.
  std::vector<double> backward(std::vector<double> d_y) const {
    for (std::size_t n = turning_.size(); n-- > 0;) {
      const auto [batch, heads, time, dim] = rows_[n].shape;
      std::vector<double> d_x = zeros(rows_[n].size());
      turn_backward<double>(turning_[n], side_, at_, rows_[n],
                            bhtd<const double>(d_y.data(), batch, heads, time, rows_[n + 1].shape[3]),
                            bhtd(d_x.data(), batch, heads, time, dim));
      d_y = std::move(d_x);
    }
    return d_y;
  }

 private:
  Side side_;
  Positions at_;
  std::vector<View<const double, 4>> rows_;
  std::vector<TurningTerm> turning_;
  std::vector<std::unique_ptr<std::vector<double>>> memory_;
};

/// V[ρ(i, j)] of every score: [batch, heads, q_len, k_len, value_dim]. From probabilities that are 1 at one key: it
/// alone, or among the others where a term must see all of them.
inline std::vector<double> dense_values(const TermList<double>& terms, const AttentionProblem& problem) {
  const auto [batch, heads, q_len, dim] = problem.q.shape;
  const Index k_len = problem.k.shape[2], value_dim = problem.v.shape[3], rows = batch * heads * q_len;
  const Index axes = problem.k_positions.axes();
  const bool whole = std::any_of(terms.begin(), terms.end(), [](const Term<double>& term) { return term.whole_rows; });
  std::vector<double> values = zeros(rows * k_len * value_dim);
  for (Index j = 0; j < k_len; ++j) {
    const Index keys = whole ? k_len : 1;
    std::vector<double> p = zeros(rows * keys), at;
    for (Index row = 0; row < rows; ++row) p[static_cast<std::size_t>(row * keys + (whole ? j : 0))] = 1;
    for (Index n = 0; n < axes * batch; ++n) at.push_back(problem.k_positions.real(n / batch, n % batch, j));
    const Positions alone(dense<const double>(at.data(), axes, batch, 1));
    add_values(terms, problem.q_positions, whole ? problem.k_positions : alone,
               bhtd<const double>(p.data(), batch, heads, q_len, keys),
               {values.data() + j * value_dim,
                {batch, heads, q_len, value_dim},
                {heads * q_len * k_len * value_dim, q_len * k_len * value_dim, k_len * value_dim, 1}});
  }
  return values;
}

/// A list's terms that look at whole rows, or the others.
inline TermList<double> terms_that(const TermList<double>& terms, bool whole_rows) {
  TermList<double> some;
  for (const Term<double>& term : terms) {
    if (term.whole_rows == whole_rows) some.terms[static_cast<std::size_t>(some.size++)] = term;
  }
  return some;
}

/// body(tile, key head) for the tile of all keys that exist of each head: for terms that look at whole rows, and must
/// be told what masks hide.
template <class Sees, class Body>
void over_whole_rows(const AttentionProblem& problem, const ScoreInputs<double>& in, const Term<double>& term,
                     const Sees& sees, const Body& body) {
  const auto [batch, heads, q_len, dim] = in.q.shape;
  for (Index b = 0; b < batch; ++b) {
    const auto& lengths = problem.options.k_lengths;
    const Index n = lengths.data == nullptr ? in.k.shape[2] : lengths(b);
    std::vector<double> q_positions, k_positions, scratch;
    for (Index i = 0; i < q_len; ++i) q_positions.push_back(in.q_positions.real(0, b, i));
    for (Index j = 0; j < n; ++j) k_positions.push_back(in.k_positions.real(0, b, j));
    if (term.scratch_size != nullptr) scratch = zeros(term.scratch_size(term.self, q_len, n));
    for (Index h = 0; h < heads; ++h) {
      const Index kv_head = h * in.k.shape[1] / heads;
      std::vector<char> seen;
      for (Index x = 0; x < q_len * n; ++x) seen.push_back(sees(b, h, x / n, x % n) ? 1 : 0);
      Tile<double> tile{.batch = b, .head = h, .rows = q_len, .cols = n, .stride = in.k.shape[2], .dim = dim};
      tile.q_positions.fill(q_positions.data()), tile.k_positions.fill(k_positions.data());
      tile.q = &in.q(b, h, 0, 0), tile.q_stride = dim, tile.k = &in.k(b, kv_head, 0, 0), tile.k_stride = dim;
      tile.scale = in.scale, tile.seen = seen.data(), tile.scratch = scratch.data();
      if (n > 0) body(tile, kv_head);
    }
  }
}

/// What attention() and attention_backward() must give; parameters' gradients are added where the terms' own go.
inline AttentionTruth attention_truth(const AttentionProblem& problem, const TermList<double>& terms) {
  const auto [batch, heads, q_len, dim] = problem.q.shape;
  const Index kv_heads = problem.k.shape[1], k_len = problem.k.shape[2], value_dim = problem.v.shape[3];
  const AttentionOptions<double>& options = problem.options;
  TermList<double> others;  // all but row encodings
  bool value_terms = false;
  for (const Term<double>& term : terms) {
    if (term.turn == nullptr) others.terms[static_cast<std::size_t>(others.size++)] = term;
    value_terms = value_terms || term.add_values != nullptr;
  }
  const TurnedRows q(terms, Side::query, problem.q_positions, problem.q),
      k(terms, Side::key, problem.k_positions, problem.k);
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<Index>(dim, 1))));
  const ScoreInputs<double> inputs{problem.q_positions, problem.k_positions, q.turned(), k.turned(), scale};
  const auto like_scores = [&, b = batch, h = heads, n = q_len](std::vector<double>& x) {
    x = zeros(b * h * n * k_len);
    return bhtd(x.data(), b, h, n, k_len);
  };
  const auto like = [](View<const double, 4> of, std::vector<double>& x) {
    x = zeros(of.size());
    return bhtd(x.data(), of.shape[0], of.shape[1], of.shape[2], of.shape[3]);
  };
  std::vector<double> added, values;
  const View<double, 4> scores = like_scores(added);
  const auto sees = [&, n = q_len](Index b, Index h, Index i, Index j) {
    return reference::visible(options, problem.q_positions, problem.k_positions, n, k_len, b, h, i, j);
  };
  const TermList<double> whole = terms_that(others, true), tiled = terms_that(others, false);
  add_scores(tiled, inputs, scores);
  for (const Term<double>& term : whole) {
    over_whole_rows(problem, inputs, term, sees, [&](const Tile<double>& tile, Index) {
      term.add_scores(term.self, tile, &scores(tile.batch, tile.head, 0, 0));
    });
  }
  if (value_terms) values = dense_values(others, problem);
  reference::Attention in{q.turned(), k.turned(), problem.v,          scale, options.soft_cap, scores,
                          {},         sees,       options.sinks.value};
  if (value_terms) in.values = dense<const double>(values.data(), batch, heads, q_len, k_len, value_dim);
  AttentionTruth truth;
  truth.out = zeros(batch * heads * q_len * value_dim), truth.lse = zeros(batch * heads * q_len);
  const View<double, 4> p = like_scores(truth.p);
  reference::attention(in, bhtd(truth.out.data(), batch, heads, q_len, value_dim),
                       dense(truth.lse.data(), batch, heads, q_len), p);
  for (std::size_t x = 0; x < truth.p.size(); ++x) {  // s = lse + ln p, of what counts
    const double lse = truth.lse[x / static_cast<std::size_t>(k_len)];
    if (truth.p[x] > 0x1p-40) truth.score_size = std::max(truth.score_size, std::abs(lse + std::log(truth.p[x])));
  }
  truth.sizes = attention_sizes(in, problem.d_out, problem.d_lse, truth.p);
  if (problem.d_out.data == nullptr && problem.d_lse.data == nullptr) return truth;

  std::vector<double> d_scores, d_turned_q, d_turned_k;
  truth.d_v = zeros(problem.v.size()), truth.d_sinks = zeros(options.sinks.value.data == nullptr ? 0 : heads);
  const View<double, 4> d_s = like_scores(d_scores), d_q = like(q.turned(), d_turned_q),
                        d_k = like(k.turned(), d_turned_k);
  reference::attention_backward(in, problem.d_out, problem.d_lse,
                                {d_q, d_k, bhtd(truth.d_v.data(), batch, kv_heads, k_len, value_dim), d_s,
                                 dense(truth.d_sinks.data(), static_cast<Index>(truth.d_sinks.size()))});
  add_scores_backward(tiled, inputs, d_s, {d_q, d_k});
  for (const Term<double>& term : whole) {
    if (term.add_score_grads == nullptr) continue;
    over_whole_rows(problem, inputs, term, sees, [&](const Tile<double>& tile, Index kv_head) {
      std::vector<double> params = zeros(term.param_size);
      term.add_score_grads(term.self, tile, &d_s(tile.batch, tile.head, 0, 0),
                           {term.param_size > 0 ? params.data() : nullptr, &d_q(tile.batch, tile.head, 0, 0),
                            &d_k(tile.batch, kv_head, 0, 0), tile.dim, tile.dim});
      if (term.param_size > 0) term.collect(term.self, tile.batch, tile.head, params.data());
    });
  }
  if (value_terms) add_values_backward(others, problem.q_positions, problem.k_positions, p, problem.d_out);
  truth.d_q = q.backward(std::move(d_turned_q)), truth.d_k = k.backward(std::move(d_turned_k));
  return truth;
}

/// One call: extents, where tokens stand, options.
struct AttentionCase {
  Index batch = 1, heads = 2, kv_heads = 2, q_len = 1, k_len = 1, dim = 8, value_dim = 8;
  AttentionOptions<double> options{.mask = Mask::none};
  Place place = Place::offsets;
  Index axes = 1, q_first = 0, k_first = 0;
  Index height = 0, width = 0;                                  ///< of a grid of tokens, two axes; 0: no grid
  std::optional<Positions> q_positions = {}, k_positions = {};  ///< instead of what `place` says
  double size = 1;                                              ///< of q's numbers: ±size
  Layout inputs = Layout::bhtd, outputs = Layout::bhtd;
  std::uint64_t seed = 5;
};

inline std::string describe(const AttentionCase& c) {
  const auto number = [](Index n) { return std::to_string(n); };
  return "batch " + number(c.batch) + ", heads " + number(c.heads) + ", kv_heads " + number(c.kv_heads) + ", q_len " +
         number(c.q_len) + ", k_len " + number(c.k_len) + ", dim " + number(c.dim) + ", value_dim " +
         number(c.value_dim) + ", mask " + number(static_cast<Index>(Mask(c.options.mask))) + ", window " +
         number(c.options.window.before) + " " + number(c.options.window.after) + ", inputs " + name(c.inputs) +
         ", outputs " + name(c.outputs);
}

/// What attention() and attention_backward() gave, in the logical order of the axes.
template <class T, class O>
struct AttentionGot {
  std::vector<O> out, d_q, d_k, d_v;
  std::vector<Compute<T>> lse, d_sinks;
  bool operator==(const AttentionGot&) const = delete;

  bool same_bits_as(const AttentionGot& other) const {
    return same_bits(out, other.out) && same_bits(lse, other.lse) && same_bits(d_q, other.d_q) &&
           same_bits(d_k, other.d_k) && same_bits(d_v, other.d_v) && same_bits(d_sinks, other.d_sinks);
  }
};

template <class T>
std::vector<double> in_double(const std::vector<T>& from) {
  std::vector<double> to;
  to.reserve(from.size());
  for (const T x : from) to.push_back(to_double(x));
  return to;
}

/// A case's numbers, as T holds them; double and float have the same ones, and so the same truth.
template <class T>
class AttentionData {
 public:
  using A = Compute<T>;

  explicit AttentionData(const AttentionCase& c)
      : c_(c),
        places_({c.batch, c.heads, c.kv_heads, c.q_len, c.k_len, 0, c.place, c.axes, c.q_first, c.k_first, c.height,
                 c.width}),
        q_({c.batch, c.heads, c.q_len, c.dim}, c.inputs),
        k_({c.batch, c.kv_heads, c.k_len, c.dim}, c.inputs),
        v_({c.batch, c.kv_heads, c.k_len, c.value_dim}, c.inputs),
        d_out_({c.batch, c.heads, c.q_len, c.value_dim}, c.inputs == Layout::one_head ? Layout::bthd : c.inputs) {
    Random random(c.seed);
    const auto fill = [&](Guarded<T>& x, double size) {
      x.for_each([&](Index b, Index h, Index t, Index d) {
        x.view()(b, h, t, d) = from_double<T>(static_cast<double>(static_cast<float>(random.uniform(-size, size))));
      });
    };
    fill(q_, c.size), fill(k_, 1), fill(v_, 1), fill(d_out_, 1);
    q64_ = q_.doubles(), k64_ = k_.doubles(), v64_ = v_.doubles(), d_out64_ = d_out_.doubles();
    for (Index x = 0; x < c.batch * c.heads * c.q_len; ++x) {
      d_lse64_.push_back(static_cast<double>(static_cast<float>(random.uniform(-1, 1))));
    }
    d_lse_.assign(d_lse64_.begin(), d_lse64_.end());
    for (Index h = 0; h < c.options.sinks.value.shape[0]; ++h) {
      sinks_.push_back(static_cast<A>(c.options.sinks.value(h)));
    }
  }

  const AttentionCase& the_case() const { return c_; }
  /// To be moved for central differences: forward() sees it, problem() does not.
  View<T, 4> q() { return q_.view(); }
  View<T, 4> k() { return k_.view(); }
  View<T, 4> v() { return v_.view(); }
  View<T, 4> d_out() { return d_out_.view(); }
  View<A, 1> sinks() { return dense(sinks_.data(), static_cast<Index>(sinks_.size())); }
  double out_weight(std::size_t x) const { return d_out64_[x]; }
  double lse_weight(std::size_t x) const { return d_lse64_[x]; }
  Positions q_positions() const { return c_.q_positions.value_or(places_.q_positions()); }
  Positions k_positions() const { return c_.k_positions.value_or(places_.k_positions()); }
  AttentionInputs<T> inputs() const { return {q_.read(), k_.read(), v_.read(), q_positions(), k_positions()}; }
  AttentionProblem problem(bool backward) const {
    AttentionProblem problem{bhtd(q64_.data(), c_.batch, c_.heads, c_.q_len, c_.dim),
                             bhtd(k64_.data(), c_.batch, c_.kv_heads, c_.k_len, c_.dim),
                             bhtd(v64_.data(), c_.batch, c_.kv_heads, c_.k_len, c_.value_dim),
                             q_positions(),
                             k_positions(),
                             c_.options};
    if (!backward) return problem;
    problem.d_out = bhtd(d_out64_.data(), c_.batch, c_.heads, c_.q_len, c_.value_dim);
    problem.d_lse = dense(d_lse64_.data(), c_.batch, c_.heads, c_.q_len);
    return problem;
  }
  AttentionOptions<A> options(View<A, 1> d_sinks = {}) const {
    const AttentionOptions<double>& o = c_.options;
    AttentionOptions<A> options{.mask = o.mask, .window = o.window, .scale = {}, .soft_cap = o.soft_cap};
    options.scale = o.scale, options.band = o.band, options.k_lengths = o.k_lengths, options.key_mask = o.key_mask,
    options.visible = o.visible;
    options.q_starts = o.q_starts, options.k_starts = o.k_starts;
    if (!sinks_.empty()) options.sinks = {dense(sinks_.data(), c_.heads), d_sinks};
    return options;
  }

  template <class O = T>
  AttentionGot<T, O> forward(const TermList<A>& terms, const Executor& on = {}) const {
    Guarded<O> out({c_.batch, c_.heads, c_.q_len, c_.value_dim}, c_.outputs);
    AttentionGot<T, O> got;
    got.lse.resize(d_lse_.size(), A{7});
    attention(inputs(), out.view(), dense(got.lse.data(), c_.batch, c_.heads, c_.q_len), terms, options(), on);
    EXPECT_TRUE(out.guards_intact()) << "written beside out: " << describe(c_);
    got.out = out.values();
    return got;
  }

  /// The results of forward() and their gradients.
  template <class O = T>
  AttentionGot<T, O> backward(const TermList<A>& terms, const Executor& on = {}) const {
    AttentionGot<T, O> got = forward<O>(terms, on);
    const std::array<Index, 4> out_shape = {c_.batch, c_.heads, c_.q_len, c_.value_dim};
    Guarded<O> out(out_shape, Layout::padded), d_out(out_shape, Layout::padded);
    Guarded<O> d_q({c_.batch, c_.heads, c_.q_len, c_.dim}, c_.outputs);
    Guarded<O> d_k({c_.batch, c_.kv_heads, c_.k_len, c_.dim}, c_.outputs);
    Guarded<O> d_v({c_.batch, c_.kv_heads, c_.k_len, c_.value_dim}, c_.outputs);
    out.copy(bhtd<const O>(got.out.data(), c_.batch, c_.heads, c_.q_len, c_.value_dim));
    got.d_sinks.resize(sinks_.size());
    AttentionResults<O> results{out.read(), dense<const A>(got.lse.data(), c_.batch, c_.heads, c_.q_len), d_out.read(),
                                dense<const A>(d_lse_.data(), c_.batch, c_.heads, c_.q_len)};
    if constexpr (std::is_same_v<T, O>) {
      results.d_out = d_out_.read();
    } else {
      d_out.copy(d_out_.read());
    }
    attention_backward<T, O>(inputs(), results, {d_q.view(), d_k.view(), d_v.view()}, terms,
                             options(dense(got.d_sinks.data(), static_cast<Index>(sinks_.size()))), on);
    EXPECT_TRUE(d_q.guards_intact() && d_k.guards_intact() && d_v.guards_intact())
        << "written beside a gradient: " << describe(c_);
    got.d_q = d_q.values(), got.d_k = d_k.values(), got.d_v = d_v.values();
    return got;
  }

 private:
  AttentionCase c_;
  ScoreData places_;
  Guarded<T> q_, k_, v_, d_out_;
  std::vector<double> q64_, k64_, v64_, d_out64_, d_lse64_;
  std::vector<A> d_lse_, sinks_;
};

/// How far a result in O may lie from the truth. `most`: the largest number of the tensor, or the largest size of what
/// one of them is summed of.
///
/// double: 2^-53 for each of some hundred roundings that scores of the size S, weights and their sums go through, and
/// far below 1e-10. float: the promise is 2e-6 of the maximum (1e-5 beyond 1,024 keys) for scores of some units, which
/// is 32 units of 2^-24; a score of the size S brings S units more into the exponent. 16 bits: that, their own rounding
/// of the exact result, and one unit more.
template <class O>
double attention_bound(double truth, double most, double score_size, Index k_len) {
  const double size = std::max(1.0, score_size / 4);
  if constexpr (std::is_same_v<O, double>) return 1e-13 * size * most;
  if constexpr (std::is_same_v<O, float>) return (k_len <= 1024 ? 2e-6 : 1e-5) * size * most;
  return 1.5 * ulp<O>(std::abs(truth)) + 2e-6 * size * most;
}

template <class O>
void expect_close(const std::vector<O>& got, const std::vector<double>& truth, double score_size, Index k_len,
                  const std::string& what, double least = 0) {
  ASSERT_EQ(got.size(), truth.size()) << what;
  const double most = std::max(largest(truth), least);
  for (std::size_t x = 0; x < truth.size(); ++x) {
    const double g = to_double(got[x]);
    if (std::isinf(truth[x])) {
      ASSERT_EQ(g, truth[x]) << what << ", element " << x;
      continue;
    }
    ASSERT_NEAR(g, truth[x], attention_bound<O>(truth[x], most, score_size, k_len)) << what << ", element " << x;
  }
}

/// attention() of this case gives the reference's numbers, in T and with results in O.
template <class T, class O = T>
void expect_attention(const AttentionData<T>& data, const AttentionTruth& truth,
                      const TermList<Compute<T>>& terms = {}) {
  const AttentionCase& c = data.the_case();
  const auto got = data.template forward<O>(terms);
  expect_close(got.out, truth.out, truth.score_size, c.k_len, "out of " + describe(c), truth.sizes.out);
  expect_close(got.lse, truth.lse, truth.score_size, c.k_len, "lse of " + describe(c), 1);
}

template <class T>
void expect_attention(const AttentionCase& c) {
  const AttentionData<T> data(c);
  expect_attention<T>(data, attention_truth(data.problem(false), {}));
}

/// … and attention_backward() the gradients of q, k, v and the sinks. Those of parameters are the caller's to compare.
///
/// A gradient sums products of two numbers that have the errors of a row of attention: one bit more, of the size of
/// what is summed.
template <class T, class O = T>
void expect_attention_gradients(const AttentionData<T>& data, const AttentionTruth& truth,
                                const TermList<Compute<T>>& terms = {}) {
  const AttentionCase& c = data.the_case();
  const auto got = data.template backward<O>(terms);
  const double size = 2 * std::max(4.0, truth.score_size);
  expect_close(got.d_q, truth.d_q, size, c.k_len, "d_q of " + describe(c), truth.sizes.d_q);
  expect_close(got.d_k, truth.d_k, size, c.k_len, "d_k of " + describe(c), truth.sizes.d_k);
  expect_close(got.d_v, truth.d_v, size, c.k_len, "d_v of " + describe(c), truth.sizes.d_v);
  expect_close(got.d_sinks, truth.d_sinks, size, c.k_len, "d_sinks of " + describe(c), truth.sizes.d_sinks);
}

template <class T, class O = T>
void expect_attention_gradients(const AttentionCase& c) {
  const AttentionData<T> data(c);
  expect_attention_gradients<T, O>(data, attention_truth(data.problem(true), {}));
}

}  // namespace bearing::test

// Attention's tests call these by their names alone.
namespace bearing {
using test::AttentionCase;
using test::AttentionData;
using test::Layout;
}  // namespace bearing
