#pragma once

#include <bearing/catalog.hpp>
#include <stdexcept>
#include <string>

#include "arguments.hpp"
#include "command.hpp"
#include "errors.hpp"

namespace bearing::tool {

/// The size of an example, as the command line gives it: --heads, --dim, --length, --seed.
struct SizeOptions {
  std::string heads, dim, length, seed;

  void add_to(Command& command);
  /// Throws UsageError for a number out of range.
  inspect::SpecimenOptions parse() const;
};

/// The catalog's entry of that name; UsageError naming the nearest ones if there is none.
const Description& entry_of(const std::string& command, const std::string& stem);

/// Calls body(); what the library refuses (an odd dimension, say) is a wrong command line.
template <class Body>
void with_library_errors(const std::string& command, const Body& body) {
  try {
    body();
  } catch (const std::logic_error& error) {  // ShapeError, RangeError
    throw UsageError(command + ": " + without_function(error.what()));
  }
}

}  // namespace bearing::tool
