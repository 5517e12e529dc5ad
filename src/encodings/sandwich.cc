#include <algorithm>
#include <array>
#include <bearing/encodings/sandwich.hpp>
#include <cmath>

#include "terms/checks.hpp"

namespace bearing {

using text::concat;

namespace {

constexpr Index block = 64;  // distances that share a first one, whose cosines they are computed from

}  // namespace

template <class A>
SandwichBias<A>::SandwichBias(const Sandwich& sandwich) : heads_(sandwich.heads) {
  if (sandwich.dim < 2 || sandwich.dim % 2 != 0) {
    throw ShapeError(concat("[SandwichBias] dim: must be even and at least 2, got ", sandwich.dim));
  }
  if (sandwich.heads < 1) throw RangeError(concat("[SandwichBias] heads: must be at least 1, got ", sandwich.heads));
  if (!(sandwich.base > 0) || !std::isfinite(sandwich.base)) {
    throw RangeError(concat("[SandwichBias] base: must be positive and finite, got ", sandwich.base));
  }
  for (Index i = 0; i < sandwich.dim / 2; ++i) {
    theta_.push_back(std::pow(sandwich.base, -2 * static_cast<double>(i) / static_cast<double>(sandwich.dim)));
    for (Index t = 0; t < block; ++t) {
      cos_.push_back(std::cos(static_cast<double>(t) * theta_.back()));
      sin_.push_back(std::sin(static_cast<double>(t) * theta_.back()));
    }
  }
}

template <class A>
void SandwichBias<A>::check(const char* function, const Problem& problem) const {
  if (problem.heads == heads_) return;
  throw ShapeError(
      concat("[", function, "] Sandwich.heads: must be the ", problem.heads, " heads of the scores, got ", heads_));
}

template <class A>
void SandwichBias<A>::bias(Index head, Index n, const double* distance, A* b) const {
  const double ratio = 8 * static_cast<double>(head + 1) / static_cast<double>(heads_);
  const std::size_t pairs = theta_.size();
  for (Index done = 0; done < n;) {
    // A run of whole distances a + r, a + r + 1, … within one block: cos((a + r)θ) from a's and r's cosines and sines.
    const double a = std::floor(distance[done] / block) * block, r = distance[done] - a;
    const bool whole = r == std::floor(r);
    Index run = 1;
    if (whole) {
      const Index most = std::min(n - done, block - static_cast<Index>(r));
      while (run < most && distance[done + run] == distance[done] + static_cast<double>(run)) ++run;
    }
    std::array<double, block> sum{};
    for (std::size_t i = 0; i < pairs; ++i) {
      if (!whole) {
        sum[0] += std::cos(distance[done] * theta_[i]);
        continue;
      }
      const double cos_a = std::cos(a * theta_[i]), sin_a = std::sin(a * theta_[i]);
      const std::size_t first = i * block + static_cast<std::size_t>(r);
      for (std::size_t t = 0; t < static_cast<std::size_t>(run); ++t) {
        sum[t] += cos_a * cos_[first + t] - sin_a * sin_[first + t];
      }
    }
    for (Index t = 0; t < run; ++t) b[done + t] = static_cast<A>(sum[static_cast<std::size_t>(t)] / ratio);
    done += run;
  }
}

template class SandwichBias<float>;
template class SandwichBias<double>;

}  // namespace bearing
