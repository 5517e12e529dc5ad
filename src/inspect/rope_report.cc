#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/rope_report.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>

#include "inspect/before_scaling.hpp"
#include "text.hpp"

namespace bearing {
namespace {

using text::concat;

/// 131072 → "131,072"
std::string grouped(Index number) {
  std::string digits = concat(number);
  for (Index at = static_cast<Index>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

/// To so many significant digits.
std::string rounded(double number, int precision) {
  char digits[40];
  return {digits, std::to_chars(digits, digits + sizeof digits, number, std::chars_format::general, precision).ptr};
}

/// {3, 4, 5} of 8 → "pairs 3 to 5 (3 of 8)"; with gaps only the count and the first.
std::string describe(const std::vector<Index>& pairs, Index of) {
  const auto n = static_cast<Index>(pairs.size());
  if (n == 1) return concat("pair ", pairs.front(), " (1 of ", of, ")");
  if (pairs.back() - pairs.front() == n - 1) {
    return concat("pairs ", pairs.front(), " to ", pairs.back(), " (", n, " of ", of, ")");
  }
  return concat(n, " of ", of, " pairs (the first is ", pairs.front(), ")");
}

/// The longest sequence that shows these pairs no angle that `trained` tokens did not: a pair that a scaling divides by
/// f turns f times as many tokens through the same arc.
Index reach_of(const std::vector<Index>& pairs, const RopeFrequencies& before, const RopeFrequencies& now,
               Index trained) {
  double times = std::numeric_limits<double>::infinity();
  for (const Index pair : pairs) {
    const auto i = static_cast<std::size_t>(pair);
    times = std::min(times, std::abs(static_cast<double>(before.inv_freq[i]) / static_cast<double>(now.inv_freq[i])));
  }
  constexpr double rounding = 1 + 0x1p-40;  // of two frequencies and their quotient
  return static_cast<Index>(std::min(static_cast<double>(trained) * times * rounding, double{max_position}));
}

/// Which pairs completed no turn in training is a matter of the speeds that were trained, before any scaling.
void warn_about_turns(const Rope& rope, const RopeFrequencies& now, const RopeLengths& lengths,
                      std::vector<std::string>& warnings) {
  if (lengths.trained < 1) return;
  const Rope plain = inspect::before_scaling(rope);
  const RopeFrequencies before = resolve(plain);
  const std::vector<Index> pairs = unfinished_pairs(before, lengths.trained);
  if (pairs.empty()) return;
  const bool scaled = !(plain == rope);
  std::string said = concat(describe(pairs, now.pairs()), pairs.size() == 1 ? " turns" : " turn",
                            " less than once within the trained ", grouped(lengths.trained), " tokens",
                            scaled ? " before scaling" : "");
  if (depends_on_length(rope.scaling) && lengths.seq_len <= trained_length(rope.scaling)) {
    said += ": a longer sequence has other frequencies";
  } else {
    said += scaled ? concat(": as scaled, sequences longer than ",
                            grouped(reach_of(pairs, before, now, lengths.trained)), " tokens reach angles")
                   : ": longer sequences reach angles";
    said += " that training at that length never showed";
  }
  warnings.push_back(std::move(said));
}

/// The worst of the last 4096 positions.
AngleError worst_angle(const RopeFrequencies& exact, const RopeFrequencies& rounded, Index length) {
  AngleError worst;
  for (std::size_t i = 0; i < exact.inv_freq.size(); ++i) {
    const double theta = exact.inv_freq[i];
    const float theta32 = static_cast<float>(rounded.inv_freq[i]);
    // No position of this pair is off by more: by the frequency's rounding, by the product's, and by the subnormals'.
    // A pair that cannot be the worst is passed over; the factor is for the rounding of the bound itself.
    const double reach = static_cast<double>(length);
    const double own = std::abs(static_cast<double>(theta32) - theta), products = std::abs(theta32) * 0x1p-22;
    if ((reach * (own + products) + 0x1p-149) * (1 + 0x1p-20) < worst.radians) continue;
    for (Index p = std::max(Index{0}, length - 4096); p < length; ++p) {
      // The product in double is within 2^-53 of p·θ, relatively: a billionth of what we look for.
      const double angle = static_cast<double>(p) * theta;
      const double error = std::abs(static_cast<double>(static_cast<float>(p) * theta32) - angle);
      if (error > worst.radians) worst = {error, static_cast<Index>(i), p};
    }
  }
  return worst;
}

void warn_about_float32(const Rope& rope, const RopeFrequencies& frequencies, const RopeLengths& lengths,
                        std::vector<std::string>& warnings) {
  // A cosine rounded to bf16 is off by up to 2^-9, and models live with that in every pair. Eight times as much is
  // worth a word: up to 131,072 tokens no angle is off by more.
  constexpr double tolerance = 0x1p-6;
  if (lengths.longest < 1 || lengths.longest > max_position) return;
  const AngleError worst =
      worst_angle(frequencies, resolve(rope, lengths.seq_len, Angles::as_float32), lengths.longest);
  if (worst.radians <= tolerance) return;
  warnings.push_back(
      concat("angles computed in float32 are off by up to ", rounded(worst.radians, 2), " rad (pair ", worst.pair,
             " at position ", grouped(worst.position),
             "), more than eight times what bf16 rounds a cosine by (2^-9): exact code and float32 code differ there"));
}

void warn_about_length(const Rope& rope, const RopeLengths& lengths, std::vector<std::string>& warnings) {
  if (!depends_on_length(rope.scaling)) return;
  const Index trained = trained_length(rope.scaling);
  warnings.push_back(concat("the frequencies depend on the sequence's length (", scaling_name(rope.scaling),
                            "; these are for ",
                            grouped(std::max(lengths.seq_len, Index{0}) == 0 ? trained : lengths.seq_len),
                            " tokens): keys cached at one length must be rebased when the sequence grows past ",
                            grouped(trained), " tokens and the frequencies change"));
}

void warn_about_softmax(const RopeFrequencies& frequencies, std::vector<std::string>& warnings) {
  if (frequencies.softmax_scale_factor == 1) return;
  warnings.push_back(concat("attention must multiply its softmax scale by ",
                            rounded(frequencies.softmax_scale_factor, 6),
                            ": the rotation does not contain this factor"));
}

}  // namespace

const char* position_unit(const RopeLengths& lengths, Index axes) {
  if (lengths.span > 0) return "units";
  return lengths.patches || axes == 2 ? "patches" : "tokens";  // two axes are an image's
}

std::vector<double> wavelengths(const RopeFrequencies& frequencies) {
  std::vector<double> tokens;
  for (double theta : frequencies.inv_freq) {
    tokens.push_back(theta == 0 ? std::numeric_limits<double>::infinity() : 2 * std::numbers::pi / std::abs(theta));
  }
  return tokens;
}

std::vector<PairRun> pair_runs(const RopeFrequencies& frequencies) {
  std::vector<PairRun> runs;
  for (std::size_t i = 0; i < frequencies.change.size(); ++i) {
    if (runs.empty() || runs.back().change != frequencies.change[i]) {
      runs.push_back({frequencies.change[i], static_cast<Index>(i), static_cast<Index>(i)});
    }
    runs.back().last = static_cast<Index>(i);
  }
  return runs;
}

std::vector<Index> unfinished_pairs(const RopeFrequencies& frequencies, Index length) {
  std::vector<Index> pairs;
  const std::vector<double> tokens = wavelengths(frequencies);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] > static_cast<double>(length) && std::isfinite(tokens[i])) pairs.push_back(static_cast<Index>(i));
  }
  return pairs;
}

AngleError float32_angle_error(const Rope& rope, Index length, Index seq_len) {
  if (length < 1 || length > max_position) {
    throw RangeError(concat("[float32_angle_error] length: must be from 1 to 2^31, got ", length));
  }
  return worst_angle(resolve(rope, seq_len), resolve(rope, seq_len, Angles::as_float32), length);
}

std::vector<std::string> rope_warnings(const Rope& rope, const RopeLengths& lengths) {
  std::vector<std::string> warnings;
  const RopeFrequencies frequencies = resolve(rope, lengths.seq_len);
  warn_about_turns(rope, frequencies, lengths, warnings);
  warn_about_float32(rope, frequencies, lengths, warnings);
  warn_about_length(rope, lengths, warnings);
  warn_about_softmax(frequencies, warnings);
  return warnings;
}

}  // namespace bearing
