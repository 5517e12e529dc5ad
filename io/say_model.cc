#include "say_model.hpp"

#include <algorithm>
#include <bearing/gguf.hpp>
#include <charconv>
#include <variant>

#include "json_file.hpp"
#include "lasting.hpp"

namespace bearing::say {
namespace {

/// "config.json#3:table=t5.npy", taken apart.
struct Place {
  std::string file, part, keys;

  Place() = default;
  explicit Place(const std::string& text) {
    const std::size_t hash = text.find('#');
    std::size_t colon = text.find(':', hash == text.npos ? 0 : hash);
    if (hash == text.npos && colon != text.npos && text.find('=', colon) == text.npos)
      colon = text.npos;  // of the path
    file = text.substr(0, std::min(hash, colon));
    if (hash != text.npos) part = text.substr(hash + 1, colon == text.npos ? colon : colon - hash - 1);
    if (colon != text.npos) keys = text.substr(colon + 1);
  }
  static Place whole(const std::string& file) {
    Place place;
    return place.file = file, place;
  }
};

Sizes sizes_of(const Model& model) {
  return {.heads = model.heads,
          .kv_heads = model.kv_heads,
          .dim = model.head_dim,
          .length = model.trained_length > 0 ? model.trained_length : model.context_length};
}

/// A record that is no encoding's spec gives one: a model's of the encoding in its layers.
Record spec_of(const Record& record) {
  if (description_of(record) != nullptr) return record;
  for (const FunctionInfo& method : record.type().methods) {
    if (method.result.kind != Kind::record) continue;
    Values arguments(method.arguments.size(), Index{1});
    arguments.front() = record;
    return std::get<Record>(method.call(arguments));
  }
  return record;
}

/// The head_dim of a spec, or of a record in it, such as a rope; 0 if it has none. A model's layers
/// may differ in it: V-JEPA 2's encoder and predictor do.
Index head_dim_in(const Record& spec) {
  if (spec.type().member("head_dim") != nullptr) return std::get<Index>(spec.get("head_dim"));
  for (const MemberInfo& member : spec.type().members) {
    const Value value = spec.get(member.name);
    const Record* inner = std::get_if<Record>(&value);
    const Index own = inner != nullptr && *inner ? head_dim_in(*inner) : 0;
    if (own > 0) return own;
  }
  return 0;
}

/// What a model says of a layer or its input; nothing where its numbers are not read.
class Sayings {
 public:
  Sayings(const Place& place, const Model& model) : place_(place), task_(model.task) {}

  template <class Spec>
  void add(const std::string& part, const Spec& spec, Sizes sizes, const RopeLengths& lengths) {
    if constexpr (std::is_same_v<Spec, OtherEncoding>) {
      others_ += (others_.empty() ? "" : ", ") + spec.name;
    } else {
      const Record record = spec_of(Record::of(spec));
      if (const Index own = head_dim_in(record); own > 0) sizes.dim = own;
      if constexpr (requires { spec.dim; }) sizes.dim = spec.dim;
      if constexpr (requires { spec.length; }) sizes.length = spec.length;
      add(part, description_of(record), record, sizes, lengths);
    }
  }

  void add(const std::string& part, const Description& nothing, const Sizes& sizes, const RopeLengths& lengths) {
    add(part, &nothing, {}, sizes, lengths);
  }

  std::vector<Said> take() {
    if (!all_.empty()) return std::move(all_);
    throw ConfigError(place_.file + ": " +
                      (others_.empty() ? "has no encoding there"
                                       : "the numbers of " + others_ + " are not read: there is nothing to go by"));
  }

 private:
  void add(const std::string& part, const Description* description, const Record& spec, const Sizes& sizes,
           const RopeLengths& lengths) {
    if (description == nullptr) return;
    Said said("@" + place_.file + (part.empty() ? "" : "#" + part), *description, spec, sizes, lengths, task_);
    if (!place_.keys.empty()) said.add_keys(place_.keys);
    all_.push_back(std::move(said));
  }

  const Place& place_;
  const std::string& task_;
  std::string others_;
  std::vector<Said> all_;
};

/// What stands after # for an input: "input", or of a model with several "encoder.input", "x.input",
/// "encoder.left.input".
std::string input_word(const Model& model, const ModelInput& input) {
  std::string word;
  if (model.inputs.size() > 1 && !input.part.empty()) word = input.part + '.';
  if (!input.label.empty()) word += input.label + '.';
  return word + "input";
}

/// The inputs that a part names, by their words or by their parts; "input": all, unless it is the word of some.
std::vector<const ModelInput*> inputs_at(const std::string& part, const Model& model) {
  std::vector<const ModelInput*> named, all;
  for (const ModelInput& input : model.inputs) {
    all.push_back(&input);
    const bool by_part = !input.part.empty() && part == input.part + ".input";
    if (by_part || part == input_word(model, input)) named.push_back(&input);
  }
  return named.empty() && (part.empty() || part == "input") ? all : named;
}

/// "0 to 23, encoder.input or decoder.input"
std::string parts_text(const Model& model) {
  std::vector<std::string> words{std::to_string(static_cast<Index>(model.layers.size()) - 1)};
  for (const ModelInput& input : model.inputs) {
    const std::string word = input_word(model, input);
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  if (words.size() == 1) words.emplace_back("input");
  std::string text = "0 to ";
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 < words.size() ? ", " : " or ") + words[i];
  return text;
}

/// The layer that a part names; throws ShapeError if there is none.
Index layer_at(const std::string& part, const Model& model, const std::string& text) {
  Index layer = -1;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), layer);
  const auto layers = static_cast<Index>(model.layers.size());
  if (error != std::errc{} || end != part.data() + part.size() || layer < 0 || layer >= layers) {
    throw ShapeError("[encoding] @" + text + ": after # must stand a layer from " + parts_text(model) + ", got '" +
                     part + "'");
  }
  return layer;
}

/// An encoder and a decoder have lengths of their own.
void add_input(const ModelInput& input, const Model& model, Sayings& to) {
  Sizes sizes = sizes_of(model);
  RopeLengths lengths = lengths_of(model, {});
  const Index own = std::visit(
      [&](const auto& spec) {
        if constexpr (requires { spec.length; }) return input.part.empty() ? Index{0} : spec.length;
        return input.length;
      },
      input.encoding);
  if (own > 0) sizes.length = lengths.longest = own;
  if (own > 0 && lengths.trained > 0) lengths.trained = own;
  std::visit([&](const auto& spec) { to.add(input_word(model, input), spec, sizes, lengths); }, input.encoding);
}

/// What a layer without an encoding is called: NoPE, unless the input has an encoding or the layer has no attention.
const Description& without_encoding(const Model& model, const Layer& layer) {
  const auto titled = [](const char* title) {
    Description one = *inspect::find("nope");
    one.title = title, one.paper = {};
    return one;
  };
  static const auto& in_the_input = lasting(titled("no encoding of its own: it is in the input"));
  static const auto& no_attention = lasting(titled("no attention, and no encoding"));
  if (!layer.attends()) return no_attention;
  return model.inputs.empty() ? *inspect::find("nope") : in_the_input;
}

void add_layer(const std::string& part, const Layer& layer, const Model& model, Sayings& to) {
  Sizes sizes = sizes_of(model);
  const RopeLengths lengths = lengths_of(model, layer);
  if (sizes.length == 0) sizes.length = layer.grid.height * layer.grid.width;
  const auto add = [&](const auto& spec) {
    if constexpr (std::is_same_v<std::decay_t<decltype(spec)>, NoPosition>) {
      to.add(part, without_encoding(model, layer), sizes, lengths);
    } else {
      to.add(part, spec, sizes, lengths);
    }
  };
  std::visit(add, layer.encoding);
}

/// Whether a group has nothing to say where no layer is asked for: it has no encoding, and what it would say of that is
/// said elsewhere, by the input, by layers that have one, or by layers that attend.
bool says_nothing(const LayerGroup& group, const std::vector<LayerGroup>& groups, const Model& model) {
  const auto silent = [](const LayerGroup& of) { return std::holds_alternative<NoPosition>(of.layer.encoding); };
  if (!silent(group)) return false;
  return !model.inputs.empty() || std::any_of(groups.begin(), groups.end(), [&](const LayerGroup& other) {
    return !silent(other) || (other.layer.attends() && !group.layer.attends());
  });
}

/// Whether another group says the same, and reaches further or stands before it: a window is no reason to say it twice,
/// and what has none needs more of the encoding.
bool said_by_another(const LayerGroup& group, const std::vector<LayerGroup>& groups) {
  const auto farthest = [](const LayerGroup& of) { return of.layer.window > 0 ? of.layer.window : max_position; };
  return std::any_of(groups.begin(), groups.end(), [&](const LayerGroup& other) {
    if (other.layer.encoding != group.layer.encoding || other.layer.attends() != group.layer.attends()) return false;
    const Index theirs = farthest(other), ours = farthest(group);
    return theirs > ours || (theirs == ours && other.layers[0] < group.layers[0]);
  });
}

std::vector<Said> said_at(const Place& place, const Model& model, const std::string& text) {
  Sayings sayings(place, model);
  const std::vector<const ModelInput*> inputs = inputs_at(place.part, model);
  const bool all = place.part.empty(), input = place.part == "input" || (!all && !inputs.empty());
  const Index layer = all || input ? -1 : layer_at(place.part, model, text);
  for (const ModelInput* one : inputs) add_input(*one, model, sayings);
  const std::vector<LayerGroup> groups = layer_groups(model);
  for (const LayerGroup& group : groups) {
    const bool asked = std::find(group.layers.begin(), group.layers.end(), layer) != group.layers.end();
    // What several do is said once.
    if (input || (all ? says_nothing(group, groups, model) || said_by_another(group, groups) : !asked)) continue;
    const bool only = all && groups.size() == 1 && model.inputs.empty();
    // The number that was asked for, which need not be the first of its kind.
    add_layer(only ? "" : std::to_string(all ? group.layers[0] : layer), group.layer, model, sayings);
  }
  return sayings.take();
}

/// Whether a file that is no model's says an encoding by its "type".
bool is_spec(const std::string& file) {
  if (!file.ends_with(".json")) return false;
  json::Notes notes(file);
  const json::Document document(json::read_text(file), notes);
  const json::Object object(document.root(), "", notes);
  return object.has("type") && object.spelled({"model_type", "architectures"}).empty();
}

}  // namespace

std::vector<Said> said_by_model(const std::string& text) {
  const Place place(text);
  try {
    return said_at(place, read_model_file(place.file), text);
  } catch (const ConfigError&) {
    if (!is_spec(place.file)) throw;
    const std::string without = place.file + (place.keys.empty() ? "" : ":" + place.keys);
    throw ConfigError(place.file + ": must be written " + without +
                      ", without @: it says an encoding, as it has a type");
  }
}

}  // namespace bearing::say

namespace bearing {

std::vector<Said> say_encodings(const Model& model) {
  return say::said_at(say::Place::whole(model.file), model, model.file);
}

}  // namespace bearing
