#include <bearing/encodings/rope_gradients.hpp>
#include <bearing/error.hpp>

#include <algorithm>

#include "encodings/head_sets.hpp"
#include "encodings/rotary/rope_call.hpp"
#include "text.hpp"

namespace bearing {
namespace {

using text::concat;

/// One rotated pair and its gradient, in double.
template <class T>
struct Pairs {
  const RopeFrequencies& f;
  View<const T, 4> y, d_y;
  std::vector<PairPlace> places = pair_places(f);

  /// body(i, y0, y1, g0, g1) for every pair of one head.
  template <class Body>
  void each(Index b, Index h, Index t, const Body& body) const {
    for (Index i = 0; i < f.pairs(); ++i) {
      const auto [first, second] = places[static_cast<std::size_t>(i)];
      const auto wide = [&](View<const T, 4> x, Index d) {
        return static_cast<double>(static_cast<Compute<T>>(x(b, h, t, d)));
      };
      body(i, wide(y, first), wide(y, second), wide(d_y, first), wide(d_y, second));
    }
  }
};

/// d/dθ and d/da: one partial sum per (batch, head), added in that order, so that threads cannot change the result.
template <class T>
void add_parameter_gradients(const Pairs<T>& in, const Positions& positions, const RopeGradients& gradients,
                             const Executor& on) {
  const Index heads = in.y.shape[1], time = in.y.shape[2], tasks = in.y.shape[0] * heads, pairs = in.f.pairs();
  std::vector<double> sums(static_cast<std::size_t>(tasks * (pairs + 1)));
  parallel(on, tasks, [&](Index task) {
    double* d_theta = sums.data() + task * (pairs + 1);
    double& d_log_a = d_theta[pairs];  // Σ g·y = a·d/da
    const Index b = task / heads, h = task % heads;
    for (Index t = 0; t < time; ++t) {
      in.each(b, h, t, [&](Index i, double y0, double y1, double g0, double g1) {
        const Index axis = std::min(in.f.axis[static_cast<std::size_t>(i)], positions.axes() - 1);
        d_theta[i] += positions.real(axis, b, t) * (g1 * y0 - g0 * y1);
        d_log_a += g0 * y0 + g1 * y1;
      });
    }
  });
  for (Index task = 0; task < tasks; ++task) {
    const double* sum = sums.data() + task * (pairs + 1);
    if (gradients.log_factors.data != nullptr) {
      for (Index i = 0; i < pairs; ++i) {
        gradients.log_factors(i) += in.f.inv_freq[static_cast<std::size_t>(i)] * sum[i];
      }
    }
    if (gradients.inv_freq.data != nullptr) {
      for (Index i = 0; i < pairs; ++i) gradients.inv_freq(i) += sum[i];
    }
    if (gradients.attention_factor != nullptr) *gradients.attention_factor += sum[pairs] / in.f.attention_factor;
  }
}

/// d/dp: each token's own sum over heads and pairs.
template <class T>
void add_position_gradients(const Pairs<T>& in, View<double, 3> d_positions, const Executor& on) {
  const Index heads = in.y.shape[1], time = in.y.shape[2];
  parallel(on, in.y.shape[0] * time, [&](Index token) {
    const Index b = token / time, t = token % time;
    for (Index h = 0; h < heads; ++h) {
      in.each(b, h, t, [&](Index i, double y0, double y1, double g0, double g1) {
        const auto pair = static_cast<std::size_t>(i);
        d_positions(std::min(in.f.axis[pair], d_positions.shape[0] - 1), b, t) +=
            in.f.inv_freq[pair] * (g1 * y0 - g0 * y1);
      });
    }
  });
}

}  // namespace

template <class T>
void rotate_parameter_gradients(const RopeFrequencies& frequencies, View<const T, 4> y, View<const T, 4> d_y,
                                const Positions& positions, const RopeGradients& gradients, const Executor& on) {
  const char* function = "rotate_parameter_gradients";
  check_frequencies(frequencies);
  check_heads(function, "y", y, frequencies.head_dim);
  if (d_y.shape != y.shape) {
    throw ShapeError(concat("[", function, "] d_y: must have the shape of y, ", y.shape, ", got ", d_y.shape));
  }
  check_heads(function, "d_y", d_y, frequencies.head_dim);
  positions.check(function, "positions", frequencies.axes, y.shape[0], y.shape[2]);
  const auto check_pairs = [&](const char* name, View<double, 1> gradient) {
    if (gradient.data == nullptr) return;
    if (gradient.shape[0] != frequencies.pairs()) {
      throw ShapeError(concat("[", function, "] ", name, ": must have one element per pair, ", frequencies.pairs(),
                              ", got ", gradient.shape[0]));
    }
    check_output(function, name, gradient);
  };
  check_pairs("gradients.inv_freq", gradients.inv_freq);
  check_pairs("gradients.log_factors", gradients.log_factors);
  const std::array<Index, 3> expected{positions.axes(), y.shape[0], y.shape[2]};
  if (gradients.positions.data != nullptr && gradients.positions.shape != expected) {
    throw ShapeError(concat("[", function, "] gradients.positions: must have shape [axes, batch, time] = ", expected,
                            ", got ", gradients.positions.shape));
  }
  if (gradients.positions.data != nullptr) check_output(function, "gradients.positions", gradients.positions);
  CallMemory memory(function);
  memory.reads("y", y).reads("d_y", d_y).reads_positions("positions", positions);
  memory.writes("gradients.inv_freq", gradients.inv_freq).writes("gradients.positions", gradients.positions);
  memory.writes("gradients.log_factors", gradients.log_factors);
  memory.writes("gradients.attention_factor", dense(gradients.attention_factor, 1)).check();
  if (y.size() == 0) return;
  const Pairs<T> in{frequencies, y, d_y};
  if (gradients.inv_freq.data != nullptr || gradients.log_factors.data != nullptr ||
      gradients.attention_factor != nullptr) {
    add_parameter_gradients(in, positions, gradients, on);
  }
  if (gradients.positions.data != nullptr) add_position_gradients(in, gradients.positions, on);
}

#define BEARING_INSTANTIATE(T)                                                                         \
  template void rotate_parameter_gradients(const RopeFrequencies&, View<const T, 4>, View<const T, 4>, \
                                           const Positions&, const RopeGradients&, const Executor&);
BEARING_INSTANTIATE(double)
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(Bfloat16)
BEARING_INSTANTIATE(Float16)
#undef BEARING_INSTANTIATE

}  // namespace bearing
