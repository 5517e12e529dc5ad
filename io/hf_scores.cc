#include <algorithm>
#include <cmath>
#include <span>

#include "hf_reader.hpp"
#include "lasting.hpp"

// What layers add to scores, for model types whose code is known and not rotary. Defaults are the configuration
// classes'.

namespace bearing::hf {
namespace {

using json::Object;

const auto& layer_keys =
    lasting(std::vector<std::string_view>{"num_hidden_layers", "n_layer", "n_layers", "num_layers"});

Index layers_of(const Object& file, Index usual) { return plain_size(file, layer_keys, usual, most_layers); }

// --- ALiBi ---

/// What a configuration class assumes.
struct Usual {
  Index heads, layers;
};

void alibi_layers(const Config& config, Model& model, const Usual& usual, double bias_max = 8, double times = 1) {
  const Object& file = config.file;
  const Index heads = plain_size(file, {"num_attention_heads", "n_head", "n_heads"}, usual.heads, most_heads);
  const Index layers = layers_of(file, usual.layers);
  // Each layer holds its own copy of the slopes; this keeps a hostile file's model at 8 MiB of them.
  if (layers > most_copied_numbers / heads) {
    const std::string_view key = file.spelled(layer_keys);
    file.notes().fail(file.pointer(key.empty() ? layer_keys.front() : key),
                      "must be at most " + std::to_string(most_copied_numbers / heads) + " for " +
                          std::to_string(heads) + " heads with a slope each, got " + std::to_string(layers));
  }
  Alibi alibi = Alibi::published(heads, bias_max, times);
  alibi.form = AlibiForm::causal;
  all_layers(model, layers, alibi);
}

void read_mpt(const Config& config, Model& model) {
  const auto attention = config.file.object("attn_config");
  const double bias_max = attention ? attention->number("alibi_bias_max", {1e-6, 1e6}).value_or(8) : 8;
  if (attention && !attention->flag("alibi").value_or(true)) {
    model.inputs.push_back({Learned{.length = plain_size(config.file, {"max_seq_len"}, 2048),
                                    .dim = plain_size(config.file, {"d_model"}, 2048)}});
    return all_layers(model, layers_of(config.file, 24), NoPosition{});
  }
  alibi_layers(config, model, {16, 24}, bias_max);
}

void read_falcon(const Config& config, Model& model) {
  const Object& file = config.file;
  if (has_rotary_keys(file)) file.warn("alibi", "true: the rotary keys beside it are ignored");
  const Index heads = file.integer(file.has("num_attention_heads") ? "num_attention_heads" : "n_head", 1, most_heads)
                          .value_or(71);  // alibi_layers() warns
  const Index hidden = plain_size(file, {"hidden_size"}, 4544);
  file.warn("alibi",
            "Falcon adds its bias before it divides by the square root of head_dim: the slopes shown are divided");
  alibi_layers(config, model, {71, 32}, 8, 1 / std::sqrt(static_cast<double>(std::max<Index>(hidden / heads, 1))));
}

// --- T5 ---

void read_t5(const Config& config, Model& model) {
  const Object& file = config.file;
  const bool mt5 = config.model_type == "mt5" || config.model_type == "umt5";
  T5 t5{.direction = T5Direction::bidirectional};
  t5.buckets = file.integer("relative_attention_num_buckets", 4, 65'536).value_or(32);
  t5.max_distance = file.integer("relative_attention_max_distance", 1, most_positions).value_or(128);
  if (t5.buckets % 4 != 0) file.wrong("relative_attention_num_buckets", "a multiple of 4");
  if (t5.max_distance <= t5.buckets / 2) {
    file.notes().fail(file.pointer("relative_attention_max_distance"),
                      "must be more than half of relative_attention_num_buckets, " + std::to_string(t5.buckets / 2) +
                          ", got " + std::to_string(t5.max_distance));
  }
  if (config.model_type == "mpnet") return all_layers(model, layers_of(file, 12), t5);

  const Index layers = layers_of(file, mt5 ? 8 : config.model_type == "switch_transformers" ? 12 : 6);
  all_layers(model, layers, t5, "encoder");
  if (config.model_type == "longt5") {
    const std::string type = file.text("encoder_attention_type").value_or("local");
    for (Layer& layer : model.layers) {
      layer.type = type + "_attention";
      layer.window_after = file.integer("local_radius", 1, most_positions).value_or(127);
      layer.window = layer.window_after + 1;
    }
    if (type != "local") file.warn("encoder_attention_type", "the table for global tokens is not read");
  }
  t5.direction = T5Direction::causal;
  all_layers(model, file.integer("num_decoder_layers", 1, most_layers).value_or(layers), t5, "decoder");
}

// --- relative positions of BERT's kind, DeBERTa, Transformer-XL ---

/// BERT and its relatives with position_embedding_type relative_key or relative_key_query.
bool read_bert_relative(const Config& config, Model& model) {
  const Object& file = config.file;
  const std::string type = file.text("position_embedding_type").value_or("absolute");
  if (!type.starts_with("relative_key")) return false;
  if (type != "relative_key" && type != "relative_key_query") {
    file.wrong("position_embedding_type", "absolute, relative_key or relative_key_query");
  }
  BertRelative bert{.max_position_embeddings = plain_size(file, {"max_position_embeddings"}, 512)};
  if (type == "relative_key_query") bert.position_embedding_type = BertRelativeType::relative_key_query;
  all_layers(model, layers_of(file, 12), bert);
  file.warn("position_embedding_type",
            "counts, as in transformers 4.57.1, but the code of " + config.model_type +
                " in 5.24.0 does not read it: it has no relative keys, and adds a learned table to the input",
            json::Weight::grave);
  return true;
}

/// "p2c|c2p", a list of the two, or null.
std::vector<std::string> deberta_terms(const Object& file) {
  const rapidjson::Value* given = file.find("pos_att_type");
  if (given == nullptr) return {};
  std::vector<std::string> terms;
  if (given->IsString()) {
    std::string term;
    for (const char c : *file.text("pos_att_type") + '|') {
      if (c != '|') {
        term += c;
      } else if (!term.empty()) {
        terms.push_back(std::move(term)), term.clear();
      }
    }
  } else {
    terms = *file.texts("pos_att_type", 8);
  }
  for (std::string& term : terms) {
    term.erase(0, term.find_first_not_of(' '));
    term.erase(term.find_last_not_of(' ') + 1);
    if (term == "p2p") {
      file.warn("pos_att_type", "p2p is ignored, as it is by the model's code");
    } else if (term != "c2p" && term != "p2c") {
      file.wrong("pos_att_type", "made of c2p and p2c");
    }
  }
  return terms;
}

void read_deberta(const Config& config, Model& model) {
  const Object& file = config.file;
  const bool v1 = config.model_type == "deberta";
  const Index layers = layers_of(file, v1 ? 12 : 24);
  if (!file.flag("relative_attention").value_or(false)) return all_layers(model, layers, NoPosition{});
  Deberta deberta;
  const Index most = file.integer("max_relative_positions", -1, most_positions).value_or(-1);
  deberta.max_relative_positions = most >= 1 ? most : plain_size(file, {"max_position_embeddings"}, 512);
  if (!v1) deberta.position_buckets = std::max<Index>(file.integer("position_buckets", -1, 65'536).value_or(0), 0);
  if (deberta.position_buckets == 1) file.wrong("position_buckets", "at least 2, or 0 or -1 for none");
  if (deberta.position_buckets > 0 && deberta.max_relative_positions - 1 <= deberta.position_buckets / 2) {
    file.notes().fail(file.pointer("position_buckets"),
                      "must leave distances to share buckets: half of it must be less than max_relative_positions - 1 "
                      "= " +
                          std::to_string(deberta.max_relative_positions - 1) + ", got " +
                          std::to_string(deberta.position_buckets));
  }
  const std::vector<std::string> terms = deberta_terms(file);
  const auto has = [&](const char* term) { return std::find(terms.begin(), terms.end(), term) != terms.end(); };
  deberta.terms = has("c2p") ? has("p2c") ? DebertaTerms::both : DebertaTerms::c2p : DebertaTerms::p2c;
  if (!has("c2p") && !has("p2c")) {
    file.warn("pos_att_type", "neither c2p nor p2c: relative_attention adds nothing to the scores");
    return all_layers(model, layers, NoPosition{});
  }
  all_layers(model, layers, deberta);
}

void read_transformer_xl(const Config& config, Model& model) {
  const Object& file = config.file;
  if (const auto kind = file.integer("attn_type", 0, 3); kind && *kind != 0) {
    file.warn("attn_type", "only 0, Transformer-XL's own attention, is read");
    return all_layers(model, layers_of(file, 18), OtherEncoding{"transformer_xl"});
  }
  TransformerXL xl;
  xl.clamp_len = std::max<Index>(file.integer("clamp_len", -1, most_positions).value_or(1000), 0);
  all_layers(model, layers_of(file, 18), xl);
}

void read_xlnet(const Config& config, Model& model) {
  const Object& file = config.file;
  Xlnet xlnet;
  xlnet.clamp_len = std::max<Index>(file.integer("clamp_len", -1, most_positions).value_or(-1), 0);
  const std::string type = file.text("attn_type").value_or("bi");
  if (type != "bi" && type != "uni") file.wrong("attn_type", "bi or uni");
  xlnet.direction = type == "bi" ? TransformerXLDirection::bidirectional : TransformerXLDirection::causal;
  if (file.flag("bi_data").value_or(false)) file.warn("bi_data", "is not read: both directions share the encoding");
  model.heads = model.kv_heads = plain_size(file, {"n_head", "num_attention_heads"}, 16, most_heads);
  model.head_dim = file.integer("d_head", 1, most_head_dim)
                       .value_or(plain_size(file, {"d_model", "hidden_size"}, 1024) / model.heads);
  all_layers(model, layers_of(file, 24), xlnet);
}

// --- images ---

/// Swin's stages halve the map; a window that is not smaller than the map is the map, and is not shifted. Version 1
/// pads a map of odd size before it halves it, and looks at its shorter side; version 2's windows go by halves rounded
/// down, and by the height.
void read_swin(const Config& config, Model& model) {
  const Object& file = config.file;
  const bool v2 = config.model_type == "swinv2";
  const auto depths = file.integers("depths", 64, 1, 1024).value_or(std::vector<Index>{2, 2, 6, 2});
  const auto trained =
      v2 ? file.integers("pretrained_window_sizes", 64, 0, 4096).value_or(std::vector<Index>(depths.size(), 0))
         : std::vector<Index>();
  if (v2 && trained.size() != depths.size()) {
    file.wrong("pretrained_window_sizes", std::to_string(depths.size()) + " numbers, one per stage");
  }
  const Index window = file.integer("window_size", 1, 4096).value_or(7);
  GridSize map = patch_grid(file, 224, 4);
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    const Index shorter = v2 ? map.height : std::min(map.height, map.width), side = std::min(window, shorter);
    if (side < 1) file.wrong("depths", "fewer stages: nothing is left of the map for stage " + std::to_string(stage));
    const bool shifts = shorter > window && window > 1;
    for (Index block = 0; block < depths[stage]; ++block) {
      Layer layer{.encoding = Swin{side, side}};
      if (v2)
        layer.encoding =
            SwinV2{.window = {side, side}, .trained_height = trained[stage], .trained_width = trained[stage]};
      layer.type = shifts && block % 2 == 1 ? "shifted_window_attention" : "window_attention";
      model.layers.push_back(layer);
    }
    const Index padding = v2 ? 0 : 1;
    map = {(map.height + padding) / 2, (map.width + padding) / 2};
  }
}

void read_beit(const Config& config, Model& model) {
  const Object& file = config.file;
  const bool biased = file.flag("use_relative_position_bias").value_or(false) ||
                      file.flag("use_shared_relative_position_bias").value_or(false);
  const Index layers = layers_of(file, 12);
  if (!biased) return all_layers(model, layers, NoPosition{});
  const GridSize grid = patch_grid(file, 224, 16);
  if (grid.height > 4096 || grid.width > 4096)
    file.wrong("patch_size", "large enough for at most 4096 patches each way");
  if (grid.height != grid.width) {
    file.warn("image_size", "the code of transformers 5.24.0 takes the table of a window of " +
                                std::to_string(grid.height) + " by " + std::to_string(grid.width) +
                                " patches for one of swapped sides and resizes it, so that its biases are others: here "
                                "a row is that of its offset");
  }
  all_layers(model, layers, Swin{grid.height, grid.width, Swin::ClassToken::three_rows});
}

constexpr std::string_view t5_types[] = {"t5", "mt5", "umt5", "longt5", "switch_transformers", "pop2piano", "mpnet"};
constexpr std::string_view deberta_types[] = {"deberta", "deberta-v2"};
constexpr std::string_view swin_types[] = {"swin", "swinv2", "donut-swin", "maskformer-swin"};
constexpr std::string_view beit_types[] = {"beit", "data2vec-vision"};
/// Only where the file asks for it.
constexpr std::string_view bert_types[] = {"bert",    "roberta", "xlm-roberta", "xlm-roberta-xl", "camembert",
                                           "electra", "albert",  "esm",         "nezha"};

}  // namespace

void all_layers(Model& model, Index count, const LayerEncoding& encoding, const std::string& part) {
  Layer layer{.encoding = encoding};
  layer.part = part;
  model.layers.insert(model.layers.end(), static_cast<std::size_t>(count), layer);
}

void add_score_types(std::vector<std::string_view>& to) {
  add_axial_types(to);
  add_tower_score_types(to);
  add_conformer_types(to);
  add_atom_types(to);
  add_relative_logits_types(to);
  to.insert(to.end(), {"vjepa2", "bloom", "mpt", "transfo-xl", "xlnet"});
  for (const std::span<const std::string_view> types :
       {std::span<const std::string_view>(t5_types), {deberta_types}, {swin_types}, {beit_types}, {bert_types}}) {
    to.insert(to.end(), types.begin(), types.end());
  }
}

bool read_scores(const Config& config, Model& model) {
  const Object& file = config.file;
  const std::string& type = config.model_type;
  const auto is = [&](std::span<const std::string_view> types) {
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  if (read_axial(config, model) || read_tower_scores(config, model) || read_conformers(config, model) ||
      read_atoms(config, model) || read_relative_logits(config, model) || read_two_angles(config, model)) {
    return true;
  }
  if (type == "bloom") return alibi_layers(config, model, {8, 2}), true;
  if (type == "mpt") return read_mpt(config, model), true;
  if ((config.family.is(alibi_flag) || !config.known) && file.flag("alibi").value_or(false)) {
    if (config.known) return read_falcon(config, model), true;
    if (has_rotary_keys(file)) file.warn("alibi", "true: the rotary keys beside it are ignored");
    file.warn("model_type", "is not known: ALiBi's published slopes are assumed");
    return alibi_layers(config, model, {1, 1}), true;
  }
  if (config.family.is(alibi_if_large) &&
      file.integer("hidden_size", 1, most_heads * most_head_dim).value_or(4096) > 4096) {
    file.warn("hidden_size", "Baichuan's files do not name the encoding: the 13B models use ALiBi, the 7B rotary");
    return alibi_layers(config, model, {40, 40}), true;
  }
  if (is(t5_types)) return read_t5(config, model), true;
  if (is(deberta_types)) return read_deberta(config, model), true;
  if (type == "transfo-xl") return read_transformer_xl(config, model), true;
  if (type == "xlnet") return read_xlnet(config, model), true;
  if (is(swin_types)) return read_swin(config, model), true;
  if (is(beit_types)) return read_beit(config, model), true;
  return is(bert_types) && read_bert_relative(config, model);
}

}  // namespace bearing::hf
