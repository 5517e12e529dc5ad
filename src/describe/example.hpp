#pragma once

#include <bearing/catalog.hpp>
#include <deque>
#include <memory>

// Examples of encodings, as their descriptions have them.

namespace bearing::inspect {

/// The largest square of at most `length` patches, and of at least 1.
inline GridSize square_grid(Index length) {
  Index side = 1;
  while ((side + 1) * (side + 1) <= length) ++side;
  return {side, side};
}

/// An encoding with parameters that are drawn as its description says, and that live as long as this.
template <class A>
struct Drawn {
  std::deque<std::vector<A>> parameters;
  Index learned = 0, held = 0;  ///< numbers: those that training learns, and all of them
  Made<A> made;
};

/// A is double or float. `computed`: the parameter that it gives, whose numbers are drawn too, has the shape of that
/// call.
template <class A>
std::shared_ptr<const Drawn<A>> drawn_encoding(const EncodingInfo& info, const Record& spec,
                                               const SpecimenOptions& options, const ComputedInfo* computed = nullptr,
                                               const ComputedCall& call = {});

/// An example of what a description names: its parameters are drawn from the seed. `spec` may be empty.
Specimen example_of(const Description& description, const SpecimenOptions& options, const Record& spec);

/// An example that does nothing yet.
Specimen blank(const EncodingInfo& info, const Record& spec, const SpecimenOptions& options);

/// The same of an encoding with a spec and parameters that the caller has; `kept` lives as long as the specimen.
void act(Specimen& specimen, const EncodingInfo& info, const Record& spec, const Made<double>& made,
         const std::shared_ptr<const void>& kept);

}  // namespace bearing::inspect
