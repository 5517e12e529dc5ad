#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>
#include <utility>

#include "choose/measure.hpp"
#include "choose/rules.hpp"
#include "text.hpp"

namespace bearing::inspect {

using text::concat;

namespace {

constexpr std::size_t most_alternatives = 4, most_avoided = 3, most_models = 8;

}  // namespace

const std::vector<Answer>& task_answers() {
  static const std::vector<Answer> all = {
      {"generate", "text, token by token: a decoder"},
      {"understand", "text, all of it at once: an encoder"},
      {"translate", "one sequence into another: an encoder and a decoder"},
      {"images", "patches of an image"},
      {"speech", "frames of sound"},
      {"unordered", "a set: order does not matter"},
  };
  return all;
}

const std::vector<Answer>& kernel_answers() {
  static const std::vector<Answer> all = {
      {"any", "this library's, or one that takes any score, as FlexAttention does"},
      {"bias", "one that takes a bias matrix, or slopes per head"},
      {"fused", "one that takes q, k and v only"},
      {"linear", "linear attention, which has no scores"},
  };
  return all;
}

const char* name(Rank rank) {
  return rank == Rank::recommended ? "recommended" : rank == Rank::alternative ? "alternative" : "avoid";
}

bool serves(AttentionKernel kernel, const Description& encoding) {
  const EncodingInfo* info = encoding.encoding;
  if (info == nullptr && encoding.computed != nullptr) info = encoding.computed->encoding;
  if (info == nullptr || kernel == AttentionKernel::any) return true;
  if (info->values) return false;
  return !info->scores || (kernel == AttentionKernel::bias && !info->reads_content);
}

namespace {

/// Thrown for a number that the caller gave.
void check_range(const char* what, Index value, Index least, Index most) {
  if (value >= least && value <= most) return;
  throw RangeError(concat("[choose] ", what, ": must be from ", least, " to ", most, ", got ", value));
}

/// The rotary spec of the model at hand, if it has one.
std::optional<Rope> rotary_at_hand(const Situation& s) {
  if (!s.from || !s.from->description.spec) return {};
  const Record spec = s.from->description.spec({.heads = s.heads, .dim = s.dim, .length = s.trained});
  const Rope* rope = spec.as<Rope>();
  return rope == nullptr ? std::nullopt : std::optional(*rope);
}

/// What was left open, filled in.
Situation completed(Situation s) {
  check_range("trained", s.trained, 2, Index{1} << 30);
  if (s.wanted == 0) s.wanted = s.trained;
  check_range("wanted", s.wanted, 2, Index{1} << 30);
  check_range("heads", s.heads, 1, 1024);
  check_range("dim", s.dim, 4, 1024);
  if (s.dim % 4 != 0) throw ShapeError(concat("[choose] dim: must be a multiple of 4, got ", s.dim));
  check_range("memory", s.memory, 0, Index{1} << 50);
  if (s.axes == 0) s.axes = s.task == Task::images ? 2 : 1;
  check_range("axes", s.axes, 1, 2);
  if (const std::optional<Rope> rope = rotary_at_hand(s)) {
    if (const Index stated = trained_length(rope->scaling); stated > 1) s.trained = stated;  // before it was stretched
  }
  if (!s.causal) s.causal = s.task == Task::generate;
  return s;
}

/// How far a model at hand reaches already: as it was trained, or as its scaling stretches that.
Index reach(const Situation& s) {
  const std::optional<Rope> rope = rotary_at_hand(s);
  double factor = 1;
  if (rope) {
    std::visit(
        [&factor](const auto& of) {
          if constexpr (requires { of.factor; }) factor = std::max(1.0, of.factor);
        },
        rope->scaling);
  }
  return static_cast<Index>(std::llround(static_cast<double>(s.trained) * factor));
}

bool is_longer(const Situation& s) { return s.wanted > reach(s); }

bool holds(Holds wanted, bool truth) { return wanted == Holds::either || (wanted == Holds::yes) == truth; }
bool holds(Length wanted, bool longer) { return wanted == Length::either || (wanted == Length::longer) == longer; }
bool of_task(unsigned tasks, Task task) { return (tasks >> static_cast<unsigned>(task) & 1u) != 0; }

bool applies(const Rule& rule, const Situation& s, bool rotary) {
  const bool here = rotary ? rule.rotary == Holds::yes : rule.rotary != Holds::yes && of_task(rule.tasks, s.task);
  return here && (rule.axes == 0 || rotary || rule.axes == s.axes) && holds(rule.length, is_longer(s)) &&
         holds(rule.tuning, s.tuning) && holds(rule.causal, *s.causal);
}

std::string filled(std::string text, const Situation& s) {
  const std::pair<const char*, std::string> words[] = {
      {"{trained}", concat(s.trained)},
      {"{reach}", concat(reach(s))},
      {"{wanted}", concat(s.wanted)},
      {"{factor}", concat(static_cast<double>(s.wanted) / static_cast<double>(s.trained))}};
  for (const auto& [word, with] : words) {
    for (std::size_t at; (at = text.find(word)) != text.npos;) text.replace(at, std::string_view(word).size(), with);
  }
  return text;
}

/// The keys that say a rotary spec where it differs from what a name stands for.
std::string keys_of_rope(const Rope& rope, const RopeScaling& scaling, bool at_hand) {
  std::string keys;
  const auto add_text = [&keys](const char* key, const std::string& value) {
    keys += concat(keys.empty() ? ":" : ",", key, "=", value);
  };
  const auto add = [&](const char* key, auto value) {
    const auto whole = static_cast<Index>(value);
    const bool is_whole = static_cast<decltype(value)>(whole) == value;
    add_text(key, is_whole ? concat(whole) : concat(value));
  };
  std::visit(
      [&](const auto& of) {
        if constexpr (requires { of.factor; }) add("factor", of.factor);
        if constexpr (requires { of.trained_length; }) add("trained_length", of.trained_length);
      },
      scaling);
  if (at_hand) add("head_dim", rope.head_dim);
  if (rope.base != Rope{.pairing = Pairing::half}.base) add("base", rope.base);
  if (rope.rotary_dim != 0 && rope.rotary_dim != rope.head_dim) add("rotary_dim", rope.rotary_dim);
  if (Pairing(rope.pairing) == Pairing::interleaved) add_text("pairing", "interleaved");
  return keys;
}

/// A description whose examples have that spec.
Description with_rope(const Description& named, const Rope& rope) {
  Description made = named;
  made.spec = [rope](const SpecimenOptions& size) {
    Rope of = rope;
    of.head_dim = size.dim;
    return Record::of(of);
  };
  made.specimen = [named = &named, spec = made.spec](const SpecimenOptions& size, const Record& given) {
    return make(*named, size, given ? given : spec(size));
  };
  return made;
}

/// The scaling that a name stands for, at the situation's lengths.
RopeScaling scaled_to(const Rope& example, const Situation& s) {
  RopeScaling scaling = example.scaling;
  std::visit(
      [&](auto& of) {
        if constexpr (requires { of.factor; })
          of.factor = static_cast<double>(s.wanted) / static_cast<double>(s.trained);
        if constexpr (requires { of.trained_length; }) of.trained_length = s.trained;
      },
      scaling);
  return scaling;
}

/// What a rule names, at the situation's lengths and with the numbers of the model at hand.
struct Named {
  Candidate candidate;
  std::optional<Rope> before, after;  ///< of a rotary one: as it was trained, and as it is used
};

Named named_by(const Rule& rule, const Situation& s, const std::optional<Rope>& at_hand) {
  if (*rule.encoding == '\0') return {{s.from->name, s.from->description}, at_hand, at_hand};
  const Description* named = find(rule.encoding);
  Named made{{named->name, *named}, {}, {}};
  if (!named->spec) return made;
  const Record spec = named->spec({.heads = s.heads, .dim = s.dim, .length = s.trained});
  const Rope* example = spec.as<Rope>();
  if (example == nullptr) return made;
  Rope rope = at_hand.value_or(*example);
  const RopeScaling scaling = scaled_to(*example, s);
  const bool scaled = !std::holds_alternative<NoScaling>(scaling);
  if (!at_hand && !scaled) return {made.candidate, rope, rope};
  made.before = rope, made.before->scaling = NoScaling{};
  made.after = rope, made.after->scaling = scaling;
  made.candidate.text += keys_of_rope(rope, scaling, at_hand.has_value());
  made.candidate.description = with_rope(*named, *made.after);
  return made;
}

/// Makes the options of one situation.
class Chooser {
 public:
  Chooser(const Situation& situation, const Executor& on)
      : s_(situation), on_(on), rotary_(rotary_at_hand(situation)) {}

  std::vector<Option> options() {
    if (s_.from && !rotary_) add_what_it_has();
    for (const Rule& rule : rules()) {
      if (applies(rule, s_, rotary_.has_value())) add(rule);
    }
    std::stable_sort(options_.begin(), options_.end(),
                     [](const Option& a, const Option& b) { return a.rank < b.rank; });
    return std::move(options_);
  }

 private:
  std::size_t count(Rank rank) const {
    return static_cast<std::size_t>(
        std::count_if(options_.begin(), options_.end(), [&](const Option& one) { return one.rank == rank; }));
  }
  bool has(const std::string& encoding) const {
    return std::any_of(options_.begin(), options_.end(), [&](const Option& one) { return one.encoding == encoding; });
  }

  void add(const Rule& rule) {
    const Named named = named_by(rule, s_, rotary_);
    const Candidate& candidate = named.candidate;
    if (has(candidate.text)) return;
    Option option{.encoding = candidate.text,
                  .name = candidate.description.name,
                  .title = candidate.description.title,
                  .unless = filled(rule.unless, s_)};
    const std::string hindrance = rule.rank == Rank::avoid ? "" : hindered(candidate.description, option);
    if (rule.rank == Rank::avoid || !hindrance.empty()) {
      // What would have been recommended is named with what stands in its way.
      if (count(Rank::avoid) >= most_avoided || (!hindrance.empty() && count(Rank::recommended) > 0)) return;
      option.rank = Rank::avoid;
      if (!hindrance.empty()) {
        option.reasons = {{hindrance, ""}}, option.costs.reset(), option.unless.clear();
        return options_.push_back(std::move(option));
      }
    } else {
      option.rank = count(Rank::recommended) == 0 ? Rank::recommended : Rank::alternative;
      if (count(Rank::alternative) >= most_alternatives) return;
    }
    if (*rule.because != '\0') option.reasons.push_back({filled(rule.because, s_), rule.source});
    measure(rule, named, option);
    options_.push_back(std::move(option));
  }

  /// Why a kernel or a budget rules it out; else "", with the option's costs measured.
  std::string hindered(const Description& of, Option& option) {
    if (!serves(s_.kernel, of)) {
      return concat("The kernel cannot serve it: it ",
                    s_.kernel == AttentionKernel::linear  ? "has no scores that a bias could be added to."
                    : s_.kernel == AttentionKernel::fused ? "takes q, k and v, and no bias."
                                                          : "takes a bias, which cannot look at queries and keys.");
    }
    if (count(Rank::recommended) > 0 && count(Rank::alternative) >= most_alternatives) return "";
    option.costs = costs_of(of, s_, on_);
    if (!s_.learned && option.costs->parameters > 0) {
      return concat("It has ", option.costs->parameters, " learned numbers, and there are to be none.");
    }
    if (const double bytes = bytes_wanted(*option.costs, s_); s_.memory > 0 && bytes > static_cast<double>(s_.memory)) {
      return concat("At ", s_.wanted, " tokens it holds ", static_cast<Index>(bytes), " bytes, and may hold ",
                    s_.memory, ".");
    }
    if (s_.models) option.models = s_.models(option.name);
    if (option.models.size() > most_models) option.models.resize(most_models);
    return "";
  }

  void measure(const Rule& rule, const Named& named, Option& option) {
    std::vector<Property> properties;
    for (const std::string_view shown : rule.shows) {
      if (shown == "pairs") {
        option.reasons.push_back(pairs_seen(*named.before, *named.after, s_.trained, s_.wanted));
        continue;
      }
      if (properties.empty()) properties = check(named.candidate.description, measured_size(s_), on_);
      for (const Property& property : properties) {
        if (property.name == shown) option.reasons.push_back(property_reason(property));
      }
    }
  }

  /// The encoding of a model at hand that is not rotary: what becomes of it past the trained length is measured.
  void add_what_it_has() {
    const Description& of = s_.from->description;
    Option option{.rank = Rank::recommended, .encoding = s_.from->name, .name = of.name, .title = of.title};
    const std::string hindrance = hindered(of, option);
    const std::vector<Property> properties = check(of, measured_size(s_), on_);
    const auto past = std::find_if(properties.begin(), properties.end(),
                                   [](const Property& one) { return one.name == "extensible"; });
    const bool ends = is_longer(s_) && past->verdict == Verdict::no;
    if (!hindrance.empty()) option.reasons.push_back({hindrance, ""});
    option.reasons.push_back(ends ? Reason{"The model has it. Its rows would have to be trained anew.", ""}
                                  : Reason{"The model has it: another encoding would have to be trained anew.", ""});
    if (is_longer(s_)) option.reasons.push_back(property_reason(*past));
    if (ends || !hindrance.empty()) option.rank = Rank::avoid;
    option.unless = "The model is trained anew: then leave it out of the question.";
    options_.push_back(std::move(option));
  }

  const Situation& s_;
  const Executor& on_;
  std::optional<Rope> rotary_;
  std::vector<Option> options_;
};

}  // namespace

Advice choose(const Situation& situation, const Executor& on) {
  Advice advice{.situation = completed(situation)};
  const Situation& s = advice.situation;
  advice.measured = measured_size(s);
  advice.timed = timed_length(s);
  advice.options = Chooser(s, on).options();
  const bool rotary = rotary_at_hand(s).has_value();
  for (const Unknown& unknown : unknowns()) {
    if (!of_task(unknown.tasks, s.task) || !holds(unknown.length, is_longer(s)) || !holds(unknown.rotary, rotary))
      continue;
    if (s.from && !rotary) continue;  // it stays as it is
    advice.unknowns.push_back(filled(unknown.text, s));
  }
  if (s.from && !rotary) {
    advice.unknowns.emplace_back(
        "How well this model, in particular, serves longer sequences than it was trained on: "
        "that shows only where it is tried.");
  }
  return advice;
}

}  // namespace bearing::inspect
