#include <array>
#include <bearing/encodings/gated_t5.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "describe/describer.hpp"
#include "describe/tensors.hpp"
#include "overlaps.hpp"
#include "tensor_checks.hpp"
#include "terms/checks.hpp"

namespace bearing {
namespace {

constexpr Index gate_rows = 8;  ///< of the projection: WavLM adds up four for each of two numbers

/// A gate's parameters as the formula uses them, in double: rows that are only added up are added up once.
class Gate {
 public:
  template <class A>
  explicit Gate(const WavlmGate<A>& by)
      : dim_(by.weight.value.shape[1]),
        weight_{zeros(dim_), zeros(dim_)},
        constant_(zeros(by.constant.value.shape[0])) {
    for (Index u = 0; u < gate_rows; ++u) {
      bias_[half(u)] += static_cast<double>(by.bias.value(u));
      for (Index d = 0; d < dim_; ++d) weight_[half(u)][at(d)] += static_cast<double>(by.weight.value(u, d));
    }
    for (std::size_t h = 0; h < constant_.size(); ++h) {
      constant_[h] = static_cast<double>(by.constant.value(static_cast<Index>(h)));
    }
  }

  /// A token's two sigmoids.
  struct Sigmoids {
    double r, s;
  };
  template <class A>
  Sigmoids sigmoids(View<const A, 4> x, Index b, Index h, Index t) const {
    return {sigmoid(x, b, h, t, 0), sigmoid(x, b, h, t, 1)};
  }
  double weight(std::size_t half, Index d) const { return weight_[half][at(d)]; }
  double constant(Index head) const { return constant_[at(head)]; }

  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
  static std::size_t half(Index row) { return at(row / (gate_rows / 2)); }
  static std::vector<double> zeros(Index n) { return std::vector<double>(at(n)); }

 private:
  template <class A>
  double sigmoid(View<const A, 4> x, Index b, Index h, Index t, std::size_t half) const {
    double sum = bias_[half];
    for (Index d = 0; d < dim_; ++d) sum += weight_[half][at(d)] * static_cast<double>(x(b, h, t, d));
    return 1 / (1 + std::exp(-sum));
  }

  Index dim_;
  std::array<std::vector<double>, 2> weight_;
  std::array<double, 2> bias_{};
  std::vector<double> constant_;
};

/// The gradients of a gate's sums and constants.
struct GateGrads {
  explicit GateGrads(Index dim, Index heads)
      : weight{Gate::zeros(dim), Gate::zeros(dim)}, constant(Gate::zeros(heads)) {}

  template <class A>
  void collect(const WavlmGate<A>& to) const {
    for (Index u = 0; u < gate_rows; ++u) {
      const std::size_t half = Gate::half(u);
      if (to.bias.grad.data != nullptr) to.bias.grad(u) += static_cast<A>(bias[half]);
      if (to.weight.grad.data == nullptr) continue;
      for (std::size_t d = 0; d < weight[half].size(); ++d) {
        to.weight.grad(u, static_cast<Index>(d)) += static_cast<A>(weight[half][d]);
      }
    }
    if (to.constant.grad.data == nullptr) return;
    for (std::size_t h = 0; h < constant.size(); ++h) {
      to.constant.grad(static_cast<Index>(h)) += static_cast<A>(constant[h]);
    }
  }

  std::array<std::vector<double>, 2> weight;
  std::array<double, 2> bias{};
  std::vector<double> constant;
};

template <class A, class G>
void check_gate(const char* function, const WavlmGate<A>& by, View<const A, 4> x, const char* argument,
                View<G, 3> gate) {
  check_tensor(function, "x", x);
  check_param(function, "weight", by.weight, {gate_rows, x.shape[3]}, "[8, head_dim]");
  check_param(function, "bias", by.bias, {gate_rows}, "[8]");
  check_param(function, "constant", by.constant, {x.shape[1]}, "[heads]");
  check_shape(function, argument, gate, {x.shape[0], x.shape[1], x.shape[2]}, "[batch, heads, time]");
}

/// Throws ShapeError if elements that are added to share memory.
template <class A, int Rank>
void check_added(const char* function, const char* argument, View<A, Rank> grad) {
  if (grad.data != nullptr) check_distinct(function, argument, grad);
}

/// Throws ShapeError unless what is added to lies apart from all that is read, and from each other.
template <class A>
void check_all_apart(const char* function, const WavlmGate<A>& by, View<const A, 4> x, View<const A, 3> d_gate,
                     View<A, 4> d_x) {
  const std::array<Memory, 4> written{by.weight.grad, by.bias.grad, by.constant.grad, d_x};
  const std::array<Memory, 5> read{by.weight.value, by.bias.value, by.constant.value, x, d_gate};
  constexpr std::array<const char*, 4> written_names{"weight.grad", "bias.grad", "constant.grad", "d_x"};
  constexpr std::array<const char*, 5> read_names{"weight", "bias", "constant", "x", "d_gate"};
  for (std::size_t w = 0; w < written.size(); ++w) {
    for (std::size_t r = 0; r < read.size(); ++r) {
      check_apart(function, written_names[w], written[w], read_names[r], read[r]);
    }
    for (std::size_t o = 0; o < w; ++o) {
      check_apart(function, written_names[w], written[w], written_names[o], written[o]);
    }
  }
}

/// body(b, h, t)
template <class A, class Body>
void over_tokens(View<const A, 4> x, const Body& body) {
  for (Index b = 0; b < x.shape[0]; ++b) {
    for (Index h = 0; h < x.shape[1]; ++h) {
      for (Index t = 0; t < x.shape[2]; ++t) body(b, h, t);
    }
  }
}

}  // namespace

template <class A>
void wavlm_gate(const WavlmGate<A>& by, std::type_identity_t<View<const A, 4>> x, View<A, 3> gate) {
  const char* function = "wavlm_gate";
  check_gate(function, by, x, "gate", gate);
  check_distinct(function, "gate", gate);
  check_apart(function, "gate", gate, "x", x);
  check_apart(function, "gate", gate, "weight", by.weight.value);
  check_apart(function, "gate", gate, "bias", by.bias.value);
  check_apart(function, "gate", gate, "constant", by.constant.value);
  const Gate formula(by);
  over_tokens(x, [&](Index b, Index h, Index t) {
    const auto [r, s] = formula.sigmoids(x, b, h, t);
    gate(b, h, t) = static_cast<A>(r * (s * formula.constant(h) - 1) + 2);
  });
}

template <class A>
void wavlm_gate_backward(const WavlmGate<A>& by, std::type_identity_t<View<const A, 4>> x,
                         std::type_identity_t<View<const A, 3>> d_gate, View<A, 4> d_x) {
  const char* function = "wavlm_gate_backward";
  check_gate(function, by, x, "d_gate", d_gate);
  if (d_x.data != nullptr) check_shape(function, "d_x", d_x, x.shape, "[batch, heads, time, head_dim]");
  check_added(function, "d_x", d_x);
  check_added(function, "weight.grad", by.weight.grad);
  check_added(function, "bias.grad", by.bias.grad);
  check_added(function, "constant.grad", by.constant.grad);
  check_all_apart<A>(function, by, x, d_gate, d_x);
  const Gate formula(by);
  GateGrads grads(x.shape[3], x.shape[1]);
  over_tokens(x, [&](Index b, Index h, Index t) {
    const auto [r, s] = formula.sigmoids(x, b, h, t);
    const double d = static_cast<double>(d_gate(b, h, t)), c = formula.constant(h);
    const std::array<double, 2> d_sum{d * (s * c - 1) * r * (1 - r), d * r * c * s * (1 - s)};
    grads.constant[Gate::at(h)] += d * r * s;
    for (std::size_t half = 0; half < 2; ++half) {
      grads.bias[half] += d_sum[half];
      for (Index e = 0; e < x.shape[3]; ++e) {
        grads.weight[half][Gate::at(e)] += d_sum[half] * static_cast<double>(x(b, h, t, e));
      }
    }
    for (Index e = 0; d_x.data != nullptr && e < x.shape[3]; ++e) {
      d_x(b, h, t, e) += static_cast<A>(d_sum[0] * formula.weight(0, e) + d_sum[1] * formula.weight(1, e));
    }
  });
  grads.collect(by);
}

#define BEARING_INSTANTIATE(A)                                                                          \
  template void wavlm_gate<A>(const WavlmGate<A>&, std::type_identity_t<View<const A, 4>>, View<A, 3>); \
  template void wavlm_gate_backward<A>(const WavlmGate<A>&, std::type_identity_t<View<const A, 4>>,     \
                                       std::type_identity_t<View<const A, 3>>, View<A, 4>);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

namespace {

template <class A>
WavlmGate<A> gate_of(const std::string& function, const Tensor& weight, const Tensor& bias, const Tensor& constant) {
  return {{describe::view_of<A, 2>((function + " weight").c_str(), weight)},
          {describe::view_of<A, 1>((function + " bias").c_str(), bias)},
          {describe::view_of<A, 1>((function + " constant").c_str(), constant)}};
}

Tensor gate(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& constant) {
  const std::string function = "[wavlm_gate]";
  return describe::in_arithmetic_of((function + " x").c_str(), x, [&]<class A>() {
    const View<const A, 4> rows = describe::view_of<A, 4>((function + " x").c_str(), x);
    describe::NewTensor<A, 3> gate({rows.shape[0], rows.shape[1], rows.shape[2]});
    wavlm_gate<A>(gate_of<A>(function, weight, bias, constant), rows, gate.view);
    return gate.tensor;
  });
}

Value gate_gradients(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& constant,
                     const Tensor& d_gate) {
  const std::string function = "[wavlm_gate_backward]";
  return describe::in_arithmetic_of((function + " x").c_str(), x, [&]<class A>() -> Value {
    const View<const A, 4> rows = describe::view_of<A, 4>((function + " x").c_str(), x);
    WavlmGate<A> by = gate_of<A>(function, weight, bias, constant);
    describe::NewTensor<A, 4> d_x(rows.shape);
    describe::NewTensor<A, 2> d_weight(by.weight.value.shape);
    describe::NewTensor<A, 1> d_bias(by.bias.value.shape), d_constant(by.constant.value.shape);
    by.weight.grad = d_weight.view, by.bias.grad = d_bias.view, by.constant.grad = d_constant.view;
    wavlm_gate_backward<A>(by, rows, describe::view_of<A, 3>((function + " d_gate").c_str(), d_gate), d_x.view);
    return Values{d_x.tensor, d_weight.tensor, d_bias.tensor, d_constant.tensor};
  });
}

}  // namespace

void describe_wavlm_gate(Describer& to) {
  to.function(
      "wavlm_gate", gate, {"x", "weight", "bias", "constant"},
      "Computes WavLM's gate [batch, heads, time] for a GatedT5Bias. x [batch, heads, time, head_dim] is the layer's\n"
      "input, cut into heads. weight [8, head_dim] and bias [8] are gru_rel_pos_linear's, constant [heads] is\n"
      "gru_rel_pos_const. float64 or float32; sums are double.\n\n"
      "    gate = r (s constant - 1) + 2        r, s: sigmoids of sums of the first and the last four of the 8");
  to.function("wavlm_gate_backward", gate_gradients, {"x", "weight", "bias", "constant", "d_gate"},
              "Returns the gradients d_x, d_weight, d_bias and d_constant of wavlm_gate(), from that of the gate.",
              "tuple[Array, Array, Array, Array]");
}

}  // namespace bearing
