#include <bearing/encodings/xpos.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "encodings/limits.hpp"
#include "encodings/rotary/rope_call.hpp"
#include "encodings/rotary/rope_phases.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

void PhaseDecay::apply(double p, double* cos, double* sin) const {
  const double exponent = sign * (p - centre) / scale_base;
  for (std::size_t i = 0; i < log2_zeta.size(); ++i) {
    const double factor = std::exp2(exponent * log2_zeta[i]);
    cos[i] *= factor;
    sin[i] *= factor;
  }
}

bool PhaseDecay::in_range(double p) const {
  // ζ grows with the pair, so the first pair's factor is the extreme one.
  return log2_zeta.empty() || std::fabs((p - centre) / scale_base * log2_zeta.front()) <= 100;
}

std::vector<double> xpos_decay(const Xpos& xpos) {
  if (xpos.rope.head_dim < 2 || xpos.rope.head_dim > largest_dim) {
    throw ShapeError(
        concat("[xpos_decay] rope.head_dim: must be from 2 to ", largest_dim, ", got ", xpos.rope.head_dim));
  }
  const Index rotary_dim = xpos.rope.turned();
  if (rotary_dim < 2 || rotary_dim % 2 != 0 || rotary_dim > xpos.rope.head_dim) {
    throw ShapeError(concat("[xpos_decay] rope.rotary_dim: must be even and from 2 to head_dim = ", xpos.rope.head_dim,
                            ", got ", rotary_dim));
  }
  std::vector<double> zeta(static_cast<std::size_t>(rotary_dim / 2));
  for (std::size_t i = 0; i < zeta.size(); ++i) {
    const double fraction = 2 * static_cast<double>(i) / static_cast<double>(rotary_dim);
    zeta[i] = (fraction + xpos.gamma) / (1 + xpos.gamma);
  }
  return zeta;
}

namespace {

void check(const char* function, const Xpos& xpos) {
  const auto must = [&](const char* argument, bool holds, const char* what, double got) {
    if (!holds) throw RangeError(concat("[", function, "] ", argument, ": must be ", what, ", got ", got));
  };
  must("scale_base", std::isfinite(xpos.scale_base) && xpos.scale_base > 0, "finite and above 0", xpos.scale_base);
  must("gamma", std::isfinite(xpos.gamma) && xpos.gamma > 0, "finite and above 0", xpos.gamma);
  must("centre", std::fabs(xpos.centre) <= static_cast<double>(max_position), "within 2^31 of 0", xpos.centre);
  if (xpos.rope.axes != RopeAxes{}) {
    throw ShapeError(
        concat("[", function, "] rope.axes: must be one axis, as xPos decays along one distance, got several"));
  }
}

PhaseDecay decay(const Xpos& xpos, double sign) {
  PhaseDecay d{{}, xpos.centre, xpos.scale_base, sign};
  const std::vector<double> zeta = xpos_decay(xpos);
  d.log2_zeta.resize(static_cast<std::size_t>(padded_pairs(static_cast<Index>(zeta.size()))));
  for (std::size_t i = 0; i < zeta.size(); ++i) d.log2_zeta[i] = std::log2(zeta[i]);
  return d;
}

template <class T>
RopeTable<T> one_table(const Xpos& xpos, double sign, Index length, const TableOptions& options, const Executor& on) {
  check("XposTable", xpos);
  PhaseDecay d = decay(xpos, sign);
  if (length > 0) {
    for (const double p : {0.0, static_cast<double>(length - 1)}) {
      if (!d.in_range(p)) {
        throw RangeError(concat("[XposTable] length: must keep xPos factors from 2^-100 to 2^100, got position ", p,
                                ", too far from the centre ", xpos.centre));
      }
    }
  }
  return table_with_decay<T>(resolve_told("XposTable", xpos.rope, length, options), std::move(d), length,
                             options.memory, on);
}

}  // namespace

template <class T>
XposTable<T>::XposTable(const Xpos& xpos, Index length, const TableOptions& options, const Executor& on)
    : q(one_table<T>(xpos, 1, length, options, on)), k(one_table<T>(xpos, -1, length, options, on)) {}

template <class T>
void rebase(const Xpos& xpos, const Positions& old_positions, const Positions& new_positions, View<T, 4> k,
            const Executor& on) {
  check("rebase", xpos);
  if (depends_on_length(xpos.rope.scaling)) {
    throw RangeError(concat("[rebase] rope.scaling: must give the same frequencies at every length, as ",
                            "ExplicitFrequencies with those of the keys' table do, got ",
                            scaling_name(xpos.rope.scaling)));
  }
  const RopeFrequencies frequencies = resolve(xpos.rope);
  check_heads("rebase", "k", k, frequencies.head_dim);
  check_distinct("rebase", "k", k);
  const Index batch = k.shape[0], time = k.shape[2];
  old_positions.check("rebase", "old_positions", 1, batch, time);
  new_positions.check("rebase", "new_positions", 1, batch, time);
  CallMemory memory("rebase");
  memory.reads_positions("old_positions", old_positions)
      .reads_positions("new_positions", new_positions)
      .writes("k", k)
      .check();
  if (k.size() == 0) return;
  // ζ^(−(p'−c)/B)·R(p'θ) over ζ^(−(p−c)/B)·R(pθ) is the key's phase at p' − p, with the centre at 0.
  std::vector<double> moved(static_cast<std::size_t>(batch * time));
  PhaseDecay d = decay(xpos, -1);
  d.centre = 0;
  for (Index b = 0; b < batch; ++b) {
    for (Index t = 0; t < time; ++t) {
      const double by = new_positions.real(0, b, t) - old_positions.real(0, b, t);
      if (!d.in_range(by)) {
        throw RangeError(
            concat("[rebase] new_positions: must keep xPos factors from 2^-100 to 2^100, got a move by ", by));
      }
      moved[static_cast<std::size_t>(b * time + t)] = by;
    }
  }
  RopeFrequencies turn = frequencies;
  turn.attention_factor = 1;
  const auto table = table_with_decay<Compute<T>>(std::move(turn), std::move(d), 0, TableMemory::full, on);
  RotateCall<T> call{.phases = &table.phases(),
                     .at = dense<const double>(moved.data(), batch, time),
                     .in = k,
                     .out = k,
                     .frequencies = &table.phases().frequencies,
                     .begin = frequencies.begin,
                     .pairing = frequencies.pairing};
  run(call, on);
}

template struct XposTable<float>;
template struct XposTable<double>;
template void rebase(const Xpos&, const Positions&, const Positions&, View<double, 4>, const Executor&);
template void rebase(const Xpos&, const Positions&, const Positions&, View<float, 4>, const Executor&);
template void rebase(const Xpos&, const Positions&, const Positions&, View<Bfloat16, 4>, const Executor&);
template void rebase(const Xpos&, const Positions&, const Positions&, View<Float16, 4>, const Executor&);

}  // namespace bearing
