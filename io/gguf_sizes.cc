#include <algorithm>

#include "gguf_reader.hpp"

namespace bearing::gguf {
namespace {

/// The keys under rope. that llama.cpp has.
constexpr std::string_view rope_keys[] = {"rope.dimension_count",
                                          "rope.dimension_count_swa",
                                          "rope.dimension_sections",
                                          "rope.freq_base",
                                          "rope.freq_base_swa",
                                          "rope.scale_linear",
                                          "rope.scaling.alpha",
                                          "rope.scaling.attn_factor",
                                          "rope.scaling.factor",
                                          "rope.scaling.finetuned",
                                          "rope.scaling.original_context_length",
                                          "rope.scaling.type",
                                          "rope.scaling.yarn_attn_factor",
                                          "rope.scaling.yarn_beta_fast",
                                          "rope.scaling.yarn_beta_slow",
                                          "rope.scaling.yarn_ext_factor",
                                          "rope.scaling.yarn_log_multiplier"};
/// Those under attention. whose names are about positions.
constexpr std::string_view attention_keys[] = {"attention.compress_rope_freq_base", "attention.max_alibi_bias",
                                               "attention.relative_buckets_count",  "attention.rope_pattern",
                                               "attention.temperature_length",      "attention.temperature_scale"};
constexpr std::string_view telling[] = {"rope", "alibi", "relative", "temperature", "position"};

bool about_positions(std::string_view key) {
  return std::any_of(std::begin(telling), std::end(telling),
                     [&](std::string_view word) { return key.find(word) != std::string_view::npos; });
}

template <std::size_t n>
bool among(const std::string_view (&keys)[n], std::string_view key) {
  return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

/// A key that llama.cpp does not have may change positions in a way that is not known here.
void refuse_unknown_keys(const Metadata& data) {
  const std::string prefix = data.architecture() + '.';
  for (const auto& [full_key, value] : data.header().values) {
    if (!std::string_view(full_key).starts_with(prefix)) continue;
    const std::string_view key = std::string_view(full_key).substr(prefix.size());
    const bool rope = key.starts_with("rope."), attention = key.starts_with("attention.");
    if ((rope && !among(rope_keys, key)) || (attention && about_positions(key) && !among(attention_keys, key))) {
      data.fail(key, "must be a key that llama.cpp has: this one may change positions, and is not known");
    }
  }
}

/// A head's dimensions where the file has no key_length of its own. Whatever is made for each dimension is bounded by
/// it.
Index head_dim_of(const Metadata& data, Index width, Index heads) {
  if (width / heads > most_head_dim) {
    data.fail("embedding_length", "must be at most " + std::to_string(most_head_dim) + " for each of " +
                                      std::to_string(heads) + " heads, got " + std::to_string(width));
  }
  return width / heads;
}

/// Latent attention: key_length_mla, as the file's key_length is that of the compressed keys, which all heads share.
Index read_head_dim(const File& file) {
  const Metadata& data = file.data;
  const Index width = data.integer("embedding_length", 1, most_heads * most_head_dim).value_or(0);
  const auto given = data.integer("attention.key_length", 2, most_head_dim);
  const auto latent = file.is(last_part) ? data.integer("attention.key_length_mla", 2, most_head_dim) : std::nullopt;
  if (latent) return *latent;
  if (given) return *given;
  const Index heads = file.heads.front();
  if (heads == 0) data.fail("attention.key_length", "must be there if the first layer has no heads");
  if (width == 0) data.fail("embedding_length", "must be there if attention.key_length is not");
  return head_dim_of(data, width, heads);
}

void read_head_dims(File& file) {
  const Metadata& data = file.data;
  file.head_dim = read_head_dim(file);
  const auto turned = data.integer("rope.dimension_count", 2, most_head_dim);
  if (file.is(last_part) && !turned) data.fail("rope.dimension_count", "must be there: a part of the head turns");
  file.turned = turned.value_or(file.head_dim);
  file.sliding_head_dim = file.head_dim;
  file.sliding_turned = file.turned;
  if (file.is(half_count)) file.turned /= 2;
  const std::string_view own = file.is(last_part) ? "attention.key_length_mla_swa" : "attention.key_length_swa";
  const Index head = data.integer(own, 2, most_head_dim).value_or(file.head_dim);
  const Index dims = data.integer("rope.dimension_count_swa", 2, most_head_dim).value_or(file.sliding_turned);
  if (file.row.sliding.own_dims || file.is(last_part)) {
    file.sliding_head_dim = head;
    file.sliding_turned = dims;
  } else if (head != file.head_dim || dims != file.turned) {
    data.fail(head != file.head_dim ? own : "rope.dimension_count_swa",
              "must be the same as for other layers: llama.cpp's code for " + data.architecture() + " has one for all");
  }
  if (file.is(whole_head)) file.turned = file.sliding_turned = file.head_dim;
}

void check_turned(const File& file) {
  const auto check = [&](std::string_view key, Index turned, Index head_dim) {
    if (turned % 2 == 0 && turned >= 2 && turned <= head_dim) return;
    file.data.fail(key, "must be even, above 0 and at most the head's " + std::to_string(head_dim) +
                            " dimensions, got " + std::to_string(turned));
  };
  check("rope.dimension_count", file.turned, file.head_dim);
  check("rope.dimension_count_swa", file.sliding_turned, file.sliding_head_dim);
}

}  // namespace

const Architecture& find_row(const Metadata& data) {
  const Architecture* row = find_architecture(data.architecture());
  const std::string key = "general.architecture";
  if (row == nullptr) {
    data.notes().fail(key, "must be one that is known, as its code decides how queries and keys turn, got " +
                               json::quoted(data.architecture()));
  }
  if (row->turn == Turn::refused) {
    data.notes().fail(key, "must be one whose positions are read, got " + json::quoted(data.architecture()) + ": " +
                               std::string(row->why));
  }
  if (row->is(draft_model) && data.integer("hyper_connection.count", 0, most_heads).value_or(0) > 0) {
    data.fail("hyper_connection.count", "must be 0: draft models for DeepSeek-V4 are not read");
  }
  refuse_unknown_keys(data);
  return *row;
}

void read_sizes(File& file) {
  const Metadata& data = file.data;
  file.blocks = data.needed("block_count", 1, most_layers);
  const Index further = data.integer("nextn_predict_layers", 0, file.blocks).value_or(0);
  file.layers = file.blocks - further;
  if (file.layers == 0) data.fail("nextn_predict_layers", "must be below block_count, got " + std::to_string(further));
  file.context = data.integer("context_length", 1, most_positions).value_or(0);
  const std::vector<Index> none(static_cast<std::size_t>(file.blocks), 0);
  file.heads = data.per_layer("attention.head_count", file.blocks, 0, most_heads).value_or(none);
  file.kv_heads = data.per_layer("attention.head_count_kv", file.blocks, 0, most_heads).value_or(file.heads);
  const bool rotary = file.row.turn != Turn::none;
  if (rotary && !data.has("attention.head_count")) data.fail("attention.head_count", "must be there");
  if (!rotary) {
    const Index heads = file.heads.front(), width = data.integer("embedding_length", 1, Index{1} << 32).value_or(0);
    const auto given = data.integer("attention.key_length", 1, most_head_dim);
    file.head_dim = given ? *given : heads > 0 ? head_dim_of(data, width, heads) : 0;
    return;
  }
  read_head_dims(file);
  check_turned(file);
}

}  // namespace bearing::gguf
