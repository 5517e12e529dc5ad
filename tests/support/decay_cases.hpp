#pragma once

#include <bearing/encodings/forgetting.hpp>
#include <bearing/encodings/retention.hpp>

#include "support/linear_cases.hpp"

// Linear attention whose state decays, for tests: one set of checks for every kind of decay.

namespace bearing::test {

/// A rate per head: what is left of a state falls with the distance.
struct ByHead {
  static constexpr const char* name = "retention";
  template <class A>
  using Encoding = RetentionBias<A>;
  static Index numbers(const LinearCase& c) { return c.kv_heads; }
  static double number(Random& random, const LinearCase&) { return random.uniform(0.01, 0.6); }
  template <class A>
  static Encoding<A> make(const LinearCase& c, std::vector<A>& x, std::vector<A>& d) {
    return Encoding<A>({dense<const A>(x.data(), c.kv_heads), dense(d.data(), c.kv_heads)});
  }
};

/// A gate per token and head.
struct ByToken {
  static constexpr const char* name = "forgetting";
  template <class A>
  using Encoding = ForgettingBias<A>;
  static Index numbers(const LinearCase& c) { return c.batch * c.kv_heads * c.k_len; }
  static double number(Random& random, const LinearCase&) { return random.uniform(-0.6, 0); }
  template <class A>
  static Encoding<A> make(const LinearCase& c, std::vector<A>& x, std::vector<A>& d) {
    return Encoding<A>(
        {dense<const A>(x.data(), c.batch, c.kv_heads, c.k_len), dense(d.data(), c.batch, c.kv_heads, c.k_len)},
        c.k_len - c.q_len);
  }
};

/// A gate per token and channel, as a user may write one: gated linear attention (Yang et al. 2023, arXiv 2312.06635).
/// It adds nothing to a score.
template <class A>
struct ChannelGates {
  using Arithmetic = A;
  static constexpr bool counts_tokens = true, by_channel = true;

  View<const A, 4> log;  ///< [batch, heads, time, channels]
  View<A, 4> grad;

  void bias(Index, Index n, const double*, A* b) const { std::fill_n(b, n, A{0}); }
  void bias_grads(Index, Index, const double*, const A*, A*) const {}
  void log_decay(const StepTile& tile, double* to) const {
    for (Index x = 0; x < tile.rows * tile.channels; ++x) {
      const Index t = tile.row + x / tile.channels, c = x % tile.channels;
      to[x] += static_cast<double>(log(tile.batch, tile.head, t, c));
    }
  }
  void log_decay_grads(const StepTile& tile, const double* d, A* d_params) const {
    for (Index x = 0; x < tile.rows * tile.channels; ++x) d_params[x] += static_cast<A>(d[x]);
  }
  Index param_size() const { return grad.shape[2] * grad.shape[3]; }
  void collect(Index batch, Index head, const A* d) const {
    for (Index x = 0; x < param_size(); ++x) grad(batch, head, x / grad.shape[3], x % grad.shape[3]) += d[x];
  }
};
struct ByChannel {
  static constexpr const char* name = "gates by channel";
  template <class A>
  using Encoding = ChannelGates<A>;
  static Index numbers(const LinearCase& c) { return c.batch * c.kv_heads * c.k_len * c.dim; }
  static double number(Random& random, const LinearCase&) { return random.uniform(-0.6, 0); }
  template <class A>
  static Encoding<A> make(const LinearCase& c, std::vector<A>& x, std::vector<A>& d) {
    return {bhtd<const A>(x.data(), c.batch, c.kv_heads, c.k_len, c.dim),
            bhtd(d.data(), c.batch, c.kv_heads, c.k_len, c.dim)};
  }
};

/// A case with its decay. Its features are the products as they are, and nothing divides.
template <class T, class Kind>
struct Decaying : LinearData<T> {
  using A = Compute<T>;

  explicit Decaying(LinearCase of) : LinearData<T>(plain(of)) {
    Random random(11);
    for (Index n = 0; n < Kind::numbers(of); ++n) {
      // Numbers that float has too: what is compared starts from the same.
      numbers.push_back(static_cast<A>(static_cast<float>(Kind::number(random, of))));
    }
    d_numbers.resize(numbers.size());
  }
  template <class U>
  Decaying(const LinearCase& of, const Decaying<U, Kind>& from) : LinearData<T>(plain(of), from) {
    for (const auto x : from.numbers) numbers.push_back(static_cast<A>(x));
    d_numbers.resize(numbers.size());
  }
  static LinearCase plain(LinearCase c) {
    c.map = FeatureMap::identity, c.normaliser = Normaliser::none;
    return c;
  }

  /// body(terms)
  template <class Body>
  auto with_terms(const Body& body) {
    const auto encoding = Kind::template make<A>(this->c, numbers, d_numbers);
    TermList<A> list = this->terms();
    list.terms[static_cast<std::size_t>(list.size++)] = erase<A>(encoding);
    return body(list);
  }
  void run_forward(const Executor& on = {}) {
    with_terms([&](const TermList<A>& list) { (void)this->forward(list, on); });
  }
  void run_backward(const Executor& on = {}) {
    std::fill(d_numbers.begin(), d_numbers.end(), A{0});
    with_terms([&](const TermList<A>& list) { this->backward(list, on); });
  }

  std::vector<A> numbers, d_numbers;
};

/// How far rounding may lead a decay's gradient: rows times their gradients, each wrong by as much as bounds say, are
/// summed over all rows behind a step, and times positions up to `span`.
inline double decay_bound(const LinearData<double>& data, const LinearBounds& bounds, double span) {
  double sum = 0;
  const auto add = [&](View<const double, 4> x, double wrong) {
    for (Index b = 0; b < x.shape[0]; ++b) {
      for (Index h = 0; h < x.shape[1]; ++h) {
        for (Index t = 0; t < x.shape[2]; ++t) {
          for (Index d = 0; d < x.shape[3]; ++d) sum += std::abs(x(b, h, t, d)) * wrong;
        }
      }
    }
  };
  add(data.q.read(), bounds.d_q);
  add(data.k.read(), bounds.d_k);
  return sum * span;
}

template <class T, class Kind>
void expect_decay(const LinearCase& given) {
  SCOPED_TRACE(std::string(Kind::name) + " " + describe(given));
  Decaying<T, Kind> data(given);
  LinearCase plain = data.c;
  plain.inputs = plain.outputs = Layout::bhtd;
  Decaying<double, Kind> truth(plain, data);
  const LinearBounds bounds(plain, truth, unit_of<T>());
  data.run_forward();
  truth.with_terms([&](const TermList<double>& list) { (void)truth.reference(list); });
  expect_rounded(data.out, truth.out, bounds.out, "out");
  data.run_backward();
  truth.with_terms([&](const TermList<double>& list) { truth.reference_backward(list); });
  expect_rounded(data.d_q, truth.d_q, bounds.d_q, "d_q");
  expect_rounded(data.d_k, truth.d_k, bounds.d_k, "d_k");
  expect_rounded(data.d_v, truth.d_v, bounds.d_v, "d_v");
  const double bound = decay_bound(truth, bounds, static_cast<double>(given.q_len + given.k_len + 1));
  for (std::size_t x = 0; x < data.numbers.size(); ++x) {
    ASSERT_NEAR(static_cast<double>(data.d_numbers[x]), truth.d_numbers[x], bound) << "gradient of number " << x;
  }
}

/// Kernel and reference against central differences of the reference, the decay's numbers among them.
template <class Kind>
void expect_decay_differences(const LinearCase& c) {
  SCOPED_TRACE(std::string(Kind::name) + " " + describe(c));
  Decaying<double, Kind> data(c), truth(c);
  data.run_backward();
  truth.with_terms([&](const TermList<double>& list) { truth.reference_backward(list); });
  const std::vector<double> plain = truth.d_numbers;
  for (std::size_t x = 0; x < data.numbers.size(); ++x) {
    const auto loss = [&](double by) {
      Decaying<double, Kind> moved(c);
      moved.numbers[x] += by;
      const std::vector<double> weights = moved.d_out.doubles(),
                                o = moved.with_terms([&](const auto&list) { return moved.reference(list); });
      double sum = 0;
      for (std::size_t e = 0; e < o.size(); ++e) sum += weights[e] * o[e];
      return sum;
    };
    const double slope = (loss(1e-6) - loss(-1e-6)) / 2e-6;
    ASSERT_NEAR(data.d_numbers[x], slope, 1e-8 + 1e-6 * std::abs(slope)) << x;
    ASSERT_NEAR(plain[x], slope, 1e-8 + 1e-6 * std::abs(slope)) << x;
  }
  truth.with_terms([&](const TermList<double>& list) {
    for (auto [x, got, name] : {std::tuple(&truth.q, &data.d_q, "d_q"), std::tuple(&truth.k, &data.d_k, "d_k"),
                                std::tuple(&truth.v, &data.d_v, "d_v")}) {
      const std::vector<double> kernel = got->doubles();
      for (std::size_t e = 0; e < kernel.size(); e += 3) {
        const double slope = truth.slope_of(x->view().data[e], list);
        ASSERT_NEAR(kernel[e], slope, 1e-8 + 1e-6 * std::abs(slope)) << name << " " << e;
      }
    }
  });
}

}  // namespace bearing::test
