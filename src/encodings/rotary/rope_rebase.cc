#include <bearing/encodings/rope_rebase.hpp>
#include <bearing/error.hpp>

#include "encodings/rotary/rope_call.hpp"
#include "text.hpp"

namespace bearing {
namespace {

void check_same_geometry(const RopeFrequencies& from, const RopeFrequencies& to) {
  const auto must = [](const char* what, Index a, Index b) {
    if (a != b) {
      throw ShapeError(text::concat("[rebase] to: must have the same ", what, " as from, ", a, ", got ", b));
    }
  };
  must("head_dim", from.head_dim, to.head_dim);
  must("rotary_dim", from.rotary_dim, to.rotary_dim);
  must("begin", from.begin, to.begin);
  must("number of axes", from.axes, to.axes);
  const auto name = [](Pairing pairing) { return pairing == Pairing::half ? "half" : "interleaved"; };
  if (from.pairing != to.pairing) {
    throw ShapeError(text::concat("[rebase] to: must have the same pairing as from, ", name(from.pairing), ", got ",
                                  name(to.pairing)));
  }
  if (from.blocks != to.blocks) {
    throw ShapeError(
        text::concat("[rebase] to: must halve the same blocks as from, ", from.blocks, ", got ", to.blocks));
  }
  for (std::size_t pair = 0; pair < std::min(from.axis.size(), to.axis.size()); ++pair) {
    if (from.axis[pair] == to.axis[pair]) continue;
    throw ShapeError(text::concat("[rebase] to: each pair must be turned by the same axis as in from, ",
                                  from.axis[pair], " for pair ", static_cast<Index>(pair), ", got ", to.axis[pair]));
  }
}

}  // namespace

template <class T>
void rebase(const RopeFrequencies& from, const Positions& old_positions, const RopeFrequencies& to,
            const Positions& new_positions, View<T, 4> k, const Executor& on) {
  check_same_geometry(from, to);
  check_heads("rebase", "k", k, to.head_dim);
  check_distinct("rebase", "k", k);
  old_positions.check("rebase", "old_positions", from.axes, k.shape[0], k.shape[2]);
  new_positions.check("rebase", "new_positions", to.axes, k.shape[0], k.shape[2]);
  CallMemory memory("rebase");
  memory.reads_positions("old_positions", old_positions)
      .reads_positions("new_positions", new_positions)
      .writes("k", k)
      .check();
  const PhaseFrequencies from_phases(from), to_phases(to);
  const typename RotateCall<T>::Rebase move{&from_phases, &to_phases, old_positions,
                                            to_phases.attention_factor / from_phases.attention_factor};
  RotateCall<T> call{.rebase = &move,
                     .at = new_positions,
                     .in = k,
                     .out = k,
                     .frequencies = &to_phases,
                     .begin = to.begin,
                     .pairing = to.pairing};
  run(call, on);
}

template <class T>
void shift(const RopeFrequencies& frequencies, Index by, View<T, 4> k, const Executor& on) {
  if (frequencies.angles != Angles::exact) {
    throw RangeError(
        "[shift] frequencies: must have exact angles, as the roundings of float32 angles depend on both positions, "
        "which rebase() takes, got Angles::as_float32");
  }
  check_heads("shift", "k", k, frequencies.head_dim);
  check_distinct("shift", "k", k);
  const View<const Index, 2> everywhere{&by, {k.shape[0], k.shape[2]}, {0, 0}};
  Positions(everywhere).check("shift", "by", frequencies.axes, k.shape[0], k.shape[2]);
  // R((p + by)θ − pθ) = R(by·θ), the same for every token; the attention factor is in the keys already.
  RopeFrequencies turn = frequencies;
  turn.attention_factor = 1;
  const RopeTable<Compute<T>> table(std::move(turn), 0);
  RotateCall<T> call{.phases = &table.phases(),
                     .at = everywhere,
                     .in = k,
                     .out = k,
                     .frequencies = &table.phases().frequencies,
                     .begin = frequencies.begin,
                     .pairing = frequencies.pairing};
  run(call, on);
}

#define BEARING_INSTANTIATE(T)                                                                                         \
  template void rebase(const RopeFrequencies&, const Positions&, const RopeFrequencies&, const Positions&, View<T, 4>, \
                       const Executor&);                                                                               \
  template void shift(const RopeFrequencies&, Index, View<T, 4>, const Executor&);
BEARING_INSTANTIATE(double)
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(Bfloat16)
BEARING_INSTANTIATE(Float16)
#undef BEARING_INSTANTIATE

}  // namespace bearing
