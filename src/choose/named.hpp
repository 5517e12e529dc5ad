#pragma once

#include "choose/measure.hpp"
#include "choose/rules.hpp"

// What a rule names, at a situation's lengths and with the numbers of the model at hand.

namespace bearing::inspect {

struct Named {
  Candidate candidate;
  std::optional<Rope> before = {}, after = {};  ///< of a rotary one: as it was trained, and as it is used
};

/// `at_hand`: the model's own rotary spec, which keeps all of its numbers but the scaling.
Named named_by(const Rule& rule, const Situation& situation, const std::optional<Rope>& at_hand);

}  // namespace bearing::inspect
