#include <cmath>

#include "hf_reader.hpp"

namespace bearing::hf {
namespace {

using json::Object;
std::optional<Index> spelled(const Config& config, const Keys& keys, Index most) {
  const std::string_view key = counting(config, keys);
  return key.empty() ? std::nullopt : config.file.integer(key, 1, most);
}

Index assumed(Config& config, std::string_view key, Index value) {
  config.from_class.emplace_back(key, value);
  config.warn_of_default(key, std::to_string(value));
  return value;
}

Index read_kv_heads(const Config& config) {
  const Object& file = config.file;
  if (config.family.is(alibi_flag)) {  // Falcon: three spellings of multi-query attention
    if (!file.flag("new_decoder_architecture").value_or(false)) {
      return file.flag("multi_query").value_or(true) ? 1 : config.heads;
    }
    return spelled(config, {"num_kv_heads", "n_head_kv"}, most_heads).value_or(config.heads);
  }
  if (file.flag("multi_query_attention").value_or(false)) {
    if (const auto groups = file.integer("multi_query_group_num", 1, most_heads)) return *groups;
  }
  const Keys keys = {"num_key_value_heads", "num_kv_heads", "n_head_kv", "decoder_num_key_value_heads"};
  if (const auto given = spelled(config, keys, most_heads)) {
    return *given;
  }
  if (const auto attention = file.object("attn_config")) {
    if (const auto given = attention->integer("kv_n_heads", 1, most_heads)) return *given;
  }
  // A null stands for "as many as heads"; a missing key for the class' default.
  const Index usual = config.family.shape.kv_heads;
  return usual > 0 && !file.mentions("num_key_value_heads") && usual <= config.heads ? usual : config.heads;
}

Index read_latent_head_dim(Config& config) {
  const Shape& shape = config.family.shape;
  const Index usual_rotary = std::lround(static_cast<double>(shape.head_dim) * config.family.fraction);
  const Index least = config.family.is(unrotated) ? 0 : 1;
  config.rotary_dim = config.file.integer("qk_rope_head_dim", least, most_head_dim / 2).value_or(usual_rotary);
  if (config.rotary_dim % 2 != 0) config.file.wrong("qk_rope_head_dim", "even");
  const Index head_dim =
      config.file.integer("qk_nope_head_dim", 0, most_head_dim / 2).value_or(shape.head_dim - usual_rotary) +
      config.rotary_dim;
  // Files call either size head_dim.
  const auto said = config.file.integer("head_dim", least, most_head_dim);
  if (said && *said != head_dim && *said != config.rotary_dim) {
    config.file.warn("head_dim", "ignored: heads of latent attention have qk_nope_head_dim + qk_rope_head_dim = " +
                                     std::to_string(head_dim) + " dimensions");
  }
  return head_dim;
}

Index read_head_dim(Config& config) {
  const Object& file = config.file;
  if (config.family.is(mla)) return read_latent_head_dim(config);
  const Keys keys = {"head_dim", "attention_head_dim", "kv_channels"};
  if (const auto given = spelled(config, keys, most_head_dim)) return *given;
  const Shape& shape = config.family.shape;
  if (shape.head_dim > 0 && !file.mentions("head_dim")) {
    config.from_class.emplace_back("head_dim", shape.head_dim);
    return shape.head_dim;
  }

  const Keys hidden_keys = {"hidden_size", "n_embd", "d_model", "dim"};
  auto hidden = spelled(config, hidden_keys, most_heads * most_head_dim);
  if (!hidden && shape.hidden > 0) hidden = assumed(config, "hidden_size", shape.hidden);
  if (!hidden) file.missing("head_dim", "or hidden_size, to divide by the number of heads");
  const std::string_view key = file.spelled(hidden_keys);
  const Index width = config.family.is(double_heads) ? 2 * *hidden : *hidden;
  const bool divides = width % config.heads == 0;
  if (!divides && rounds_heads(config) && width / config.heads <= most_head_dim && width > config.heads) {
    const Index rounded = width / config.heads;
    file.warn(key.empty() ? "hidden_size" : key,
              std::to_string(*hidden) + " is no multiple of the number of heads, " + std::to_string(config.heads) +
                  ": " + config.code() + " rounds a head down to " + std::to_string(rounded) + " dimensions",
              json::Weight::grave);
    return rounded;
  }
  if (!divides || width / config.heads > most_head_dim) {
    config.notes().fail(file.pointer(key.empty() ? "hidden_size" : key),
                        "must be a multiple of the number of heads, " + std::to_string(config.heads) +
                            ", and give a head_dim of at most 65536, if head_dim is missing, got " +
                            std::to_string(*hidden) + config.defaults_among({"num_attention_heads", "hidden_size"}));
  }
  return width / config.heads;
}

}  // namespace

bool rounds_heads(const Config& config) { return config.family.is(rounded_heads); }

void read_sizes(Config& config) {
  const Object& file = config.file;
  const Shape& shape = config.family.shape;
  if (const auto heads =
          spelled(config, {"num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_num_attention_heads"},
                  most_heads)) {
    config.heads = *heads;
  } else if (shape.heads > 0) {
    config.heads = assumed(config, "num_attention_heads", shape.heads);
  } else if (file.has("head_dim")) {
    config.heads = 1;
    file.warn("num_attention_heads", "not in the file; 1 is assumed");
  } else {
    file.missing("num_attention_heads", "a whole number from 1 to 65536");
  }
  config.kv_heads = read_kv_heads(config);
  if (config.heads % config.kv_heads != 0) {
    file.warn("num_key_value_heads", std::to_string(config.kv_heads) + " does not divide the " +
                                         std::to_string(config.heads) + " query heads");
  }
  config.head_dim = read_head_dim(config);

  if (const auto layers =
          spelled(config, {"num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_num_hidden_layers"},
                  most_layers)) {
    config.layers = *layers;
  } else if (shape.layers > 0) {
    config.layers =
        config.family.is(counts_its_list) ? shape.layers : assumed(config, "num_hidden_layers", shape.layers);
  } else {
    config.layers = 1;
    file.warn("num_hidden_layers", "not in the file; one layer is shown");
  }
  Keys lengths = {"max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length",
                  "model_max_length",        "n_ctx"};
  if (config.family.is(log_past_seq_length)) lengths = {lengths.front()};
  config.positions = spelled(config, lengths, most_positions).value_or(shape.positions);

  // A null switches the window off; a missing key leaves the class' default.
  const std::string_view key = counting(config, {"sliding_window", "attention_chunk_size", "local_attention",
                                                 "attention_window_size", "sliding_window_size"});
  if (!key.empty()) {
    config.window = *file.integer(key, 0, most_positions);
    if (key == "sliding_window_size" && config.family.is(window_of_others) && config.window > 0) ++config.window;
  } else if (!file.mentions("sliding_window") && !file.mentions("attention_chunk_size")) {
    config.window = config.family.window;
  }
  if (!file.flag("use_sliding_window").value_or(true)) config.window = 0;
}

}  // namespace bearing::hf
