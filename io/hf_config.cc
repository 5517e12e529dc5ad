#include <algorithm>
#include <map>
#include <tuple>

#include "hf_reader.hpp"

namespace bearing {
namespace {

using hf::Config;
using hf::Family;
using json::Object;

constexpr int deepest_text_config = 4;

/// A multimodal file keeps its language model in an object of its own.
Object language_model(Object file, std::string& model_type) {
  for (int level = 0;; ++level) {
    if (auto type = file.text("model_type")) model_type = *type;
    const std::string_view key = file.spelled({"text_config", "llm_config", "language_config", "thinker_config"});
    if (key.empty() || level == deepest_text_config) return file;
    file = *file.object(key);
  }
}

bool has_rotary_keys(const Object& file) {
  return !file.spelled({"rope_theta", "rope_scaling", "rope_parameters", "rotary_emb_base", "partial_rotary_factor",
                        "rotary_pct", "rotary_dim"})
              .empty();
}

/// The name of the encoding if it is not rotary: by model_type, or by a flag in the file; empty if it is.
std::string not_rotary(const Config& config) {
  const Object& file = config.file;
  if (config.model_type == "mpt") {
    const auto attention = file.object("attn_config");
    return attention && !attention->flag("alibi").value_or(true) ? "learned" : "alibi";
  }
  const std::string position_type =
      file.find("position_embedding_type") != nullptr ? *file.text("position_embedding_type") : std::string();
  const std::string_view other = hf::other_encoding(config.model_type);
  if (other == "learned" && position_type.starts_with("relative_key")) return "shaw";
  if (!other.empty()) return std::string(other);

  if (config.family.is(hf::rotary_if_named) && position_type != "rope" && position_type != "rotary") {
    if (position_type.starts_with("relative_key")) return "shaw";
    return config.model_type == "esm" ? "learned" : "none";
  }
  if (config.family.is(hf::alibi_flag) || !config.known) {
    if (file.flag("alibi").value_or(false)) {
      if (has_rotary_keys(file)) file.warn("alibi", "true: the rotary keys beside it are ignored");
      return "alibi";
    }
  }
  if (config.family.is(hf::alibi_if_large)) {
    if (file.integer("hidden_size", 1, hf::most_heads * hf::most_head_dim).value_or(4096) > 4096) {
      file.warn("hidden_size", "Baichuan's files do not name the encoding: the 13B models use ALiBi, the 7B rotary");
      return "alibi";
    }
  }
  if (config.family.is(hf::half_of_channels) && file.flag("position_encoding_2d").value_or(false)) {
    file.warn("position_encoding_2d", "ChatGLM-6B's two-dimensional positions are not read");
    return "rotary-2d";
  }
  return {};
}

/// How many layers a model without rotary encoding has; all are alike.
Index plain_layers(const Object& file) {
  const std::string_view key = file.spelled({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  return key.empty() ? 1 : *file.integer(key, 1, hf::most_layers);
}

Config make_config(const Object& root) {
  std::string model_type;
  Object file = language_model(root, model_type);
  const Family* family = hf::find_family(model_type);
  Config config{.file = file,
                .family = family != nullptr ? *family : Family{.model_type = {}, .pairing = Pairing::half},
                .known = family != nullptr,
                .model_type = model_type};
  return config;
}

void require_common_keys(const Config& config) {
  const std::string got = config.model_type.empty() ? "none" : json::quoted(config.model_type);
  if (!has_rotary_keys(config.file)) {
    config.notes().fail(
        config.file.pointer("model_type"),
        "must be one that is known, or stand beside rope_theta, rope_scaling or rope_parameters, got " + got);
  }
  config.file.warn("model_type",
                   got + " is not known: the common keys are read, and the pairing is assumed to be half");
}

void warn_about_other_keys(const Object& file) {
  if (file.has("dual_chunk_attention_config")) {
    file.warn("dual_chunk_attention_config", "recognised, not part of the encoding");
  }
}

Index first_trained_length(const Config& config, const std::vector<Layer>& layers) {
  for (const Layer& layer : layers) {
    const auto* rope = std::get_if<Rope>(&layer.encoding);
    if (rope == nullptr) continue;
    if (const Index length = trained_length(rope->scaling)) return length;
  }
  const Index original = config.file.integer("original_max_position_embeddings", 1, hf::most_positions).value_or(0);
  if (original > 0) return original;
  const bool stretched = std::any_of(layers.begin(), layers.end(), [](const Layer& layer) {
    const auto* rope = std::get_if<Rope>(&layer.encoding);
    return rope != nullptr && !std::holds_alternative<NoScaling>(rope->scaling) &&
           !std::holds_alternative<ProportionalScaling>(rope->scaling);
  });
  return stretched ? 0 : config.positions;
}

/// Sizes as far as they are given, for a model whose encoding needs none of them.
void fill_plain(const Config& config, const std::string& encoding, Model& model) {
  const Object& file = config.file;
  const auto size = [&](const std::vector<std::string_view>& keys) -> Index {
    const std::string_view key = file.spelled(keys);
    return key.empty() ? 0 : *file.integer(key, 1, hf::most_heads * hf::most_head_dim);
  };
  model.heads = size({"num_attention_heads", "n_head", "n_heads", "num_heads"});
  const Index kv_heads = size({"num_key_value_heads", "num_kv_heads", "n_head_kv"});
  model.kv_heads = kv_heads > 0 ? kv_heads : model.heads;
  const Index hidden = size({"hidden_size", "n_embd", "d_model"});
  model.head_dim = size({"head_dim", "d_kv"});
  if (model.head_dim == 0 && model.heads > 0) model.head_dim = hidden / model.heads;
  model.context_length =
      size({"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length"});
  model.trained_length = model.context_length;

  Layer layer{.encoding = NoPosition{}};
  if (encoding != "none") layer.encoding = OtherEncoding{encoding};
  model.layers.assign(static_cast<std::size_t>(plain_layers(file)), layer);
}

void fill_rotary(Config& config, Model& model) {
  hf::read_sizes(config);
  if (config.family.scaling != nullptr) {
    config.class_scaling = std::make_shared<json::Document>(config.family.scaling, config.notes());
  }
  model.layers = hf::read_layers(config);
  model.heads = config.heads;
  model.kv_heads = config.kv_heads;
  model.head_dim = config.head_dim;
  model.context_length = config.positions;
  model.trained_length = first_trained_length(config, model.layers);
}

Model read_model(std::string text, const std::string& name) {
  json::Notes notes(name);
  const json::Document document(std::move(text), notes);
  Config config = make_config(Object(document.root(), "", notes));
  Model model;
  model.file = name;
  model.model_type = config.model_type;
  const std::string other = not_rotary(config);
  if (!other.empty()) {
    fill_plain(config, other, model);
  } else {
    if (!config.known) require_common_keys(config);
    warn_about_other_keys(config.file);
    fill_rotary(config, model);
  }
  model.warnings = notes.take();
  return model;
}

bool same(const Rope& a, const Rope& b) {
  return a.head_dim == b.head_dim && a.rotary_dim == b.rotary_dim && a.base == b.base &&
         Pairing{a.pairing} == Pairing{b.pairing} && a.scaling == b.scaling && a.part == b.part && a.axes == b.axes;
}

bool same(const Layer& a, const Layer& b) {
  if (a.type != b.type || a.window != b.window || a.encoding.index() != b.encoding.index()) return false;
  if (const auto* rope = std::get_if<Rope>(&a.encoding)) return same(*rope, std::get<Rope>(b.encoding));
  if (const auto* other = std::get_if<OtherEncoding>(&a.encoding)) {
    return other->name == std::get<OtherEncoding>(b.encoding).name;
  }
  return true;
}

}  // namespace

Model read_hf_config(const std::string& path) { return read_model(json::read_text(path), path); }

Model parse_hf_config(std::string_view text, const std::string& name) { return read_model(std::string(text), name); }

std::vector<LayerGroup> layer_groups(const Model& model) {
  std::vector<LayerGroup> groups;
  // Groups of one type and window are few, whatever the number of layers.
  std::map<std::tuple<std::string, Index, std::size_t>, std::vector<std::size_t>> candidates;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    auto& indices = candidates[{layer.type, layer.window, layer.encoding.index()}];
    const auto at =
        std::find_if(indices.begin(), indices.end(), [&](std::size_t g) { return same(groups[g].layer, layer); });
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
