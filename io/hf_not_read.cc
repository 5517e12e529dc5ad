#include "hf_reader.hpp"

// What is not read, and what would be read wrongly: such a file is refused by the name of the key, and never guessed.

namespace bearing::hf {
namespace {

using json::Object;

/// Keys that change positions, which are read for the families that have the trait alone (0: for none).
struct Key {
  std::string_view key;
  Traits read_with;
};
constexpr Key keys[] = {
    {"qk_rope_head_dim", mla | unrotated | compressed},
    {"compress_rope_theta", compressed},
    {"layer_rope_theta", listed_bases | listed_nope},
    {"partial_rotary_factors", typed_lists},
    {"swa_rope_theta", sliding_sizes},
    {"rope_local_base_freq", local_base},
    {"local_rope_theta", modern_bases},
    {"global_rope_theta", modern_bases},
    {"rope_scaling_layers", scaled_layers},
    {"rel_extent", 0},
    {"xdrope_section", 0},
    {"nope_layer_interval", 0},
    {"mla_use_nope", unrotated},
    {"use_mem_rope", rotary_if_memory},
    {"attn_temperature_tuning", tuned_without_rope},
    {"use_logn_attn", log_past_seq_length},
    {"use_dynamic_ntk", log_past_seq_length},
    {"rotary_interleaved", 0},
    {"rope_interleaved", 0},
    {"rope_interleave", mla},
    {"lerope", 0},
    {"log_scaling_alpha", 0},
    {"log_scaling_n_floor", 0},
    {"compress_ratios", compressed},
    {"swa_head_dim", sliding_sizes},
    {"global_head_dim", global_heads},
};

/// null, false, 0, "" and empty lists change nothing.
bool says_something(const rapidjson::Value& value) {
  if (value.IsNull() || value.IsFalse()) return false;
  if (value.IsNumber()) return value.GetDouble() != 0;
  if (value.IsString()) return value.GetStringLength() > 0;
  if (value.IsArray()) return !value.Empty();
  return true;
}

/// The key's value, if it says something that the family's reader does not take.
const rapidjson::Value* not_read(const Config& config, const Key& one) {
  const rapidjson::Value* value = config.file.find(one.key);
  const bool taken = value == nullptr || !says_something(*value) || (config.family.traits & one.read_with) != 0;
  return taken ? nullptr : value;
}

void refuse_keys_of_unknown_models(const Config& config) {
  const Object& file = config.file;
  for (const Key& one : keys) {
    const rapidjson::Value* value = not_read(config, one);
    if (value == nullptr) continue;
    file.notes().fail(file.pointer(one.key),
                      "changes positions in a way that is not known for model_type " +
                          (config.model_type.empty() ? "(none)" : json::quoted(config.model_type)) + ", got " +
                          json::found(*value));
  }
  for (const char* key : {"no_rope_layers", "no_rope_layer_interval"}) {
    const rapidjson::Value* value = file.find(key);
    if (value == nullptr || !says_something(*value) || config.family.mix == Mix::no_rope_list) continue;
    file.notes().fail(
        file.pointer(key),
        "is not known to count layers with (1) or without a rotation for this model_type, got " + json::found(*value));
  }
  const std::string kind = file.has("position_embedding_type") ? *file.text("position_embedding_type") : "rope";
  if (!config.known && kind != "rope" && kind != "rotary" && kind != "absolute") {
    file.wrong("position_embedding_type", "rope or rotary for a model_type that is not known");
  }
}

}  // namespace

void refuse_by_key(const Config& config) {
  const rapidjson::Value* values = config.file.find("rotary_value");
  if (values != nullptr && says_something(*values)) {  // RoFormer's code turns them, and does not turn their sum back
    config.file.wrong("rotary_value", "false: values that turn, and whose sum is not turned back, are not read");
  }
  if (!config.states_its_code()) {
    refuse_keys_of_unknown_models(config);
    return;
  }
  for (const Key& one : keys) {
    if (not_read(config, one) == nullptr) continue;
    config.file.warn(one.key, "is not read: " + config.code() + " does not read it");
  }
}

void assume_latent_attention(Config& config) {
  const Object& file = config.file;
  if (config.known || !file.has("qk_rope_head_dim")) return;
  const Index turns = file.integer("qk_rope_head_dim", 0, most_head_dim / 2).value_or(0);
  if (turns == 0) {
    config.family.traits |= unrotated;
    file.warn("qk_rope_head_dim", "0, so nothing is turned");
    return;
  }
  if (!file.has("qk_nope_head_dim")) file.missing("qk_nope_head_dim", "beside qk_rope_head_dim");
  config.family.pairing = Pairing::interleaved;
  config.family.traits |= mla;
}

}  // namespace bearing::hf
