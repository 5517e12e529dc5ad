#include <algorithm>

#include "dialects.hpp"
#include "hf_reader.hpp"

// params.json: what Mistral and Meta put beside their own checkpoints. Both turn neighbours, where the same models
// with Hugging Face's names turn halves: their weights differ by a permutation. Facts: mistral-inference 1.6.0,
// llama-models 0.3.0, and vLLM's reader of Mistral's files (transformers_utils/configs/mistral.py).

namespace bearing::dialects {
namespace {

using json::Object;

struct Sizes {
  Index dim, layers, heads, kv_heads, head_dim;
};

Index needed(const Object& file, std::string_view key, Index most) {
  const auto value = file.integer(key, 1, most);
  if (!value) file.missing(key, json::in_range(1, most));
  return *value;
}

Sizes sizes_of(const Object& file) {
  Sizes sizes{needed(file, "dim", hf::most_heads * hf::most_head_dim), needed(file, "n_layers", hf::most_layers),
              needed(file, "n_heads", hf::most_heads), 0, 0};
  sizes.kv_heads = file.integer("n_kv_heads", 1, hf::most_heads).value_or(sizes.heads);
  sizes.head_dim = file.integer("head_dim", 2, hf::most_head_dim).value_or(sizes.dim / sizes.heads);
  if (sizes.head_dim < 2 || sizes.head_dim % 2 != 0 || sizes.head_dim > hf::most_head_dim) {
    const char* key = file.has("head_dim") ? "head_dim" : "dim";
    file.notes().fail(file.pointer(key), "must give heads of an even number of dimensions, up to 65536, got " +
                                             std::to_string(sizes.head_dim));
  }
  if (sizes.heads % sizes.kv_heads != 0) {
    file.wrong("n_kv_heads", "a divisor of n_heads = " + std::to_string(sizes.heads));
  }
  return sizes;
}

/// Layer::base_from
std::string base_from(const Object& file) { return file.has("rope_theta") ? "rope_theta" : "not in the file"; }

double base_of(const Object& file, double usual, const char* why) {
  const auto base = file.number("rope_theta", hf::base_range);
  if (!base) file.warn("rope_theta", "not in the file: " + json::shortest(usual) + " is used, " + why);
  return base.value_or(usual);
}

Rope neighbours(Index head_dim, double base) {
  return {.head_dim = head_dim, .rotary_dim = head_dim, .base = base, .pairing = Pairing::interleaved};
}

void fill(Model& model, const Sizes& sizes, const char* type) {
  model.model_type = type;
  model.heads = sizes.heads;
  model.kv_heads = sizes.kv_heads;
  model.head_dim = sizes.head_dim;
}

// ---- Mistral ----

/// A key of an object that would change positions in a way that is not known.
void refuse_others(const Object& object, std::initializer_list<std::string_view> known) {
  for (const std::string_view key : object.keys()) {
    if (std::find(known.begin(), known.end(), key) != known.end() || !object.has(key)) continue;
    std::string all;
    for (const std::string_view word : known) all += (all.empty() ? "" : ", ") + std::string(word);
    object.notes().fail(object.pointer(key), "must be one of " + all);
  }
}

struct Yarn {
  double factor, beta, alpha;
  Index original;
  bool scales;
};

Yarn yarn_of(const Object& yarn) {
  refuse_others(yarn, {"factor", "beta", "alpha", "apply_scale", "original_max_position_embeddings"});
  const auto factor = yarn.number("factor", {1, 1e12});
  if (!factor) yarn.missing("factor", "a number of at least 1");
  constexpr json::Range turns{1e-6, 1e9};
  Yarn read{*factor, yarn.number("beta", turns).value_or(32), yarn.number("alpha", turns).value_or(1),
            needed(yarn, "original_max_position_embeddings", max_position), yarn.flag("apply_scale").value_or(true)};
  if (read.beta < read.alpha) yarn.wrong("beta", "at least alpha = " + json::shortest(read.alpha));
  return read;
}

/// Latent attention multiplies the softmax scale, others cos and sin; apply_scale false leaves both.
RopeScaling scaling_of(const Object& file, bool latent) {
  const auto object = file.object("yarn");
  if (!object) return NoScaling{};
  const Yarn yarn = yarn_of(*object);
  const auto one = yarn.scales ? std::optional<double>() : 1.0;
  if (!latent) {
    return YarnScaling{.factor = yarn.factor,
                       .trained_length = yarn.original,
                       .beta_fast = yarn.beta,
                       .beta_slow = yarn.alpha,
                       .attention_factor = one};
  }
  if (!yarn.scales) {
    object->warn("apply_scale",
                 "false leaves the softmax scale alone, as vLLM does; llama.cpp multiplies it all the "
                 "same");
  }
  return DeepseekYarnScaling{.factor = yarn.factor,
                             .trained_length = yarn.original,
                             .beta_fast = yarn.beta,
                             .beta_slow = yarn.alpha,
                             .mscale_all_dim = yarn.scales ? 1.0 : 0.0,
                             .attention_factor = one};
}

std::optional<PositionTemperature> temperature_of(const Object& file) {
  const auto scaling = file.object("llama_4_scaling");
  if (!scaling) return {};
  refuse_others(*scaling, {"beta", "original_max_position_embeddings"});
  const auto beta = scaling->number("beta", {0, 1e6});
  if (!beta) scaling->missing("beta", "a number from 0 on");
  const Index length = needed(*scaling, "original_max_position_embeddings", max_position);
  return PositionTemperature::ministral3(static_cast<double>(length), *beta);
}

/// The window of each layer: a number for all, or a list that is repeated, null for a layer that sees everything.
std::vector<Index> windows_of(const Object& file, Index layers) {
  const std::string_view key = file.spelled({"sliding_window", "_sliding_window"});
  std::vector<Index> windows(static_cast<std::size_t>(layers), 0);
  if (key.empty()) return windows;
  const rapidjson::Value& value = *file.find(key);
  if (!value.IsArray()) {
    std::fill(windows.begin(), windows.end(), *file.integer(key, 1, max_position));
    return windows;
  }
  const auto count = static_cast<Index>(value.Size());
  if (count == 0 || layers % count != 0) file.wrong(key, "a list whose length divides the layers");
  for (Index i = 0; i < layers; ++i) {
    const rapidjson::Value& one = value[static_cast<rapidjson::SizeType>(i % count)];
    if (one.IsNull()) continue;
    const auto window = json::as_integer(one, 1, max_position);
    if (!window) {
      file.notes().fail(file.pointer(key) + "/" + std::to_string(i % count),
                        "must be null or " + json::in_range(1, max_position) + ", got " + json::found(one));
    }
    windows[static_cast<std::size_t>(i)] = *window;
  }
  return windows;
}

/// Pixtral's tower in Mistral's own layout: neighbours turn, the first half of them by the row.
Model vision_of(const Object& vision) {
  const Index hidden = needed(vision, "hidden_size", hf::most_heads * hf::most_head_dim);
  const Index heads = needed(vision, "num_attention_heads", hf::most_heads);
  const Index dim = hidden / heads;
  if (dim < 4 || dim % 4 != 0 || dim > hf::most_head_dim) {
    vision.wrong("hidden_size", "a multiple of 4 times num_attention_heads = " + std::to_string(heads));
  }
  Rope rope = neighbours(dim, vision.number("rope_theta", hf::base_range).value_or(10'000));
  rope.axes = RopeAxes::strided({dim / 4, dim / 4});
  Layer layer{.encoding = rope};
  layer.positions = "row and column of the patch, from 0";
  layer.base_from = base_from(vision);
  Model tower;
  tower.file = vision.notes().file();
  tower.part = "vision tower";
  tower.model_type = "pixtral (params.json)";
  tower.heads = tower.kv_heads = heads;
  tower.head_dim = dim;
  tower.layers.assign(static_cast<std::size_t>(needed(vision, "num_hidden_layers", hf::most_layers)), layer);
  return tower;
}

void read_mistral(const Object& file, Model& model) {
  Sizes sizes = sizes_of(file);
  const bool latent = file.has("qk_rope_head_dim");
  const Index turning = latent ? needed(file, "qk_rope_head_dim", hf::most_head_dim) : sizes.head_dim;
  if (latent) sizes.head_dim = needed(file, "qk_nope_head_dim", hf::most_head_dim) + turning;
  if (turning % 2 != 0) file.wrong("qk_rope_head_dim", "even");
  fill(model, sizes, latent ? "mistral, latent attention (params.json)" : "mistral (params.json)");
  const std::vector<Index> windows = windows_of(file, sizes.layers);
  // Mistral 7B v0.1, whose file has a window and no base, was trained with 10000.
  const bool first = windows.front() > 0;
  Rope rope = neighbours(turning, base_of(file, first ? 10'000 : 1'000'000,
                                          first ? "as Mistral 7B v0.1 was trained; mistral-inference takes 1000000"
                                                : "as mistral-inference does; other readers take 10000"));
  rope.head_dim = sizes.head_dim;
  if (latent) rope.part = RotaryPart::last();
  rope.scaling = scaling_of(file, latent);
  model.context_length =
      file.integer(file.has("max_position_embeddings") ? "max_position_embeddings" : "max_seq_len", 1, max_position)
          .value_or(0);
  model.trained_length = trained_length(rope.scaling) > 0 ? trained_length(rope.scaling) : model.context_length;
  const auto temperature = temperature_of(file);
  const std::string from = base_from(file);
  for (const Index window : windows) {
    Layer layer{.encoding = rope, .type = window > 0 ? "sliding_attention" : "full_attention", .window = window};
    layer.temperature = temperature;
    layer.base_from = from;
    model.layers.push_back(std::move(layer));
  }
  const auto multimodal = file.object("multimodal");
  auto vision = file.object("vision_encoder");
  if (!vision && multimodal) vision = multimodal->object("vision_encoder_args");
  if (vision) model.towers.push_back(vision_of(*vision));
  if (multimodal && multimodal->has("whisper_model_args")) {
    multimodal->warn("whisper_model_args", "the audio tower is not read");
  }
}

// ---- Meta ----

/// Meta's files say that a scaling is there, its code which one: Llama 3's in versions 3.1 to 3.3, another in Llama 4.
RopeScaling meta_scaling(const Object& file, bool fourth) {
  for (const char* key : {"rope_scaling_factor", "rope_high_freq_factor"}) {
    if (file.has(key) && !file.flag("use_scaled_rope").value_or(false))
      file.warn(key, "ignored without use_scaled_rope");
  }
  if (!file.flag("use_scaled_rope").value_or(false)) return NoScaling{};
  Llama3Scaling scaling{.factor = fourth ? 16.0 : 8.0, .high_freq_factor = fourth ? 1.0 : 4.0};
  const auto factor = file.number("rope_scaling_factor", {1, 1e6});
  scaling.factor = factor.value_or(scaling.factor);
  scaling.high_freq_factor = file.number("rope_high_freq_factor", {1, 1e6}).value_or(scaling.high_freq_factor);
  if (!factor && !fourth) {
    file.warn("use_scaled_rope",
              "the file does not say the factor: 8 is used, as Meta's code does; the Hugging Face "
              "files of Llama 3.2 1B and 3B say 32");
  }
  return scaling;
}

void read_meta(const Object& file, Model& model) {
  const Sizes sizes = sizes_of(file);
  const bool fourth = file.has("nope_layer_interval") || file.has("ffn_exp") || file.has("moe_args");
  fill(model, sizes, fourth ? "llama 4 (params.json)" : "llama (params.json)");
  const double usual = fourth ? 500'000 : 10'000;
  Rope rope = neighbours(sizes.head_dim, base_of(file, usual,
                                                 fourth ? "as Meta's code does"
                                                        : "as in Llama 1 and 2, whose files have no such "
                                                          "key; llama-models takes 500000"));
  rope.scaling = meta_scaling(file, fourth);
  model.context_length = file.integer("max_seq_len", 1, max_position).value_or(0);
  model.trained_length = trained_length(rope.scaling) > 0 ? trained_length(rope.scaling) : model.context_length;
  const Index every = file.integer("nope_layer_interval", 1, hf::most_period).value_or(0);
  const Index chunk = file.integer("attention_chunk_size", 1, max_position).value_or(0);
  std::optional<PositionTemperature> temperature;  // of layers that do not turn
  if (every > 0 && every <= sizes.layers && file.flag("attn_temperature_tuning").value_or(false)) {
    temperature = PositionTemperature::llama4(file.number("attn_scale", {0, 1e6}).value_or(0.1),
                                              file.number("floor_scale", {1, 1e12}).value_or(8192));
  }
  const std::string from = base_from(file);
  for (Index i = 0; i < sizes.layers; ++i) {
    const bool none = every > 0 && (i + 1) % every == 0;
    Layer layer{.encoding = rope, .type = chunk > 0 && !none ? "chunked_attention" : "full_attention"};
    if (none) layer.encoding = NoPosition{};
    if (!none) layer.window = chunk, layer.base_from = from;
    if (none) layer.temperature = temperature;
    model.layers.push_back(std::move(layer));
  }
  for (const char* key : {"vision_args", "vision_chunk_size"}) {
    const bool none = file.has(key) && file.find(key)->IsInt() && file.find(key)->GetInt() < 0;
    if (file.has(key) && !none) file.warn(key, "the vision tower is not read");
  }
}

}  // namespace

bool read_params(const Object& file, Model& model) {
  if (!file.has("dim") || !file.has("n_layers") || !file.has("n_heads") || file.has("architectures")) return false;
  if (file.has("model_type") && file.text("model_type") != "transformer") return false;
  const bool meta = !file.spelled({"multiple_of", "ffn_dim_multiplier", "use_scaled_rope", "ffn_exp"}).empty();
  const bool mistral = !file.spelled({"hidden_dim", "yarn", "llama_4_scaling", "sliding_window"}).empty();
  if (meta == mistral) {
    file.notes().fail("", "must be a params.json with hidden_dim (Mistral's) or with multiple_of (Meta's), got " +
                              std::string(meta ? "both" : "neither") +
                              ": they differ in what a missing rope_theta means");
  }
  meta ? read_meta(file, model) : read_mistral(file, model);
  return true;
}

}  // namespace bearing::dialects
