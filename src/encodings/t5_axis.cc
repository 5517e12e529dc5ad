#include <bearing/encodings/t5_axis.hpp>
#include <cmath>

#include "encodings/t5_tiles.hpp"

namespace bearing {

using text::concat;

template <class A>
T5AxisBias<A>::T5AxisBias(const T5Axis& spec, Param<A, 2> table) : spec_(spec), buckets_(spec.t5()), table_(table) {
  if (spec.axis < 0 || spec.axis >= max_axes) {
    throw ShapeError(
        concat("[T5Axis] axis: must be between 0 and ", max_axes - 1, ", got ", static_cast<Index>(spec.axis)));
  }
  const auto check_finite = [](const char* member, double x) {
    if (!std::isfinite(x)) throw RangeError(concat("[T5Axis] ", member, ": must be finite, got ", x));
  };
  check_finite("multiplier", spec.multiplier);
  check_finite("scale", spec.scale);
}

template <class A>
void T5AxisBias<A>::check(const char* function, const Problem& problem) const {
  check_present(function, "T5Axis", !buckets_.thresholds().empty());
  check_param(function, "T5Axis.table", table_, {spec_.buckets, problem.heads}, "[buckets, heads]");
  const auto check_side = [&](const char* argument, const Positions& at, Index time) {
    if (spec_.axis >= at.axes()) {
      throw ShapeError(concat("[", function, "] ", argument, ": must have the axis T5Axis.axis = ",
                              static_cast<Index>(spec_.axis), ", got ", at.axes(), " axes"));
    }
    if (spec_.multiplier == 1) check_whole(function, argument, "T5Axis", at, problem.batch, time, spec_.axis);
  };
  check_side("q_positions", *problem.q_positions, problem.q_len);
  check_side("k_positions", *problem.k_positions, problem.k_len);
}

namespace {

T5Distances distances(const T5Axis& spec) {
  return {static_cast<std::size_t>(static_cast<Index>(spec.axis)), spec.multiplier};
}

}  // namespace

template <class A>
void T5AxisBias<A>::add_scores(const Tile<A>& tile, A* s) const {
  const auto scale = static_cast<A>(spec_.scale);
  add_t5(
      T5Rows<A>(buckets_, distances(spec_), table_.value, tile), tile, [&](Index) { return scale; }, s);
}

template <class A>
void T5AxisBias<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (grads.params == nullptr) return;
  const auto scale = static_cast<A>(spec_.scale);
  T5Rows<A>(buckets_, distances(spec_), table_.value, tile)
      .add_grads(
          d_s, [&](Index) { return scale; }, grads.params);
}

template <class A>
void T5AxisBias<A>::collect(Index, Index head, const A* d_params) const {
  for (Index u = 0; u < spec_.buckets; ++u) table_.grad(u, head) += d_params[u];
}

template class T5AxisBias<float>;
template class T5AxisBias<double>;

}  // namespace bearing
