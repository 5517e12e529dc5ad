#include <algorithm>
#include <charconv>
#include <map>

#include "hf_reader.hpp"

// What differs from layer to layer beside its type: bases, parts of the head that turn, scalings, sizes of heads.

namespace bearing::hf {
namespace {

using json::Object;

/// The list of a key, one number per layer; more only where the layers of multi-token prediction follow.
std::optional<std::vector<double>> per_layer(const Config& config, std::string_view key, json::Range range) {
  const rapidjson::Value* value = config.file.find(key);
  if (value == nullptr || !value->IsArray()) return {};
  std::vector<double> list = *config.file.numbers(key, static_cast<std::size_t>(most_layers), range);
  const Index more = config.file.integer("num_nextn_predict_layers", 0, most_layers).value_or(0);
  if (std::ssize(list) != config.layers && std::ssize(list) != config.layers + more) {
    config.file.wrong(
        key, std::to_string(config.layers) + " numbers, one per layer" + config.defaults_among({"num_hidden_layers"}));
  }
  list.resize(static_cast<std::size_t>(config.layers));
  return list;
}

void require_a_base(const Config& config, std::string_view key, double base) {
  if (base != 0 && !(base > 1)) config.file.wrong(key, "numbers above 1, or 0 for a layer without positions");
}

/// layer_rope_theta: 0 for a layer without encoding. Muse's code reads the zeros and turns the others by one base.
void read_listed_bases(const Config& config, std::vector<LayerRope>& layers) {
  constexpr std::string_view key = "layer_rope_theta";
  const bool zeros_alone = config.family.is(listed_nope);
  const auto list = per_layer(config, key, {0, base_range.most});
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!list) {
      layers[i].none = zeros_alone && (layers.size() - 1 - i) % 4 == 0;
      continue;
    }
    const double base = (*list)[i];
    require_a_base(config, key, base);
    layers[i].none = base == 0;
    if (base == 0) continue;
    if (zeros_alone) {
      layers[i].stated_base = base;
    } else {
      layers[i].base = Base{base, std::string(key)};
    }
  }
}

/// Step 3.5: lists for all layers; its code takes each layer type's from the first layer of that type.
void read_typed_lists(const Config& config, std::vector<LayerRope>& layers) {
  const auto bases = per_layer(config, "rope_theta", base_range);
  const auto parts = per_layer(config, "partial_rotary_factors", {1e-6, 1});
  std::map<std::string_view, std::size_t> firsts;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::size_t first = firsts.emplace(config.types[i], i).first->second;
    if (bases) layers[i].base = Base{(*bases)[first], "rope_theta"};
    if (parts) layers[i].fraction = (*parts)[first];
    if ((bases && (*bases)[i] != (*bases)[first]) || (parts && (*parts)[i] != (*parts)[first])) {
      config.notes().fail(
          config.file.pointer(bases ? "rope_theta" : "partial_rotary_factors") + "/" + std::to_string(i),
          "must be what the first layer of its type, " + config.types[i] + ", has: " + config.code() +
              " knows one rotation per layer type");
    }
    layers[i].scaled = config.types[i] == "full_attention";
  }
}

void read_scaled_layers(const Config& config, std::vector<LayerRope>& layers) {
  const auto list =
      config.file.integers("rope_scaling_layers", static_cast<std::size_t>(most_layers), 0, std::ssize(layers) - 1);
  if (!list) return;
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].scaled = false;
  for (const Index i : *list) layers[static_cast<std::size_t>(i)].scaled = true;
}

/// per_layer_config, an object per layer that is unlike the others: what it says of heads and of the window.
void read_layer_config(const Config& config, const Object& layer, LayerRope& of) {
  const Index nope = layer.integer("qk_nope_head_dim", 0, most_head_dim / 2).value_or(of.head_dim - of.rotary_dim);
  if (config.family.is(mla)) {
    of.rotary_dim = layer.integer("qk_rope_head_dim", 1, most_head_dim / 2).value_or(of.rotary_dim);
    if (of.rotary_dim % 2 != 0) layer.wrong("qk_rope_head_dim", "even");
    of.head_dim = nope + of.rotary_dim;
  } else {
    of.head_dim = layer.integer("head_dim", 2, most_head_dim).value_or(of.head_dim);
    if (layer.has("head_dim") && !config.family.is(global_heads) && config.states_its_code()) {
      layer.warn("head_dim", "counts, but " + config.code() + " has one head_dim for all layers", json::Weight::grave);
    }
  }
  if (layer.mentions("sliding_window")) of.window = layer.integer("sliding_window", 0, most_positions).value_or(0);
  for (std::string_view key :
       {"attention_chunk_size", "rope_parameters", "rope_scaling", "rope_theta", "partial_rotary_factor"}) {
    if (layer.has(key)) layer.wrong(key, "missing: it is not read for single layers");
  }
}

void read_layer_configs(const Config& config, const Object& given, std::vector<LayerRope>& layers) {
  for (std::string_view key : given.keys()) {
    std::size_t layer = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
    if (error != std::errc() || end != key.data() + key.size() || layer >= layers.size()) {
      config.notes().fail(given.pointer(key), "must be the number of a layer, from 0 to " +
                                                  std::to_string(layers.size() - 1) + ", got " + json::quoted(key) +
                                                  config.defaults_among({"num_hidden_layers"}));
    }
    if (const auto object = given.object(key)) read_layer_config(config, *object, layers[layer]);
  }
}

/// dots3: the heads of its sliding layers, where per_layer_config does not tell.
void read_sliding_sizes(const Config& config, std::vector<LayerRope>& layers) {
  const Object& file = config.file;
  const Index nope = file.integer("swa_qk_nope_head_dim", 0, most_head_dim / 2).value_or(192);
  const Index head = file.integer("swa_head_dim", 1, most_head_dim).value_or(256);
  const Index turns = file.integer("swa_qk_rope_head_dim", 1, most_head_dim / 2).value_or(head - nope);
  if (turns < 2 || turns % 2 != 0) file.wrong("swa_qk_rope_head_dim", "even and at least 2");
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (config.types[i] != sliding_attention) continue;
    layers[i].rotary_dim = turns;
    layers[i].head_dim = nope + turns;
  }
}

/// What the class sets where there is no per_layer_config: Gemma 4's wider global heads, NeoMME's longer windows.
void read_usual_layers(const Config& config, std::vector<LayerRope>& layers) {
  const auto global = config.file.integer("global_head_dim", 2, most_head_dim);
  Index slides = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (config.family.is(global_heads) && config.types[i] == "full_attention")
      layers[i].head_dim = global.value_or(512);
    if (config.family.is(alternating_axes) && config.types[i] == sliding_attention && slides++ % 2 == 1)
      layers[i].window = 1024;
  }
  if (config.family.is(sliding_sizes)) read_sliding_sizes(config, layers);
}

}  // namespace

const char* type_of_letter(char letter, bool slides) {
  switch (letter) {
    case 'S':
      return slides ? sliding_attention : full_attention;
    case 'R':
      return slides ? "reference_sliding_attention" : "full_attention";
    case 'L':
      return "linear_attention";
    case 'C':
      return "conv";
    case 'H':
      return "hybrid";
    case 'I':
      return "indexed_attention";
    case 'K':
      return "heavily_compressed_attention";
    case 'P':
      return "compressed_sparse_attention";
    case 'E':
      return "moe";
    case 'M':
      return "mlp";
    case 'W':
      return "window_attention";
    default:
      return "full_attention";
  }
}

std::vector<std::string> types_by_pattern(std::string_view pattern, Index count, bool slides) {
  const bool from_the_back = pattern.starts_with('<');
  if (from_the_back) pattern.remove_prefix(1);
  const std::size_t bar = pattern.find('|');
  const std::string_view first = bar == pattern.npos ? "" : pattern.substr(0, bar);
  if (bar != pattern.npos) pattern.remove_prefix(bar + 1);
  const std::size_t end = pattern.find('$');
  const std::string_view cycle = pattern.substr(0, end);
  const auto layers = static_cast<std::size_t>(count);
  std::vector<std::string> types;
  for (std::size_t i = 0; i < layers; ++i) {
    const std::size_t at = from_the_back ? cycle.size() - 1 - (layers - 1 - i) % cycle.size()
                                         : (i < first.size() ? 0 : (i - first.size()) % cycle.size());
    char letter = i < first.size() ? first[i] : cycle[at];
    if (end != pattern.npos && i + 1 == layers) letter = pattern[end + 1];
    types.emplace_back(type_of_letter(letter, slides));
  }
  return types;
}

std::vector<LayerRope> read_layer_ropes(const Config& config) {
  std::vector<LayerRope> layers(config.types.size(),
                                LayerRope{.head_dim = config.head_dim, .rotary_dim = config.rotary_dim});
  if (const auto given = config.file.object("per_layer_config")) {
    if (config.file.has("global_head_dim")) config.file.warn("global_head_dim", "ignored: per_layer_config is there");
    read_layer_configs(config, *given, layers);
  } else {
    read_usual_layers(config, layers);
  }
  if (config.family.is(listed_bases) || config.family.is(listed_nope)) read_listed_bases(config, layers);
  if (config.family.is(typed_lists)) read_typed_lists(config, layers);
  if (config.family.is(scaled_layers)) read_scaled_layers(config, layers);
  if (config.family.is(compressed)) read_compressed(config, layers);
  return layers;
}

}  // namespace bearing::hf
