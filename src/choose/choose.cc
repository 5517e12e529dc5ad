#include <algorithm>
#include <bearing/error.hpp>
#include <stdexcept>
#include <utility>

#include "choose/measure.hpp"
#include "choose/named.hpp"
#include "choose/rules.hpp"
#include "choose/situation.hpp"
#include "lasting.hpp"
#include "text.hpp"

namespace bearing::inspect {

using text::concat;

namespace {

constexpr std::size_t most_alternatives = 4, most_avoided = 3, most_models = 8;
constexpr Index most_columns = Index{1} << 22;  // of all rows of an input that are measured

}  // namespace

const std::vector<Answer>& task_answers() {
  static const auto& all = lasting(std::vector<Answer>{
      {"generate", "text, token by token: a decoder"},
      {"understand", "text, all of it at once: an encoder, as BERT"},
      {"translate", "one sequence into another: an encoder and a decoder"},
      {"images", "patches of an image, as of ViT"},
      {"speech", "frames of sound"},
      {"unordered", "a set: order does not matter"},
  });
  return all;
}

const std::vector<Answer>& kernel_answers() {
  static const auto& all = lasting(std::vector<Answer>{
      {"any", "this library's, or one that takes any score, as FlexAttention does"},
      {"bias", "one that takes a bias matrix, or slopes per head"},
      {"fused", "one that takes q, k and v only"},
      {"linear", "linear attention, which has no scores, but a state that may decay"},
  });
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
  if (kernel == AttentionKernel::linear && info->decays) return true;
  return !info->scores || (kernel == AttentionKernel::bias && !info->reads_content);
}

namespace {

bool holds(Holds wanted, bool truth) { return wanted == Holds::either || (wanted == Holds::yes) == truth; }
bool holds(Length wanted, bool longer) { return wanted == Length::either || (wanted == Length::longer) == longer; }
bool of_task(unsigned tasks, Task task) { return (tasks >> static_cast<unsigned>(task) & 1u) != 0; }

bool applies(const Rule& rule, const Situation& s, bool rotary) {
  const bool here = rotary ? rule.rotary == Holds::yes : rule.rotary != Holds::yes && of_task(rule.tasks, *s.task);
  const bool spanned = rotary && spans_image(s), windowed = rotary && s.window > 0 && !spanned;
  return here && rule.windowed == windowed && rule.spanned == spanned &&
         (rule.axes == 0 || rotary || rule.axes == s.axes) && holds(rule.length, is_longer(s)) &&
         holds(rule.tuning, s.tuning) && holds(rule.causal, *s.causal) &&
         holds(rule.linear, s.kernel == AttentionKernel::linear);
}

/// Measures what a model at hand has. What it refuses is a size that is not the model's.
template <class Measure>
void fitting_the_model(const Situation& s, const Measure& measure) {
  try {
    measure();
  } catch (const std::logic_error& error) {
    std::string_view why = error.what();
    if (why.starts_with('[')) why.remove_prefix(std::min(why.size(), why.find(']') + 2));  // the function within
    throw ShapeError(concat("[choose] trained, heads, dim: must be sizes that the model's encoding serves, got ",
                            s.trained, ", ", s.heads, ", ", s.dim, ": ", why));
  }
}

/// Makes the options of one situation.
class Chooser {
 public:
  explicit Chooser(const Advice& of, const Executor& on)
      : s_(of.situation), task_known_(of.task_known), on_(on), rotary_(rotary_at_hand(s_)) {}

  std::vector<Option> options() {
    if (s_.from && !rotary_) {
      fitting_the_model(s_, [&] { add_what_it_has(); });
    }
    if (count(Rank::recommended) > 0) return std::move(options_);  // all others would have to be trained anew
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
    const std::string hindrance = rule.rank == Rank::avoid ? "" : hindered(candidate.description, option, false);
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
    if (ends_ && option.rank == Rank::recommended) {
      option.reasons.push_back({concat("It is for a new model, or for one that is trained anew: what this one has, ",
                                       s_.from->description.name, ", ends at ", reach(s_), " tokens."),
                                ""});
      if (!task_known_) {
        option.reasons.push_back(
            {"It is for text that is written token by token, as nothing says what the model is "
             "for. If it reads a text at once (BERT) or an image (ViT), say so: the task is "
             "understand or images.",
             ""});
      }
    }
    if (*rule.because != '\0') option.reasons.push_back({filled(rule.because, s_), rule.source});
    if (s_.from && option.rank == Rank::recommended) add_layers_beside(option);
    measure(rule, named, option);
    options_.push_back(std::move(option));
  }

  /// What no change of the encoding reaches, where more is wanted than the model serves.
  void add_layers_beside(Option& option) const {
    const Index layers = s_.from->lengths.unplaced;
    if (layers == 0 || s_.wanted <= std::max(s_.trained, s_.longest)) return;
    option.reasons.push_back(
        {concat(layers, layers == 1 ? " other layer has" : " other layers have",
                " no positions (NoPE) and no window: no scaling reaches what is there, and all of the text is seen."),
         ""});
  }

  /// Why a kernel or a budget rules it out; else "", with the option's costs measured.
  std::string hindered(const Description& of, Option& option, bool at_hand) {
    if (s_.kernel == AttentionKernel::linear && !*s_.causal && of.encoding != nullptr && of.encoding->decays) {
      return "In linear attention a state that decays goes forward only: it needs a causal mask.";
    }
    if (!serves(s_.kernel, of)) {
      return concat("The kernel cannot serve it: it ",
                    s_.kernel == AttentionKernel::linear  ? "has no scores that a bias could be added to."
                    : s_.kernel == AttentionKernel::fused ? "takes q, k and v, and no bias."
                                                          : "takes a bias, which cannot look at queries and keys.");
    }
    if (count(Rank::recommended) > 0 && count(Rank::alternative) >= most_alternatives) return "";
    option.costs = costs_of(of, s_, at_hand, on_);
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
        option.reasons.push_back(pairs_seen(*named.before, *named.after, s_));
        continue;
      }
      if (properties.empty()) properties = check(named.candidate.description, measured_size(s_), on_);
      for (const Property& property : properties) {
        if (property.name == shown) option.reasons.push_back(property_reason(property));
      }
    }
  }

  /// What becomes of the encoding of a model at hand past its trained length.
  Property past_training() const {
    const Description& of = s_.from->description;
    SpecimenOptions size = size_at_hand(s_);
    if (of.encoding != nullptr && of.encoding->inputs) {
      size.length = std::clamp<Index>(most_columns / size.dim, size.length, std::max(size.length, reach(s_)));
    }
    const std::vector<Property> properties = check(of, size, on_);
    return *std::find_if(properties.begin(), properties.end(),
                         [](const Property& one) { return one.name == "extensible"; });
  }

  /// The encoding of a model at hand that is not rotary: what becomes of it past the trained length is measured.
  void add_what_it_has() {
    const Description& of = s_.from->description;
    Option option{.rank = Rank::recommended, .encoding = text_at_hand(s_), .name = of.name, .title = of.title};
    const Property past = past_training();
    const bool ends = is_longer(s_) && past.verdict == Verdict::no;
    const std::string hindrance = ends ? "" : hindered(of, option, true);  // past its end it has no costs
    if (!hindrance.empty()) option.reasons.push_back({hindrance, ""});
    option.reasons.push_back(ends ? Reason{"The model has it. Its rows would have to be trained anew.", ""}
                                  : Reason{"The model has it: another encoding would have to be trained anew.", ""});
    if (is_longer(s_)) option.reasons.push_back(property_reason(past));
    if (ends || !hindrance.empty()) option.rank = Rank::avoid, option.costs.reset();
    ends_ = ends;
    option.unless = ends && s_.axes == 2
                        ? concat("Attention stays within windows of ", reach(s_), " patches: then the image may grow.")
                        : "The model is trained anew: then leave it out of the question.";
    options_.push_back(std::move(option));
  }

  const Situation& s_;
  const bool task_known_;
  const Executor& on_;
  std::optional<Rope> rotary_;
  bool ends_ = false;  ///< what the model at hand has ends before the wanted length
  std::vector<Option> options_;
};

}  // namespace

Advice choose(const Situation& situation, const Executor& on) {
  Advice advice{.situation = completed(situation)};
  const Situation& s = advice.situation;
  advice.task_known = situation.task || !s.from || task_at_hand(s);
  advice.measured = measured_size(s);
  advice.timed = timed_length(s);
  advice.options = Chooser(advice, on).options();
  const bool rotary = rotary_at_hand(s).has_value();
  for (const Unknown& unknown : unknowns()) {
    if (!of_task(unknown.tasks, *s.task) || !holds(unknown.length, is_longer(s)) || !holds(unknown.rotary, rotary))
      continue;
    if (s.from && !rotary) continue;  // it stays as it is
    advice.unknowns.push_back(filled(unknown.text, s));
  }
  if (s.from && s.from->lengths.unplaced > 0 && s.wanted > std::max(s.trained, s.longest)) {
    advice.unknowns.emplace_back(
        "How the layers without positions, which see all of the text, take more tokens than they were trained on: that "
        "shows only where it is tried.");
  }
  if (s.from && !rotary) {
    advice.unknowns.emplace_back(
        "How well this model, in particular, serves longer sequences than it was trained on: "
        "that shows only where it is tried.");
  }
  return advice;
}

}  // namespace bearing::inspect
