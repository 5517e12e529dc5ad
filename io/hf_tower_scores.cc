#include <algorithm>
#include <cmath>
#include <iterator>

#include "hf_reader.hpp"

// What layers of speech encoders, vision towers and document models add to scores, for types whose code is known; and
// what documents' boxes add to the input.
// Facts: modeling_*.py of Hugging Face transformers 5.24.0.

namespace bearing::hf {
namespace {

using json::Object;

void add_layers(Model& model, const Object& file, const Keys& keys, Index usual, const Layer& layer) {
  const Index count = plain_size(file, keys, usual, most_layers);
  model.layers.insert(model.layers.end(), static_cast<std::size_t>(count), layer);
}

/// Buckets of a bidirectional table, as T5 counts them.
template <class Spec>
Spec buckets_of(const Object& file, const char* buckets_key, Index buckets, const char* distance_key, Index distance) {
  Spec spec{.direction = T5Direction::bidirectional};
  spec.buckets = file.integer(buckets_key, 4, 65'536).value_or(buckets);
  spec.max_distance = file.integer(distance_key, 1, most_positions).value_or(distance);
  if (spec.buckets % 4 != 0) file.wrong(buckets_key, "a multiple of 4");
  if (spec.max_distance <= spec.buckets / 4) {
    file.notes().fail(file.pointer(distance_key), std::string("must be more than a quarter of ") + buckets_key + ", " +
                                                      std::to_string(spec.buckets / 4) + ", got " +
                                                      std::to_string(spec.max_distance));
  }
  return spec;
}

/// T5's own table of a decoder, whose buckets are all on one side.
T5 causal_t5(const Object& file) {
  constexpr const char* distance = "relative_attention_max_distance";
  T5 t5 = buckets_of<T5>(file, "relative_attention_num_buckets", 32, distance, 128);
  t5.direction = T5Direction::causal;
  if (t5.max_distance <= t5.buckets / 2) {
    file.notes().fail(file.pointer(distance), "must be more than half of relative_attention_num_buckets, " +
                                                  std::to_string(t5.buckets / 2) + ", got " +
                                                  std::to_string(t5.max_distance));
  }
  return t5;
}

void read_wavlm(const Object& file, Model& model) {
  const OtherEncoding convolution{"convolution",
                                  "a grouped convolution over neighbouring frames comes before the "
                                  "layers"};
  model.inputs.push_back({convolution});
  add_layers(model, file, {"num_hidden_layers"}, 12,
             {.encoding = buckets_of<GatedT5>(file, "num_buckets", 320, "max_bucket_distance", 800)});
}

/// The text encoder of VITS; what follows it has no positions.
void read_vits(const Object& file, Model& model) {
  Layer layer{.encoding = NoPosition{}};
  if (file.has("window_size") || !file.mentions("window_size")) {
    layer.encoding = Shaw{.clip = plain_size(file, {"window_size"}, 4, most_positions), .outside = ShawOutside::zero};
  }
  add_layers(model, file, {"num_hidden_layers"}, 6, layer);
}

/// SpeechT5's encoder. Each of its models has other prenets, for speech or for text, and the file does not say which.
void read_speecht5(const Object& file, Model& model) {
  const OtherEncoding prenet{"sinusoidal",
                             "prenets for speech and for text have other sinusoids, some times a learned "
                             "factor, and the file does not say which prenets the model has"};
  const Shaw shaw{.clip = plain_size(file, {"encoder_max_relative_position"}, 160, most_positions)};
  for (const char* part : {"encoder", "decoder"}) {
    model.inputs.push_back({prenet, part});
    const bool encoder = model.inputs.size() == 1;
    Layer layer{.encoding = encoder ? LayerEncoding(shaw) : NoPosition{}};
    layer.part = part;
    add_layers(model, file, {encoder ? "encoder_layers" : "decoder_layers"}, encoder ? 12 : 6, layer);
  }
}

/// Granite's encoders of speech: frames see their own block of context_size.
void read_granite_speech(const Object& file, bool fifth, Model& model) {
  const Keys heads{"num_heads", "num_attention_heads"}, hidden{"hidden_dim", "hidden_size"};
  const char* const rows = fifth ? "max_position_embeddings" : "max_pos_emb";
  const Shaw shaw{.clip = plain_size(file, {rows}, 512, most_positions)};
  Layer layer{.encoding = shaw, .type = "chunked_attention"};
  layer.window = plain_size(file, {"context_size"}, fifth ? 128 : 200, most_positions);
  layer.window_after = layer.window - 1;
  if (layer.window > shaw.clip) {
    file.notes().fail(file.pointer("context_size"), std::string("must be at most ") + rows + ", " +
                                                        std::to_string(shaw.clip) + ", got " +
                                                        std::to_string(layer.window));
  }
  model.heads = model.kv_heads = plain_size(file, heads, 8, most_heads);
  const Index width = plain_size(file, hidden, 1024);
  const auto head_dim = file.integer(fifth ? "head_dim" : "dim_head", 1, most_head_dim);
  if (!head_dim && width < model.heads) {
    file.notes().fail(
        file.pointer(file.spelled(hidden)),
        "must be at least the number of heads, " + std::to_string(model.heads) + ", got " + std::to_string(width));
  }
  model.head_dim = head_dim.value_or(width / model.heads);
  add_layers(model, file, {"num_layers", "num_hidden_layers"}, fifth ? 16 : 10, layer);
}

void read_pix2struct(const Object& file, Model& model) {
  add_layers(model, file, {"num_layers"}, 12, {.encoding = causal_t5(file)});
}

/// LayoutLMv2 and v3: one table for the text, two for the boxes' edges. v3 divides their sum by the square root of
/// head_dim.
void read_layoutlm(const Object& file, bool divided, Model& model) {
  const Index hidden = plain_size(file, {"hidden_size"}, 768);
  const Index heads = plain_size(file, {"num_attention_heads"}, 12, most_heads);
  const double head_dim = static_cast<double>(std::max<Index>(hidden / heads, 1));
  std::vector<LayerEncoding> tables;
  const auto add = [&](T5Axis table, Index axis) {
    table.axis = axis;
    if (divided) table.scale = 1 / std::sqrt(head_dim);
    tables.emplace_back(table);
  };
  const auto table = [&](const char* buckets_key, Index buckets, const char* distance_key, Index distance) {
    const T5 t5 = buckets_of<T5>(file, buckets_key, buckets, distance_key, distance);
    return T5Axis{.buckets = t5.buckets, .max_distance = t5.max_distance, .direction = t5.direction, .axis = 0};
  };
  if (file.flag("has_relative_attention_bias").value_or(true)) add(table("rel_pos_bins", 32, "max_rel_pos", 128), 0);
  if (file.flag("has_spatial_attention_bias").value_or(true)) {
    for (const Index axis : {1, 2}) add(table("rel_2d_pos_bins", 64, "max_rel_2d_pos", 256), axis);
  }
  Layer layer{.encoding = NoPosition{}};
  if (!tables.empty()) {
    layer.encoding = tables.front();
    layer.also.assign(tables.begin() + 1, tables.end());
    layer.positions = "index in the text, left edge of the box, lower edge of the box";
  }
  add_layers(model, file, {"num_hidden_layers"}, 12, layer);
}

/// UDOP's biases by the index in the text and by the boxes' middles, in units of a hundredth of the page.
std::vector<LayerEncoding> udop_biases(const Object& file) {
  constexpr std::string_view types[] = {"1d", "horizontal", "vertical"};
  const auto given = file.objects("relative_bias_args", 8);
  if (given && given->size() != std::size(types)) file.wrong("relative_bias_args", "three objects");
  std::vector<LayerEncoding> biases;
  for (Index axis = 0; axis < std::ssize(types); ++axis) {
    T5Axis bias{.max_distance = axis == 0 ? 128 : 100, .direction = T5Direction::bidirectional, .axis = axis};
    if (axis > 0) bias.multiplier = 100;
    if (given) {
      const Object& own = (*given)[static_cast<std::size_t>(axis)];
      if (own.text("type") != types[axis]) own.wrong("type", std::string(types[axis]));
      if (!own.flag("bidirectional").value_or(true)) own.wrong("bidirectional", "true");
      if (own.flag("prefix_bucket").value_or(false)) own.wrong("prefix_bucket", "false");
      const T5 t5 =
          buckets_of<T5>(own, "relative_attention_num_buckets", bias.buckets, "max_distance", bias.max_distance);
      bias.buckets = t5.buckets, bias.max_distance = t5.max_distance;
      if (axis > 0) bias.multiplier = own.number("scaling_factor", factor_range).value_or(bias.multiplier);
    }
    biases.emplace_back(bias);
  }
  return biases;
}

/// UDOP: three biases in the encoder, T5's in the decoder, and tables of the boxes' edges on the input.
void read_udop(const Object& file, Model& model) {
  const std::vector<LayerEncoding> tables = udop_biases(file);
  Layer layer{.encoding = tables[0]};
  layer.part = "encoder";
  layer.also.assign(tables.begin() + 1, tables.end());
  layer.positions = "index in the text, middle of the box from left to right and from top to bottom, from 0 to 1";
  add_layers(model, file, {"num_layers"}, 24, layer);
  Layer decoder{.encoding = causal_t5(file)};
  decoder.part = "decoder";
  const Index decoders = file.integer("num_decoder_layers", 1, most_layers).value_or(std::ssize(model.layers));
  model.layers.insert(model.layers.end(), static_cast<std::size_t>(decoders), decoder);
  const Learned edges{.length = plain_size(file, {"max_2d_position_embeddings"}, 1024),
                      .dim = plain_size(file, {"d_model"}, 1024)};
  for (const char* edge : {"left", "upper", "right", "lower"}) {
    model.inputs.push_back({edges, "encoder", 0,
                            std::string(edge) + " edge of the box, from 0 to 1, times " +
                                std::to_string(edges.length - 1) + " and rounded down"});
    model.inputs.back().label = edge;
  }
}

/// LiLT's boxes go through a stream of their own, narrower than the text's.
void read_lilt(const Object& file, Model& model) {
  const Index ratio = plain_size(file, {"channel_shrink_ratio"}, 4), hidden = plain_size(file, {"hidden_size"}, 768);
  if (hidden % 6 != 0) file.wrong("hidden_size", "a multiple of 6, for six tables of a box side by side");
  if (hidden / ratio < 1) file.wrong("channel_shrink_ratio", "at most hidden_size");
  if (model.inputs.empty()) file.wrong("position_embedding_type", "absolute: the text's table is always added");
  const Learned edges{.length = plain_size(file, {"max_2d_position_embeddings"}, 1024), .dim = hidden / ratio};
  const auto add = [&](const char* label, const Learned& table, const std::string& position) {
    model.inputs.push_back({.encoding = table, .positions = position + ", in the stream of boxes", .label = label});
  };
  for (const char* edge : {"left", "upper", "right", "lower"}) add(edge, edges, std::string(edge) + " edge of the box");
  for (const char* side : {"height", "width"}) add(side, edges, std::string(side) + " of the box");
  Learned index = std::get<Learned>(model.inputs.front().encoding);
  index.dim = edges.dim;
  add("box", index, "index in the text");
  add_layers(model, file, {"num_hidden_layers"}, 12, {.encoding = NoPosition{}});
}

/// Segment Anything's encoder: most layers see windows, those of global_attn_indexes the whole map.
void read_sam(const Object& file, Index usual_image, Model& model) {
  const GridSize map = patch_grid(file, usual_image, 16);
  const Index layers = plain_size(file, {"num_hidden_layers"}, 12, most_layers);
  const Index window = file.integer("window_size", 0, 4096).value_or(14);
  const auto full = file.integers("global_attn_indexes", static_cast<std::size_t>(layers), 0, layers - 1)
                        .value_or(std::vector<Index>{2, 5, 8, 11});
  const bool relative = file.flag("use_rel_pos").value_or(true);
  for (Index i = 0; i < layers; ++i) {
    const bool all = window == 0 || std::find(full.begin(), full.end(), i) != full.end();
    const Sam sam = all ? Sam{map.height, map.width} : Sam{window, window};
    Layer layer{.encoding = relative ? LayerEncoding(sam) : NoPosition{}};
    if (!all) layer.type = "window_attention";
    if (relative) layer.positions = all ? "row and column of the patch" : "row and column in the window";
    model.layers.push_back(std::move(layer));
  }
}

struct SamType {
  std::string_view model_type;
  Index image;
};
constexpr SamType sam_types[] = {{"sam_vision_model", 1024},
                                 {"sam_hq_vision_model", 1024},
                                 {"got_ocr2_vision", 1024},
                                 {"slanext_vision", 512},
                                 {"deepseek_ocr2_sam_vision_model", 1024},
                                 {"unlimited_ocr_sam_vision_model", 1024},
                                 {"pp_formulanet_vision", 512},
                                 {"pp_chart2table_vision", 1024}};

}  // namespace

void add_tower_score_types(std::vector<std::string_view>& to) {
  to.insert(to.end(), {"wavlm", "vits", "pix2struct_text_model", "layoutlmv2", "layoutlmv3", "udop", "lilt", "speecht5",
                       "granite_speech_encoder", "granite_speech_plus_encoder", "granite_speech5_encoder"});
  for (const SamType& one : sam_types) to.push_back(one.model_type);
}

bool read_tower_scores(const Config& config, Model& model) {
  const Object& file = config.file;
  const std::string& type = config.model_type;
  if (type == "wavlm") return read_wavlm(file, model), true;
  if (type == "vits") return read_vits(file, model), true;
  if (type == "pix2struct_text_model") return read_pix2struct(file, model), true;
  if (type == "layoutlmv2" || type == "layoutlmv3") return read_layoutlm(file, type == "layoutlmv3", model), true;
  if (type == "udop") return read_udop(file, model), true;
  if (type == "lilt") return read_lilt(file, model), true;
  if (type == "speecht5") return read_speecht5(file, model), true;
  if (type.starts_with("granite_speech") && type.ends_with("_encoder")) {
    return read_granite_speech(file, type == "granite_speech5_encoder", model), true;
  }
  const auto* sam = std::find_if(std::begin(sam_types), std::end(sam_types),
                                 [&](const SamType& one) { return one.model_type == type; });
  if (sam == std::end(sam_types)) return false;
  return read_sam(file, sam->image, model), true;
}

}  // namespace bearing::hf
