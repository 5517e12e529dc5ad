#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/rope_report.hpp>
#include <cmath>
#include <numbers>

#include "figures/kinds.hpp"
#include "figures/parts.hpp"
#include "inspect/before_scaling.hpp"

// How many tokens each pair needs for a turn, before and after scaling, against the lengths that a model was trained
// for and is asked for.

namespace bearing::inspect {
namespace {

using Turns = std::vector<double>;

/// What an encoding's spec says of its pairs.
struct Waves {
  Turns now = {}, before = {};  ///< [pairs] tokens for a turn, NaN if a pair does not turn; `before` is empty if alike
  std::vector<PairRun> runs = {};  ///< of pairs that a scaling treats alike
  bool own_factors = false;        ///< the scaling has a factor for each pair
  double trained = 0, asked = 0;   ///< 0: not known; of an image its longer side
  Index seq_len = 0;               ///< the length whose frequencies these are; 0: they are those of any
  std::string unit = "tokens";     ///< in which a turn is counted: see position_unit()

  bool of_image() const { return unit != "tokens"; }
};

/// The spec, or a record in it, that is a Rope; null if there is none.
std::optional<Rope> rope_in(const Record& spec) {
  if (const Rope* rope = spec.as<Rope>()) return *rope;
  for (const MemberInfo& member : spec.type().members) {
    const Value value = member.get(spec.value());
    const auto* record = std::get_if<Record>(&value);
    if (record == nullptr || !*record) continue;
    if (const Rope* rope = record->as<Rope>()) return *rope;
  }
  return std::nullopt;
}

bool takes_only(const FunctionInfo& function, const RecordType& type) {
  if (function.arguments.size() != 1) return false;
  const std::vector<std::type_index>& records = function.arguments[0].type.records;
  return std::find(records.begin(), records.end(), type.type) != records.end();
}

/// The frequencies that a described function `…_frequencies` gives for such a spec; empty if there is none.
std::vector<double> described_frequencies(const Record& spec) {
  for (const FunctionInfo& function : registry().functions()) {
    if (!function.name.ends_with("_frequencies") || !takes_only(function, spec.type())) continue;
    const Value value = function.call({Value{spec}});
    const auto* tensor = std::get_if<Tensor>(&value);
    if (tensor == nullptr) continue;
    if (const auto* numbers = std::get_if<std::vector<double>>(&tensor->numbers)) return *numbers;
  }
  return {};
}

/// "rope, xpos, …": of each kind of encodings the first name.
std::string names_with_frequencies() {
  std::string names;
  std::vector<const EncodingInfo*> known;
  for (const Description& one : catalog()) {
    const Record spec = one.spec ? one.spec({}) : Record{};
    if (!spec || std::find(known.begin(), known.end(), one.encoding) != known.end()) continue;
    if (!rope_in(spec) && described_frequencies(spec).empty()) continue;
    known.push_back(one.encoding);
    names += (names.empty() ? "" : ", ") + one.name;
  }
  return names;
}

[[noreturn]] void refuse(const Subject& subject, FigureOptions options) {
  options.length = 0;  // what is refused needs no long example
  const std::vector<Shown> shown = examples({&subject, 1}, options, {.heads = 1, .dim = 64, .length = 16});
  nothing_to_show(shown[0], "must have frequencies (" + names_with_frequencies() + ")");
}

Turns finite(Turns tokens) {
  for (double& each : tokens) {
    if (!std::isfinite(each)) each = std::nan("");
  }
  return tokens;
}

Turns tokens_per_turn(const std::vector<double>& frequencies) {
  Turns tokens;
  for (const double frequency : frequencies) tokens.push_back(2 * std::numbers::pi / std::abs(frequency));
  return finite(std::move(tokens));
}

/// NaN is NaN.
bool same(const Turns& a, const Turns& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

/// A length as a word for it: "196 tokens", "14 patches along a side", "the image".
std::string extent_of(const Waves& waves, double length) {
  if (waves.unit == "units") return "the image";
  return text::concat(static_cast<Index>(length), " ", waves.unit, waves.of_image() ? " of a side" : "");
}

/// How long an axis was in training, and is at the length that is asked for: of an image its longer side; where
/// coordinates span it, all that they span.
void set_extents(const Subject& subject, Index axes, const FigureOptions& options, Waves& waves) {
  const RopeLengths& lengths = subject.lengths;
  waves.unit = position_unit(lengths, axes);
  waves.trained = static_cast<double>(lengths.trained), waves.asked = static_cast<double>(lengths.longest);
  if (!waves.of_image()) return;
  waves.trained = static_cast<double>(std::max(lengths.grid.height, lengths.grid.width));
  waves.asked = options.length > 0 ? std::floor(std::sqrt(static_cast<double>(options.length))) : 0;
  if (lengths.span > 0) waves.trained = waves.asked = 2 * lengths.span;
}

/// The length that frequencies are for, where they depend on it: what is said or asked for, else the model's longest.
Index length_of(const Subject& subject, const SpecimenOptions& size, const FigureOptions& options) {
  if (subject.lengths.seq_len > 0) return subject.lengths.seq_len;
  if (options.length > 0) return options.length;
  return subject.lengths.longest > 0 ? subject.lengths.longest : size.length;
}

Waves waves_of(const Subject& subject, const SpecimenOptions& size, const FigureOptions& options) {
  const Record spec = subject.description.spec ? subject.description.spec(size) : Record{};
  const std::optional<Rope> rope = spec ? rope_in(spec) : std::nullopt;
  Waves waves;
  set_extents(subject, rope ? resolve(*rope, std::max<Index>(size.length, 2)).axes : 1, options, waves);
  if (!rope) {
    if (spec) waves.now = described_frequencies(spec);
    if (waves.now.empty()) refuse(subject, options);
    waves.now = tokens_per_turn(waves.now);
    return waves;
  }
  if (depends_on_length(rope->scaling)) waves.seq_len = length_of(subject, size, options);
  const RopeFrequencies frequencies = resolve(*rope, waves.seq_len);
  waves.now = finite(wavelengths(frequencies));
  if (waves.trained == 0) waves.trained = static_cast<double>(trained_length(rope->scaling));
  const Rope plain = before_scaling(*rope);
  if (std::holds_alternative<NoScaling>(rope->scaling)) {
    if (!subject.description.specimen) return waves;
    // A name may change frequencies in a way that its spec does not say. The example keeps a table of its length.
    SpecimenOptions example = size;
    example.length = std::min<Index>(size.length, 32'768);
    const Turns turned = tokens_per_turn(subject.description.specimen(example, spec).frequencies);
    if (turned.empty() || same(turned, tokens_per_turn(frequencies.inv_freq))) return waves;
    waves.now = turned;
    if (waves.trained == 0 && !waves.of_image()) waves.trained = static_cast<double>(example.length);
  } else {
    waves.runs = pair_runs(frequencies);
    waves.own_factors = std::holds_alternative<LongRopeScaling>(rope->scaling) ||
                        std::holds_alternative<FrequencyDivisors>(rope->scaling);
    if (plain == *rope) return waves;
  }
  waves.before = finite(wavelengths(resolve(plain)));
  return waves;
}

Series points(std::string label, const Turns& tokens, int colour) {
  Series series{.label = std::move(label), .y = tokens, .colour = colour};
  for (std::size_t i = 0; i < tokens.size(); ++i) series.x.push_back(static_cast<double>(i));
  return series;
}

/// How many pairs need more than `length` for a turn.
Index unfinished(const Turns& tokens, double length) {
  return std::count_if(tokens.begin(), tokens.end(), [&](double each) { return each > length; });
}

/// Where a scaling goes over from kept to divided pairs. NTK has no ramp: it changes all pairs except the ends.
void add_ramp(const Waves& waves, Panel& panel) {
  for (const PairRun& run : waves.runs) {
    if (run.change != PairChange::blended || run.last - run.first + 3 >= std::ssize(waves.now)) continue;
    panel.bands.push_back({.label = panel.bands.empty() ? "blended pairs" : "",
                           .x = {static_cast<double>(run.first) - 0.5, static_cast<double>(run.last) + 0.5},
                           .low = {panel.y.first, panel.y.first},
                           .high = {panel.y.last, panel.y.last},
                           .colour = 3});
  }
}

Panel panel_of(const Subject& subject, const Waves& waves, const Range& range) {
  const auto pairs = static_cast<double>(waves.now.size());
  Panel panel{.title = subject.name,
              .x = {"pair", 0, std::max(pairs - 1, 1.0)},
              .y = {waves.unit + " for a turn", range.low, range.high, Scale::log10}};
  constexpr double few = 8;  // a renderer might put a number between them
  for (double pair = 0; pairs <= few && pair < pairs; ++pair) panel.x.ticks.push_back({pair, text::concat(pair)});
  add_ramp(waves, panel);
  const std::string side = waves.of_image() ? " side" : "";
  if (waves.unit == "units") {
    panel.guides.push_back({false, waves.trained, "across the image"});
  } else if (waves.trained > 0) {
    panel.guides.push_back(
        {false, waves.trained, text::concat("trained", side, " ", static_cast<Index>(waves.trained))});
  }
  if (waves.asked > 0 && waves.asked != waves.trained) {
    panel.guides.push_back(
        {false, waves.asked, text::concat(waves.of_image() ? "side " : "context ", static_cast<Index>(waves.asked))});
  }
  if (!waves.before.empty()) {
    panel.series.push_back(points("before scaling", waves.before, 1));
    panel.series.back().faint = true;
  }
  const std::string at = waves.seq_len > 0 ? text::concat(", for ", waves.seq_len, " tokens") : "";
  panel.series.push_back(points(waves.before.empty() ? "" : "after scaling" + at, waves.now, 0));
  panel.series.push_back(points("", waves.now, 0));
  panel.series.back().stroke = Stroke::dots;
  return panel;
}

/// "1.08 to 64.84": what the frequencies of neighbouring pairs are divided by.
std::string factors_of(const Waves& waves, const PairRun& run) {
  Range range;
  for (auto i = static_cast<std::size_t>(run.first); i <= static_cast<std::size_t>(run.last); ++i) {
    range.reach(waves.now[i] / waves.before[i]);
  }
  const std::string low = short_number(range.low), high = short_number(range.high);
  return low == high ? low : low + " to " + high;
}

std::string change_of(const Waves& waves, const PairRun& run) {
  if (run.change == PairChange::kept) return "kept";
  if (run.change == PairChange::blended) return "blended";
  if (waves.own_factors && !waves.before.empty()) return "divided by " + factors_of(waves, run);
  return "divided by the whole factor";
}

std::string ramp_of(const Waves& waves) {
  std::string said;
  for (const PairRun& run : waves.runs) {
    said += text::concat("; pairs ", run.first, " to ", run.last, " are ", change_of(waves, run));
  }
  return said;
}

std::string words_of(const Subject& subject, const Waves& waves) {
  Range range;
  range.reach(waves.now);
  std::string said = text::concat(subject.name, ": ");
  if (waves.seq_len > 0) said += text::concat("in a sequence of ", waves.seq_len, " tokens ");
  said += text::concat("a turn takes ", short_number(range.low), " to ", short_number(range.high), " ", waves.unit);
  if (waves.unit == "units") said += " of a coordinate";
  const Turns& trained = waves.before.empty() ? waves.now : waves.before;
  if (waves.trained > 0) {
    said +=
        text::concat("; ", unfinished(trained, waves.trained), " of ", std::ssize(trained), " pairs complete no turn ",
                     waves.unit == "units" ? "across " : "in the trained ", extent_of(waves, waves.trained));
    if (!waves.before.empty()) said += text::concat(" (after scaling ", unfinished(waves.now, waves.trained), ")");
  }
  return said + ramp_of(waves);
}

Figure wavelengths_figure(std::span<const Subject> encodings, const FigureOptions& options) {
  SpecimenOptions size{.heads = 1, .dim = 128, .length = 8192};
  if (options.dim > 0) size.dim = options.dim;
  if (options.length > 0) size.length = options.length;
  std::vector<Waves> all;
  Range range;
  std::string names;
  for (const Subject& subject : encodings) {
    Waves& waves = all.emplace_back(waves_of(subject, size, options));
    // A model whose file says no length has none. What no file says anything of is shown against the kind's.
    const bool of_model = subject.sizes.heads > 0 && waves.asked == 0 && options.length == 0;
    if (!waves.of_image() && !of_model && (options.length > 0 || waves.asked == 0)) {
      waves.asked = static_cast<double>(size.length);
    }
    range.reach(waves.now), range.reach(waves.before);
    if (waves.asked > 0) range.reach(waves.asked);
    if (waves.trained > 0) range.reach(waves.trained);
    names += (names.empty() ? "" : ", ") + subject.name;
  }
  range = {range.low / 1.5, range.high * 1.5, false};
  const auto of_tokens = [](const Waves& one) { return !one.of_image(); };
  const bool tokens = std::all_of(all.begin(), all.end(), of_tokens);
  Figure figure{.title = (tokens ? "Tokens that each pair needs for a turn: " : "What each pair needs for a turn: ") +
                         names};
  for (std::size_t i = 0; i < all.size(); ++i) {
    Panel panel = panel_of(encodings[i], all[i], range);
    const Turns& trained = all[i].before.empty() ? all[i].now : all[i].before;
    if (all[i].trained > 0) {
      panel.notes.push_back({0.02 * panel.x.last, range.high / 1.6,
                             text::concat(unfinished(trained, all[i].trained), " of ", std::ssize(trained),
                                          all[i].unit == "units" ? " pairs complete no turn across an image"
                                                                 : " pairs complete no turn in training")});
    }
    figure.text += (i == 0 ? "" : ". ") + words_of(encodings[i], all[i]);
    figure.panels.push_back(std::move(panel));
  }
  figure.text += ".";
  figure.columns = columns_for(figure.panels.size());
  return figure;
}

}  // namespace

FigureKind wavelengths_kind() {
  return {"wavelengths",     "tokens for a turn of each pair, against the lengths", 1, 8, {"dim", "length"},
          wavelengths_figure};
}

}  // namespace bearing::inspect
