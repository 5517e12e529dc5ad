#include "config_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>

#include "record_text.hpp"
#include "terminal.hpp"

namespace bearing::tool {
namespace {

/// Calls body(rope) for a group that rotates; a spec that cannot be becomes an error of the file.
template <class Body>
void with_rope(const ConfigReport& report, const LayerGroup& group, Body&& body) {
  const Rope* rope = std::get_if<Rope>(&group.layer.encoding);
  if (rope == nullptr) return;
  try {
    body(*rope);
  } catch (const std::logic_error& error) {  // ShapeError, RangeError
    throw ConfigError(fmt::format("{}: {}: {}", report.model.file, layers_text(group.layers), error.what()));
  }
}

/// What is said of several groups is said once; the layers are named unless it is true of all that rotate.
void add_warnings(ConfigReport& report) {
  struct Said {
    std::string text;
    std::vector<Index> layers;
  };
  std::vector<Said> all;
  std::size_t rotating = 0;
  // Groups that differ in their windows alone turn alike, and wide numbers take their time.
  const Rope* last = nullptr;
  RopeLengths last_lengths;
  std::vector<std::string> texts;
  for (const GroupReport& shown : report.groups) {
    with_rope(report, shown.group, [&](const Rope& rope) {
      const std::vector<Index>& layers = shown.group.layers;
      rotating += layers.size();
      const RopeLengths lengths = lengths_of(report.model, shown.group.layer, report.seq_len);
      const bool as_before = last != nullptr && *last == rope && last_lengths.trained == lengths.trained &&
                             last_lengths.longest == lengths.longest && last_lengths.seq_len == lengths.seq_len;
      if (!as_before) texts = rope_warnings(rope, lengths);
      last = &rope;
      last_lengths = lengths;
      for (const std::string& text : texts) {
        auto said = std::find_if(all.begin(), all.end(), [&](const Said& other) { return other.text == text; });
        if (said == all.end()) said = all.insert(all.end(), {text, {}});
        said->layers.insert(said->layers.end(), layers.begin(), layers.end());
      }
    });
  }
  for (Said& said : all) {
    std::sort(said.layers.begin(), said.layers.end());
    const bool everywhere = said.layers.size() == rotating;
    report.warnings.push_back({"", everywhere ? said.text : layers_text(said.layers) + ": " + said.text});
  }
}

/// "YaRN x 4 of 32,768": of the scaling that reaches farthest.
std::string stretch_text(const ConfigReport& report) {
  for (const GroupReport& shown : report.groups) {
    const Rope* rope = std::get_if<Rope>(&shown.group.layer.encoding);
    if (rope == nullptr || scaled_length(rope->scaling) != report.reach) continue;
    const Record scaling = std::get<Record>(Record::of(*rope).get("scaling"));
    const Value factor = scaling.get("factor");
    const std::string name = scaling_name(rope->scaling);
    return fmt::format("{} x {} of {}", name == "yarn" ? "YaRN" : name, value_text(factor),
                       grouped(trained_length(rope->scaling)));
  }
  return "the scaling";
}

/// A scaling's factor and the file's lengths say how long sequences may be: two answers are worth the first word, as
/// whoever looks at one of them alone stops early, or goes too far.
void add_reach(ConfigReport& report) {
  for (const GroupReport& shown : report.groups) {
    const Rope* rope = std::get_if<Rope>(&shown.group.layer.encoding);
    if (rope != nullptr) report.reach = std::max(report.reach, scaled_length(rope->scaling));
  }
  const Index stated = report.model.context_length;
  // Factors are rounded as 40 or 8.0: a tenth more or less is the same length.
  if (report.reach == 0 || stated == 0 || std::abs(report.reach - stated) * 10 <= stated) return;
  const char* end = report.reach > stated ? "code that looks at the stated length alone stops there"
                                          : "beyond what it serves, angles were never trained";
  report.warnings.insert(report.warnings.begin(),
                         {"", fmt::format("{} serves {} tokens; the file says {}: {}", stretch_text(report),
                                          grouped(report.reach), grouped(stated), end)});
}

/// How many groups are measured without being asked for: as many as large models have layers, and as many pairs as
/// the largest head has. A file may have tens of thousands, each of other frequencies.
struct Room {
  static constexpr Index most = 128;
  Index groups = most, pairs = 32768;

  /// False if there is none left for the group; the first one has room always.
  bool take(const LayerGroup& group) {
    const Rope* rope = std::get_if<Rope>(&group.layer.encoding);
    const Index more = rope == nullptr ? 0 : rope->head_dim / 2;
    const bool first = groups == most;
    if (!first && (groups == 0 || more > pairs)) return false;
    --groups, pairs -= std::min(more, pairs);
    return true;
  }
};

/// An earlier group with the same spec, whose numbers are computed.
const GroupReport* group_that_turns_as(const Rope& rope, const std::vector<GroupReport>& groups) {
  for (const GroupReport& group : groups) {
    const Rope* other = std::get_if<Rope>(&group.group.layer.encoding);
    if (group.frequencies && other != nullptr && *other == rope) return &group;
  }
  return nullptr;
}

}  // namespace

ConfigReport config_report(Model model, Index seq_len, Index layer, Pairs pairs) {
  ConfigReport report{.model = std::move(model), .seq_len = seq_len};
  report.warnings = report.model.warnings;
  Index left_out = 0;
  Room room;
  for (LayerGroup& group : layer_groups(report.model)) {
    if (layer >= 0 && std::find(group.layers.begin(), group.layers.end(), layer) == group.layers.end()) continue;
    if (pairs == Pairs::elided && (left_out > 0 || !room.take(group))) {
      ++left_out;
      continue;
    }
    GroupReport& shown = report.groups.emplace_back(GroupReport{std::move(group), {}, {}});
    with_rope(report, shown.group, [&](const Rope& rope) {
      const GroupReport* alike = group_that_turns_as(rope, report.groups);
      shown.frequencies = alike != nullptr ? alike->frequencies : resolve(rope, report.seq_len);
      shown.wavelength = wavelengths(*shown.frequencies);
    });
  }
  add_reach(report);
  add_warnings(report);
  if (left_out > 0) {
    report.warnings.insert(report.warnings.begin(),
                           {"", fmt::format("{} more kinds of layers are neither measured nor shown: bearing config "
                                            "--all has them",
                                            grouped(left_out))});
  }
  if (layer >= 0) return report;
  for (const Model& tower : report.model.towers) {
    ConfigReport& shown = report.towers.emplace_back(config_report(tower, 0, -1, pairs));
    for (const ConfigWarning& warning : shown.warnings) {
      report.warnings.push_back({warning.pointer, tower.part + ": " + warning.text});
    }
    shown.warnings.clear();
  }
  return report;
}

std::string ranges(const std::vector<Index>& numbers) {
  constexpr std::size_t shortest = 4;  // "0, 2, 4" is as short as with dots
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    // As far as the numbers go on by the same step.
    std::size_t last = i + 1 < numbers.size() ? i + 1 : i;
    const Index step = numbers[last] - numbers[i];
    while (last + 1 < numbers.size() && numbers[last + 1] - numbers[last] == step) ++last;
    const bool dots = step > 1 && last - i + 1 >= shortest;
    if (step > 1 && !dots) last = i;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", numbers[i]);
    if (dots) out += fmt::format(", {}, ..., {}", numbers[i + 1], numbers[last]);
    if (!dots && last > i) out += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace bearing::tool
