#include <algorithm>
#include <iterator>

#include "hf_reader.hpp"

// Which of several spellings of one thing counts: the model's own, which its code reads, then the first of the list.

namespace bearing::hf {
namespace {

using json::Object;

// Found by running the classes of transformers 5.24.0 on files with one spelling, the other and both.
constexpr Spellings spelling_rows[] = {
    {"gptj", "n_head n_embd n_layer n_positions", "rotary_dim"},
    {"codegen", "n_head n_embd n_layer n_positions", "rotary_dim"},
    {"dbrx", "n_heads d_model n_layers max_seq_len"},
    {"jetmoe", "kv_channels"},
    {"granitemoehybrid", "layers_block_type"},
    {"falcon_h1", "layers_block_type"},
    {"minimax_m2", "rotary_dim"},
    {"bailing_hybrid", "model_max_length", "layer_group_size"},
    {"recurrent_gemma", "layers_block_type", "attention_window_size"},
    {"kimi_linear", "model_max_length"},
    {"nemotron_h", "layers_block_type"},
    {"zamba", "layers_block_type attention_head_dim"},
    {"zamba2", "layers_block_type attention_head_dim"},
    {"mimo_v2_flash", "sliding_window_size"},
    {"dots3_note_text", "sliding_window_size"},
    {"moonshine", "", "decoder_num_attention_heads decoder_num_key_value_heads decoder_num_hidden_layers"},
    {"gpt_neox", "", "rotary_emb_base rotary_pct"},
    {"gpt_neox_japanese", "", "rotary_emb_base rotary_pct"},
    {"modernbert", "", "local_attention global_attn_every_n_layers"},
    {"modernbert-decoder", "", "local_attention global_attn_every_n_layers"},
    {"afmoe", "", "global_attn_every_n_layers"},
    {"llama4_text", "", "attention_chunk_size"},
    {"qwen3_next", "", "full_attention_interval"},
    {"qwen3_5_text", "", "full_attention_interval"},
    {"qwen3_5_moe_text", "", "full_attention_interval"},
};

bool lists(std::string_view words, std::string_view word) {
  for (std::size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

}  // namespace

Keys own_of(const Family& family, const Keys& keys) {
  const Spellings* row = find_spellings(family.model_type);
  if (row == nullptr) return {keys.front()};
  Keys also, instead;
  for (std::string_view key : keys) {
    if (lists(row->instead, key)) instead.push_back(key);
    if (lists(row->also, key)) also.push_back(key);
  }
  if (!instead.empty()) return instead;
  also.insert(also.begin(), keys.front());
  return also;
}

namespace {

bool has(const Keys& keys, std::string_view key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); }

/// Objects are not compared: their keys could be so many that it takes minutes.
bool same_value(const rapidjson::Value& a, const rapidjson::Value& b) {
  if (a.IsObject() || b.IsObject()) return false;
  if (!a.IsArray() || !b.IsArray()) return a == b;
  return std::equal(a.Begin(), a.End(), b.Begin(), b.End(), [](const auto& one, const auto& other) {
    return !one.IsArray() && !other.IsArray() && same_value(one, other);
  });
}

}  // namespace

const Spellings* find_spellings(std::string_view model_type) {
  const auto* row = std::find_if(std::begin(spelling_rows), std::end(spelling_rows),
                                 [&](const Spellings& r) { return r.model_type == model_type; });
  return row == std::end(spelling_rows) ? nullptr : row;
}

std::string_view counting(const Object& file, const Keys& keys, const Alike& alike) {
  const std::string_view first = file.spelled(keys);
  if (first.empty()) return {};
  for (std::string_view key : keys) {
    if (key == first || !file.has(key)) continue;
    if (alike ? alike(file, key, first) : same_value(*file.find(key), *file.find(first))) continue;
    file.warn(key,
              "says otherwise than " + std::string(first) + " = " + json::found(*file.find(first)) + ", which counts");
  }
  return first;
}

std::string_view counting(const Config& config, const Keys& keys, const Alike& alike) {
  Keys order = own_of(config.family, keys);
  const Keys own = order;
  for (std::string_view key : keys) {
    if (!has(own, key)) order.push_back(key);
  }
  const std::string_view key = counting(config.file, order, alike);
  if (!key.empty() && !has(own, key) && config.states_its_code()) {
    config.file.warn(key, "counts, but " + config.code() + " does not read it; it reads " + std::string(own.front()),
                     json::Weight::grave);
  }
  return key;
}

std::string Config::code() const { return "the code of " + std::string(family.model_type) + " in transformers 5.24.0"; }

std::string Config::defaults_among(const Keys& keys) const {
  std::string text;
  for (const auto& [key, value] : from_class) {
    if (!has(keys, key)) continue;
    text += (text.empty() ? "" : ", ") + std::string(key) + " = " + std::to_string(value);
  }
  return text.empty() ? "" : " (" + text + ": not in the file, the default of " + model_type + ")";
}

}  // namespace bearing::hf
