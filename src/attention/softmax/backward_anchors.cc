#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "attention/softmax/backward.hpp"

// Rows whose lse is too large to tell a sum. A mask of −1e9 that hides a row whole leaves lse = −1e9 + ln n, which is
// −1e9 in float: exp(s − lse) is off by a factor of up to e^32. So the largest score m and Σ exp(s − m) are found
// again, in the same scores that probabilities are computed from, which are exp(s − m) / Σ exp(s − m) then, and never
// above 1.

namespace bearing {

namespace {

/// Below any logarithm of a weight, and far from the end of the range.
constexpr double most = 4096;

/// a − b, within ±most: numbers at both ends of the range have no difference in it.
double ahead(double a, double b) { return 2 * std::clamp(a / 2 - b / 2, -most / 2, most / 2); }

/// exp(−x), x ≥ 0, which leaves no errno.
double decay(double x) { return x < 700 ? std::exp(-x) : 0; }

/// Of a row whose largest score and sum are known. The lse given may be of more keys than this call's: of results that
/// were merged. Then their share is left to the others, as far as lse can tell: it has been through four roundings of
/// its own size where it was computed (bias, scale, sum; on matrix tiles a conversion to log2 and back more), and as
/// many here.
template <class A>
Anchor<A> anchor_of(const AttentionPlan<A>& plan, BackwardQueries<A>& queries, Index i) {
  constexpr double nothing = -std::numeric_limits<double>::infinity();
  const RowNumbers<A> numbers = queries.numbers(i);
  const auto lse = static_cast<double>(queries.lse(i));
  const auto& sinks = plan.call.options.sinks.value;
  const double sink = sinks.data == nullptr ? nothing : static_cast<double>(sinks(queries.h()));
  const double largest = static_cast<double>(*numbers.origin), sum = static_cast<double>(*numbers.log2_sum);
  const double unit = static_cast<double>(plan.scale_factors(queries.b()).logits);
  const double keys = largest == nothing ? nothing : unit * largest, top = std::max(keys, sink);
  if (top == nothing) return {0, static_cast<A>(most), 0};  // all that this call has is hidden
  const double above_keys = keys == nothing ? most : ahead(top, keys);
  const double above_sink = sink == nothing ? most : ahead(top, sink);
  const double total = sum * decay(above_keys) + (sink == nothing ? 0 : decay(above_sink));
  const double others = ahead(lse, top) - std::log(total);
  const double rounding = 4 * static_cast<double>(std::numeric_limits<A>::epsilon()) * std::abs(lse);
  const double left = others > rounding ? others : 0;
  const double below = (above_keys + left) * std::numbers::log2e + std::log2(total);
  const double share = sink == nothing ? 0 : decay(above_sink + left) / total;
  return {keys == nothing ? A{0} : *numbers.origin, static_cast<A>(below), static_cast<A>(share)};
}

}  // namespace

template <class A>
void BackwardWork<A>::anchors(Index b, Index h, Index row) {
  BackwardQueries<A>& queries = parts_.queries;
  const Columns all = queries.see(b, h, row);
  if (!queries.any_anchored()) return;
  open_head(b, h, false);
  queries.open();
  const RowNumbers<A> numbers = queries.numbers(0);
  std::fill_n(numbers.origin, queries.rows(), -std::numeric_limits<A>::infinity());
  std::fill_n(numbers.log2_sum, queries.rows(), A{0});
  const Index width = parts_.plan->tile_cols;
  for (Index col = all.first / width * width; col < all.end; col += width) {
    const Columns cols = queries.meeting(col, all);
    if (!cols.empty()) add_weights(parts_, cols);
  }
  for (Index i = 0; i < queries.rows(); ++i) {
    if (queries.anchored(i)) parts_.plan->anchor(b, h, row + i) = anchor_of(parts_.plan->scores, queries, i);
  }
}

#define BEARING_INSTANTIATE(A) template void BackwardWork<A>::anchors(Index, Index, Index);
BEARING_INSTANTIATE(double)
BEARING_INSTANTIATE(float)
#undef BEARING_INSTANTIATE

}  // namespace bearing
