#include <algorithm>

#include "hf_reader.hpp"

// Inkling and Inkling 2: relative logits made by content, in layers that see everything and in layers with a window.
// Facts: configuration_*.py and modeling_*.py of Hugging Face transformers 5.24.0.

namespace bearing::hf {
namespace {

using json::Object;

constexpr const char* full = "hybrid";
constexpr const char* sliding = "hybrid_sliding";

/// What a configuration class assumes, and what its code does.
struct Inkling {
  std::string_view model_type;
  Index layers, window, kv_heads, heads, positions;
  double clip;                 ///< 0: r is not clipped
  std::optional<Index> floor;  ///< log_scaling_n_floor
  bool lists_local_layers;     ///< local_layer_ids
};
constexpr Inkling models[] = {
    {"inkling_text", 66, 512, 8, 64, 131'072, 0, {}, true},
    {"inkling2_text", 48, 1024, 8, 48, 1'048'576, 8, 128'000, false},
    {"inkling2_loop_text", 24, 1024, 8, 24, 1'048'576, 8, 8192, false},
};

const Inkling* find(std::string_view model_type) {
  const auto* row = std::find_if(std::begin(models), std::end(models),
                                 [&](const Inkling& one) { return one.model_type == model_type; });
  return row == std::end(models) ? nullptr : row;
}

std::vector<std::string> layer_types(const Object& file, const Inkling& usual, Index layers) {
  std::vector<std::string> types;
  if (const auto given = file.texts("layer_types", static_cast<std::size_t>(most_layers))) {
    if (std::ssize(*given) != layers) {
      file.wrong("layer_types", std::to_string(layers) + " strings, one per layer");
    }
    for (const std::string& type : *given) {
      if (type != full && type != sliding) file.wrong("layer_types", "a list of hybrid and hybrid_sliding");
    }
    return *given;
  }
  const auto local = usual.lists_local_layers
                         ? file.integers("local_layer_ids", static_cast<std::size_t>(most_layers), 0, most_layers)
                         : std::nullopt;
  for (Index i = 0; i < layers; ++i) {
    const bool slides = local ? std::find(local->begin(), local->end(), i) != local->end() : (i + 1) % 6 != 0;
    types.emplace_back(slides ? sliding : full);
  }
  return types;
}

std::optional<PositionTemperature> temperature_of(const Object& file, const Inkling& usual) {
  constexpr json::Range floors{1, static_cast<double>(most_positions)}, alphas{0, 1e6};
  auto floor = file.number("log_scaling_n_floor", floors);
  if (!floor && !file.mentions("log_scaling_n_floor") && usual.floor) floor = static_cast<double>(*usual.floor);
  if (!floor) return {};
  return PositionTemperature::inkling(*floor, file.number("log_scaling_alpha", alphas).value_or(0.1));
}

}  // namespace

void add_relative_logits_types(std::vector<std::string_view>& to) {
  for (const Inkling& one : models) to.push_back(one.model_type);
}

bool read_relative_logits(const Config& config, Model& model) {
  const Inkling* usual = find(config.model_type);
  if (usual == nullptr) return false;
  const Object& file = config.file;
  model.heads = plain_size(file, {"num_attention_heads"}, usual->heads, most_heads);
  model.kv_heads = plain_size(file, {"num_key_value_heads"}, usual->kv_heads, most_heads);
  model.head_dim = plain_size(file, {"head_dim"}, 128, most_head_dim);
  model.context_length =
      plain_size(file, {"max_position_embeddings", "model_max_length"}, usual->positions, most_positions);
  model.trained_length = model.context_length;
  const Index layers = plain_size(file, {"num_hidden_layers"}, usual->layers, most_layers);
  const Index window = plain_size(file, {"sliding_window_size", "sliding_window"}, usual->window, most_positions);
  const Index extent = plain_size(file, {"rel_extent"}, 1024, most_positions);

  RelativeLogits near{.extent = window}, far{.extent = extent, .temperature = temperature_of(file, *usual)};
  if (usual->clip > 0) {
    near.clip = far.clip = file.number("rel_l2_clip_threshold", {1e-6, 1e6}).value_or(usual->clip);
  }
  for (const std::string& type : layer_types(file, *usual, layers)) {
    const bool slides = type == sliding;
    model.layers.push_back({.encoding = slides ? near : far,
                            .type = type,
                            .window = slides ? window : 0,
                            .temperature = slides ? std::nullopt : far.temperature});
  }
  return true;
}

}  // namespace bearing::hf
