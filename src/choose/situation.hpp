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

/// Whether the coordinates of the model at hand run across an image, whatever its size: none lies past those of
/// training.
bool spans_image(const Situation& situation);

/// Whether the axes of the model at hand are the rows and columns of an image, and count patches: then the side of the
/// image counts, and not the number of its patches.
bool counts_by_side(const Situation& situation);

/// So many tokens along an axis: they themselves, or the longer side of an image of so many patches, in the proportions
/// of those of training.
Index along_axis(const Situation& situation, Index tokens);

/// "14 patches of a side" where the side counts, else "196 tokens".
std::string along_axis_text(const Situation& situation, Index tokens);

/// Whether more is wanted than the model reaches, along an axis. Within a window no two tokens are further apart than
/// in training, and where coordinates span the image no patch lies further out.
bool is_longer(const Situation& situation);

/// How many times as long as in training what is wanted is, along an axis.
double wanted_stretch(const Situation& situation);

/// A rule's text with its {numbers} filled in.
std::string filled(std::string text, const Situation& situation);

}  // namespace bearing::inspect
