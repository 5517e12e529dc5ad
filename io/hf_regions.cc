#include <algorithm>
#include <cmath>

#include "hf_reader.hpp"

// dual_chunk_attention_config: Qwen2.5-1M. Transformers does not read it. Facts: vLLM's dual_chunk_flash_attn.py and
// rotary_embedding/dual_chunk_rope.py, which serve such a file without any scaling of the rotation and without a
// window.

namespace bearing {

double ModelRegions::softmax_factor(Index length) const {
  if (original_length < 1 || length <= original_length) return 1;
  return 0.1 * std::log(static_cast<double>(length) / static_cast<double>(original_length)) + 1;
}

namespace hf {
namespace {

using json::Object;

constexpr const char* config_key = "dual_chunk_attention_config";
constexpr const char* original_key = "original_max_position_embeddings";

Index needed(const Object& of, const char* key, Index least) {
  const auto given = of.integer(key, least, most_positions);
  if (!given) of.missing(key, json::in_range(least, most_positions));
  return *given;
}

/// Some keys leave out a part of the keys to save time: an approximation that is not read.
void refuse_other_keys(const Object& of) {
  constexpr std::string_view known[] = {"chunk_size", "local_size", original_key};
  for (const std::string_view key : of.keys()) {
    const rapidjson::Value* value = of.find(key);
    const bool nothing = value == nullptr || value->IsFalse();
    if (nothing || std::find(std::begin(known), std::end(known), key) != std::end(known)) continue;
    of.notes().fail(of.pointer(key), "is not known, and must be missing beside chunk_size, local_size and " +
                                         std::string(original_key) + ", got " + json::found(*value));
  }
}

/// What vLLM does not serve with regions, or passes over.
void refuse_other_layers(const Object& file, const Model& model) {
  for (const Layer& layer : model.layers) {
    const auto* rope = std::get_if<Rope>(&layer.encoding);
    std::string beside;
    if (rope == nullptr) {
      beside = "a layer without a rotation, which has " + encoding_name(layer.encoding);
    } else if (!std::holds_alternative<NoScaling>(rope->scaling)) {
      beside = "a scaling of the rotation, which vLLM passes over";
    } else if (!rope->axes.pairs.empty()) {
      beside = "positions of several axes";
    } else if (layer.window > 0) {
      beside = "a window of " + std::to_string(layer.window);
    }
    if (!beside.empty()) {
      file.notes().fail(file.pointer(config_key), "must stand beside a plain rotation of all layers, got " + beside);
    }
  }
}

}  // namespace

void read_regions(const Config& config, Model& model) {
  const auto given = config.file.object(config_key);
  if (!given) return;
  ModelRegions found{.chunks = {.chunk_size = 1, .local_size = 0}};
  const Index local = needed(*given, "local_size", 0), chunk = needed(*given, "chunk_size", 1);
  if (chunk <= local) given->wrong("chunk_size", "more than local_size, " + std::to_string(local));
  found.chunks = {.chunk_size = chunk, .local_size = local};
  found.original_length = given->integer(original_key, 0, most_positions).value_or(0);
  refuse_other_keys(*given);
  refuse_other_layers(config.file, model);
  if (found.original_length > 0) model.trained_length = found.original_length;
  model.regions = found;
}

}  // namespace hf
}  // namespace bearing
