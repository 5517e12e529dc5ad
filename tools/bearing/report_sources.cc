#include "report_sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bearing/error.hpp>
#include <filesystem>
#include <system_error>

#include "terminal.hpp"

namespace bearing::tool {
namespace {

std::string upper_first(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

/// "@models/config.json#5" → "5"; empty if there is none.
std::string place_of(const std::string& text) {
  const std::size_t hash = text.find('#');
  return hash == text.npos ? "" : text.substr(hash + 1);
}

/// The file of a text that says a model, and nothing that changes it; empty for other texts.
std::string model_file(const std::string& text) {
  if (text.starts_with('@')) {
    const std::string place = place_of(text);
    const bool changed = text.find('=') != text.npos && text.find(':') != text.npos;
    return changed || place.find(':') != place.npos ? "" : text.substr(1, text.find('#') - 1);
  }
  std::error_code ignored;
  if (!std::filesystem::exists(text, ignored)) return "";
  if (std::filesystem::is_directory(text, ignored)) return text;
  try {
    say_encoding(text);
    return "";  // a file that says an encoding
  } catch (const std::exception&) {
    return text;  // what is wrong with it as a model's file is said when it is read
  }
}

/// The subjects of a model, to be taken one by one as their layers come.
class Subjects {
 public:
  explicit Subjects(const std::string& text) {
    try {
      all_ = subjects_of("report", text);
    } catch (const ConfigError& error) {  // recognised, but its numbers are not read
      why_ = error.what();
    }
  }

  /// That of the next input: "#input", "#encoder.input", "#x.input".
  std::optional<Subject> take_input() {
    return take_if([](const std::string& place) { return place == "input" || place.ends_with(".input"); });
  }
  /// That of a group of layers; a text without a layer says all of them.
  std::optional<Subject> take(const LayerGroup& group) {
    for (Index layer : group.layers) {
      const std::string number = std::to_string(layer);
      if (auto found = take_if([&](const std::string& place) { return place == number; })) return found;
    }
    return take_if([](const std::string& place) { return place.empty(); });
  }
  const std::string& why() const { return why_; }

 private:
  template <class Fits>
  std::optional<Subject> take_if(const Fits& fits) {
    for (auto one = all_.begin(); one != all_.end(); ++one) {
      if (!fits(place_of(one->text))) continue;
      Subject found = std::move(*one);
      all_.erase(one);
      return found;
    }
    return std::nullopt;
  }

  std::vector<Subject> all_;
  std::string why_;
};

ReportPart input_part(const ModelInput& input, Subjects& subjects) {
  ReportPart part{upper_first(input_title(input))};
  part.facts = input_facts(input);
  part.name = input_name(input);
  if (!std::holds_alternative<OtherEncoding>(input.encoding)) part.subject = subjects.take_input();
  if (!part.subject) part.remark = "There is nothing to draw: the file does not say its numbers.";
  return part;
}

/// The group before this one that has the same encoding; null if there is none.
const GroupReport* same_encoding(const ConfigReport& model, const GroupReport& group) {
  for (const GroupReport& other : model.groups) {
    if (&other == &group) return nullptr;
    if (other.group.layer.encoding == group.group.layer.encoding) return &other;
  }
  return nullptr;
}

ReportPart group_part(const ConfigReport& model, const GroupReport& group, Subjects& subjects) {
  ReportPart part{upper_first(group_title(group.group))};
  part.facts = group_facts(group, model);
  const std::string layers = layers_text(group.group.layers);
  constexpr std::size_t short_enough = 20;
  part.name = layers.size() <= short_enough ? layers : fmt::format("layer {} and others", group.group.layers[0]);
  if (const GroupReport* same = same_encoding(model, group)) {
    part.remark = fmt::format("The encoding is that of {}: its pictures and measurements stand there.",
                              layers_text(same->group.layers));
    return part;
  }
  if (group.frequencies) part.pairs = pair_rows(group, Pairs::all);
  if (!std::holds_alternative<OtherEncoding>(group.group.layer.encoding)) part.subject = subjects.take(group.group);
  const bool nothing = std::holds_alternative<NoPosition>(group.group.layer.encoding);
  if (!part.subject && !nothing) part.remark = "There is nothing to draw: the file does not say its numbers.";
  return part;
}

ReportSource model_source(const std::string& text, const std::string& file) {
  const std::string place = place_of(text);
  Subjects subjects(text.starts_with('@') ? text : "@" + text);  // refuses a layer that is not there
  const bool input = place == "input";
  ReportSource source{text, config_report(read_model(file), 0, input || place.empty() ? -1 : std::stoll(place))};
  ConfigReport& model = *source.model;
  if (place.empty() || input) {
    for (const ModelInput& one : model.model.inputs) source.parts.push_back(input_part(one, subjects));
  }
  if (input) model.groups.clear();
  for (const GroupReport& group : model.groups) source.parts.push_back(group_part(model, group, subjects));
  return source;
}

ReportPart said_part(Subject subject, const Sizes& asked) {
  ReportPart part{fmt::format("{}: {}", subject.text, subject.description.title), subject.text};
  const inspect::SpecimenOptions size = example_size(asked, subject.model);
  const Record spec = subject.description.spec ? subject.description.spec(size) : Record{};
  const Rope* rope = spec ? spec.as<Rope>() : nullptr;
  if (rope != nullptr) {
    GroupReport group;
    group.frequencies = resolve(*rope);
    group.wavelength = wavelengths(*group.frequencies);
    part.facts = rope_facts(*rope, *group.frequencies);
    part.pairs = pair_rows(group, Pairs::all);
  } else {
    part.facts = record_facts(spec);
  }
  part.subject = std::move(subject);
  return part;
}

// Sentences

std::string fact_of(const std::vector<Fact>& facts, const std::string& label) {
  const auto found = std::find_if(facts.begin(), facts.end(), [&](const Fact& fact) { return fact.label == label; });
  return found == facts.end() ? "" : found->text;
}

std::string lengths_sentence(const ConfigReport& report) {
  const Index trained = report.model.trained_length, promised = report.model.context_length;
  std::string out;
  if (trained == 0 && promised == 0) {
    out = "The file states no length.";
  } else if (trained > 0 && trained == promised) {
    out = fmt::format("It was trained on sequences of {} tokens, and the file promises no more.", grouped(trained));
  } else {
    out = trained > 0 ? fmt::format("It was trained on sequences of {} tokens; ", grouped(trained))
                      : "The file does not state the length that it was trained on; ";
    out +=
        promised > 0 ? fmt::format("the file promises {} tokens.", grouped(promised)) : "the file promises no length.";
  }
  if (report.reach > 0 && report.reach != promised) {
    out += fmt::format(" The scaling reaches {} tokens.", grouped(report.reach));
  }
  return out;
}

std::string input_sentence(const ModelInput& input) {
  std::string name = printable(encoding_name(input.encoding));
  if (std::holds_alternative<OtherEncoding>(input.encoding)) {
    return fmt::format("The {} has positions whose numbers are not read: {}.", input_name(input), name);
  }
  std::replace(name.begin(), name.end(), '_', ' ');
  return fmt::format("{} positions are added to the {}.", upper_first(name), input_name(input));
}

std::string group_sentence(const GroupReport& group, const ConfigReport& report) {
  const Layer& layer = group.group.layer;
  const std::vector<Fact> facts = group_facts(group, report);
  std::string out = upper_first(fmt::format("{}{}{} ({})", layer.part, layer.part.empty() ? "" : " ",
                                            layers_text(group.group.layers), fact_of(facts, "attention")));
  const std::string s = group.group.layers.size() == 1 ? "s" : "";
  if (std::holds_alternative<Rope>(layer.encoding)) {
    const std::string pairing = fact_of(facts, "pairing"), scaling = fact_of(facts, "scaling");
    std::string axes = fact_of(facts, "axes");  // "3 of 16 + 24 + 24 pairs, in sections"
    if (!axes.empty()) axes.insert(axes.find_first_of(" ,"), " axes"), axes += "; ";
    out += fmt::format(" rotate{} queries and keys (RoPE): dimensions {}; {}pairing {}; base {}; ", s,
                       fact_of(facts, "dimensions"), axes, pairing.substr(0, pairing.find(':')),
                       fact_of(facts, "base").substr(0, fact_of(facts, "base").find(' ')));
    return out +
           (scaling == "none" ? "no scaling." : fmt::format("scaling {}; pairs {}.", scaling, fact_of(facts, "pairs")));
  }
  if (std::holds_alternative<NoPosition>(layer.encoding)) {
    return out + (report.model.inputs.empty() ? fmt::format(" ha{} no positional encoding.", s.empty() ? "ve" : "s")
                                              : fmt::format(" add{} nothing: positions are in the input.", s));
  }
  return out + fmt::format(" use{} {}.", s, printable(encoding_name(layer.encoding)));
}

/// A page has the encodings of the language model, and names the towers.
std::string tower_sentence(const Model& tower) {
  const std::string title = tower_title(tower);  // "vision tower: siglip_vision_model, 27 layers"
  const std::size_t colon = title.find(": ");
  const char* article = title.find_first_of("aeiou") == 0 ? "an" : "a";
  return fmt::format("The file has {} {} too ({}), which bearing config shows.", article, title.substr(0, colon),
                     title.substr(colon + 2));
}

}  // namespace

ReportSource report_source(const std::string& text, const Sizes& asked) {
  const std::string file = model_file(text);
  if (!file.empty()) return model_source(text, file);
  ReportSource source{text};
  with_library_errors("report", [&] {
    for (Subject& subject : subjects_of("report", text)) source.parts.push_back(said_part(std::move(subject), asked));
  });
  return source;
}

std::vector<std::string> model_summary(const ConfigReport& report) {
  const Model& model = report.model;
  std::string sizes = fmt::format("{} has {}", model.model_type.empty() ? "The model" : printable(model.model_type),
                                  counted(std::ssize(model.layers), "layer"));
  if (model.heads > 0) {
    sizes += fmt::format("; attention has {} and {} of {} dimensions", counted(model.heads, "query head"),
                         counted(model.kv_heads, "key/value head"), model.head_dim);
  }
  std::vector<std::string> out = {sizes + ".", lengths_sentence(report)};
  for (const ModelInput& input : model.inputs) {
    out.push_back(input_sentence(input));
  }
  for (const GroupReport& group : report.groups) out.push_back(group_sentence(group, report));
  for (const ConfigReport& tower : report.towers) out.push_back(tower_sentence(tower.model));
  return out;
}

}  // namespace bearing::tool
