#pragma once

#include <bearing/export.hpp>
#include <stdexcept>

namespace bearing {

// Every function checks its arguments before it writes anything: after an exception the outputs are as they were.
// The texts read "[function] argument: what must hold, got what". Any call that needs memory may throw std::bad_alloc
// too, before it writes anything unless its comment says otherwise.

/// A tensor, head or table has the wrong shape, stride or pairing, overlaps with another one, or lies where the host
/// cannot read it; or a spec contradicts itself.
struct BEARING_EXPORT ShapeError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// A number is outside its range: a position, a length, a frequency, an index past a table.
struct BEARING_EXPORT RangeError : std::out_of_range {
  using std::out_of_range::out_of_range;
};

/// A file cannot be read or written. The text names the file, the line and column or the JSON pointer, what must
/// hold and what was found.
struct BEARING_EXPORT ConfigError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace bearing
