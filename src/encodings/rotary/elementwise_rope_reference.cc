#include <bearing/reference/elementwise_rope.hpp>
#include <cmath>

namespace bearing::reference {

namespace {

/// The pair of the rope that element e of the turned ones belongs to.
Index pair_of(const RopeFrequencies& rope, Index e) {
  if (rope.pairing == Pairing::interleaved) return e / 2;
  Index begin = 0;
  for (const Index pairs : rope.blocks) {
    if (e < 2 * (begin + pairs)) return begin + (e - 2 * begin) % pairs;
    begin += pairs;
  }
  return e % rope.pairs();
}

Index axis_of(const ElementwiseRope& spec, const RopeFrequencies& rope, Index e) {
  if (spec.sections.empty()) return rope.axis[static_cast<std::size_t>(pair_of(rope, e))];
  Index axis = 0;
  for (Index end = spec.sections[0]; e >= end; end += spec.sections[static_cast<std::size_t>(axis)]) ++axis;
  return axis;
}

}  // namespace

void elementwise_row(const ElementwiseRope& spec, const RopeFrequencies& rope, const double* p, View<const double, 1> x,
                     View<double, 1> y) {
  for (Index d = 0; d < rope.head_dim; ++d) {
    const Index e = d - rope.begin, half = rope.pairs();
    if (e < 0 || e >= rope.rotary_dim) {
      y(d) = x(d);
      continue;
    }
    const bool first = spec.joined == Pairing::interleaved ? e % 2 == 0 : e < half;
    const Index away = spec.joined == Pairing::interleaved ? 1 : half;
    const double angle = p[axis_of(spec, rope, e)] * rope.inv_freq[static_cast<std::size_t>(pair_of(rope, e))];
    const double other = first ? -x(d + away) : x(d - away);
    y(d) = rope.attention_factor * (x(d) * std::cos(angle) + other * std::sin(angle));
  }
}

}  // namespace bearing::reference
