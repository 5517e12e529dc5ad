#include <algorithm>

#include "gguf_reader.hpp"

namespace bearing::gguf {
namespace {

constexpr double usual_exponent = 8;
constexpr Index bucketed_distance = 128;  // in llama.cpp's code; files do not say it
constexpr Index most_buckets = Index{1} << 20;
constexpr const char* table_name = "position_embd.weight";

/// beta and the tokens of a step, which llama.cpp takes from keys of different names.
struct Temperature {
  std::optional<double> beta;
  Index length = 0;
};

Temperature stated_temperature(const File& file) {
  const Metadata& data = file.data;
  constexpr std::string_view scale_key = "attention.temperature_scale", length_key = "attention.temperature_length";
  const std::string& architecture = data.architecture();
  const auto beta = data.number(scale_key, {-1e6, 1e6});
  const auto length = data.integer(length_key, 0, most_positions);
  if (file.is(temperature_if_stated)) {
    if (!beta || *beta == 0) return {};
    if (length.value_or(0) == 0) data.fail(length_key, "must be there and above 0 beside attention.temperature_scale");
    return {beta, *length};
  }
  if (file.is(temperature_by_original)) {
    if (!beta || *beta == 0) return {};
    const Index original = original_length(file);
    const Index step = original > 0 ? original : file.context;
    if (step == 0)
      data.fail("rope.scaling.original_context_length", "must be there beside attention.temperature_scale");
    return {beta, step};
  }
  if (beta && *beta != 0) {
    data.fail(scale_key, "must be 0: llama.cpp's code for " + architecture + " does not read it");
  }
  if (length && !file.is(temperature_unused)) {
    data.fail(length_key, "must not be there: llama.cpp's code for " + architecture + " does not read it");
  }
  return {};
}

std::vector<Layer> bucketed(Index layers, Index buckets, T5Direction direction, const char* part) {
  const T5 spec{.buckets = buckets, .max_distance = bucketed_distance, .direction = direction};
  return std::vector<Layer>(static_cast<std::size_t>(layers), Layer{.encoding = spec, .part = part});
}

}  // namespace

std::optional<PositionTemperature> read_temperature(const File& file, const Kind& kind) {
  const Temperature stated = stated_temperature(file);
  if (!kind.attends) return {};
  if (file.row.sliding.when == Slides::chunks_of_8192) {
    // Llama 4's, in its layers that do not turn.
    if (!file.slides() || kind.turns) return {};
    return PositionTemperature::llama4();
  }
  if (!stated.beta) return {};
  return PositionTemperature::ministral3(static_cast<double>(stated.length), *stated.beta);
}

double alibi_exponent(const File& file) {
  constexpr std::string_view key = "attention.max_alibi_bias";
  const auto given = file.data.number(key, {0, 1e6});
  if (given && *given != 0 && !file.is(alibi_by_key)) {
    file.data.fail(key, "must be 0: llama.cpp's code for " + file.data.architecture() + " does not read it");
  }
  if (file.is(alibi_8) || (file.is(alibi_if_40_layers) && file.layers == 40)) return usual_exponent;
  return given.value_or(0);
}

void read_buckets(const File& file, Model& model) {
  constexpr std::string_view key = "attention.relative_buckets_count";
  const Index buckets = file.data.needed(key, 4, most_buckets);
  model.layers = bucketed(file.layers, buckets, T5Direction::bidirectional, "encoder");
  if (file.is(encoder_alone)) return;
  const Index decoder = file.data.integer("decoder_block_count", 1, most_layers).value_or(file.layers);
  const std::vector<Layer> layers = bucketed(decoder, buckets, T5Direction::causal, "decoder");
  model.layers.insert(model.layers.end(), layers.begin(), layers.end());
}

void read_inputs(const File& file, Model& model) {
  const Metadata& data = file.data;
  const Tensor* found = data.tensor(table_name);
  if (!file.is(table) && !(file.is(table_maybe) && found != nullptr)) return;
  const Index dim = data.needed("embedding_length", 1, most_heads * most_head_dim);
  const Index length = data.needed("context_length", 1, most_positions);
  const auto extents = std::vector<std::uint64_t>{static_cast<std::uint64_t>(dim), static_cast<std::uint64_t>(length)};
  if (found != nullptr && found->shape != extents) {
    data.notes().fail(table_name, "must have " + std::to_string(length) + " rows of " + std::to_string(dim) +
                                      " numbers, as context_length and embedding_length say");
  }
  model.inputs.push_back({.encoding = Learned{.length = length, .dim = dim}});
}

}  // namespace bearing::gguf
