#include <algorithm>
#include <bearing/gguf.hpp>
#include <bit>
#include <cstdint>
#include <map>
#include <tuple>

#include "dialects.hpp"
#include "hf_reader.hpp"
#include "hf_towers.hpp"

namespace bearing {
namespace {

using hf::Config;
using hf::Family;
using json::Object;

Config make_config(const hf::Part& part) {
  const Family* family = hf::find_family(part.model_type);
  Config config{.file = part.file,
                .family = family != nullptr ? *family : Family{.model_type = {}, .pairing = Pairing::half},
                .known = family != nullptr,
                .model_type = part.model_type,
                .part = part.name};
  return config;
}

void require_common_keys(const Config& config) {
  const std::string got = config.model_type.empty() ? "none" : json::quoted(config.model_type);
  const bool latent = config.family.is(hf::mla) || config.family.is(hf::unrotated);
  if (!hf::has_rotary_keys(config.file) && !latent) {
    config.notes().fail(
        config.file.pointer("model_type"),
        "must be one that is known, or stand beside rope_theta, rope_scaling or rope_parameters, got " + got);
  }
  if (!latent) {
    config.file.warn("model_type",
                     got + " is not known: the common keys are read, and the pairing is assumed to be half",
                     json::Weight::grave);
  } else {
    config.file.warn("model_type",
                     got +
                         " is not known: read as latent attention, the last qk_rope_head_dim dimensions "
                         "turn, neighbours unless rope_interleave is false",
                     json::Weight::grave);
  }
}

Index first_trained_length(const Config& config, const std::vector<Layer>& layers) {
  for (const Layer& layer : layers) {
    const auto* rope = std::get_if<Rope>(&layer.encoding);
    if (rope == nullptr) continue;
    if (const Index length = trained_length(rope->scaling)) return length;
  }
  const char* const key = config.family.is(hf::log_past_seq_length) ? "seq_length" : "original_max_position_embeddings";
  const Index original = config.file.integer(key, 1, hf::most_positions).value_or(0);
  if (original > 0) return original;
  const bool stretched = std::any_of(layers.begin(), layers.end(), [](const Layer& layer) {
    const auto* rope = std::get_if<Rope>(&layer.encoding);
    return rope != nullptr && !std::holds_alternative<NoScaling>(rope->scaling) &&
           !std::holds_alternative<ProportionalScaling>(rope->scaling) &&
           !std::holds_alternative<ExplicitFrequencies>(rope->scaling);  // negative angles
  });
  return stretched ? 0 : config.positions;
}

/// Moonshine's encoder turns as its decoder does, whose heads its code takes for both.
void add_encoder(const Config& config, std::vector<Layer>& layers) {
  for (Layer& layer : layers) layer.part = "decoder";
  const Index count = config.file.integer("encoder_num_hidden_layers", 1, hf::most_layers).value_or(6);
  Layer encoder = layers.front();
  encoder.part = "encoder";
  layers.insert(layers.begin(), static_cast<std::size_t>(count), encoder);
}

void fill_rotary(Config& config, Model& model) {
  hf::read_sizes(config);
  if (config.family.scaling != nullptr) {
    config.class_scaling = std::make_shared<json::Document>(config.family.scaling, config.notes());
  }
  model.layers = hf::read_layers(config);
  if (config.family.is(hf::two_parts)) add_encoder(config, model.layers);
  model.heads = config.heads;
  model.kv_heads = config.kv_heads;
  model.head_dim = config.head_dim;
  model.context_length = config.positions;
  model.trained_length = first_trained_length(config, model.layers);
  hf::read_inputs_beside_rotation(config, model);
}

Model read_part(const hf::Part& part) {
  Config config = make_config(part);
  hf::assume_latent_attention(config);
  Model model;
  model.file = config.notes().file();
  model.part = part.name;
  model.model_type = config.model_type;
  if (!hf::read_not_rotary(config, model)) {
    hf::refuse_by_key(config);
    if (!config.known) require_common_keys(config);
    fill_rotary(config, model);
  }
  hf::read_regions(config, model);
  return model;
}

/// A tower is never guessed, and what is wrong in one does not hide the language model.
Model read_tower(const hf::Part& part) {
  std::string why =
      "the model_type " + (part.model_type.empty() ? "is missing" : json::quoted(part.model_type) + " is not known");
  if (hf::known_type(part.model_type)) {
    try {
      return read_part(part);
    } catch (const ConfigError& error) {
      why = error.what();
    }
  }
  Model model{
      .file = part.file.notes().file(), .part = part.name, .model_type = part.model_type, .layers = {}, .warnings = {}};
  model.layers.push_back({.encoding = OtherEncoding{"unknown", why}});
  part.file.notes().warn(part.file.pointer(), "the " + part.name + " is not read: " + why, json::Weight::grave);
  return model;
}

/// What bearing says of a file has its model_type too, but its numbers elsewhere.
void refuse_own_words(const Object& file) {
  const rapidjson::Value *schema = file.find("schema"), *layers = file.find("layers");
  const bool printed = schema != nullptr && schema->IsString() && file.text("schema")->starts_with("bearing.");
  const bool model = layers != nullptr && layers->IsArray() && file.has("towers") && file.has("warnings");
  if (!printed && !model) return;
  file.notes().fail(file.pointer(), std::string("must be a model's own config.json, got what bearing says of one: ") +
                                        (printed ? "the output of a command" : "Model.to_dict()"));
}

/// Of all parts together, as many as of one.
void check_layers(const Object& part, std::size_t layers) {
  if (layers <= static_cast<std::size_t>(hf::most_layers)) return;
  part.notes().fail(part.pointer(), "must not bring the layers of all parts above " + std::to_string(hf::most_layers) +
                                        ", got " + std::to_string(layers));
}

Model read_model(const std::string& text, const std::string& name) {
  json::Notes notes(name);
  const json::Document document(text, notes);
  const Object file(document.root(), "", notes);
  refuse_own_words(file);
  Model model;
  if (dialects::read(file, model)) {
    std::size_t layers = model.layers.size();
    for (const Model& tower : model.towers) layers += tower.layers.size();
    check_layers(file, layers);
    model.file = name;
    model.warnings = notes.take();
    return model;
  }
  const hf::Parts parts = hf::parts_of(file);
  model = read_part(parts.main);
  hf::read_between(file, model);
  model.task = hf::task_of(file);
  std::size_t layers = model.layers.size();
  check_layers(parts.main.file, layers);
  for (const hf::Part& tower : parts.towers) {
    model.towers.push_back(read_tower(tower));
    layers += model.towers.back().layers.size();
    check_layers(tower.file, layers);
  }
  hf::limit_atoms(file, model);
  model.warnings = notes.take();
  return model;
}

}  // namespace

Model read_hf_config(const std::string& path) {
  if (is_gguf_file(path)) throw ConfigError(path + ": must be a config.json, got a GGUF file, which read_gguf() reads");
  return read_model(json::read_text(path), path);
}

Model parse_hf_config(std::string_view text, const std::string& name) { return read_model(std::string(text), name); }

std::vector<LayerGroup> layer_groups(const Model& model) {
  std::vector<LayerGroup> groups;
  // Groups that these do not tell apart are few, whatever the number of layers.
  using Key = std::tuple<std::string, std::string, Index, std::size_t, std::uint64_t, Index>;
  std::map<Key, std::vector<std::size_t>> candidates;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    const Rope* rope = std::get_if<Rope>(&layer.encoding);
    auto& indices = candidates[{layer.part, layer.type, layer.window, layer.encoding.index(),
                                rope == nullptr ? 0 : std::bit_cast<std::uint64_t>(rope->base),
                                rope == nullptr ? 0 : rope->head_dim}];
    const auto at = std::find_if(indices.begin(), indices.end(), [&](std::size_t g) {
      const Layer& other = groups[g].layer;
      return other.temperature == layer.temperature && other.encoding == layer.encoding && other.also == layer.also &&
             other.positions == layer.positions && other.values == layer.values && other.base_from == layer.base_from &&
             other.window_after == layer.window_after && other.chunks_before == layer.chunks_before &&
             other.grid == layer.grid && other.span == layer.span;
    });
    if (at != indices.end()) {
      groups[*at].layers.push_back(static_cast<Index>(i));
      continue;
    }
    indices.push_back(groups.size());
    groups.push_back({{static_cast<Index>(i)}, layer});
  }
  return groups;
}

}  // namespace bearing
