#pragma once

#include <bearing/catalog.hpp>

// Examples of encodings, as their descriptions have them.

namespace bearing::inspect {

/// The side of a square of `length` patches, at least 1.
inline Index square_side(Index length) {
  Index side = 1;
  while ((side + 1) * (side + 1) <= length) ++side;
  return side;
}

/// An example of what a description names: its parameters are drawn from the seed. `spec` may be empty.
Specimen example_of(const Description& description, const SpecimenOptions& options, const Record& spec);

/// The same of an encoding with a spec and parameters that the caller has; `kept` lives as long as the specimen.
void act(Specimen& specimen, const EncodingInfo& info, const Record& spec, const Made<double>& made,
         const std::shared_ptr<const void>& kept);

}  // namespace bearing::inspect
