#pragma once

#include <bearing/encodings/rope.hpp>

namespace bearing::inspect {

/// The rotation as it was trained, before it was stretched: without its scaling. p-RoPE keeps the pairs that never
/// turn, and frequencies that are given themselves stay.
inline Rope before_scaling(Rope rope) {
  if (const auto* part = std::get_if<ProportionalScaling>(&rope.scaling)) {
    rope.scaling = ProportionalScaling{.fraction = part->fraction};
  } else if (!std::holds_alternative<ExplicitFrequencies>(rope.scaling)) {
    rope.scaling = NoScaling{};
  }
  return rope;
}

}  // namespace bearing::inspect
