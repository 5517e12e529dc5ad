// An encoding of one's own: a learned bump. Head h prefers keys that lie `centre_h` tokens back,
//
//     b_h(Δ) = height_h · exp(−(Δ + centre_h)²/8),        Δ: key minus query
//
// These few lines are all that the library needs to know to give its matrix, a decode step's row, and its gradients.

#include <bearing/scores.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

using bearing::Index;

template <class A>
struct Bump {
  using Arithmetic = A;
  bearing::Param<A, 1> height, centre;  // [heads]

  static double shape(double delta, double centre) { return std::exp(-(delta + centre) * (delta + centre) / 8); }

  void bias(Index head, Index n, const double* delta, A* b) const {
    const double c = static_cast<double>(centre.value(head));
    for (Index i = 0; i < n; ++i) b[i] = height.value(head) * static_cast<A>(shape(delta[i], c));
  }

  // ∂b/∂height = shape,  ∂b/∂centre = −height·shape·(Δ + centre)/4
  void bias_grads(Index head, Index n, const double* delta, const A* d_b, A* d_params) const {
    const double h = static_cast<double>(height.value(head)), c = static_cast<double>(centre.value(head));
    for (Index i = 0; i < n; ++i) {
      const double weighted = static_cast<double>(d_b[i]) * shape(delta[i], c);
      d_params[0] += static_cast<A>(weighted);
      d_params[1] -= static_cast<A>(weighted * h * (delta[i] + c) / 4);
    }
  }
  Index param_size() const { return 2; }
  void collect(Index, Index head, const A* d_params) const {
    height.grad(head) += d_params[0];
    centre.grad(head) += d_params[1];
  }
};

int main() {
  const std::vector<double> height = {1, 2}, centre = {0, 3};
  std::vector<double> d_height(2), d_centre(2);
  const Bump<double> bump{{bearing::dense(height.data(), 2), bearing::dense(d_height.data(), 2)},
                          {bearing::dense(centre.data(), 2), bearing::dense(d_centre.data(), 2)}};

  std::vector<double> bias(2 * 6 * 6);
  bearing::bias_matrix(bearing::with(bump), {}, {}, bearing::dense(bias.data(), 2, 6, 6));
  std::puts("bias of head 1, queries down, keys across:");
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j < 6; ++j) std::printf("%7.3f", bias[36 + 6 * i + j]);
    std::puts("");
  }

  std::vector<double> row(2 * 6);
  bearing::bias_matrix(bearing::with(bump), bearing::Positions(5), {}, bearing::dense(row.data(), 2, 1, 6));
  std::puts("the query at position 5 alone, a decode step:");
  for (std::size_t j = 0; j < 6; ++j) std::printf("%7.3f", row[6 + j]);
  std::puts("");

  const std::vector<double> d_scores(2 * 6 * 6, 1.0);
  bearing::add_scores_backward(bearing::with(bump), {}, bearing::bhtd(d_scores.data(), 1, 2, 6, 6));
  std::printf("gradients of the sum of all scores: height %.3f %.3f, centre %.3f %.3f\n", d_height[0], d_height[1],
              d_centre[0], d_centre[1]);
}
