#pragma once

#include <bearing/choose.hpp>

// What `choose` measures of an encoding.

namespace bearing::inspect {

/// An encoding that may be named, as it is said and as it is made.
struct Candidate {
  std::string text;  ///< "rope_yarn:factor=4,trained_length=2048"
  Description description;
};

/// The size at which properties are measured: few enough numbers that a check takes some hundredths of a second.
SpecimenOptions measured_size(const Situation& situation);

/// The size at which the encoding of a model at hand is measured: with all of its heads, as it may have numbers for
/// each, or with the columns of its input.
SpecimenOptions size_at_hand(const Situation& situation);

/// Tokens at which attention is timed: as many as wanted, at most 1,024.
Index timed_length(const Situation& situation);

/// A property as a sentence: "Only distances count: 24 tokens moved by up to 2048: …".
Reason property_reason(const Property& property);

/// What of the angles that a rotary encoding turns by at the wanted length was not there at the trained one, where it
/// was trained as `before`.
Reason pairs_seen(const Rope& before, const Rope& after, const Situation& situation);

/// Parameters and memory at the measured length with all heads, and the time now, of one head or, of what a model at
/// hand has, of all. Attention without an encoding is timed beside it, in turns.
Costs costs_of(const Description& encoding, const Situation& situation, bool at_hand, const Executor& on);

/// Bytes in float32 at the wanted length, by how the numbers that are held grow.
double bytes_wanted(const Costs& costs, const Situation& situation);

}  // namespace bearing::inspect
