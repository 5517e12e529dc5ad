#pragma once

#include "choose/measure.hpp"
#include "choose/rules.hpp"

// What a rule names, at a situation's lengths and with the numbers of the model at hand.

namespace bearing::inspect {

struct Named {
  Candidate candidate;
  std::optional<Rope> before = {}, after = {};  ///< of a rotary one: as it was trained, and as it is used
};

/// The encoding of the model at hand as a text; with its numbers, where a spec was given.
std::string text_at_hand(const Situation& situation);

/// `at_hand`: the model's own rotary spec, which keeps all of its numbers but the scaling.
Named named_by(const Rule& rule, const Situation& situation, const std::optional<Rope>& at_hand);

}  // namespace bearing::inspect
