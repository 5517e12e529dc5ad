#include <algorithm>
#include <iterator>
#include <set>

#include "hf_named.hpp"
#include "hf_reader.hpp"

// Models that are not rotary: what acts on the input, what acts on the scores, or at least the encoding's name.

namespace bearing::hf {
namespace {

using json::Object;

/// Layers without an encoding of their own, for each part of the model.
void plain_layers(const Config& config, const LayerEncoding& encoding, Model& model) {
  const Object& file = config.file;
  const auto add = [&](Index count, const char* part) {
    Layer layer{.encoding = encoding};
    layer.part = part;
    model.layers.insert(model.layers.end(), static_cast<std::size_t>(count), layer);
  };
  const auto has = [&](const char* part) {
    return std::any_of(model.inputs.begin(), model.inputs.end(), [&](const auto& i) { return i.part == part; });
  };
  if (has("encoder") || has("decoder")) {
    const Index usual = config.model_type == "whisper" ? 4 : 12;
    if (has("encoder")) add(plain_size(file, {"encoder_layers", "num_encoder_layers"}, usual, most_layers), "encoder");
    if (has("decoder")) add(plain_size(file, {"decoder_layers", "num_decoder_layers"}, usual, most_layers), "decoder");
    return;
  }
  const std::string_view key =
      file.spelled({"num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth", "layers", "encoder_layers"});
  const bool stated = !key.empty() && file.find(key)->IsNumber();
  add(stated ? *file.integer(key, 1, most_layers) : 1, "");
}

/// Sizes as far as they are given.
void read_plain_sizes(const Config& config, Model& model) {
  const Object& file = config.file;
  const auto size = [&](const Keys& keys) -> Index {
    const std::string_view key = counting(file, keys);
    if (key.empty() || file.find(key)->IsArray()) return 0;  // Swin's heads are a list, one per stage
    return *file.integer(key, 1, most_heads * most_head_dim);
  };
  if (model.heads > 0) return;  // read with its layers
  model.heads = size({"num_attention_heads", "n_head", "n_heads", "num_heads"});
  if (model.heads == 0) model.heads = size({"encoder_attention_heads"});
  const Index kv_heads = size({"num_key_value_heads", "num_kv_heads", "n_head_kv"});
  model.kv_heads = kv_heads > 0 ? kv_heads : model.heads;
  const Index hidden = size({"n_embed", "hidden_size", "n_embd", "d_model"});  // BLOOM takes n_embed first
  model.head_dim = size({"head_dim", "d_kv", "d_head"});
  if (model.head_dim == 0 && model.heads > 0) model.head_dim = hidden / model.heads;
  if (model.context_length == 0) {
    model.context_length =
        size({"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length"});
  }
  model.trained_length = model.context_length;
}

}  // namespace

bool has_rotary_keys(const Object& file) {
  return !file.spelled({"rope_theta", "rope_scaling", "rope_parameters", "rotary_emb_base", "partial_rotary_factor",
                        "rotary_pct", "rotary_dim"})
              .empty();
}

Index plain_size(const Object& file, const Keys& keys, Index usual, Index most) {
  const std::string_view key = counting(file, keys);
  if (!key.empty()) return *file.integer(key, 1, most);
  file.warn(keys.front(), "not in the file; " + std::to_string(usual) + " is assumed", json::Weight::slight);
  return usual;
}

void add_named_types(std::vector<std::string_view>& to) {
  for (const Named& one : named_types()) to.push_back(one.model_type);
}

std::vector<std::string_view> model_types() {
  std::vector<std::string_view> all, once;
  add_rotary_types(all), add_score_types(all), add_input_types(all), add_named_types(all);
  std::set<std::string_view> seen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(once),
               [&](std::string_view type) { return seen.insert(type).second; });
  return once;
}

/// Models that mix tokens by a state alone, which runs over them in their order.
void name_recurrent_layers(const std::string& model_type, Model& model) {
  constexpr std::string_view recurrent[] = {"mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm"};
  if (std::find(std::begin(recurrent), std::end(recurrent), model_type) == std::end(recurrent)) return;
  for (Layer& layer : model.layers) layer.type = "recurrent";
}

bool read_not_rotary(const Config& config, Model& model) {
  const Object& file = config.file;
  const bool inputs = read_inputs(config, model), scores = read_scores(config, model);
  const Named* row = find_named(config.model_type);
  std::string name = row == nullptr ? "" : std::string(row->encoding);
  const std::string why = row == nullptr ? "" : row->why;
  if (inputs || scores) {
    if (!scores) plain_layers(config, name.empty() ? LayerEncoding(NoPosition{}) : OtherEncoding{name, why}, model);
    read_plain_sizes(config, model);
    return read_windows(config, model), true;
  }
  if (config.family.is(half_of_channels) && file.flag("position_encoding_2d").value_or(false)) {
    file.warn("position_encoding_2d", "ChatGLM-6B's two-dimensional positions are not read", json::Weight::grave);
    name = "rotary-2d";
  }
  if (name.empty()) return false;
  if (name == "none") {
    plain_layers(config, NoPosition{}, model);
    name_recurrent_layers(config.model_type, model);
  } else {
    file.warn("model_type",
              why.empty() ? "its encoding is recognised by name, its numbers are not read"
                          : "its encoding is recognised by name, its numbers are not read: " + why,
              json::Weight::grave);
    plain_layers(config, OtherEncoding{name, why}, model);
  }
  read_plain_sizes(config, model);
  return read_windows(config, model), true;
}

}  // namespace bearing::hf

namespace bearing {
namespace {

// One name for each spec that a file can give.
std::string name_of(const NoPosition&) { return "none"; }
std::string name_of(const Rope&) { return "rope"; }
std::string name_of(const Alibi&) { return "alibi"; }
std::string name_of(const T5&) { return "t5"; }
std::string name_of(const BertRelative&) { return "bert_relative"; }
std::string name_of(const Wav2Vec2BertRelative&) { return "wav2vec2_bert_relative"; }
std::string name_of(const Deberta&) { return "deberta"; }
std::string name_of(const TransformerXL&) { return "transformer_xl"; }
std::string name_of(const Xlnet&) { return "xlnet"; }
std::string name_of(const Swin&) { return "swin"; }
std::string name_of(const SwinV2&) { return "swin_v2"; }
std::string name_of(const Shaw&) { return "shaw"; }
std::string name_of(const GatedT5&) { return "gated_t5"; }
std::string name_of(const T5Axis&) { return "t5_axis"; }
std::string name_of(const Sam&) { return "sam"; }
std::string name_of(const RelativeLogits&) { return "relative_logits"; }
std::string name_of(const ElementwiseRope&) { return "elementwise_rope"; }
std::string name_of(const Learned&) { return "learned"; }
std::string name_of(const Sinusoidal&) { return "sinusoidal"; }
std::string name_of(const Sinusoidal2d&) { return "sinusoidal_2d"; }
std::string name_of(const OtherEncoding& other) { return other.name; }

}  // namespace

std::string encoding_name(const LayerEncoding& encoding) {
  return std::visit([](const auto& spec) { return name_of(spec); }, encoding);
}
std::string encoding_name(const InputSpec& encoding) {
  return std::visit([](const auto& spec) { return name_of(spec); }, encoding);
}

}  // namespace bearing
