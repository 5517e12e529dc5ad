#include <algorithm>
#include <iterator>
#include <map>

#include "hf_reader.hpp"

namespace bearing::hf {
namespace {

constexpr const char* chunked = "chunked_attention";

constexpr std::size_t most_types = 64;

// The words of transformers 5.24.0 and of older files.
constexpr std::string_view attending[] = {
    full_attention, sliding_attention, chunked, "attention", "window_attention", "hybrid", "hybrid_sliding",
    // of sparse attention: which keys are seen depends on their content
    "indexed_attention", "deepseek_sparse_attention", "qwen_sparse_attention", "compressed_sparse_attention",
    "heavily_compressed_attention", "minimax_m3_sparse", "reference_sliding_attention"};
constexpr std::string_view without_attention[] = {linear_attention, "mamba", "mamba2", "conv", "recurrent", "moe"};
// Blocks that some models count as layers, and what is said of layers whose GGUF file gives them no heads.
constexpr const char* mlp = "mlp";
constexpr std::string_view without_tokens[] = {mlp, "no_attention"};

template <std::size_t n>
bool among(const std::string_view (&words)[n], std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

/// Layers that mix tokens without attention, or mix none: no positions.
bool attending_type(std::string_view type) { return !among(without_attention, type) && !among(without_tokens, type); }

/// "LLLG": a letter per layer, L local, G global (EXAONE 4).
std::vector<std::string> types_by_letters(const Config& config, const std::string& letters) {
  if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos) {
    config.file.wrong("sliding_window_pattern", "a whole number or a string of the letters L and G");
  }
  std::vector<std::string> types;
  for (Index i = 0; i < config.layers; ++i) {
    types.push_back(letters[static_cast<std::size_t>(i) % letters.size()] == 'G' ? full_attention : sliding_attention);
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
      config.file.wrong("no_rope_layers", std::to_string(config.layers) + " numbers, one per layer" +
                                              config.defaults_among({"num_hidden_layers"}));
    }
    return *given;
  }
  if (!listed) return {};
  const Index n = config.file.integer("no_rope_layer_interval", 1, most_period).value_or(config.family.period);
  std::vector<Index> rotary;
  for (Index i = 0; i < config.layers; ++i) rotary.push_back((i + 1) % n != 0 ? 1 : 0);
  return rotary;
}

std::vector<std::string> usual_types(const Config& config, const std::vector<Index>& rotary) {
  if (config.family.pattern != nullptr) {
    return types_by_pattern(config.family.pattern, config.layers, config.window > 0);
  }
  const json::Object& file = config.file;
  Index n = config.family.period;
  if (n > 0) {
    const std::string_view key =
        counting(config, {"sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers",
                          "full_attention_interval", "layer_group_size"});
    if (!key.empty() && file.find(key)->IsString()) return types_by_letters(config, *file.text(key));
    if (!key.empty()) n = *file.integer(key, 1, most_period);
  }
  const bool switched_on = file.flag("use_sliding_window").value_or(false);
  const Index bound = file.integer("max_window_layers", 0, most_positions).value_or(config.family.period);

  std::vector<std::string> types;
  for (Index i = 0; i < config.layers; ++i) {
    const bool slides = config.window > 0;
    const auto type = [&]() -> const char* {
      switch (config.family.mix) {
        case Mix::full:
          return full_attention;
        case Mix::all_slide:
          return slides ? sliding_attention : full_attention;
        case Mix::all_slide_if_on:
          return slides && switched_on ? sliding_attention : full_attention;
        case Mix::slide_from:
          return slides && switched_on && i >= bound ? sliding_attention : full_attention;
        case Mix::slide_even_below:
          return slides && switched_on && i % 2 == 0 && i < bound ? sliding_attention : full_attention;
        case Mix::full_every_last:
          return slides && (i + 1) % n != 0 ? sliding_attention : full_attention;
        case Mix::full_every_first:
          return slides && i % n != 0 ? sliding_attention : full_attention;
        case Mix::linear_but_last:
          return (i + 1) % n != 0 ? linear_attention : full_attention;
        case Mix::linear_even_first:
          return i % 2 != 0 ? linear_attention : full_attention;
        case Mix::no_rope_list: {
          const bool turns = rotary[static_cast<std::size_t>(i)] != 0;
          if (config.family.window > 0) return slides && turns ? chunked : full_attention;  // Llama 4
          return slides && switched_on && !turns ? sliding_attention : full_attention;      // SmolLM3
        }
      }
      return full_attention;
    };
    types.emplace_back(type());
  }
  // Gemma 4 makes its last layer see everything, whatever the period says.
  if (config.family.is(global_heads)) types.back() = full_attention;
  return types;
}

/// A misspelt word would pass for full attention. Models that are not in the table may have words of their own.
void check_type(const Config& config, const std::string& pointer, const std::string& type) {
  if (known_layer_type(type) || (type == mlp && (config.family.is(counts_its_list) || !config.known))) return;
  if (config.known) {
    config.notes().fail(pointer,
                        "must be full_attention, sliding_attention, chunked_attention, linear_attention or "
                        "another word that transformers knows, got " +
                            json::quoted(type));
  }
  config.notes().warn(pointer, json::quoted(type) + " is not known; read as attention that sees everything");
}

/// Older words of hybrid models, and the newer ones that mean the same.
void rename(const Config& config, std::string& type) {
  if (type == "attention") type = config.family.is(attention_slides) ? sliding_attention : full_attention;
  if (config.family.pattern != nullptr && (type == "mamba" || type == "recurrent")) type = linear_attention;
  if (config.family.is(indexed) && type == full_attention) type = "indexed_attention";
}

/// block_types, which is repeated until it is as long as the model (RecurrentGemma).
std::optional<std::vector<std::string>> repeated_types(const Config& config) {
  auto types = config.file.texts("block_types", static_cast<std::size_t>(most_layers));
  if (!types || types->empty() || !config.family.is(attention_slides)) return {};
  const std::size_t period = types->size();
  for (std::size_t i = period; i < static_cast<std::size_t>(config.layers); ++i) types->push_back((*types)[i % period]);
  types->resize(static_cast<std::size_t>(config.layers));
  return types;
}

/// Whether the types are of blocks: Dory's own files list attention and feed-forward blocks by turns and number both,
/// and two of them are a layer.
bool of_blocks(const Config& config, const std::vector<std::string>& types) {
  if (!config.family.is(lists_blocks) || std::find(types.begin(), types.end(), "mlp") == types.end()) return false;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types.size() % 2 != 0 || (types[i] == "mlp") != (i % 2 != 0)) {
      config.file.wrong("layer_types", "a type of attention and mlp by turns, as one of them is mlp");
    }
  }
  return true;
}

/// A model that has as many layers as its list names, whatever num_hidden_layers says (Nemotron-H).
void count_listed(Config& config, std::string_view key, std::size_t count) {
  const auto listed = static_cast<Index>(count);
  const Index said = config.file.integer("num_hidden_layers", 1, most_layers).value_or(listed);
  if (said != listed) {
    config.file.warn("num_hidden_layers", std::to_string(said) + " is ignored: " + config.code() +
                                              " has a layer for each entry of " + std::string(key) + ", " +
                                              std::to_string(listed) +
                                              (config.file.has(key) ? "" : " where the file has none"));
  }
  config.layers = listed;
}

void compare_with_letters(const Config& config, std::string_view key, std::vector<std::string> types) {
  const auto letters = types_of_hybrid(config);
  if (!letters) return;
  for (std::string& type : types) rename(config, type);
  if (*letters != types) {
    config.file.warn("hybrid_override_pattern", "says otherwise than " + std::string(key) + ", which counts");
  }
}

/// The types where the file does not list them.
std::vector<std::string> types_without_list(Config& config, const std::vector<Index>& rotary) {
  if (config.family.is(compressed)) {
    if (const auto types = types_by_ratio(config)) return *types;
  }
  const auto types = types_of_hybrid(config);
  if (config.family.is(counts_its_list)) {
    if (types) {
      count_listed(config, "hybrid_override_pattern", types->size());
    } else {
      count_listed(config, "layers_block_type", std::string_view(config.family.pattern).size());
    }
  }
  std::vector<std::string> usual = types ? *types : usual_types(config, rotary);
  for (std::string& type : usual) rename(config, type);
  return usual;
}

std::vector<std::string> read_types(Config& config, const std::vector<Index>& rotary) {
  std::string_view key = counting(config, {"layer_types", "layers_block_type"});
  const auto repeated = key.empty() ? repeated_types(config) : std::nullopt;
  if (repeated) key = "block_types";
  if (key.empty()) return types_without_list(config, rotary);
  auto types = repeated ? *repeated : *config.file.texts(key, static_cast<std::size_t>(most_layers));
  const Index more = config.file.integer("num_nextn_predict_layers", 0, most_layers).value_or(0);
  // The layers of multi-token prediction may follow.
  if ((config.family.is(typed_lists) || config.family.is(compressed)) && std::ssize(types) == config.layers + more)
    types.resize(types.size() - static_cast<std::size_t>(more));
  if (config.family.is(counts_its_list) && !types.empty()) {
    count_listed(config, key, types.size());
    compare_with_letters(config, key, types);
  }
  if (std::ssize(types) != config.layers) {
    config.file.wrong(
        key, std::to_string(config.layers) + " strings, one per layer" + config.defaults_among({"num_hidden_layers"}));
  }
  const std::size_t blocks = of_blocks(config, types) ? 2 : 1;  // of a layer
  for (std::size_t i = 0; i < types.size(); i += blocks) {
    std::string& type = types[i / blocks] = types[i];
    if (type.size() > 64) config.file.wrong(key, "names of at most 64 characters");
    check_type(config, config.file.pointer(key) + "/" + std::to_string(i), type);
    rename(config, type);
  }
  types.resize(types.size() / blocks);
  config.layers = std::ssize(types);
  if (config.family.is(global_heads) && types.back() != full_attention) {
    config.file.warn(key, "the last layer sees everything, as in the model's own code, not " + types.back());
    types.back() = full_attention;
  }
  return types;
}

/// Whether nothing turns in any layer.
bool switched_off(const Config& config) {
  if (config.family.is(unrotated)) return true;
  if (config.family.is(rotary_if_memory)) return !config.file.flag("use_mem_rope").value_or(false);
  if (config.family.is(rotary_if_named)) {
    const std::string named = config.file.text("position_embedding_type").value_or("");
    return named != "rope" && named != "rotary";
  }
  if (!config.family.is(none_if_null_base)) return false;
  const auto null_in = [](const json::Object& object) {
    return object.mentions("rope_theta") && !object.has("rope_theta");
  };
  const auto parameters = config.file.object("rope_parameters");
  return parameters && parameters->mentions("rope_theta") ? null_in(*parameters) : null_in(config.file);
}

Index numbers_in(const Rope& rope) {
  const auto* factors = std::get_if<LongRopeScaling>(&rope.scaling);
  const auto* given = std::get_if<ExplicitFrequencies>(&rope.scaling);
  return std::ssize(rope.axes.pairs) + (given == nullptr ? 0 : std::ssize(given->inv_freq)) +
         (factors == nullptr ? 0 : std::ssize(factors->short_factor) + std::ssize(factors->long_factor));
}

/// The ropes of a model's layers. Layers of a kind share one.
struct Ropes {
  std::map<std::pair<std::string, LayerRope>, std::optional<Rotation>> by_kind;
  std::vector<const Rotation*> of_layer;  ///< null where nothing turns
};

/// Each layer of the model gets its own copy of per-pair factors and frequencies, so their number is bounded before the
/// first is made.
Ropes ropes_of_layers(Config& config, const std::vector<Index>& rotary, const std::vector<LayerRope>& own) {
  const bool off = switched_off(config);
  // Without a window there is no sliding layer, and then all layers are rotary (EXAONE 4 1.2B).
  const bool only_sliding = config.family.is(rope_on_sliding_only) && config.window > 0;
  Ropes ropes;
  Index copied = 0, resolved = 0;
  for (std::size_t i = 0; i < config.types.size(); ++i) {
    const std::string& type = config.types[i];
    const bool without = off || own[i].none || !attending_type(type) || (only_sliding && type != sliding_attention) ||
                         (!rotary.empty() && rotary[i] == 0);
    const Rotation* turned = nullptr;
    if (!without) {
      const std::pair key(type, own[i]);
      auto at = ropes.by_kind.find(key);
      if (at == ropes.by_kind.end()) {
        resolved += config.family.is(negative_angles) ? own[i].head_dim / 2 : 0;
        if (resolved > most_resolved_pairs) {
          config.file.wrong("num_hidden_layers", "smaller for layers with so many different frequencies");
        }
        at = ropes.by_kind.emplace(key, read_rope(config, type, own[i])).first;
      }
      if (at->second) turned = &*at->second;
    }
    copied += turned != nullptr ? numbers_in(turned->rope) : 0;
    if (copied > most_copied_numbers) config.file.wrong("num_hidden_layers", "smaller for so many numbers per layer");
    ropes.of_layer.push_back(turned);
  }
  return ropes;
}

Index window_of(const Config& config, const std::string& type) {
  const bool slides = type == sliding_attention || type == "hybrid_sliding" || type == "reference_sliding_attention";
  return slides || type == chunked ? config.window : 0;
}

}  // namespace

bool known_layer_type(std::string_view type) { return among(attending, type) || among(without_attention, type); }

std::vector<Layer> read_layers(Config& config) {
  const std::vector<Index> rotary = read_rotary_layers(config);
  config.types = read_types(config, rotary);
  for (std::size_t i = 0; i < config.types.size(); ++i) {
    if (i == 0 || config.types[i] != config.types[i - 1]) config.kinds.insert(config.types[i]);
  }
  if (config.kinds.size() > most_types) config.file.wrong("layer_types", "of at most 64 kinds");
  const std::vector<LayerRope> own = read_layer_ropes(config);
  const Ropes ropes = ropes_of_layers(config, rotary, own);

  std::map<std::pair<std::string, bool>, std::optional<PositionTemperature>> temperatures;  // and: is it rotary?
  const std::map<std::string, std::string> compressed_positions = positions_of_compressed(config);
  std::vector<Layer> layers;
  for (Index i = 0; i < config.layers; ++i) {
    const auto at_layer = static_cast<std::size_t>(i);
    const std::string& type = config.types[at_layer];
    Layer layer{
        .encoding = NoPosition{}, .type = type, .window = own[at_layer].window.value_or(window_of(config, type))};
    see_as_its_code_does(config, layer);
    if (const Rotation* turned = ropes.of_layer[at_layer]) {
      const auto elementwise = with_two_angles(config, turned->rope);
      layer.encoding = elementwise ? LayerEncoding(*elementwise) : turned->rope;
      layer.base_from = turned->base_from;
    }
    if (attending_type(type)) {
      const std::pair key(type, std::holds_alternative<Rope>(layer.encoding));
      auto at = temperatures.find(key);
      if (at == temperatures.end()) at = temperatures.emplace(key, read_temperature(config, layer)).first;
      layer.temperature = at->second;
    }
    if (config.family.is(compressed)) finish_compressed(compressed_positions, layer);
    layers.push_back(std::move(layer));
  }
  if (config.family.is(compressed)) warn_about_the_indexer(config);
  return layers;
}

}  // namespace bearing::hf

namespace bearing {

bool Layer::attends() const { return hf::attending_type(type); }

Window Layer::attention_window() const {
  if (window == 0 || type == hf::chunked) return {};
  return {.before = window - 1, .after = window_after};
}

Band Layer::attention_band() const {
  if (window == 0 || type != hf::chunked) return {};
  Band band{.from = 0, .chunk = window};
  if (chunks_before >= 0) band.to = chunks_before + 1;
  return band;
}

}  // namespace bearing
