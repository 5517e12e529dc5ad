#include "hf_reader.hpp"

// Models whose pairs have an angle for each member: the sections of HunyuanVL's text, V-JEPA 2's two encoders. Facts:
// configuration_*.py and modeling_*.py of Hugging Face transformers 5.24.0.

namespace bearing::hf {
namespace {

constexpr const char* frames = "frame, row and column of the patch, from 0";

/// Layers of one of V-JEPA 2's encoders, and the dimension of its heads.
Index add_layers(const Config& config, const std::string& prefix, const std::array<Index, 3>& usual, const char* part,
                 Model& model) {
  const json::Object& file = config.file;
  const std::string hidden_key = prefix + "hidden_size", heads_key = prefix + "num_attention_heads",
                    layers_key = prefix + "num_hidden_layers";
  const Index hidden = plain_size(file, {hidden_key}, usual[0]), heads = plain_size(file, {heads_key}, usual[1]);
  if (hidden % heads != 0) file.wrong(hidden_key, "a multiple of " + heads_key + ", " + std::to_string(heads));
  const Index head_dim = hidden / heads;
  if (head_dim < 6 || head_dim > most_head_dim) {
    file.wrong(hidden_key, "large enough for heads of at least 6 dimensions, and of at most 65536");
  }
  Layer layer{.encoding = ElementwiseRope::vjepa2(head_dim), .part = part, .positions = frames};
  const Index layers = plain_size(file, {layers_key}, usual[2], most_layers);
  model.layers.insert(model.layers.end(), static_cast<std::size_t>(layers), layer);
  return head_dim;
}

}  // namespace

bool read_two_angles(const Config& config, Model& model) {
  if (config.model_type != "vjepa2") return false;
  model.head_dim = add_layers(config, "", {1024, 16, 24}, "encoder", model);
  model.heads = model.kv_heads = plain_size(config.file, {"num_attention_heads"}, 16, most_heads);
  add_layers(config, "pred_", {384, 12, 12}, "predictor", model);
  return true;
}

std::optional<ElementwiseRope> with_two_angles(const Config& config, const Rope& rope) {
  if (!config.family.is(two_angles)) return {};
  for (const char* dictionary : {"rope_parameters", "rope_scaling"}) {
    const auto part = config.file.object(dictionary);
    if (!part) continue;
    for (const char* key : {"mrope_section", "xdrope_section"}) {
      const auto sections = part->integers(key, 4, 1, most_head_dim / 2);
      if (!sections || sections->empty()) continue;
      Index pairs = 0;
      for (const Index of_axis : *sections) pairs += of_axis;
      if (2 * pairs != rope.rotary_dim) {
        part->wrong(key,
                    "numbers that add up to half of the head's " + std::to_string(rope.rotary_dim) + " dimensions");
      }
      return ElementwiseRope::hunyuan(rope, *sections);
    }
  }
  return {};
}

}  // namespace bearing::hf
