#include "choose/measure.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "choose/situation.hpp"
#include "text.hpp"

namespace bearing::inspect {

using text::concat;

namespace {

/// Numbers of all heads and tokens in a measured example.
constexpr Index most_numbers = Index{1} << 19;
constexpr Index most_timed = 1024;

struct Gloss {
  const char* property;
  Verdict verdict;
  const char* says;
};
constexpr Gloss glosses[] = {
    {"relative", Verdict::yes, "Only distances count"},
    {"relative", Verdict::no, "Where tokens stand counts, not their distance alone"},
    {"relative", Verdict::not_applicable, "Where tokens stand does not count"},
    {"decay", Verdict::yes, "What is far counts less"},
    {"decay", Verdict::learned, "Training decides whether what is far counts less"},
    {"decay", Verdict::partly, "In some heads what is far counts less"},
    {"decay", Verdict::no, "What is far counts as much"},
    {"extensible", Verdict::yes, "Longer sequences meet nothing new"},
    {"extensible", Verdict::partly, "Longer sequences meet values that training did not"},
    {"extensible", Verdict::no, "It ends at the trained length"},
};

/// θ of pairs that do not complete a turn in training: the others have seen every angle.
bool unfinished(double frequency, Index trained) {
  return std::abs(frequency) * static_cast<double>(trained) < 2 * std::numbers::pi;
}

}  // namespace

SpecimenOptions measured_size(const Situation& s) {
  const Index heads = std::clamp<Index>(most_numbers / (64 * s.dim), 1, s.heads);
  const Index length =
      std::clamp<Index>(most_numbers / (heads * s.dim), 16, std::max<Index>({s.trained, s.longest, 16}));
  return {.heads = heads, .dim = s.dim, .length = length, .seed = s.seed};
}

SpecimenOptions size_at_hand(const Situation& s) {
  SpecimenOptions size = measured_size(s);
  const EncodingInfo* info = s.from->description.encoding;
  if (info != nullptr && info->inputs) {
    size.heads = 1, size.dim = s.from->sizes.dim > 0 ? s.from->sizes.dim : s.dim;
  } else if (info != nullptr && (info->scores || info->values)) {
    size.heads = s.heads;
  }
  return size;
}

Index timed_length(const Situation& s) { return std::min(s.wanted, most_timed); }

Reason property_reason(const Property& property) {
  for (const Gloss& gloss : glosses) {
    if (property.name == gloss.property && property.verdict == gloss.verdict) {
      return {concat(gloss.says, ": ", property.evidence, "."), "measured"};
    }
  }
  return {concat(property.name, " is ", name(property.verdict), ": ", property.evidence, "."), "measured"};
}

Reason pairs_seen(const Rope& before, const Rope& after, const Situation& s) {
  const Index trained = along_axis(s, s.trained), wanted = along_axis(s, s.wanted);
  const RopeFrequencies then = resolve(before, trained), now = resolve(after, wanted);
  Index slow = 0, unseen = 0;
  double reach = 1;
  for (std::size_t i = 0; i < then.inv_freq.size(); ++i) {
    if (!unfinished(then.inv_freq[i], trained)) continue;
    ++slow;
    const double seen = std::abs(then.inv_freq[i]) * static_cast<double>(trained);
    const double met = std::abs(now.inv_freq[i]) * static_cast<double>(wanted);
    if (seen == 0 || met <= seen * (1 + 0x1p-20)) continue;
    ++unseen;
    reach = std::max(reach, met / seen);
  }
  std::string says =
      concat(slow, " of ", then.pairs(), " pairs complete no turn in ", along_axis_text(s, s.trained), "; at ", wanted);
  says += unseen == 0 ? std::string(" none of them reaches")
                      : concat(" ", unseen, unseen == 1 ? " of them reaches" : " of them reach");
  says += " angles that training did not show";
  if (unseen > 0) says += concat(", up to ", std::round(reach * 100) / 100, " times as large");
  return {says + ".", "measured"};
}

double bytes_wanted(const Costs& costs, const Situation& s) {
  const double times = static_cast<double>(s.wanted) / static_cast<double>(measured_size(s).length);
  const double power = costs.memory == "O(L^2)"                            ? 2
                       : costs.memory == "O(L)" || costs.memory == "grows" ? 1
                       : costs.memory == "O(sqrt L)"                       ? 0.5
                                                                           : 0;
  return 4 * static_cast<double>(costs.held) * std::pow(times, power);
}

}  // namespace bearing::inspect
