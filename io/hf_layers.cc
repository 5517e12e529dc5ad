#include <map>

#include "hf_reader.hpp"

namespace bearing::hf {
namespace {

constexpr const char* full = "full_attention";
constexpr const char* sliding = "sliding_attention";
constexpr const char* chunked = "chunked_attention";
constexpr const char* linear = "linear_attention";

constexpr std::size_t most_types = 64;

/// Layers that mix tokens without attention: no positions.
bool recurrent(const std::string& type) {
  return type == linear || type == "mamba" || type == "mamba2" || type == "conv" || type == "recurrent";
}

/// "LLLG": a letter per layer, L local, G global (EXAONE 4).
std::vector<std::string> types_by_letters(const Config& config, const std::string& letters) {
  if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos) {
    config.file.wrong("sliding_window_pattern", "a whole number or a string of the letters L and G");
  }
  std::vector<std::string> types;
  for (Index i = 0; i < config.layers; ++i) {
    types.push_back(letters[static_cast<std::size_t>(i) % letters.size()] == 'G' ? full : sliding);
  }
  return types;
}

/// no_rope_layers, in which 1 means "rotary"; empty if this model has no such list.
std::vector<Index> read_rotary_layers(const Config& config) {
  const bool listed = config.family.mix == Mix::no_rope_list;
  auto given = config.file.integers("no_rope_layers", static_cast<std::size_t>(most_layers), 0, 1);
  if (given && !given->empty()) {
    if (!listed && config.known) {
      config.file.warn("no_rope_layers", "ignored for model_type " + config.model_type);
      return {};
    }
    if (std::ssize(*given) != config.layers) {
      config.file.wrong("no_rope_layers", std::to_string(config.layers) + " numbers, one per layer");
    }
    return *given;
  }
  if (!listed) return {};
  const Index n = config.file.integer("no_rope_layer_interval", 1, most_layers).value_or(config.family.period);
  std::vector<Index> rotary;
  for (Index i = 0; i < config.layers; ++i) rotary.push_back((i + 1) % n != 0 ? 1 : 0);
  return rotary;
}

std::vector<std::string> usual_types(const Config& config, const std::vector<Index>& rotary) {
  const json::Object& file = config.file;
  Index n = config.family.period;
  if (n > 0) {
    const std::string_view key = file.spelled(
        {"sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers", "full_attention_interval"});
    if (!key.empty() && file.find(key)->IsString()) return types_by_letters(config, *file.text(key));
    if (!key.empty()) n = *file.integer(key, 1, most_layers);
  }
  const bool switched_on = file.flag("use_sliding_window").value_or(false);
  const Index bound = file.integer("max_window_layers", 0, most_positions).value_or(config.family.period);

  std::vector<std::string> types;
  for (Index i = 0; i < config.layers; ++i) {
    const bool slides = config.window > 0;
    const auto type = [&]() -> const char* {
      switch (config.family.mix) {
        case Mix::full:
          return full;
        case Mix::all_slide:
          return slides ? sliding : full;
        case Mix::all_slide_if_on:
          return slides && switched_on ? sliding : full;
        case Mix::slide_from:
          return slides && switched_on && i >= bound ? sliding : full;
        case Mix::slide_even_below:
          return slides && switched_on && i % 2 == 0 && i < bound ? sliding : full;
        case Mix::full_every_last:
          return slides && (i + 1) % n != 0 ? sliding : full;
        case Mix::full_every_first:
          return slides && i % n != 0 ? sliding : full;
        case Mix::linear_but_last:
          return (i + 1) % n != 0 ? linear : full;
        case Mix::linear_even_first:
          return i % 2 != 0 ? linear : full;
        case Mix::no_rope_list: {
          const bool turns = rotary[static_cast<std::size_t>(i)] != 0;
          if (config.family.window > 0) return slides && turns ? chunked : full;  // Llama 4
          return slides && switched_on && !turns ? sliding : full;                // SmolLM3
        }
      }
      return full;
    };
    types.emplace_back(type());
  }
  // Gemma 4 makes its last layer see everything, whatever the period says.
  if (config.family.is(global_heads)) types.back() = full;
  return types;
}

std::vector<std::string> read_types(const Config& config, const std::vector<Index>& rotary) {
  const std::string_view key = config.file.spelled({"layer_types", "layers_block_type"});
  if (key.empty()) return usual_types(config, rotary);
  auto types = *config.file.texts(key, static_cast<std::size_t>(most_layers));
  if (std::ssize(types) != config.layers) {
    config.file.wrong(key, std::to_string(config.layers) + " strings, one per layer");
  }
  for (std::string& type : types) {
    if (type == "attention") type = full;
    if (type.size() > 64) config.file.wrong(key, "names of at most 64 characters");
  }
  return types;
}

Index numbers_in(const Rope& rope) {
  const auto* factors = std::get_if<LongRopeScaling>(&rope.scaling);
  return std::ssize(rope.axes.pairs) +
         (factors == nullptr ? 0 : std::ssize(factors->short_factor) + std::ssize(factors->long_factor));
}

Index window_of(const Config& config, const std::string& type) {
  return type == sliding || type == chunked ? config.window : 0;
}

}  // namespace

std::vector<Layer> read_layers(const Config& config) {
  const std::vector<Index> rotary = read_rotary_layers(config);
  const std::vector<std::string> types = read_types(config, rotary);
  // Without a window there is no sliding layer, and then all layers are rotary (EXAONE 4 1.2B).
  const bool only_sliding = config.family.is(rope_on_sliding_only) && config.window > 0;

  std::map<std::string, std::optional<Rope>> by_type;
  std::vector<Layer> layers;
  Index copied = 0;  // each layer holds its own copy of per-pair factors
  for (Index i = 0; i < config.layers; ++i) {
    const std::string& type = types[static_cast<std::size_t>(i)];
    Layer layer{.encoding = NoPosition{}, .type = type, .window = window_of(config, type)};
    const bool without = recurrent(type) || (only_sliding && type != sliding) ||
                         (!rotary.empty() && rotary[static_cast<std::size_t>(i)] == 0);
    if (!without) {
      auto at = by_type.find(type);
      if (at == by_type.end()) {
        if (by_type.size() == most_types) config.file.wrong("layer_types", "of at most 64 kinds");
        at = by_type.emplace(type, read_rope(config, type)).first;
      }
      if (at->second) {
        copied += numbers_in(*at->second);
        if (copied > most_copied_numbers)
          config.file.wrong("num_hidden_layers", "smaller for so many factors per layer");
        layer.encoding = *at->second;
      }
    }
    if (!recurrent(type)) layer.temperature = read_temperature(config, layer);
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace bearing::hf
