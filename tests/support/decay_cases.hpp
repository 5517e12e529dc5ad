#pragma once

#include "support/linear_cases.hpp"
#include "support/targets.hpp"

// Linear attention whose state decays, for tests: one set of checks for every kind of decay.

namespace bearing::test {

// A kind of decay is a struct with a name, Encoding<A>, how many numbers a case's has, one of them at random, and
// make<A>(case, numbers, where their gradients go).

/// A case with its decay.
template <class T, class Kind>
struct Decaying : LinearData<T> {
  using A = Compute<T>;

  explicit Decaying(LinearCase of) : LinearData<T>(of) {
    Random random(11);
    for (Index n = 0; n < Kind::numbers(of); ++n) {
      // Numbers that float has too: what is compared starts from the same.
      numbers.push_back(static_cast<A>(static_cast<float>(Kind::number(random, of))));
    }
    d_numbers.resize(numbers.size());
  }
  template <class U>
  Decaying(const LinearCase& of, const Decaying<U, Kind>& from) : LinearData<T>(of, from) {
    for (const auto x : from.numbers) numbers.push_back(static_cast<A>(x));
    d_numbers.resize(numbers.size());
  }
  /// Σ_j φ(q_i)·(D_ij ∘ φ(k_j)) in every column of a query: the numerators of values that are all 1.
  std::vector<double> denominators() const requires std::same_as<T, double> {
    LinearCase sums = this->c;
    sums.normaliser = Normaliser::none, sums.rope = false;
    Decaying ones(sums, *this);
    ones.set_values(1);
    return ones.with_terms([&](const TermList<double>& list) { return ones.reference(list); });
  }
  LinearBounds bounds(double unit) const requires std::same_as<T, double> {
    return {this->c, *this, unit, this->c.normaliser == Normaliser::sum ? denominators() : std::vector<double>{}};
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
          // Of features, at most 1 larger, there are two gradients: the numerator's and the denominator's.
          for (Index d = 0; d < x.shape[3]; ++d) sum += 2 * (std::abs(x(b, h, t, d)) + 1) * wrong;
        }
      }
    }
  };
  add(data.q.read(), bounds.d_q);
  add(data.k.read(), bounds.d_k);
  return sum * span;
}

/// Forward and backward on each target that on_targets(body) calls it on, against one reference.
template <class T, class Kind, class OnTargets>
void expect_decay_on(const LinearCase& given, const OnTargets& on_targets) {
  SCOPED_TRACE(std::string(Kind::name) + " " + describe(given));
  const Decaying<T, Kind> drawn(given);
  LinearCase plain = drawn.c;
  plain.inputs = plain.outputs = Layout::bhtd;
  Decaying<double, Kind> truth(plain, drawn);
  const LinearBounds bounds = truth.bounds(unit_of<T>());
  const double bound = decay_bound(truth, bounds, static_cast<double>(given.q_len + given.k_len + 1));
  truth.with_terms([&](const TermList<double>& list) {
    (void)truth.reference(list);
    truth.reference_backward(list);
  });
  on_targets([&] {
    Decaying<T, Kind> data(given);
    data.run_forward();
    expect_rounded(data.out, truth.out, bounds.out, "out");
    data.run_backward();
    expect_rounded(data.d_q, truth.d_q, bounds.d_q, "d_q");
    expect_rounded(data.d_k, truth.d_k, bounds.d_k, "d_k");
    expect_rounded(data.d_v, truth.d_v, bounds.d_v, "d_v");
    for (std::size_t x = 0; x < data.numbers.size(); ++x) {
      ASSERT_NEAR(static_cast<double>(data.d_numbers[x]), truth.d_numbers[x], bound) << "gradient of number " << x;
    }
  });
}

template <class T, class Kind>
void expect_decay(const LinearCase& given) {
  expect_decay_on<T, Kind>(given, [](const auto& body) { body(); });
}

template <class T, class Kind>
void expect_decay_on_every_target(const LinearCase& given) {
  expect_decay_on<T, Kind>(given, [](const auto& body) { on_every_target(body); });
}

/// Kernel and reference against central differences of the reference, the decay's numbers among them.
template <class Kind>
void expect_decay_differences(const LinearCase& c) {
  SCOPED_TRACE(std::string(Kind::name) + " " + describe(c));
  Decaying<double, Kind> data(c), truth(c);
  data.run_backward();
  truth.with_terms([&](const TermList<double>& list) { truth.reference_backward(list); });
  const std::vector<double> plain = truth.d_numbers;
  // A difference of two losses has the rounding of each, 2^-50 of all that is summed, over 2·10^-6.
  double size = 0;
  const std::vector<double> drawn = truth.d_out.doubles(),
                            results = truth.with_terms([&](const auto&list) { return truth.reference(list); });
  for (std::size_t e = 0; e < results.size(); ++e) size += std::abs(drawn[e] * results[e]);
  const double rounding = 1e-8 + size * 0x1p-50 / 1e-6;
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
    ASSERT_NEAR(data.d_numbers[x], slope, rounding + 1e-6 * std::abs(slope)) << x;
    ASSERT_NEAR(plain[x], slope, rounding + 1e-6 * std::abs(slope)) << x;
  }
  truth.with_terms([&](const TermList<double>& list) {
    for (auto [x, got, name] : {std::tuple(&truth.q, &data.d_q, "d_q"), std::tuple(&truth.k, &data.d_k, "d_k"),
                                std::tuple(&truth.v, &data.d_v, "d_v")}) {
      const std::vector<double> kernel = got->doubles();
      for (std::size_t e = 0; e < kernel.size(); e += 3) {
        const double slope = truth.slope_of(x->view().data[e], list);
        ASSERT_NEAR(kernel[e], slope, rounding + 1e-6 * std::abs(slope)) << name << " " << e;
      }
    }
  });
}

}  // namespace bearing::test
