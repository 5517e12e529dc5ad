#include "encodings/input/sinusoids.hpp"

#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>

#include "text.hpp"

namespace bearing {
namespace {

// The limits of the rotary frequencies, for the same reasons (rope.cc).
constexpr double largest_frequency = 0x1p13, smallest_frequency = 0x1p-800;

/// Room for so many pairs.
RopeFrequencies of_pairs(std::size_t pairs, double scale) {
  return {.head_dim = static_cast<Index>(2 * pairs),
          .rotary_dim = static_cast<Index>(2 * pairs),
          .pairing = Pairing::half,
          .attention_factor = scale,
          .inv_freq = std::vector<double>(pairs),
          .inv_freq_rest = std::vector<double>(pairs),
          .axis = std::vector<Index>(pairs),
          .quarter_turns = std::vector<double>(3 * pairs)};
}

RopeFrequencies row_frequencies(const std::vector<detail::Wide>& frequencies, double scale) {
  const std::size_t pairs = frequencies.size();
  RopeFrequencies f = of_pairs(pairs, scale);
  for (std::size_t i = 0; i < pairs; ++i) {
    const detail::ThreeDoubles radians = detail::three_doubles(frequencies[i]);
    const detail::ThreeDoubles turns = detail::three_doubles(frequencies[i] * 2 / detail::wide_pi());
    f.inv_freq[i] = radians.hi;
    f.inv_freq_rest[i] = radians.mid;
    f.quarter_turns[i] = turns.hi;
    f.quarter_turns[pairs + i] = turns.mid;
    f.quarter_turns[2 * pairs + i] = turns.lo;
  }
  return f;
}

/// `count` pairs of a row from `first` on.
RopeFrequencies part_of(const RopeFrequencies& row, std::size_t first, std::size_t count) {
  RopeFrequencies part = of_pairs(count, row.attention_factor);
  const auto copy = [=](const std::vector<double>& from, std::size_t at, std::vector<double>& to, std::size_t place) {
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at + first), count,
                to.begin() + static_cast<std::ptrdiff_t>(place));
  };
  copy(row.inv_freq, 0, part.inv_freq, 0);
  copy(row.inv_freq_rest, 0, part.inv_freq_rest, 0);
  for (std::size_t digits = 0; digits < 3; ++digits) {
    copy(row.quarter_turns, digits * row.inv_freq.size(), part.quarter_turns, digits * count);
  }
  return part;
}

}  // namespace

Sinusoids::Sinusoids(const char* function, const std::vector<detail::Wide>& frequencies, double scale) {
  for (const detail::Wide& frequency : frequencies) {
    const double size = std::fabs(frequency.to_double());
    if (size <= largest_frequency && (size >= smallest_frequency || frequency == 0)) continue;
    throw RangeError(
        text::concat("[", function, "] frequencies: must be 0 or from 2^-800 to 2^13 radians per token, got ", size));
  }
  const RopeFrequencies row = row_frequencies(frequencies, scale);
  whole_ = PhaseFrequencies(row);
  for (std::size_t first = 0; first < frequencies.size(); first += block_pairs) {
    const std::size_t count = std::min<std::size_t>(block_pairs, frequencies.size() - first);
    blocks_.emplace_back(part_of(row, first, count));
  }
}

void Sinusoids::phases(double p, Index block, double* cos, double* sin) const {
  phase_kernels().exact_phases(blocks_[static_cast<std::size_t>(block)], p, cos, sin);
}

void Sinusoids::prepare_sequences() {
  constexpr Index most = Index{1} << 13;  // 4 MiB; rows that wide are few in a table that fits in memory
  if (pairs() > most) return;
  steps_ = AlignedArray<double>(steps_size(whole_.padded));
  phase_kernels().prepare_steps(whole_, steps_.data());
}

void Sinusoids::sequence(Index first, Index count, const PhasesOut& to) const {
  phase_kernels().sequence_f32(whole_, steps_.data(), first, count, to);
}

}  // namespace bearing
