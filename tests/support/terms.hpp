#pragma once

#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/description.hpp>
#include <bearing/scores.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "support/random.hpp"
#include "support/targets.hpp"
#include "support/workers.hpp"

// What every encoding of scores and values is tested for, given how to make it from its parameters and what its
// reference says of one score: agreement with the reference at odd sizes and positions, gradients against central
// differences of the reference, the same bits for any executor, agreement on every SIMD target.

namespace bearing::test {

/// An encoding's parameters, seeded, with room for their gradients, in either arithmetic.
class Params {
 public:
  /// Params params(Params::Shapes{{3}, {4, 2}}): one shape per parameter; values uniform in (low, high).
  using Shapes = std::vector<std::vector<Index>>;
  explicit Params(Shapes shapes, double low = -1, double high = 1, std::uint64_t seed = 7)
      : shapes_(std::move(shapes)) {
    Random random(seed);
    for (const auto& shape : shapes_) {
      std::size_t size = 1;
      for (const Index extent : shape) size *= static_cast<std::size_t>(extent);
      std::vector<double> values(size);
      // Values that float holds, so that both arithmetics have the same parameters.
      for (double& value : values) value = static_cast<double>(static_cast<float>(random.uniform(low, high)));
      values_.push_back(values);
      floats_.emplace_back(values.begin(), values.end());
      grads_.emplace_back(size);
      float_grads_.emplace_back(size);
    }
  }

  /// Numbers that somebody else drew.
  Params(Shapes shapes, std::vector<std::vector<double>> values) : shapes_(std::move(shapes)) {
    for (std::vector<double>& numbers : values) {
      for (double& value : numbers) value = static_cast<double>(static_cast<float>(value));
      floats_.emplace_back(numbers.begin(), numbers.end());
      grads_.emplace_back(numbers.size());
      float_grads_.emplace_back(numbers.size());
    }
    values_ = std::move(values);
  }

  /// The same without signs, for sizes of what is summed. Parameters of one sign cancel nothing and keep it.
  Params absolute() const {
    Params positive = *this;
    for (std::size_t p = 0; p < count(); ++p) {
      const auto [low, high] = std::minmax_element(values_[p].begin(), values_[p].end());
      if (values_[p].empty() || *low >= 0 || *high <= 0) continue;
      for (double& x : positive.values_[p]) x = std::abs(x);
      for (float& x : positive.floats_[p]) x = std::abs(x);
    }
    return positive;
  }

  /// Those of another encoding behind these.
  void append(Params more) {
    const auto move = [](auto& to, auto& from) {
      to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
    };
    move(shapes_, more.shapes_), move(values_, more.values_), move(floats_, more.floats_);
    move(grads_, more.grads_), move(float_grads_, more.float_grads_);
  }

  std::size_t count() const { return values_.size(); }
  std::vector<double>& values(std::size_t i) { return values_[i]; }
  const std::vector<double>& grads(std::size_t i) const { return grads_[i]; }
  const std::vector<float>& float_grads(std::size_t i) const { return float_grads_[i]; }
  void clear_grads() {
    for (auto& grad : grads_) std::fill(grad.begin(), grad.end(), 0.0);
    for (auto& grad : float_grads_) std::fill(grad.begin(), grad.end(), 0.0f);
  }

  /// Parameter i as an encoding takes it, gradient wanted.
  template <class A, int Rank>
  Param<A, Rank> param(std::size_t i) {
    if constexpr (std::is_same_v<A, double>) {
      return {view<const double, Rank>(values_[i].data(), shapes_[i]),
              view<double, Rank>(grads_[i].data(), shapes_[i])};
    } else {
      return {view<const float, Rank>(floats_[i].data(), shapes_[i]),
              view<float, Rank>(float_grads_[i].data(), shapes_[i])};
    }
  }
  /// … as a description takes it.
  template <class A>
  ParameterMemory memory(std::size_t i) {
    const std::vector<Index>& shape = shapes_[i];
    std::vector<Index> stride(shape.size(), 1);
    for (std::size_t axis = shape.size(); axis-- > 1;) stride[axis - 1] = stride[axis] * shape[axis];
    static A none = 0;
    if (values_[i].empty()) return {&none, &none, shape, stride};  // given, of no numbers
    if constexpr (std::is_same_v<A, double>) return {values_[i].data(), grads_[i].data(), shape, stride};
    if constexpr (std::is_same_v<A, float>) return {floats_[i].data(), float_grads_[i].data(), shape, stride};
  }
  /// … for the reference.
  template <int Rank>
  View<const double, Rank> value(std::size_t i) const {
    return view<const double, Rank>(values_[i].data(), shapes_[i]);
  }

 private:
  template <class T, int Rank>
  static View<T, Rank> view(T* data, const std::vector<Index>& shape) {
    View<T, Rank> v{data};
    Index step = 1;
    for (std::size_t axis = Rank; axis-- > 0;) {
      v.shape[axis] = shape[axis];
      v.stride[axis] = step;
      step *= shape[axis];
    }
    return v;
  }

  Shapes shapes_;
  std::vector<std::vector<double>> values_, grads_;
  std::vector<std::vector<float>> floats_, float_grads_;
};

/// What a reference is told about one score.
struct Score {
  Index b, h, i, j;                         ///< indices
  double m, n;                              ///< positions on the first axis
  const double *q_positions, *k_positions;  ///< … and on all axes
  View<const double, 1> q, k;
  double scale;
};

/// How tokens stand in a test.
enum class Place { offsets, shuffled, real };

struct ScoreCase {
  Index batch = 1, heads = 1, kv_heads = 1, q_len = 1, k_len = 1, dim = 0;
  Place place = Place::offsets;
  Index axes = 1;
  Index q_first = 0, k_first = 0;  ///< offsets
  Index height = 0, width = 0;     ///< of a grid of tokens, two axes; 0: no grid
  bool class_token = false;        ///< every third token of the grid is at (−1, −1)
};

/// Positions, queries, keys and weights of a case, the same in both arithmetics.
class ScoreData {
 public:
  explicit ScoreData(const ScoreCase& c, std::uint64_t seed = 11) : c_(c) {
    Random random(seed);
    const auto fill = [&](std::vector<double>& to, Index n) {
      to.resize(static_cast<std::size_t>(n));
      for (double& x : to) x = static_cast<double>(static_cast<float>(random.uniform(-1, 1)));
    };
    fill(q_, c.batch * c.heads * c.q_len * c.dim);
    fill(k_, c.batch * c.kv_heads * c.k_len * c.dim);
    fill(weights_, c.batch * c.heads * c.q_len * c.k_len);
    place(random, q_positions_, c.q_len, c.q_first);
    place(random, k_positions_, c.k_len, c.k_first);
    q_places_ = places(q_positions(), c.q_len);
    k_places_ = places(k_positions(), c.k_len);
    q32_.assign(q_.begin(), q_.end());
    k32_.assign(k_.begin(), k_.end());
    weights32_.assign(weights_.begin(), weights_.end());
    d_q.resize(q_.size());
    d_k.resize(k_.size());
  }

  /// The same places with queries, keys and weights without signs, for sizes of what is summed.
  ScoreData absolute() const {
    ScoreData positive = *this;
    for (auto* numbers : {&positive.q_, &positive.k_, &positive.weights_}) {
      for (double& x : *numbers) x = std::abs(x);
    }
    for (auto* numbers : {&positive.q32_, &positive.k32_, &positive.weights32_}) {
      for (float& x : *numbers) x = std::abs(x);
    }
    return positive;
  }

  Positions q_positions() const { return positions(q_positions_, c_.q_len, c_.q_first); }
  Positions k_positions() const { return positions(k_positions_, c_.k_len, c_.k_first); }

  template <class A>
  ScoreInputs<A> inputs(double scale) {
    ScoreInputs<A> in{q_positions(), k_positions()};
    in.scale = static_cast<A>(scale);
    if (c_.dim == 0) return in;
    if constexpr (std::is_same_v<A, double>) {
      in.q = bhtd<const double>(q_.data(), c_.batch, c_.heads, c_.q_len, c_.dim);
      in.k = bhtd<const double>(k_.data(), c_.batch, c_.kv_heads, c_.k_len, c_.dim);
    } else {
      in.q = bhtd<const float>(q32_.data(), c_.batch, c_.heads, c_.q_len, c_.dim);
      in.k = bhtd<const float>(k32_.data(), c_.batch, c_.kv_heads, c_.k_len, c_.dim);
    }
    return in;
  }
  template <class A>
  View<const A, 4> weights() const {
    if constexpr (std::is_same_v<A, double>) {
      return bhtd<const double>(weights_.data(), c_.batch, c_.heads, c_.q_len, c_.k_len);
    } else {
      return bhtd<const float>(weights32_.data(), c_.batch, c_.heads, c_.q_len, c_.k_len);
    }
  }
  QueryKeyGrads<double> grads() {
    if (c_.dim == 0) return {};
    return {bhtd(d_q.data(), c_.batch, c_.heads, c_.q_len, c_.dim),
            bhtd(d_k.data(), c_.batch, c_.kv_heads, c_.k_len, c_.dim)};
  }

  /// What the reference is told of score (b, h, i, j).
  Score at(Index b, Index h, Index i, Index j, double scale) const {
    const double *query = q_places_.data() + (b * c_.q_len + i) * max_axes,
                 *key = k_places_.data() + (b * c_.k_len + j) * max_axes;
    const Index kv = h / (c_.heads / c_.kv_heads);
    return {b,
            h,
            i,
            j,
            *query,
            *key,
            query,
            key,
            {q_.data() + ((b * c_.heads + h) * c_.q_len + i) * c_.dim, {c_.dim}, {1}},
            {k_.data() + ((b * c_.kv_heads + kv) * c_.k_len + j) * c_.dim, {c_.dim}, {1}},
            scale};
  }

  std::vector<double>& q() { return q_; }
  std::vector<double>& k() { return k_; }
  double weight(Index b, Index h, Index i, Index j) const {
    return weights_[static_cast<std::size_t>(((b * c_.heads + h) * c_.q_len + i) * c_.k_len + j)];
  }
  std::vector<double> d_q, d_k;

 private:
  void place(Random& random, std::vector<double>& at, Index n, Index first) {
    if (c_.height > 0) return place_on_grid(random, at, n);
    for (Index x = 0; x < c_.axes * c_.batch * n; ++x) {
      const double p = c_.place == Place::real ? random.uniform(0, 12)
                                               : static_cast<double>(first + random.integer(0, 3 * n / 2 + 2));
      at.push_back(p);
    }
  }
  void place_on_grid(Random& random, std::vector<double>& at, Index n) {
    for (const Index extent : {c_.height, c_.width}) {
      for (Index x = 0; x < c_.batch * n; ++x) {
        at.push_back(c_.class_token && x % 3 == 1 ? -1 : static_cast<double>(random.integer(0, extent - 1)));
      }
    }
  }
  /// On all axes, of which the last ones are alike.
  std::vector<double> places(const Positions& at, Index n) const {
    std::vector<double> all;
    for (Index b = 0; b < c_.batch; ++b) {
      for (Index x = 0; x < n; ++x) {
        for (Index axis = 0; axis < max_axes; ++axis) all.push_back(at.real(std::min(axis, at.axes() - 1), b, x));
      }
    }
    return all;
  }
  Positions positions(const std::vector<double>& at, Index n, Index first) const {
    if (c_.place == Place::offsets && c_.axes == 1) return Positions(first);
    return Positions(dense(at.data(), c_.axes, c_.batch, n));
  }

  ScoreCase c_;
  std::vector<double> q_, k_, weights_, q_positions_, k_positions_;
  std::vector<float> q32_, k32_, weights32_;
  std::vector<double> q_places_, k_places_;  ///< [batch, token, axis]
};

/// Shapes that a kernel may trip over: one token, odd lengths, more than one tile each way, a decode step, grouped
/// heads, positions in any order. `dim` is 0 for encodings that look at neither q nor k.
inline std::vector<ScoreCase> score_cases(Index heads, Index dim,
                                          std::vector<Place> places = {Place::offsets, Place::shuffled}) {
  std::vector<ScoreCase> cases;
  for (const Place place : places) {
    cases.push_back({1, heads, heads, 1, 1, dim, place});
    cases.push_back({2, heads, heads, 11, 7, dim, place, 1, 3, 0});
    cases.push_back({1, heads, heads, 67, 131, dim, place, 1, 64, 0});
    cases.push_back({3, heads, 1, 1, 37, dim, place, 1, 36, 0});
    cases.push_back({1, heads, heads, 5, 1, dim, place, 1, 0, 9});
  }
  return cases;
}

template <class Body>
void over_scores(const ScoreCase& c, const Body& body) {
  for (Index b = 0; b < c.batch; ++b) {
    for (Index h = 0; h < c.heads; ++h) {
      for (Index i = 0; i < c.q_len; ++i) {
        for (Index j = 0; j < c.k_len; ++j) body(b, h, i, j);
      }
    }
  }
}

/// The scores of `make(params)` as add_scores() gives them, on zeros.
template <class A, class Make>
std::vector<A> scores_of(const Make& make, Params& params, ScoreData& data, const ScoreCase& c, double scale,
                         const Executor& on = {}) {
  std::vector<A> s(static_cast<std::size_t>(c.batch * c.heads * c.q_len * c.k_len));
  const auto encoding = make.template operator()<A>(params);
  add_scores(with(encoding), data.inputs<A>(scale), bhtd(s.data(), c.batch, c.heads, c.q_len, c.k_len), on);
  return s;
}

/// Double to `tolerance`, float to that times 2^29, relative to the size of what is summed. For that stand 1, the score
/// and the score of the same numbers without signs: products that cancel are rounded by their own size, and every
/// instruction set adds them in another order. 2^-48 is 32 roundings, more than the features of a test's rows.
template <class Make, class Reference>
void expect_reference_scores(const Make& make, Params& params, const std::vector<ScoreCase>& cases,
                             const Reference& reference, double tolerance = 0x1p-48) {
  const double scale = 0.375;
  Params positive_params = params.absolute();
  for (const ScoreCase& c : cases) {
    ScoreData data(c), positive = data.absolute();
    std::vector<double> truth, size;
    over_scores(c, [&](Index b, Index h, Index i, Index j) {
      truth.push_back(reference(params, data.at(b, h, i, j, scale)));
      const double unsigned_score = reference(positive_params, positive.at(b, h, i, j, scale));
      size.push_back(std::max({1.0, std::abs(truth.back()), std::abs(unsigned_score)}));
    });
    on_every_target([&] {
      const std::vector<double> s64 = scores_of<double>(make, params, data, c, scale);
      const std::vector<float> s32 = scores_of<float>(make, params, data, c, scale);
      std::size_t x = 0;
      over_scores(c, [&](Index b, Index h, Index i, Index j) {
        ASSERT_NEAR(s64[x], truth[x], tolerance * size[x]) << "double, score " << b << ' ' << h << ' ' << i << ' ' << j;
        ASSERT_NEAR(static_cast<double>(s32[x]), truth[x], 0x1p29 * tolerance * size[x])
            << "float, score " << b << ' ' << h << ' ' << i << ' ' << j;
        ++x;
      });
    });
  }
}

/// How many gradient elements have been compared in this process.
inline Index& compared_gradients() {
  static Index count = 0;
  return count;
}

/// Central differences of the loss Σ w·s, with s from the reference, for every element of every parameter, q and k
/// (at most 400 of each, evenly spread). With a step h the error is h²/6 of the third derivative and 2^-53/h of the
/// scores' size: at h = 2^-17, 1e-11 and 1e-11 times their sum. `tolerance` leaves room for some hundred terms.
template <class Make, class Reference>
void expect_gradients(const Make& make, Params& params, const std::vector<ScoreCase>& cases, const Reference& reference,
                      double tolerance = 1e-7) {
  const double scale = 0.375, step = 0x1p-17;
  for (const ScoreCase& c : cases) {
    if (c.q_len * c.k_len > 400) continue;  // the loss is evaluated twice for every element
    ScoreData data(c);
    params.clear_grads();
    const auto encoding = make.template operator()<double>(params);
    add_scores_backward(with(encoding), data.inputs<double>(scale), data.weights<double>(), data.grads());
    // follows(x, b, h, i, j): whether score (b, h, i, j) follows from element x; the others are left out of the loss.
    const auto compare = [&](std::vector<double>& values, const std::vector<double>& grads, const std::string& what,
                             const auto& follows) {
      const std::size_t stride = std::max<std::size_t>(1, values.size() / 400);
      for (std::size_t x = 0; x < values.size(); x += stride) {
        const auto loss = [&] {
          double sum = 0;
          over_scores(c, [&](Index b, Index h, Index i, Index j) {
            if (!follows(static_cast<Index>(x), b, h, i, j)) return;
            sum += data.weight(b, h, i, j) * reference(params, data.at(b, h, i, j, scale));
          });
          return sum;
        };
        const double value = values[x];
        values[x] = value + step;
        const double above = loss();
        values[x] = value - step;
        const double below = loss();
        values[x] = value;
        const double slope = (above - below) / (2 * step);
        ASSERT_NEAR(grads[x], slope, tolerance * std::max(1.0, std::abs(slope)))
            << what << " element " << x << ", q_len " << c.q_len << ", k_len " << c.k_len;
        ++compared_gradients();
      }
    };
    for (std::size_t p = 0; p < params.count(); ++p) {
      compare(params.values(p), params.grads(p), "parameter " + std::to_string(p),
              [](Index, Index, Index, Index, Index) { return true; });
    }
    compare(data.q(), data.d_q, "q",
            [&](Index x, Index b, Index h, Index i, Index) { return x / c.dim == (b * c.heads + h) * c.q_len + i; });
    // A score may follow from other keys of its head, too.
    compare(data.k(), data.d_k, "k", [&](Index x, Index b, Index h, Index, Index) {
      return x / c.dim / c.k_len == b * c.kv_heads + h / (c.heads / c.kv_heads);
    });
  }
}

/// Gradients in float are those in double, within 2^-18 of the size of what was summed, for which stand the gradients
/// of the same weights without signs, and of weights, queries, keys and parameters without signs: float rounds to
/// 2^-24, and sums of sums of thousands lose a few bits more.
template <class Make>
void expect_float_gradients(const Make& make, Params& params, const std::vector<ScoreCase>& cases,
                            double tolerance = 0x1p-18) {
  Params positive_params = params.absolute();
  for (const ScoreCase& c : cases) {
    ScoreData data(c), positive = data.absolute();
    const auto encoding64 = make.template operator()<double>(params);
    const auto grads_of = [&](const auto& encoding, Params& of, const auto& inputs, const auto& weights) {
      of.clear_grads();
      add_scores_backward(with(encoding), inputs, weights);
      std::vector<std::vector<double>> grads;
      for (std::size_t p = 0; p < of.count(); ++p) grads.push_back(of.grads(p));
      return grads;
    };
    const auto sizes = grads_of(encoding64, params, data.inputs<double>(0.375), positive.weights<double>());
    const auto positive_encoding = make.template operator()<double>(positive_params);
    const auto unsigned_sizes =
        grads_of(positive_encoding, positive_params, positive.inputs<double>(0.375), positive.weights<double>());
    const auto truths = grads_of(encoding64, params, data.inputs<double>(0.375), data.weights<double>());
    const auto encoding32 = make.template operator()<float>(params);
    add_scores_backward(with(encoding32), data.inputs<float>(0.375), data.weights<float>());
    for (std::size_t p = 0; p < params.count(); ++p) {
      for (std::size_t x = 0; x < truths[p].size(); ++x) {
        const double truth = truths[p][x];
        const double size = std::max({1.0, std::abs(truth), std::abs(sizes[p][x]), std::abs(unsigned_sizes[p][x])});
        ASSERT_NEAR(static_cast<double>(params.float_grads(p)[x]), truth, tolerance * size)
            << "parameter " << p << " element " << x;
      }
    }
  }
}

/// Scores and gradients have the same bits on one thread, on three, and with tasks run backwards.
template <class Make>
void expect_same_bits_for_any_executor(const Make& make, Params& params, const std::vector<ScoreCase>& cases) {
  for (const ScoreCase& c : cases) {
    std::vector<std::vector<double>> seen;
    Workers three(3);
    for (const Executor& on : {Executor{}, Executor(three), backwards(4)}) {
      ScoreData data(c);
      params.clear_grads();
      std::vector<double> all = scores_of<double>(make, params, data, c, 0.5, on);
      const auto encoding = make.template operator()<double>(params);
      add_scores_backward(with(encoding), data.inputs<double>(0.5), data.weights<double>(), data.grads(), on);
      for (std::size_t p = 0; p < params.count(); ++p) {
        all.insert(all.end(), params.grads(p).begin(), params.grads(p).end());
      }
      all.insert(all.end(), data.d_q.begin(), data.d_q.end());
      all.insert(all.end(), data.d_k.begin(), data.d_k.end());
      seen.push_back(all);
    }
    for (std::size_t i = 1; i < seen.size(); ++i) {
      ASSERT_EQ(seen[0].size(), seen[i].size());
      ASSERT_EQ(std::memcmp(seen[0].data(), seen[i].data(), seen[0].size() * sizeof(double)), 0);
    }
  }
}

}  // namespace bearing::test
