#include <bearing/encodings/rope_variants.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <numbers>

#include "text.hpp"

namespace bearing {

RopeFrequencies high_frequency(RopeFrequencies frequencies, Index trained_length) {
  if (trained_length < 1) {
    throw RangeError(text::concat("[high_frequency] trained_length: must be at least 1, got ", trained_length));
  }
  const double slowest = 2 * std::numbers::pi / static_cast<double>(trained_length);
  const std::size_t pairs = frequencies.inv_freq.size();
  for (std::size_t i = 0; i < pairs; ++i) {
    if (!(std::fabs(frequencies.inv_freq[i]) < slowest)) continue;
    frequencies.inv_freq[i] = 0;
    if (i < frequencies.inv_freq_rest.size()) frequencies.inv_freq_rest[i] = 0;
    for (std::size_t part = 0; part < 3; ++part) {
      if (part * pairs + i < frequencies.quarter_turns.size()) frequencies.quarter_turns[part * pairs + i] = 0;
    }
  }
  return frequencies;
}

RopeFrequencies negative_angle(RopeFrequencies frequencies) {
  for (double& theta : frequencies.inv_freq) theta = -theta;
  for (double& rest : frequencies.inv_freq_rest) rest = -rest;
  for (double& turns : frequencies.quarter_turns) turns = -turns;
  return frequencies;
}

}  // namespace bearing
