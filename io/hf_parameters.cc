#include <algorithm>

#include "hf_reader.hpp"

// Where the rotary parameters of a layer type stand: rope_scaling, rope_parameters or the class' own dictionary, for
// all layers or one per layer type.

namespace bearing::hf {

using json::Object;

const Object* Parameters::with(std::string_view key) const {
  for (const Object& part : parts_) {
    if (part.has(key)) return &part;
  }
  return nullptr;
}

std::optional<double> Parameters::number(std::string_view key, json::Range range) const {
  const Object* part = with(key);
  return part == nullptr ? std::nullopt : part->number(key, range);
}

std::optional<Index> Parameters::integer(std::string_view key, Index least, Index most) const {
  const Object* part = with(key);
  return part == nullptr ? std::nullopt : part->integer(key, least, most);
}

std::optional<bool> Parameters::flag(std::string_view key) const {
  const Object* part = with(key);
  return part == nullptr ? std::nullopt : part->flag(key);
}

std::string Parameters::pointer(std::string_view key) const {
  const Object* part = with(key);
  return (part == nullptr ? parts_.front() : *part).pointer(key);
}

void Parameters::missing(std::string_view key, const std::string& wanted) const { parts_.front().missing(key, wanted); }

void Parameters::warn(std::string_view key, const std::string& text) const {
  const Object* part = with(key);
  (part == nullptr ? parts_.front() : *part).warn(key, text);
}

std::string Parameters::type() const {
  if (parts_.empty()) return "default";
  const Object* part = with("rope_type");
  const Object* older = with("type");
  if (part == nullptr && older == nullptr) return "default";
  std::string type = part != nullptr ? *part->text("rope_type") : *older->text("type");
  if (part != nullptr && older != nullptr) {
    const std::string said = *older->text("type");
    // Files of Qwen2-VL say "mrope" here and "default" there; both are read.
    if (said != type && said != "mrope") older->warn("type", "says otherwise than rope_type, which counts: " + type);
  }
  return type;
}

namespace {

/// One dictionary per layer type? Then the members are objects; nothing says so but their names.
bool nested(const Object& parameters, const std::string& layer_type) {
  const bool flat = !parameters.spelled({"rope_type", "type"}).empty();
  for (std::string_view key : parameters.keys()) {
    if (flat && key != layer_type && !key.ends_with("_attention")) continue;
    const rapidjson::Value* value = parameters.find(key);
    if (value != nullptr && value->IsObject()) return true;
  }
  return false;
}

/// A dictionary with something in it. Its keys are compared with each other, once per layer type.
std::optional<Object> filled(const Object& file, std::string_view key) {
  constexpr std::size_t most_parameters = 1000;
  auto object = file.object(key);
  if (object && object->keys().size() > most_parameters) file.wrong(key, "an object of at most 1000 keys");
  if (object && object->keys().empty()) object.reset();
  return object;
}

}  // namespace

bool bases_per_type(const Family& family) {
  return family.is(local_base) || family.is(modern_bases) || family.is(scale_full_only);
}

bool groups_per_type(const Family& family) {
  return bases_per_type(family) || family.is(global_heads) || family.is(groups) || family.is(compressed);
}

namespace {

/// Of a dictionary per layer type: what belongs to no layer type does nothing, and all of it cannot be meant.
void check_groups(const Config& config, const Object& dictionary) {
  const auto fits = [&](std::string_view key) {
    const bool label = config.family.is(compressed) && (key == "main" || key == "compress");
    return label || known_layer_type(key) || config.kinds.contains(key);
  };
  const auto keys = dictionary.keys();
  const bool any = std::any_of(keys.begin(), keys.end(), fits);
  for (std::string_view key : keys) {
    const rapidjson::Value* value = dictionary.find(key);
    if (value == nullptr || fits(key)) continue;
    if (!value->IsObject()) {
      dictionary.warn(key, "ignored: it stands beside one dictionary per layer type", json::Weight::slight);
    } else if (any) {
      dictionary.warn(key, "ignored: no layer is of that type");
    } else {
      config.notes().fail(dictionary.pointer(key), "must be one of the layer types, " + config.types.front() +
                                                       " for one, got " + json::quoted(key));
    }
  }
}

/// Where a family with a dictionary per layer type gets one for all, its code does less with it than it says.
void check_flat(const Config& config, const Object& dictionary) {
  if (!groups_per_type(config.family) || config.family.is(compressed) || !config.states_its_code()) return;
  if (dictionary.pointer() == "/rope_parameters") {
    config.notes().warn(
        dictionary.pointer(),
        "one dictionary for all layers counts, but " + config.code() + " reads one per layer type alone",
        json::Weight::grave);
  } else if (dictionary.has("type") && !dictionary.has("rope_type")) {
    dictionary.warn("type", "counts, but " + config.code() + " reads rope_type alone, and scales nothing",
                    json::Weight::grave);
  }
}

/// Adds a dictionary, or its part for the layer type if there is one dictionary per type.
void add(const Config& config, const Object& dictionary, const std::string& layer_type, LayerParameters& source) {
  if (!nested(dictionary, layer_type)) {
    check_flat(config, dictionary);
    source.parameters.add(dictionary);
    return;
  }
  source.per_type = true;
  check_groups(config, dictionary);
  if (!groups_per_type(config.family) && config.states_its_code()) {
    config.notes().warn(dictionary.pointer(),
                        "one dictionary per layer type counts, but " + config.code() +
                            " has one for all layers and reads none of these",
                        json::Weight::grave);
  }
  if (dictionary.has(layer_type)) {
    if (const auto part = filled(dictionary, layer_type)) source.parameters.add(*part);
  } else if (!bases_per_type(config.family)) {
    if (!dictionary.mentions(layer_type)) dictionary.missing(layer_type, "the parameters of layers of that type");
    source.absent = true;
  }
}

}  // namespace

LayerParameters find_parameters(const Config& config, const std::string& type) {
  const bool compresses = config.family.is(compressed);
  const std::string layer_type = compresses ? std::string(compressed_label(type)) : type;
  const auto older = filled(config.file, "rope_scaling"), newer = filled(config.file, "rope_parameters");
  LayerParameters source;
  if (older && config.family.is(unread_scaling)) {
    config.file.warn("rope_scaling", "counts, but " + config.code() + " reads rope_parameters alone",
                     json::Weight::grave);
  }
  if (older && newer) {
    config.file.warn("rope_scaling", bases_per_type(config.family)
                                         ? "stands beside rope_parameters; where both have a key, this one counts"
                                         : "stands beside rope_parameters, which is ignored then, its rope_theta too");
  }
  const bool full_only = config.family.is(local_base) || config.family.is(scale_full_only) || compresses;
  const bool plain = full_only && type == "sliding_attention";  // no scaling, unless in a dictionary of its own
  if (older && !(plain && !nested(*older, layer_type))) add(config, *older, layer_type, source);
  const bool counts = !older || bases_per_type(config.family);
  if (newer && counts && !(plain && compresses && !nested(*newer, layer_type))) {
    add(config, *newer, layer_type, source);
  }
  if (!older && !newer && config.class_scaling) {
    config.file.warn("rope_scaling", "not in the file; the default of " + config.model_type + " is used",
                     json::Weight::slight);
    add(config, Object(config.class_scaling->root(), class_default, config.notes()), layer_type, source);
  }
  return source;
}

}  // namespace bearing::hf
