#pragma once

#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/linear_attention.hpp>
#include <bearing/reference/linear_attention.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "support/guarded.hpp"

// Calls of linear attention for tests: their tensors, their reference, and how far rounding may lead from it.

namespace bearing::test {

struct LinearCase {
  Index batch = 1, heads = 2, kv_heads = 2, q_len = 1, k_len = 1, dim = 6, value_dim = 5;
  Mask mask = Mask::none;
  Index q_first = 0, k_first = 0;
  FeatureMap map = FeatureMap::elu_plus_one;
  Normaliser normaliser = Normaliser::sum;
  double epsilon = 0;
  bool rope = false;
  Layout inputs = Layout::bhtd, outputs = Layout::bhtd;

  LinearAttentionOptions options() const {
    return {.mask = mask, .feature_map = map, .normaliser = normaliser, .epsilon = epsilon};
  }
  bool sees(Index i, Index j) const {
    if (mask == Mask::causal) return k_first + j <= q_first + i;
    if (mask == Mask::causal_top_left) return j <= i;
    if (mask == Mask::causal_bottom_right) return j - k_len <= i - q_len;
    return true;
  }
};

inline std::string describe(const LinearCase& c) {
  std::string text;
  for (const Index n : {c.batch, c.heads, c.kv_heads, c.q_len, c.k_len, c.dim, c.value_dim, static_cast<Index>(c.mask),
                        c.q_first, c.k_first, static_cast<Index>(c.map)}) {
    text += std::to_string(n) + " ";
  }
  return text + (c.rope ? "rope" : "");
}

/// Tensors of a case, and their gradients.
template <class T>
class LinearData {
 public:
  using A = Compute<T>;

  explicit LinearData(const LinearCase& of) : LinearData(of, nullptr) {
    Random random(3);
    for (Guarded<T>* x : {&q, &k, &v, &d_out}) x->fill(random);
    // relu's slope jumps at 0.
    for (Guarded<T>* x : {&q, &k}) {
      x->for_each([&](Index b, Index h, Index t, Index d) {
        T& value = x->view()(b, h, t, d);
        if (to_double(value) == 0) value = from_double<T>(0.5);
      });
    }
  }
  /// The same numbers.
  template <class U>
  LinearData(const LinearCase& of, const LinearData<U>& from) : LinearData(of, nullptr) {
    q.copy(from.q.read());
    k.copy(from.k.read());
    v.copy(from.v.read());
    d_out.copy(from.d_out.read());
  }

  LinearAttentionInputs<T> inputs() const {
    return {q.read(), k.read(), v.read(), Positions(c.q_first), Positions(c.k_first)};
  }
  TermList<A> terms() const { return c.rope ? with(*rope_) : TermList<A>{}; }
  LinearAttentionGrads<T> grads() { return {d_q.view(), d_k.view(), d_v.view()}; }

  std::vector<double> forward(const TermList<A>& list, const Executor& on = {}) {
    linear_attention<T>(inputs(), out.view(), {}, list, c.options(), on);
    return out.doubles();
  }
  void backward(const TermList<A>& list, const Executor& on = {}) {
    linear_attention_backward<T>(inputs(), d_out.read(), {}, grads(), list, c.options(), on);
  }
  std::vector<double> reference(const TermList<double>& list) requires std::same_as<T, double> {
    reference::linear_attention(inputs(), out.view(), {}, list, c.options());
    return out.doubles();
  }
  void reference_backward(const TermList<double>& list) requires std::same_as<T, double> {
    reference::linear_attention_backward(inputs(), d_out.read(), {}, grads(), list, c.options());
  }

  /// The central difference of the reference's loss Σ d_out·out by a number that it depends on.
  double slope_of(double& value, const TermList<double>& list) requires std::same_as<T, double> {
    constexpr double step = 1e-6;
    const std::vector<double> weights = d_out.doubles();
    const auto loss = [&](double at) {
      const double before = value;
      value = at;
      const std::vector<double> o = reference(list);
      value = before;
      double sum = 0;
      for (std::size_t x = 0; x < o.size(); ++x) sum += weights[x] * o[x];
      return sum;
    };
    return (loss(value + step) - loss(value - step)) / (2 * step);
  }

  void set_values(double value) {
    v.for_each([&](Index b, Index h, Index t, Index d) { v.view()(b, h, t, d) = from_double<T>(value); });
  }

  /// Tokens [first, end) of inputs and outputs.
  template <class U>
  static View<U, 4> piece(View<U, 4> x, Index first, Index end) {
    x.data += first * x.stride[2];
    x.shape[2] = end - first;
    return x;
  }
  LinearAttentionInputs<T> inputs(Index first, Index end) const {
    return {piece(q.read(), first, end), piece(k.read(), first, end), piece(v.read(), first, end),
            Positions(c.q_first + first), Positions(c.k_first + first)};
  }

  /// A state's memory, all `value`.
  struct State {
    State(const LinearCase& of, A value)
        : c(of),
          s(static_cast<std::size_t>(c.batch * c.kv_heads * c.dim * c.value_dim), value),
          z(static_cast<std::size_t>(c.batch * c.kv_heads * c.dim), value) {}
    LinearCase c;
    std::vector<A> s, z;
    LinearState<A> view() {
      return {bhtd(s.data(), c.batch, c.kv_heads, c.dim, c.value_dim), dense(z.data(), c.batch, c.kv_heads, c.dim)};
    }
    LinearState<const A> read() { return {view().s, view().z}; }
  };

  /// Calls for tokens [cuts[n], cuts[n + 1]), one after the other. `starts`, if given: the states before them.
  std::vector<double> forward_in_pieces(const std::vector<Index>& cuts, std::vector<State>* starts = nullptr) {
    State state(c, 0);
    for (std::size_t n = 0; n + 1 < cuts.size(); ++n) {
      if (starts != nullptr) starts->push_back(state);
      linear_attention<T>(inputs(cuts[n], cuts[n + 1]), piece(out.view(), cuts[n], cuts[n + 1]), state.view(), terms(),
                          c.options());
    }
    return out.doubles();
  }

  /// All that forward and backward write, states included.
  std::vector<A> all_bits(const Executor& on) {
    State state(c, A(0.5)), start(c, A(0.5)), d_state(c, A(0.25));
    linear_attention<T>(inputs(), out.view(), state.view(), terms(), c.options(), on);
    LinearAttentionGrads<T> all = grads();
    all.d_state = d_state.view();
    linear_attention_backward<T>(inputs(), d_out.read(), start.read(), all, terms(), c.options(), on);
    std::vector<A> bits;
    for (const Guarded<T>* x : {&out, &d_q, &d_k, &d_v}) {
      for (const T value : x->values()) bits.push_back(static_cast<A>(value));
    }
    for (const State* x : {&state, &d_state}) {
      bits.insert(bits.end(), x->s.begin(), x->s.end());
      bits.insert(bits.end(), x->z.begin(), x->z.end());
    }
    return bits;
  }

  LinearCase c;
  Guarded<T> q, k, v, out, d_out, d_q, d_k, d_v;

 private:
  LinearData(const LinearCase& of, std::nullptr_t)
      : c(of),
        q({c.batch, c.heads, c.q_len, c.dim}, c.inputs),
        k({c.batch, c.kv_heads, c.k_len, c.dim}, c.inputs),
        v({c.batch, c.kv_heads, c.k_len, c.value_dim}, c.inputs),
        out({c.batch, c.heads, c.q_len, c.value_dim}, c.outputs),
        d_out({c.batch, c.heads, c.q_len, c.value_dim}, c.inputs),
        d_q({c.batch, c.heads, c.q_len, c.dim}, c.outputs),
        d_k({c.batch, c.kv_heads, c.k_len, c.dim}, c.outputs),
        d_v({c.batch, c.kv_heads, c.k_len, c.value_dim}, c.outputs) {
    if (!c.rope) return;
    table_ = std::make_unique<RopeTable<A>>(Rope{.head_dim = c.dim, .pairing = Pairing::half}, 1000);
    rope_ = std::make_unique<RotaryRows<A>>(*table_);
  }

  std::unique_ptr<RopeTable<A>> table_;
  std::unique_ptr<RotaryRows<A>> rope_;
};

/// How far rounding may lead, from the sizes of all that is added up: with a_i, b_j the features of queries and keys
/// (a rotation keeps their norms), n_i the denominators, V and D the largest rows of values and of d_out,
///
///     |o_i|  ≤ V Σ_j |a_i||b_j| / n_i =: V·c_i              |d_v_j| ≤ D Σ_i |a_i||b_j| / n_i
///     |d_q_i| ≤ D V (1 + c_i) Σ_j |b_j| / n_i               |d_k_j| ≤ D V Σ_i (1 + c_i) |a_i| / n_i
///
/// parts that may cancel, each. A number passes some `steps` roundings in a product over features, in a sum over a
/// block and in one over blocks; a result has up to three such numbers as factors, and as many for a denominator.
///
/// Decays make sums smaller, and denominators too: `denominators` [batch, heads, q_len, value_dim] are then given,
/// without epsilon.
struct LinearBounds {
  double out = 0, d_q = 0, d_k = 0, d_v = 0;

  LinearBounds(const LinearCase& c, const LinearData<double>& data, double unit,
               const std::vector<double>& denominators = {}) {
    const auto phi = [&](double x) {
      if (c.map == FeatureMap::elu_plus_one) return x > 0 ? x + 1 : std::exp(x);
      return c.map == FeatureMap::relu ? std::max(x, 0.0) : x;
    };
    const auto row = [](View<const double, 4> x, Index b, Index h, Index t, const auto& map) {
      std::vector<double> y;
      for (Index d = 0; d < x.shape[3]; ++d) y.push_back(map(x(b, h, t, d)));
      return y;
    };
    const auto dot = [](const std::vector<double>& x, const std::vector<double>& y) {
      double sum = 0;
      for (std::size_t d = 0; d < x.size(); ++d) sum += x[d] * y[d];
      return sum;
    };
    const auto as_is = [](double x) { return x; };
    double largest_v = 0, largest_d = 0, most = 0;
    const auto norm = [&](const std::vector<double>& x) { return std::sqrt(dot(x, x)); };
    for (Index b = 0; b < c.batch; ++b) {
      for (Index h = 0; h < c.kv_heads; ++h) {
        for (Index j = 0; j < c.k_len; ++j) largest_v = std::max(largest_v, norm(row(data.v.read(), b, h, j, as_is)));
      }
      for (Index h = 0; h < c.heads; ++h) {
        double sums = 0, weighted = 0, largest_b = 0;
        std::vector<std::vector<double>> keys;
        for (Index j = 0; j < c.k_len; ++j) {
          keys.push_back(row(data.k.read(), b, h / (c.heads / c.kv_heads), j, phi));
          largest_b = std::max(largest_b, norm(keys.back()));
        }
        for (Index i = 0; i < c.q_len; ++i) {
          largest_d = std::max(largest_d, norm(row(data.d_out.read(), b, h, i, as_is)));
          const std::vector<double> f = row(data.q.read(), b, h, i, phi);
          double n = c.epsilon, all = 0;
          for (Index j = 0; j < c.k_len; ++j) {
            if (!c.sees(i, j)) continue;
            n += dot(f, keys[static_cast<std::size_t>(j)]);
            all += norm(keys[static_cast<std::size_t>(j)]);
          }
          if (!denominators.empty()) {
            n = c.epsilon + denominators[static_cast<std::size_t>(((b * c.heads + h) * c.q_len + i) * c.value_dim)];
          }
          if (c.normaliser == Normaliser::none) n = 1;
          if (n == 0) continue;
          const double condition = norm(f) * all / n;
          out = std::max(out, condition);
          d_q = std::max(d_q, (1 + condition) * all / n);
          sums += norm(f) / n;
          weighted += (1 + condition) * norm(f) / n;
        }
        most = std::max(most, largest_b * sums);
        d_k = std::max(d_k, weighted);
      }
    }
    const double group = static_cast<double>(c.kv_heads == 0 ? 1 : c.heads / c.kv_heads);
    const auto steps = static_cast<double>(std::max(c.dim, c.value_dim) + 64 + (c.q_len + c.k_len) / 64 + 16);
    const double error = 6 * steps * unit;
    out *= error * largest_v;
    d_q *= error * largest_d * largest_v;
    d_k *= error * group * largest_d * largest_v;
    d_v = error * group * largest_d * most;
  }
};

template <class T>
double unit_of() {
  return std::is_same_v<T, double> ? 0x1p-53 : 0x1p-24;
}

/// Results of a 16-bit type are rounded once more.
template <class T>
void expect_rounded(const Guarded<T>& got, const Guarded<double>& wanted, double bound, const char* what) {
  EXPECT_TRUE(got.guards_intact()) << what;
  const std::vector<double> numbers = got.doubles(), truth = wanted.doubles();
  ASSERT_EQ(numbers.size(), truth.size());
  for (std::size_t x = 0; x < truth.size(); ++x) {
    const double rounding = sizeof(T) == 2 ? ulp<T>(std::abs(truth[x]) + bound) / 2 : 0;
    ASSERT_NEAR(numbers[x], truth[x], bound + rounding) << what << " element " << x;
  }
}

template <class T>
void expect_linear_attention(const LinearCase& c) {
  LinearData<T> data(c);
  LinearCase plain = c;
  plain.inputs = plain.outputs = Layout::bhtd;
  LinearData<double> truth(plain, data);
  data.forward(data.terms());
  truth.reference(truth.terms());
  expect_rounded(data.out, truth.out, LinearBounds(c, truth, unit_of<T>()).out, "out");
  if (c.q_len > 2 && c.k_first <= c.q_first && c.mask != Mask::causal_bottom_right) {
    EXPECT_TRUE(data.out.says_something());
  }
}

template <class T>
void expect_linear_gradients(const LinearCase& c) {
  LinearData<T> data(c);
  LinearCase plain = c;
  plain.inputs = plain.outputs = Layout::bhtd;
  LinearData<double> truth(plain, data);
  data.backward(data.terms());
  truth.reference_backward(truth.terms());
  const LinearBounds bounds(c, truth, unit_of<T>());
  expect_rounded(data.d_q, truth.d_q, bounds.d_q, "d_q");
  expect_rounded(data.d_k, truth.d_k, bounds.d_k, "d_k");
  expect_rounded(data.d_v, truth.d_v, bounds.d_v, "d_v");
}

/// Gradients of kernel and reference against central differences, at most some hundred of each tensor.
inline void expect_central_differences(const LinearCase& c) {
  LinearData<double> data(c), truth(c);
  data.backward(data.terms());
  truth.reference_backward(truth.terms());
  const auto compare = [&](Guarded<double>& x, const Guarded<double>& got, const Guarded<double>& wanted) {
    const std::vector<double> kernel = got.doubles(), plain = wanted.doubles();
    const std::size_t stride = std::max<std::size_t>(1, kernel.size() / (c.q_len < 20 ? 300 : 40));
    for (std::size_t e = 0; e < kernel.size(); e += stride) {
      const double slope = truth.slope_of(x.view().data[e], truth.terms());  // row-major
      ASSERT_NEAR(kernel[e], slope, 1e-8 + 1e-6 * std::abs(slope)) << e;
      ASSERT_NEAR(plain[e], slope, 1e-8 + 1e-6 * std::abs(slope)) << e;
    }
  };
  compare(truth.q, data.d_q, truth.d_q);
  compare(truth.k, data.d_k, truth.d_k);
  compare(truth.v, data.d_v, truth.d_v);
}

/// Both ways round as expect_linear_attention() allows.
template <class T>
void expect_continuation(const LinearCase& c, const std::vector<Index>& cuts) {
  LinearData<T> whole(c), pieces(c);
  const LinearData<double> f64(c, whole);
  const std::vector<double> once = whole.forward(whole.terms()), cut = pieces.forward_in_pieces(cuts);
  const double bound = 2 * LinearBounds(c, f64, unit_of<T>()).out;
  for (std::size_t x = 0; x < once.size(); ++x) {
    const double rounding = sizeof(T) == 2 ? ulp<T>(std::abs(once[x]) + bound) : 0;
    ASSERT_NEAR(cut[x], once[x], bound + rounding) << x;
  }
}

/// Backward chunk by chunk, the last first, each from the state before it, gives the gradients of one call.
inline void expect_chunked_gradients(const LinearCase& c, const std::vector<Index>& cuts) {
  LinearData<double> whole(c), pieces(c);
  whole.backward(whole.terms());
  std::vector<LinearData<double>::State> starts;
  pieces.forward_in_pieces(cuts, &starts);
  LinearData<double>::State d_state(c, 0);
  for (std::size_t n = cuts.size() - 1; n-- > 0;) {
    const auto of = [&](const Guarded<double>& x) { return LinearData<double>::piece(x.view(), cuts[n], cuts[n + 1]); };
    linear_attention_backward<double>(pieces.inputs(cuts[n], cuts[n + 1]), of(pieces.d_out), starts[n].read(),
                                      {of(pieces.d_q), of(pieces.d_k), of(pieces.d_v), d_state.view()}, pieces.terms(),
                                      c.options());
  }
  const LinearBounds bounds(c, whole, 0x1p-53);
  expect_rounded(pieces.d_q, whole.d_q, 2 * bounds.d_q, "d_q");
  expect_rounded(pieces.d_k, whole.d_k, 2 * bounds.d_k, "d_k");
  expect_rounded(pieces.d_v, whole.d_v, 2 * bounds.d_v, "d_v");
}

/// Lengths about two blocks of 32 tokens, dimensions about a vector, grouped queries, every mask and feature map.
inline std::vector<LinearCase> linear_cases() {
  std::vector<LinearCase> cases;
  for (const Index time : {1, 2, 63, 64, 65, 129}) {
    for (const Mask mask : {Mask::none, Mask::causal}) {
      cases.push_back({.q_len = time, .k_len = time, .mask = mask, .rope = true});
    }
  }
  for (const Mask mask : {Mask::none, Mask::causal, Mask::causal_top_left, Mask::causal_bottom_right}) {
    cases.push_back({.batch = 2, .heads = 4, .q_len = 5, .k_len = 70, .mask = mask, .q_first = 65, .rope = true});
    cases.push_back({.batch = 2, .heads = 4, .q_len = 70, .k_len = 5, .mask = mask, .rope = true});
    cases.push_back({.heads = 3, .kv_heads = 1, .q_len = 100, .k_len = 130, .mask = mask, .q_first = 40});
    cases.push_back({.q_len = 70, .k_len = 140, .mask = mask, .k_first = 30, .rope = true});
  }
  for (const FeatureMap map : {FeatureMap::elu_plus_one, FeatureMap::relu, FeatureMap::identity}) {
    LinearCase c{.batch = 2, .q_len = 70, .k_len = 70, .mask = Mask::causal, .map = map, .epsilon = 0.25, .rope = true};
    if (map == FeatureMap::identity) c.normaliser = Normaliser::none;
    cases.push_back(c);
    c.normaliser = Normaliser::none;
    cases.push_back(c);
  }
  for (const Index dim : {2, 16, 34, 64}) {
    for (const Index value_dim : {1, 33, 64}) {
      cases.push_back({.heads = 2,
                       .kv_heads = 1,
                       .q_len = 66,
                       .k_len = 66,
                       .dim = dim,
                       .value_dim = value_dim,
                       .mask = Mask::causal,
                       .rope = true});
    }
  }
  return cases;
}

}  // namespace bearing::test
