#include <algorithm>
#include <array>
#include <bearing/encodings/sandwich.hpp>
#include <cmath>

#include "describe/describer.hpp"
#include "encodings/limits.hpp"
#include "terms/checks.hpp"

namespace bearing {

using text::concat;

namespace {

constexpr Index block = 64;       // distances that share a first one, whose cosines they are computed from
constexpr Index nearest = 4'096;  // distances whose sums are kept

}  // namespace

template <class A>
SandwichBias<A>::SandwichBias(const Sandwich& sandwich) : heads_(sandwich.heads) {
  if (sandwich.dim < 2 || sandwich.dim > largest_dim || sandwich.dim % 2 != 0) {
    throw ShapeError(concat("[SandwichBias] dim: must be even and from 2 to ", largest_dim, ", got ", sandwich.dim));
  }
  if (sandwich.heads < 1) throw RangeError(concat("[SandwichBias] heads: must be at least 1, got ", sandwich.heads));
  if (!(sandwich.base > 0) || !std::isfinite(sandwich.base)) {
    throw RangeError(concat("[SandwichBias] base: must be finite and above 0, got ", sandwich.base));
  }
  for (Index i = 0; i < sandwich.dim / 2; ++i) {
    theta_.push_back(std::pow(sandwich.base, -2 * static_cast<double>(i) / static_cast<double>(sandwich.dim)));
    for (Index t = 0; t < block; ++t) {
      cos_.push_back(std::cos(static_cast<double>(t) * theta_.back()));
      sin_.push_back(std::sin(static_cast<double>(t) * theta_.back()));
    }
  }
  near_.resize(nearest);
  for (Index a = 0; a < nearest; a += block) block_sums(static_cast<double>(a), near_.data() + a);
}

template <class A>
void SandwichBias<A>::check(const char* function, const Problem& problem) const {
  check_present(function, "Sandwich", !theta_.empty());
  if (problem.heads == heads_) return;
  throw ShapeError(
      concat("[", function, "] Sandwich.heads: must be the ", problem.heads, " heads of the scores, got ", heads_));
}

/// sums[r] = Σ_i cos((a + r)·θ_i), r < block, from the cosines and sines of a and of r.
template <class A>
void SandwichBias<A>::block_sums(double a, double* sums) const {
  std::fill_n(sums, block, 0.0);
  for (std::size_t i = 0; i < theta_.size(); ++i) {
    const double cos_a = std::cos(a * theta_[i]), sin_a = std::sin(a * theta_[i]);
    const double *cos_r = cos_.data() + i * block, *sin_r = sin_.data() + i * block;
    for (Index r = 0; r < block; ++r) sums[r] += cos_a * cos_r[r] - sin_a * sin_r[r];
  }
}

template <class A>
void SandwichBias<A>::bias(Index head, Index n, const double* distance, A* b) const {
  const double ratio = 8 * static_cast<double>(head + 1) / static_cast<double>(heads_);
  std::array<double, block> far{};  // sums from `first` on: neighbours mostly share them
  double first = -1;
  for (Index i = 0; i < n; ++i) {
    const double x = std::abs(distance[i]);
    double sum = 0;
    if (x != std::floor(x)) {
      for (const double theta : theta_) sum += std::cos(x * theta);
    } else if (x < static_cast<double>(nearest)) {
      sum = near_[static_cast<std::size_t>(x)];
    } else {
      const double a = std::floor(x / block) * block;
      if (a != first) block_sums(first = a, far.data());
      sum = far[static_cast<std::size_t>(x - a)];
    }
    b[i] = static_cast<A>(sum / ratio);
  }
}

template class SandwichBias<float>;
template class SandwichBias<double>;

void describe_sandwich(Describer& to) {
  to.home("sandwich", {"Chi et al.", 2023, "arXiv 2212.10356"});
  to.record("Sandwich", Sandwich{},
            "Sandwich: the product of the sinusoidal encodings of query and key.\n\n"
            "    s_ij <- s_ij + H/(8h) sum_i cos((n - m) base^(-2i/dim)),   i = 0 ... dim/2 - 1, h = 1 ... H\n\n"
            "Chi, Fan, Rudnicky, Ramadge 2023, arXiv 2212.10356.")
      .member("heads", &Sandwich::heads, "How many heads there are: H.")
      .member("dim", &Sandwich::dim, "How many columns the sinusoids have, an even number; it need not be the model's.")
      .member("base", &Sandwich::base, "The longest wavelength is a little less than 2 pi times this.");
  to.encoding<Sandwich>(
        "SandwichBias",
        "Sandwich as a bias by distance; nothing is learned. Positions may be real numbers; whole ones\n"
        "are much faster.\n\n"
        "    s_ij <- s_ij + H/(8h) sum_i cos((n - m) base^(-2i/dim))\n\n"
        "Chi, Fan, Rudnicky, Ramadge 2023, arXiv 2212.10356.",
        {}, make_with_spec<SandwichBias>)
      .form(Form::distance)
      .called("sandwich", "Sandwich", "products of sinusoids, as a bias",
              [](const ExampleSize& size) { return Sandwich{.heads = size.heads}; });
}

}  // namespace bearing
