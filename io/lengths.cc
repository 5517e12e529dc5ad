#include <algorithm>
#include <bearing/io.hpp>
#include <bearing/positions.hpp>
#include <cmath>

namespace bearing {

Index scaled_length(const RopeScaling& scaling) {
  const auto reach = [](const auto& stretched) -> Index {
    using Scaling = std::decay_t<decltype(stretched)>;
    if constexpr (std::is_same_v<Scaling, YarnScaling> || std::is_same_v<Scaling, DeepseekYarnScaling> ||
                  std::is_same_v<Scaling, NtkByPartsScaling>) {
      const double tokens = stretched.factor * static_cast<double>(stretched.trained_length);
      return tokens < static_cast<double>(max_position) ? static_cast<Index>(std::llround(tokens)) : max_position;
    }
    return 0;
  };
  return std::visit(reach, scaling);
}

namespace {

/// Layers beside one that has positions which have none, not in the input either, and no window.
Index unplaced_beside(const Model& model, const Layer& layer) {
  if (std::holds_alternative<NoPosition>(layer.encoding) || !model.inputs.empty()) return 0;
  return std::count_if(model.layers.begin(), model.layers.end(), [&](const Layer& other) {
    return std::holds_alternative<NoPosition>(other.encoding) && other.attends() && other.window == 0 &&
           other.part == layer.part;
  });
}

}  // namespace

RopeLengths lengths_of(const Model& model, const Layer& layer, Index seq_len) {
  const Rope* rope = std::get_if<Rope>(&layer.encoding);
  const Index stated = rope == nullptr ? 0 : trained_length(rope->scaling);
  const Index trained = model.trained_length > 0 ? model.trained_length : stated;
  const bool bounded = layer.window > 0 && layer.window <= trained;
  const Index scaled = rope == nullptr ? 0 : scaled_length(rope->scaling);
  const Index longest = std::max({trained, model.context_length, seq_len, scaled});
  // Regions turn nothing further than a chunk.
  const Index farthest = model.regions ? std::min<Index>(longest, model.regions->chunks.chunk_size) : longest;
  return {.trained = bounded ? 0 : trained,
          .longest = farthest,
          .seq_len = seq_len,
          .window = layer.window,
          .after = layer.window_after,
          .chunked = layer.type == "chunked_attention",
          .chunks_before = layer.chunks_before,
          .unplaced = unplaced_beside(model, layer),
          .patches = layer.positions.find("of the patch") != std::string::npos,
          .grid = layer.grid,
          .span = layer.span};
}

}  // namespace bearing
