#pragma once

#include <bearing/encodings/position_temperature.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "text.hpp"

// What must hold of a temperature by position, for the encodings that have one.

namespace bearing {

/// Throws RangeError for a beta that is not finite, a length that is not above 0 or a first beyond ±2^31.
inline void check_temperature(const char* encoding, const PositionTemperature& temperature) {
  if (!std::isfinite(temperature.beta)) {
    throw RangeError(text::concat("[", encoding, "] beta: must be finite, got ", temperature.beta));
  }
  if (temperature.first < -max_position || temperature.first > max_position) {
    throw RangeError(text::concat("[", encoding, "] first: must be from -2^31 to 2^31, got ",
                                  static_cast<Index>(temperature.first)));
  }
  if (!(std::isfinite(temperature.length) && temperature.length > 0)) {
    throw RangeError(text::concat("[", encoding, "] length: must be finite and above 0, got ", temperature.length));
  }
}

/// Throws RangeError for a position that no factor belongs to.
inline void check_places(const char* function, const PositionTemperature& temperature, const Problem& problem) {
  const auto least = -static_cast<double>(temperature.first);
  for (Index b = 0; b < problem.batch; ++b) {
    for (Index i = 0; i < problem.q_len; ++i) {
      const double m = problem.q_positions->real(0, b, i);
      if (m >= least) continue;
      throw RangeError(text::concat(
          "[", function, "] positions: temperature needs positions of at least -first = ", least, ", got ", m));
    }
  }
}

}  // namespace bearing
