#include <algorithm>
#include <cmath>

#include "hf_reader.hpp"

namespace bearing::hf {
namespace {

using json::Object;

/// The key that holds the base of a layer type beside the dictionary, and what its absence means.
struct BaseKey {
  std::vector<std::string_view> keys;
  double usual;
};

BaseKey base_key(const Config& config, const std::string& layer_type) {
  const Family& family = config.family;
  const bool sliding = layer_type == "sliding_attention";
  if (family.is(sliding_sizes) && sliding) return {{"swa_rope_theta"}, 50'000};
  if (family.is(compressed) && !sliding) return {{"compress_rope_theta"}, usual_compressed_base};
  if (family.is(local_base) && sliding) return {{"rope_local_base_freq"}, 10'000};
  // A local base of null stands for the global one.
  const bool local = config.file.has("local_rope_theta") || !config.file.mentions("local_rope_theta");
  if (family.is(modern_bases) && sliding && local) return {{"local_rope_theta"}, 10'000};
  if (family.is(modern_bases)) return {{"global_rope_theta", "rope_theta"}, family.base};
  return {{"rope_theta", "rotary_emb_base"}, family.base};
}

/// Whether a missing base is worth a word. Code of a model's own or of GPT-J has no key for it, and transformers leaves
/// out of a part's object, as text_config, what is its class' default.
bool would_say_its_base(const Config& config) {
  return config.states_its_code() && !config.family.is(fixed_angles) && config.file.pointer().empty();
}

/// The base of a file that has none.
Base usual_base(const Config& config, const BaseKey& key) {
  const std::string usual = json::shortest(key.usual);
  if (config.family.newer_base > 0) {
    config.file.warn(key.keys.front(), "not in the file, and the defaults differ: " + usual +
                                           " in transformers 4.57.1 (used here), " +
                                           json::shortest(config.family.newer_base) + " in 5.24.0");
  } else if (!config.known) {
    config.file.warn(key.keys.front(), "not in the file; " + usual + " is assumed");
  } else if (would_say_its_base(config)) {
    config.warn_of_default(own_of(config.family, key.keys).front(), usual);
  }
  return {key.usual, config.known ? config.default_name() : "assumed"};
}

/// OLMo 3's class takes the base beside the dictionaries for layers that see everything, and has its own for the
/// others.
void compare_sliding_base(const Config& config, const std::string& layer_type, std::string_view key, double base) {
  const double own = config.family.newer_base;
  if (!config.family.is(scale_full_only) || layer_type != sliding_attention || base == own) return;
  config.file.warn(key,
                   json::shortest(base) + " counts for all layers, but " + config.code() +
                       " takes it for full_attention alone, and " + json::shortest(own) + " for sliding_attention",
                   json::Weight::grave);
}

Base read_base(const Config& config, const Parameters& parameters, const std::string& layer_type) {
  const BaseKey possible = base_key(config, layer_type);
  const auto& [keys, usual] = possible;
  const std::string_view key = counting(config, keys);
  double beside = key.empty() ? 0 : config.file.number(key, base_range).value_or(0);  // 0: not there
  std::string from(key);
  if (const auto attention = config.file.object("attn_config")) {  // DBRX
    const double inside = attention->number("rope_theta", base_range).value_or(0);
    if (beside != 0 && inside != 0 && inside != beside) {
      attention->warn("rope_theta", "says otherwise than /rope_theta = " + json::shortest(beside) + ", which counts");
    } else if (beside == 0 && inside != 0 && inside != usual && config.states_its_code()) {
      attention->warn("rope_theta",
                      "counts, but " + config.code() + " does not read it and takes " + json::shortest(usual),
                      json::Weight::grave);
    }
    if (beside == 0) beside = inside, from = "rope_theta";
  }
  if (const Object* part = parameters.with("rope_theta")) {
    const double base = *part->number("rope_theta", base_range);
    if (beside != 0 && beside != base && part->pointer() == class_default) {
      config.file.warn(key,
                       "counts, but " + config.code() +
                           " takes its class' dictionary as it is, with rope_theta = " + json::shortest(base),
                       json::Weight::grave);
      return {beside, from};
    }
    // Files of several bases keep the older key for older readers.
    if (beside != 0 && beside != base && !bases_per_type(config.family)) {
      config.file.warn(key, json::shortest(beside) + " is ignored; " + part->pointer("rope_theta") + " = " +
                                json::shortest(base) + " counts");
    }
    return {base, part->pointer() == class_default ? config.default_name() : "rope_theta"};
  }
  if (beside == 0) return usual_base(config, possible);
  compare_sliding_base(config, layer_type, from, beside);
  return {beside, from};
}

/// What one of these keys says, in dimensions.
Index dimensions(const Object& part, std::string_view key, Index head_dim) {
  if (key == "rotary_dim") {
    const Index dim = *part.integer(key, 2, head_dim);
    if (dim % 2 != 0) part.wrong(key, "even");
    return dim;
  }
  return static_cast<Index>(std::floor(static_cast<double>(head_dim) * *part.number(key, {1e-6, 1})));
}

/// The key that says how much of a head turns, and the object that has it.
struct Said {
  const Object* part = nullptr;
  std::string_view key = {};
};

Said find_fraction(const Config& config, const Parameters& parameters, Index head_dim) {
  const Keys keys = {"partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_emb_fraction", "rotary_dim"};
  const Object& file = config.file;
  const auto alike = [&](const Object& object, std::string_view key, std::string_view other) {
    return dimensions(object, key, head_dim) == dimensions(object, other, head_dim);
  };
  // Where its code turns whole heads, that is said for the key that counts.
  const std::string_view key = config.family.is(partial_heads) && !config.family.is(mla) ? counting(config, keys, alike)
                                                                                         : counting(file, keys, alike);
  const Object* part = parameters.with(keys.front());
  if (part == nullptr) return key.empty() ? Said{} : Said{&file, key};
  if (!key.empty() && dimensions(file, key, head_dim) != dimensions(*part, keys.front(), head_dim)) {
    file.warn(key, "ignored: " + part->pointer(keys.front()) + " counts");
  }
  return {part, keys.front()};
}

/// A file may say that a part of the head turns where the model's own code turns all of it.
void compare_with_its_code(const Config& config, const Parameters& parameters, const Said& said, Index dim,
                           Index head_dim) {
  // Step 3.5 reads a list beside its dictionaries, and no number.
  const bool reads = config.family.is(partial_heads) && !(config.family.is(typed_lists) && said.part == &config.file);
  if (said.part == nullptr || dim == head_dim || reads || !config.states_its_code()) return;
  const std::string turn = std::to_string(dim) + " of " + std::to_string(head_dim) + " dimensions turn, but ";
  const std::string all =
      config.family.is(fixed_angles) || config.family.is(typed_lists) || parameters.type() == "default"
          ? " does not read it and turns all of them"
          : " turns whole heads and fails with it";
  said.part->warn(said.key, turn + config.code() + all, json::Weight::grave);
}

/// Latent attention: for how many dimensions its code makes angles. `fraction`: what it may read of the file.
Index latent_angles(const Config& config, const Parameters& parameters, const Said* fraction, const LayerRope& layer) {
  const Family& family = config.family;
  const bool scaled = parameters.type() != "default";
  const auto part_of = [&](Index whole) { return dimensions(*fraction->part, fraction->key, whole); };
  if (family.is(part_of_head)) {  // its class puts the fraction into rope_parameters, and none into rope_scaling
    if (scaled && fraction != nullptr) return part_of(layer.head_dim);
    return scaled && !config.file.has("rope_scaling") ? layer.rotary_dim : layer.head_dim;
  }
  const bool reads = scaled || family.is(partial_heads);
  // The class of dots3 works the fraction out itself.
  return reads && fraction != nullptr && !family.is(sliding_sizes) ? part_of(layer.rotary_dim) : layer.rotary_dim;
}

/// Its code fails with angles for other than qk_rope_head_dim dimensions; says so, and whether it said it.
bool fails_by_its_code(const Config& config, const Parameters& parameters, const Said& said, const LayerRope& layer) {
  if (!config.states_its_code() || config.family.is(unrotated)) return false;
  const bool read = said.part != nullptr && said.key == "partial_rotary_factor";
  const Index angles = latent_angles(config, parameters, read ? &said : nullptr, layer);
  if (angles == layer.rotary_dim) return false;
  const std::string turns = std::to_string(layer.rotary_dim);
  const std::string makes = ", but " + config.code() + " makes angles for " + std::to_string(angles);
  if (read) {
    said.part->warn(said.key, "ignored: qk_rope_head_dim = " + turns + " turns" + makes + " with it and fails",
                    json::Weight::grave);
  } else {
    config.file.warn("qk_rope_head_dim", turns + " dimensions turn" + makes + " and fails", json::Weight::grave);
  }
  return true;
}

/// Latent attention: qk_rope_head_dim counts; a fraction may be of what the file calls head_dim.
Index latent_rotary_dim(const Config& config, const Parameters& parameters, const Said& said, const LayerRope& layer) {
  if (fails_by_its_code(config, parameters, said, layer) || said.part == nullptr) return layer.rotary_dim;
  const Index of_head = dimensions(*said.part, said.key, layer.head_dim);
  const Index named = config.file.integer("head_dim", 1, most_head_dim).value_or(layer.head_dim);
  if (of_head != layer.rotary_dim && of_head != layer.head_dim &&
      (said.key == "rotary_dim" || dimensions(*said.part, said.key, named) != layer.rotary_dim)) {
    said.part->warn(said.key, "ignored: qk_rope_head_dim = " + std::to_string(layer.rotary_dim) + " turns");
  }
  return layer.rotary_dim;
}

Index read_rotary_dim(const Config& config, const Parameters& parameters, const LayerRope& layer) {
  const Index head_dim = layer.head_dim;
  const Said said = layer.fraction ? Said{} : find_fraction(config, parameters, head_dim);
  if (config.family.is(mla)) return latent_rotary_dim(config, parameters, said, layer);
  const auto usual = [&] {
    if (layer.fraction) return static_cast<Index>(std::floor(static_cast<double>(head_dim) * *layer.fraction));
    if (config.family.rotary_dim > 0) return config.family.rotary_dim;
    return static_cast<Index>(std::floor(static_cast<double>(head_dim) * config.family.fraction));
  };
  const Index dim = said.part == nullptr ? usual() : dimensions(*said.part, said.key, head_dim);
  const bool rounded = dim % 2 != 0 && dim < head_dim && rounds_heads(config) && parameters.type() == "default";
  if (dim < 2 || (dim % 2 != 0 && !rounded) || dim > head_dim) {
    const std::string pointer = said.part == nullptr ? config.file.pointer("head_dim") : said.part->pointer(said.key);
    config.notes().fail(pointer, "must make an even number of at least 2 dimensions turn, got " + std::to_string(dim) +
                                     " of " + std::to_string(head_dim) +
                                     config.defaults_among({"head_dim", "hidden_size", "num_attention_heads"}));
  }
  compare_with_its_code(config, parameters, said, dim, head_dim);
  return dim;
}

/// What its class adds to a dictionary that has no fraction; a key beside it is not read.
std::optional<double> class_fraction(const Config& config, const Parameters& parameters,
                                     const std::string& layer_type) {
  constexpr std::string_view key = "partial_rotary_factor";
  if (!config.family.is(class_fractions) || parameters.with(key) != nullptr) return {};
  double fraction = config.family.fraction;
  if (config.class_scaling) {
    const auto part = Object(config.class_scaling->root(), class_default, config.notes()).object(layer_type);
    fraction = part ? part->number(key, {1e-6, 1}).value_or(1) : 1;
  }
  if (config.file.has(key) && config.file.number(key, json::finite) != fraction) {
    config.file.warn(key, "ignored: " + config.code() + " takes " + json::shortest(fraction) + " for " + layer_type,
                     json::Weight::grave);
  }
  return fraction;
}

void warn_about_the_model(const Config& config, const Rope& rope) {
  const bool plain = rope.base == 10'000 && std::holds_alternative<NoScaling>(rope.scaling);
  if (config.family.is(unscaled) && !std::holds_alternative<NoScaling>(rope.scaling)) {
    config.file.warn("model_type", config.code() + " scales nothing, whatever the file says", json::Weight::grave);
  }
  if (config.family.is(fixed_angles) && !plain) {
    config.file.warn("model_type", config.code() + " has base 10000 and no scaling, whatever the file says",
                     json::Weight::grave);
  }
  if (config.family.is(negative_angles)) {
    config.file.warn("model_type", "turns by the negative angle, so its frequencies are given, each below 0");
  }
  if (config.family.is(learned_factors)) {
    config.file.warn("model_type",
                     "each frequency is multiplied by a learned factor (lerope.alpha), and each query by a learned "
                     "scale of its head: both are in the weights, not in this file",
                     json::Weight::grave);
  }
}

/// The same rotation the other way round: its frequencies are given, and no scaling stands beside them.
void turn_back(const Config& config, const Parameters& parameters, Rope& rope) {
  if (!std::holds_alternative<NoScaling>(rope.scaling)) {
    config.notes().fail(parameters.pointer("rope_type"),
                        "must be default: beside negative angles a scaling is not read, got " +
                            json::quoted(scaling_name(rope.scaling)));
  }
  ExplicitFrequencies given{resolve(rope).inv_freq};
  for (double& theta : given.inv_freq) theta = -theta;
  rope.scaling = std::move(given);
}

/// An odd number of dimensions d turns as d + 1 do: base^(−2i/d) is the frequency of pair i of d + 1 with the base
/// base^((d + 1)/d).
void round_up(const Config& config, Rope& rope) {
  const std::string odd = std::to_string(rope.rotary_dim);
  rope.base = std::pow(rope.base, static_cast<double>(rope.rotary_dim + 1) / static_cast<double>(rope.rotary_dim));
  ++rope.rotary_dim;
  config.file.warn("head_dim",
                   "not in the file: " + odd + " dimensions of a head would turn, and " + config.code() + " turns " +
                       std::to_string(rope.rotary_dim) + " with the frequencies of " + odd +
                       ", as the base that is said here gives them",
                   json::Weight::grave);
}

/// Llama 4 says true, or as some files do 4; missing means true.
bool tunes_temperature(const json::Object& file) {
  const rapidjson::Value* value = file.find("attn_temperature_tuning");
  if (value == nullptr) return true;
  if (value->IsNumber()) return value->GetDouble() != 0;
  return *file.flag("attn_temperature_tuning");
}

/// MLX's models turn neighbours where their file says "rope_traditional": true.
Pairing as_mlx_says(const Config& config, Pairing usual) {
  const auto traditional = config.file.flag("rope_traditional");
  if (!traditional || *traditional == (usual == Pairing::interleaved)) return usual;
  config.file.warn("rope_traditional", std::string(*traditional ? "true: neighbours" : "false: halves") +
                                           " turn, as in MLX's code; transformers does not read this key, and turns " +
                                           (*traditional ? "halves" : "neighbours"));
  return *traditional ? Pairing::interleaved : Pairing::half;
}

/// "rope_interleave": false in a DeepSeek file means that its heads are in halves.
Pairing read_pairing(const Config& config) {
  const Pairing usual = config.family.pairing;
  if (!config.family.is(mla)) return as_mlx_says(config, usual);
  return config.file.flag("rope_interleave").value_or(usual == Pairing::interleaved) ? Pairing::interleaved
                                                                                     : Pairing::half;
}

/// The base of one layer: its own in a list, or its type's.
Base base_of(const Config& config, const Parameters& parameters, const std::string& layer_type,
             const LayerRope& layer) {
  if (layer.base) return *layer.base;
  Base base = read_base(config, parameters, layer_type);
  if (layer.stated_base && *layer.stated_base != base.value) {
    config.file.warn("layer_rope_theta", json::shortest(*layer.stated_base) + " is ignored: " + config.code() +
                                             " reads which layers have 0 alone, and turns the others by " +
                                             json::shortest(base.value));
  }
  return base;
}

}  // namespace

std::optional<Rotation> read_rope(const Config& config, const std::string& layer_type, const LayerRope& of_layer) {
  const LayerParameters source = find_parameters(config, layer_type);
  if (source.absent) return {};
  const Parameters& parameters = source.parameters;
  LayerRope layer = of_layer;
  if (!layer.fraction) layer.fraction = class_fraction(config, parameters, layer_type);

  Rope rope{.pairing = read_pairing(config)};
  rope.head_dim = layer.head_dim;
  Base base = base_of(config, parameters, layer_type, layer);
  rope.base = base.value;
  if (config.family.is(half_of_channels)) {  // ChatGLM stretches by its base
    const double ratio = config.file.number("rope_ratio", {1e-3, 1e6}).value_or(1);
    rope.base *= ratio;
    if (ratio != 1) {
      base.from += ", times rope_ratio";
      config.file.warn("rope_ratio",
                       "multiplies the base, as in ChatGLM3 and GLM-4; 32k versions of ChatGLM2 divide "
                       "the positions by it instead, and the file does not tell which this is");
    }
    if (!(rope.base > 1)) config.file.wrong("rope_ratio", "large enough to leave a base above 1");
  }
  const bool whole_head = parameters.type() == "proportional";
  rope.rotary_dim = whole_head ? rope.head_dim : read_rotary_dim(config, parameters, layer);
  if (rope.rotary_dim % 2 != 0 && !whole_head) round_up(config, rope);
  if (rope.head_dim % 2 != 0 && whole_head) config.file.wrong("head_dim", "even for rope_type proportional");
  if (config.family.is(mla) || config.family.is(compressed)) rope.part = RotaryPart::last();
  if (layer.scaled || source.per_type) rope.scaling = read_scaling(config, parameters, rope.rotary_dim);
  auto* yarn = std::get_if<YarnScaling>(&rope.scaling);
  // Its code sets the factor where one dictionary serves both kinds of layers.
  if (yarn != nullptr && config.family.is(compressed) && !source.per_type && !yarn->attention_factor) {
    yarn->attention_factor = 1;
  }
  rope.axes = read_axes(config, parameters, rope.rotary_dim);
  warn_about_the_model(config, rope);
  if (config.family.is(negative_angles)) turn_back(config, parameters, rope);
  return Rotation{std::move(rope), std::move(base.from)};
}

/// The first Qwen's code, past seq_length tokens: both are on unless its file says otherwise.
std::optional<PositionTemperature> read_qwen(const json::Object& file) {
  const bool grows = file.flag("use_logn_attn").value_or(true), stretches = file.flag("use_dynamic_ntk").value_or(true);
  if (!grows && !stretches) return {};
  const auto length = file.number("seq_length", {2, static_cast<double>(most_positions)});
  if (!length) file.missing("seq_length", "for use_logn_attn and use_dynamic_ntk");
  if (stretches) {
    file.warn("use_dynamic_ntk",
              "is not read: past seq_length = " + json::shortest(*length) +
                  " tokens the model's code raises the base in steps; the frequencies here are those up to there",
              json::Weight::grave);
  }
  return grows ? PositionTemperature::qwen(*length) : std::optional<PositionTemperature>();
}

std::optional<PositionTemperature> read_temperature(const Config& config, const Layer& layer) {
  constexpr json::Range lengths{1, static_cast<double>(most_positions)}, betas{0, 1e6};
  const bool rotary = std::holds_alternative<Rope>(layer.encoding);
  if (config.family.is(tuned_without_rope)) {
    if (rotary || !tunes_temperature(config.file)) return {};
    return PositionTemperature::llama4(config.file.number("attn_scale", betas).value_or(0.1),
                                       config.file.number("floor_scale", lengths).value_or(8192));
  }
  if (config.family.is(log_past_seq_length)) return read_qwen(config.file);
  if (config.family.is(learned_factors)) return PositionTemperature::mistral_large4();
  if (config.family.is(power_without_rope) && !rotary) return PositionTemperature::beam();
  if (!rotary) return {};
  const LayerParameters source = find_parameters(config, layer.type);
  const auto beta = source.parameters.number("llama_4_scaling_beta", betas);
  if (!beta) return {};
  const auto length = source.parameters.number("original_max_position_embeddings", lengths);
  if (!length) source.parameters.missing("original_max_position_embeddings", "for llama_4_scaling_beta");
  return PositionTemperature::ministral3(*length, *beta);
}

}  // namespace bearing::hf
