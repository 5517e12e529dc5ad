#include <bearing/encodings/t5_axis.hpp>
#include <cmath>

#include "describe/describer.hpp"
#include "encodings/distance/t5_tiles.hpp"

namespace bearing {

using text::concat;

template <class A>
T5AxisBias<A>::T5AxisBias(const T5Axis& spec, Param<A, 2> table) : spec_(spec), buckets_(spec.t5()), table_(table) {
  if (spec.axis < 0 || spec.axis >= max_axes) {
    throw ShapeError(
        concat("[T5Axis] axis: must be from 0 to ", max_axes - 1, ", got ", static_cast<Index>(spec.axis)));
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

void describe_t5_axis(Describer& to) {
  to.home("t5_axis", {"Xu et al.", 2021, "arXiv 2012.14740"});
  to.record("T5Axis", T5Axis{.direction = T5Direction::bidirectional, .axis = 0},
            "T5's buckets of one axis of positions that have several: a token's index in the text, its place on the "
            "page.\n\n"
            "    s_ij <- s_ij + scale table[bucket(multiplier (n_axis - m_axis)), h]\n\n"
            "Xu et al. 2021, arXiv 2012.14740 (LayoutLMv2); Huang et al. 2022, arXiv 2204.08387 (LayoutLMv3); Tang et "
            "al. 2023, arXiv 2212.02623 (UDOP).")
      .member("buckets", &T5Axis::buckets, "Buckets of both sides together (rel_pos_bins, rel_2d_pos_bins).")
      .member("max_distance", &T5Axis::max_distance,
              "Keys so far away and further share the last bucket (max_rel_pos, max_rel_2d_pos).")
      .member("direction", &T5Axis::direction, "'bidirectional' in all models of documents.")
      .member("axis", &T5Axis::axis, "The axis of the positions; 0 is the first.")
      .member("multiplier", &T5Axis::multiplier,
              "The factor of a difference of positions, before it is cut to a whole number: 100 in UDOP.")
      .member("scale", &T5Axis::scale, "The factor of the table's numbers: 1 over the root of head_dim in LayoutLMv3.");
  to.encoding<T5Axis, 2>("T5AxisBias",
                         "T5's bias on one axis: table [buckets, heads]. One for each axis; they add up.\n\n"
                         "    s_ij <- s_ij + scale table[bucket(multiplier (n_axis - m_axis)), h]\n\n"
                         "Positions on the axis are whole numbers, unless the multiplier is other than 1.\n\n"
                         "Xu et al. 2021, arXiv 2012.14740; Huang et al. 2022, arXiv 2204.08387.",
                         {Parameter("table", {"buckets", "heads"}, "A number for each bucket and head.")
                              .starts(constant(0))
                              .draws(normal(1))},
                         make_with_spec<T5AxisBias>)
      .form(Form::dense)
      .whole_positions([](const T5Axis& spec) { return spec.multiplier == 1; })
      .causal([](const T5Axis& spec) { return spec.direction == T5Direction::causal; })
      .both_sides([](const T5Axis& spec) { return spec.direction == T5Direction::bidirectional; })
      .grid([](const T5Axis& spec, Index length) { return spec.axis == 1 ? inspect::square_grid(length) : GridSize{}; })
      .called("t5_axis", "T5 buckets on one axis", "a learned bias per range of distance along one axis",
              [](const ExampleSize&) {
                return T5Axis{.buckets = 64, .max_distance = 256, .direction = T5Direction::bidirectional, .axis = 1};
              })
      .also({"layoutlm_bias"});
}

}  // namespace bearing
