#include <algorithm>
#include <bearing/encodings/t5.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "describe/describer.hpp"
#include "numeric/wide.hpp"
#include "terms/checks.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

constexpr Index most_buckets = Index{1} << 20;

Index buckets_of_a_side(const T5& t5) {
  const Index buckets = t5.direction == T5Direction::bidirectional ? t5.buckets / 2 : t5.buckets;
  if (buckets < 2 || t5.buckets > most_buckets) {
    throw RangeError(
        concat("[T5] buckets: must leave each direction at least 2, and be at most 2^20, got ", t5.buckets));
  }
  if (t5.max_distance <= buckets / 2 || t5.max_distance > max_position) {
    throw RangeError(concat("[T5] max_distance: must be more than the ", buckets / 2,
                            " distances that have a bucket each, and at most 2^31, got ", t5.max_distance));
  }
  return buckets;
}

/// ln(x/e)/ln(D/e)·steps ≥ step: (x/e)^p ≥ (D/e)^k with k/p = step/steps in lowest terms. Both sides can only be equal
/// if D/e is a fraction to the power of p, whose numerator to that power divides D: for p ≤ 31 then. Up to there whole
/// numbers decide; beyond, where they would grow to millions of bits, logarithms of 192 bits tell the sides apart.
bool reaches(Index x, Index step, Index steps, Index e, Index max_distance) {
  const Index shared = std::gcd(step, steps);
  const auto k = static_cast<unsigned>(step / shared), p = static_cast<unsigned>(steps / shared);
  if (p > 31) {
    using detail::Wide;
    return Index{p} * log(Wide(x) / e) >= Index{k} * log(Wide(max_distance) / e);
  }
  return detail::at_least({x, p}, {e, k}, {max_distance, k}, {e, p});
}

}  // namespace

std::vector<Index> t5_thresholds(const T5& t5) {
  const Index buckets = buckets_of_a_side(t5), e = buckets / 2, steps = buckets - e;
  std::vector<Index> thresholds(static_cast<std::size_t>(buckets));
  std::iota(thresholds.begin(), thresholds.begin() + e, Index{0});
  const double log_ratio = std::log(static_cast<double>(t5.max_distance) / static_cast<double>(e));
  for (Index step = 0; step < steps; ++step) {
    const double real =
        static_cast<double>(e) * std::exp(static_cast<double>(step) / static_cast<double>(steps) * log_ratio);
    Index x = static_cast<Index>(std::ceil(real));
    // exp and log of numbers up to 22 are right to 2^-46; only a whole number nearer than that is in doubt.
    const double whole = std::round(real);
    if (std::abs(real - whole) <= 0x1p-44 * whole) {
      x = static_cast<Index>(whole);
      if (!reaches(x, step, steps, e, t5.max_distance)) ++x;
    }
    thresholds[static_cast<std::size_t>(e + step)] = x;
  }
  return thresholds;
}

T5Buckets::T5Buckets(const T5& t5) : spec_(t5), thresholds_(t5_thresholds(t5)) {
  // The last of them begins the last bucket, or these are 8 KiB and what lies further on is searched.
  constexpr Index most = 1024;
  for (Index x = 0, bucket = 0; x <= std::min(thresholds_.back(), most - 1); ++x) {
    while (bucket + 1 < std::ssize(thresholds_) && thresholds_[static_cast<std::size_t>(bucket + 1)] <= x) ++bucket;
    near_.push_back(bucket);
  }
}

Index T5Buckets::operator()(Index distance) const {
  if (spec_.direction == T5Direction::causal && distance > 0) distance = 0;
  const auto size = static_cast<std::uint64_t>(distance), x = distance < 0 ? 0 - size : size;
  if (x >= near_.size()) return interval(distance).bucket;
  return near_[x] + (distance > 0 ? std::ssize(thresholds_) : 0);
}

T5Buckets::Interval T5Buckets::interval(Index distance) const {
  constexpr Index far = std::numeric_limits<Index>::max();
  const bool causal = spec_.direction == T5Direction::causal;
  if (causal && distance >= 0) return {0, 0, far};
  const Index x = distance < 0 ? -std::max(distance, -far) : distance;
  const auto next = std::upper_bound(thresholds_.begin(), thresholds_.end(), x);
  const Index bucket = next - thresholds_.begin() - 1;
  const Index first = *(next - 1), last = next == thresholds_.end() ? far : *next - 1;
  if (distance > 0) return {static_cast<Index>(thresholds_.size()) + bucket, first, last};
  return {bucket, -last, -first};
}

Index t5_bucket(const T5& t5, Index distance) { return T5Buckets(t5)(distance); }

template <class A>
void T5Bias<A>::check(const char* function, const Problem& problem) const {
  check_present(function, "T5", !buckets_.thresholds().empty());
  check_param(function, "T5.table", table_, {buckets_.spec().buckets, problem.heads}, "[buckets, heads]");
  check_whole(function, "T5", problem);
}

namespace {

/// each(first, end, bucket) for runs of distances that lie in one bucket: neighbours mostly do.
template <class Each>
void over_runs(const T5Buckets& buckets, Index n, const double* distance, const Each& each) {
  for (Index first = 0, end = 0; first < n; first = end) {
    const T5Buckets::Interval in = buckets.interval(static_cast<Index>(distance[first]));
    const auto low = static_cast<double>(in.first), high = static_cast<double>(in.last);
    for (end = first + 1; end < n && distance[end] >= low && distance[end] <= high;) ++end;
    each(first, end, in.bucket);
  }
}

}  // namespace

template <class A>
void T5Bias<A>::bias(Index head, Index n, const double* distance, A* b) const {
  over_runs(buckets_, n, distance,
            [&](Index first, Index end, Index bucket) { std::fill(b + first, b + end, table_.value(bucket, head)); });
}

template <class A>
void T5Bias<A>::bias_grads(Index, Index n, const double* distance, const A* d_b, A* d_params) const {
  over_runs(buckets_, n, distance, [&](Index first, Index end, Index bucket) {
    double sum = 0;
    for (Index i = first; i < end; ++i) sum += static_cast<double>(d_b[i]);
    d_params[bucket] += static_cast<A>(sum);
  });
}

template class T5Bias<float>;
template class T5Bias<double>;

void describe_t5(Describer& to) {
  to.home("t5", {"Raffel et al.", 2020, "arXiv 1910.10683"});
  to.record("T5", T5{.direction = T5Direction::bidirectional},
            "T5's relative bias: distances fall into buckets, exact near the query and logarithmically wider further "
            "on.\n\n"
            "    s_ij <- s_ij + table[bucket(n - m), h]\n\n"
            "for a query at m, a key at n and head h, with a learned table [buckets, heads]: T5Bias.\n\n"
            "T5 does not divide its scores by the root of dim: give attention() scale=1.\n\n"
            "    t5 = bearing.T5(direction='bidirectional')\n"
            "    out = bearing.attention(q, k, v, [bearing.T5Bias(t5, table)], mask='none', scale=1.0)\n\n"
            "Raffel et al. 2020, arXiv 1910.10683.")
      .member("buckets", &T5::buckets, "Buckets of both sides together (a config's relative_attention_num_buckets).")
      .member("max_distance", &T5::max_distance,
              "Keys so many tokens away and further share the last bucket (relative_attention_max_distance).")
      .member("direction", &T5::direction,
              "'bidirectional' in encoders, whose later half of the buckets is for keys after the query; 'causal' in "
              "decoders, where those share the bucket of distance 0 and are meant to be masked.");
  const Rule start{"normal, of standard deviation d_model^-1/2, as in Hugging Face's T5; at 0 without d_model",
                   [](const Filling& all) {
                     const double d_model = all.number.value_or(0);
                     describe::normal(d_model > 0 ? 1 / std::sqrt(d_model) : 0).fill(all);
                   },
                   "d_model"};
  to.encoding<T5, 2>("T5Bias",
                     "T5's bias: table [buckets, heads], in most files called relative_attention_bias.weight.\n\n"
                     "    s_ij <- s_ij + table[bucket(n - m), h]\n\n"
                     "Positions are whole numbers. The first layer owns the table and all layers add it: add up their\n"
                     "gradients.\n\nRaffel et al. 2020, arXiv 1910.10683.",
                     {Parameter("table", {"buckets", "heads"}, "A number for each bucket and head.")
                          .starts(start)
                          .draws(normal(1))
                          .is_picked_from()},
                     make_with_spec<T5Bias>)
      .form(Form::distance)
      .module("T5Bias")
      .whole_positions()
      .softmax_scale([](const T5&, Index) { return 1.0; })
      .causal([](const T5& t5) { return t5.direction == T5Direction::causal; })
      .both_sides([](const T5& t5) { return t5.direction == T5Direction::bidirectional; })
      .called("t5", "T5 buckets, both directions", "a learned bias per range of distance",
              [](const ExampleSize&) { return T5{.direction = T5Direction::bidirectional}; })
      .also({"t5_bidirectional"})
      .called("t5_causal", "T5 buckets, causal", "T5 buckets of a decoder",
              [](const ExampleSize&) { return T5{.direction = T5Direction::causal}; });
  to.function("t5_thresholds", t5_thresholds, {"spec"},
              "Lists the least |distance| of each bucket of one side, rising: buckets/2 numbers if bidirectional, else "
              "buckets.");
  to.function("t5_bucket", t5_bucket, {"spec", "distance"}, "Returns the bucket of a distance, key minus query.");
}

}  // namespace bearing
