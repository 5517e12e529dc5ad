#include <bearing/encodings/alibi.hpp>
#include <bearing/error.hpp>
#include <bit>
#include <cmath>

#include "text.hpp"

namespace bearing {

using text::concat;

Alibi Alibi::published(Index heads, double bias_max, double times) {
  constexpr Index most = Index{1} << 20;  // more than any model has, and worked out in no noticeable time
  if (heads < 1 || heads > most) {
    throw RangeError(concat("[Alibi::published] heads: must be between 1 and 2^20, got ", heads));
  }
  if (!std::isfinite(bias_max) || !std::isfinite(times)) {
    throw RangeError(concat("[Alibi::published] bias_max, times: must be finite, got ", bias_max, ", ", times));
  }
  // A power of two p has slopes 2^(−bias_max·h/p). What is missing beyond p comes from 2p's, odd h first to last.
  const auto power = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  Alibi alibi;
  for (Index h = 1; h <= heads; ++h) {
    const double exponent = h <= power ? static_cast<double>(h) / static_cast<double>(power)
                                       : static_cast<double>(2 * (h - power) - 1) / static_cast<double>(2 * power);
    alibi.slopes.push_back(times * std::exp2(-bias_max * exponent));
  }
  return alibi;
}

template <class A>
AlibiSlopes<A>::AlibiSlopes(const char* function, const std::vector<double>& given) {
  for (const double slope : given) {
    if (!std::isfinite(slope)) throw RangeError(concat("[", function, "] slopes: must be finite, got ", slope));
    given_.push_back(static_cast<A>(slope));
  }
}

template <class A>
void AlibiSlopes<A>::check(const char* function, const Problem& problem) const {
  if (heads() != problem.heads) {
    throw ShapeError(
        concat("[", function, "] Alibi.slopes: must be one for each of ", problem.heads, " heads, got ", heads()));
  }
  if (wants_grad() && learned_.grad.shape != learned_.value.shape) {
    throw ShapeError(concat("[", function, "] Alibi.slopes.grad: must have the shape of the slopes, ",
                            learned_.value.shape, ", got ", learned_.grad.shape));
  }
}

template <class A>
void AlibiSlopes<A>::collect(Index head, A d_slope) const {
  learned_.grad(head) += d_slope;
}

namespace {

/// What one unit of slope does at a distance; 0 − 0 is 0, where −0 would look odd in a matrix.
double per_slope(AlibiForm form, double distance) {
  return form == AlibiForm::causal ? std::fmin(distance, 0) : 0 - std::fabs(distance);
}

}  // namespace

template <class A>
void AlibiBias<A>::bias(Index head, Index n, const double* distance, A* b) const {
  const A slope = slopes_[head];
  for (Index i = 0; i < n; ++i) b[i] = slope * static_cast<A>(per_slope(form_, distance[i]));
}

template <class A>
void AlibiBias<A>::bias_grads(Index, Index n, const double* distance, const A* d_b, A* d_params) const {
  double d_slope = 0;
  for (Index i = 0; i < n; ++i) d_slope += static_cast<double>(d_b[i]) * per_slope(form_, distance[i]);
  d_params[0] += static_cast<A>(d_slope);
}

template <class A>
void AlibiShiftedBias<A>::add_scores(const Tile<A>& tile, A* s) const {
  const A slope = slopes_[tile.head];
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index j = 0; j < tile.cols; ++j) s[i * tile.stride + j] += slope * static_cast<A>(tile.k_positions[0][j]);
  }
}

template <class A>
void AlibiShiftedBias<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (grads.params == nullptr) return;
  double d_slope = 0;
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index j = 0; j < tile.cols; ++j) {
      d_slope += static_cast<double>(d_s[i * tile.stride + j]) * tile.k_positions[0][j];
    }
  }
  grads.params[0] += static_cast<A>(d_slope);
}

#define BEARING_INSTANTIATE(A)   \
  template class AlibiSlopes<A>; \
  template class AlibiBias<A>;   \
  template class AlibiShiftedBias<A>;
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

}  // namespace bearing
