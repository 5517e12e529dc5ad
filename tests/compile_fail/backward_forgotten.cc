// An encoding of one's own has a backward, or says that it has nothing to learn from.
#include <bearing/scores.hpp>

struct Nearby {
  using Arithmetic = float;
#ifndef BEARING_WRONG
  static constexpr bool constant = true;
#endif
  void bias(bearing::Index, bearing::Index n, const double* distance, float* b) const {
    for (bearing::Index i = 0; i < n; ++i) b[i] = distance[i] == 0 ? 1.0f : 0.0f;
  }
};
void scores(bearing::View<float, 4> s) {
  const Nearby nearby;
  bearing::add_scores(bearing::with(nearby), {}, s);
}
