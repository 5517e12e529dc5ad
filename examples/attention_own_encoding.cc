// An encoding of one's own in attention, forward and backward. Tokens are days, and a head may care for the same day of
// earlier weeks, or for any other rhythm:
//
//     b_h(Δ) = strength_h · cos(2πΔ / period_h),        Δ: key minus query; strength and period are learned
//
// The struct says what it adds and how its parameters change that; the rest is the library's.

#include <bearing/attention.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

using bearing::Index;

constexpr double turn = 6.283185307179586;

template <class A>
struct Rhythm {
  using Arithmetic = A;
  bearing::Param<A, 1> strength, period;  // [heads]

  void bias(Index head, Index n, const double* delta, A* b) const {
    for (Index i = 0; i < n; ++i) {
      b[i] = strength.value(head) * static_cast<A>(std::cos(turn * delta[i] / static_cast<double>(period.value(head))));
    }
  }

  // ∂b/∂strength = cos(2πΔ/period),  ∂b/∂period = strength · sin(2πΔ/period) · 2πΔ/period²
  void bias_grads(Index head, Index n, const double* delta, const A* d_b, A* d_params) const {
    const double p = static_cast<double>(period.value(head)), s = static_cast<double>(strength.value(head));
    for (Index i = 0; i < n; ++i) {
      const double angle = turn * delta[i] / p, d = static_cast<double>(d_b[i]);
      d_params[0] += static_cast<A>(d * std::cos(angle));
      d_params[1] += static_cast<A>(d * s * std::sin(angle) * angle / p);
    }
  }
  Index param_size() const { return 2; }
  void collect(Index, Index head, const A* d_params) const {
    strength.grad(head) += d_params[0];
    period.grad(head) += d_params[1];
  }
};

namespace {

constexpr Index heads = 2, days = 21, dim = 4;

std::vector<double> numbers(double seed) {
  std::vector<double> x(static_cast<std::size_t>(heads * days * dim));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(seed + 12.9898 * static_cast<double>(i * i));
  return x;
}

bearing::View<const double, 4> view(const std::vector<double>& x) {
  return bearing::bhtd(x.data(), 1, heads, days, dim);
}

const std::vector<double> q = numbers(1), k = numbers(2), v = numbers(3), weight = numbers(4);
const bearing::AttentionInputs<double> in = {view(q), view(k), view(v)};
const bearing::AttentionOptions<double> options = {.mask = bearing::Mask::causal};

/// Attention with the encoding, and a number that depends on all of its output: loss = Σ weight · out.
double loss(const Rhythm<double>& rhythm, std::vector<double>& out, std::vector<double>& lse) {
  bearing::attention<double, double>(in, bearing::bhtd(out.data(), 1, heads, days, dim),
                                     bearing::dense(lse.data(), 1, heads, days), bearing::with(rhythm), options);
  double sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) sum += weight[i] * out[i];
  return sum;
}

}  // namespace

int main() {
  std::vector<double> strength = {2, 1}, period = {7, 3.5}, d_strength(2), d_period(2);
  const Rhythm<double> rhythm{{bearing::dense<const double>(strength.data(), 2), bearing::dense(d_strength.data(), 2)},
                              {bearing::dense<const double>(period.data(), 2), bearing::dense(d_period.data(), 2)}};
  std::vector<double> out(q.size()), lse(static_cast<std::size_t>(heads * days));
  std::printf("loss %.6f\n", loss(rhythm, out, lse));

  std::vector<double> d_q(q.size()), d_k(k.size()), d_v(v.size());
  const auto writable = [](std::vector<double>& x) { return bearing::bhtd(x.data(), 1, heads, days, dim); };
  bearing::attention_backward<double>(
      in, {.out = view(out), .lse = bearing::dense<const double>(lse.data(), 1, heads, days), .d_out = view(weight)},
      {.d_q = writable(d_q), .d_k = writable(d_k), .d_v = writable(d_v)}, bearing::with(rhythm), options);

  // A central difference is off by h²/6 of the third derivative, and by some 1e-16/h of rounding: 1e-9 and less.
  const double h = 1e-5;
  const auto compare = [&](const char* name, double& parameter, double gradient) {
    const double kept = parameter;
    std::vector<double> other(out.size()), other_lse(lse.size());
    parameter = kept + h;
    const double above = loss(rhythm, other, other_lse);
    parameter = kept - h;
    const double below = loss(rhythm, other, other_lse);
    parameter = kept;
    const bool agree = std::abs((above - below) / (2 * h) - gradient) < 1e-7;
    std::printf("%-11s %9.6f  central difference: %s\n", name, gradient, agree ? "agrees" : "differs");
  };
  compare("strength[0]", strength[0], d_strength[0]);
  compare("strength[1]", strength[1], d_strength[1]);
  compare("period[0]", period[0], d_period[0]);
  compare("period[1]", period[1], d_period[1]);
}
