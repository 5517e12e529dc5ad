#pragma once

#include <bearing/choose.hpp>
#include <optional>
#include <string>

// A situation's numbers: what was left open, how far a model at hand reaches, and texts with them.

namespace bearing::inspect {

/// What was left open, filled in. Throws RangeError and ShapeError, as choose() does.
Situation completed(Situation situation);

/// What the model at hand is for; empty if nothing says it.
std::optional<Task> task_at_hand(const Situation& situation);

/// The rotary spec of the model at hand, if it has one.
std::optional<Rope> rotary_at_hand(const Situation& situation);

/// How far a model at hand reaches already: as it was trained, as its scaling stretches that, or as its file says.
Index reach(const Situation& situation);

/// Whether more is wanted than that. Within a window no two tokens are further apart than in training.
bool is_longer(const Situation& situation);

/// A rule's text with its {numbers} filled in.
std::string filled(std::string text, const Situation& situation);

}  // namespace bearing::inspect
