#include <algorithm>
#include <iterator>

#include "hf_reader.hpp"

// What a window of w tokens means in a model's code. Decoders see the query and the w - 1 tokens before it. Encoders
// see tokens on both sides, and each of them counts otherwise. Facts: the masks that Hugging Face transformers 5.24.0
// makes; python/tests/models/test_windows.py holds these rows to them.

namespace bearing::hf {
namespace {

enum class Sight {
  back,       ///< the query and w - 1 tokens before it
  both,       ///< w tokens before the query and w after it
  halves,     ///< w / 2 on each side
  wider,      ///< w / 2 + 1 on each side
  uneven,     ///< (w + 1) / 2 with the query and before it, w / 2 after it
  half_back,  ///< the query and w / 2 - 1 tokens before it
};

enum class When {
  always,
  in_encoder,  ///< of its two parts
  if_true,     ///< with use_bidirectional_attention: true
  if_all,      ///< with use_bidirectional_attention: "all"
};

/// Types that see otherwise than back, and when.
struct Row {
  std::string_view model_type;
  Sight sight;
  When when = When::always;
};
constexpr Row rows[] = {
    {"embedding_gemma2_text", Sight::both},
    {"gemma3_text", Sight::halves, When::if_true},
    {"gemma4_text", Sight::wider, When::if_all},
    {"gemma4_unified_text", Sight::wider, When::if_all},
    {"modernbert", Sight::halves},
    {"modernbert-decoder", Sight::half_back},
    {"neomme", Sight::both},
    {"openai_privacy_filter", Sight::both},
    {"t5_gemma_module", Sight::both, When::in_encoder},
    {"t5gemma2_text", Sight::uneven},
    {"ultrabert", Sight::both},
};

bool holds(When when, const Config& config) {
  constexpr std::string_view key = "use_bidirectional_attention";
  switch (when) {
    case When::always:
      return true;
    case When::in_encoder:
      return config.part == "encoder";
    case When::if_true:
      return config.file.flag(key).value_or(false);
    case When::if_all: {
      const rapidjson::Value* value = config.file.find(key);
      return value != nullptr && value->IsString() && config.file.text(key) == "all";
    }
  }
  return false;
}

Sight sight_of(const Config& config) {
  const auto* row = std::find_if(std::begin(rows), std::end(rows),
                                 [&](const Row& one) { return one.model_type == config.model_type; });
  return row != std::end(rows) && holds(row->when, config) ? row->sight : Sight::back;
}

using json::Object;

/// As many layers as the file has, or the class.
void count_layers(const Object& file, Index usual, Model& model) {
  const Index layers = plain_size(file, {"num_hidden_layers"}, usual, most_layers);
  model.layers.resize(static_cast<std::size_t>(layers), model.layers.front());
}

void see_both_sides(Layer& layer, const char* type, Index before, Index after) {
  layer.type = type, layer.window = before + 1, layer.window_after = after;
}

/// Moonshine Streaming's encoder: a pair of numbers for each layer, of which the first counts the frame itself, and the
/// second is one more than the frames after it.
void read_pairs_of_windows(const Object& file, Model& model) {
  constexpr const char* key = "sliding_windows";
  constexpr Index usual[][2] = {{16, 4}, {16, 4}, {16, 0}, {16, 0}, {16, 4}, {16, 4}};
  count_layers(file, std::ssize(usual), model);
  const std::string wanted =
      "a list for each layer of two whole numbers, the first at least 1 and the second at least 0";
  const rapidjson::Value* given = file.find(key);
  const bool listed = given != nullptr && given->IsArray();
  if (given != nullptr && (!listed || given->Size() < model.layers.size())) file.wrong(key, wanted);
  if (given == nullptr) {
    if (model.layers.size() > std::size(usual)) file.missing(key, wanted + ", of more than 6 layers");
    file.warn(key, "not in the file; [16, 4] is assumed, and [16, 0] of layers 2 and 3", json::Weight::slight);
  }
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    Index sides[2] = {};
    for (rapidjson::SizeType side = 0; side < 2; ++side) {
      if (given == nullptr) {
        sides[side] = usual[i][side];
        continue;
      }
      const rapidjson::Value& pair = (*given)[static_cast<rapidjson::SizeType>(i)];
      const bool whole = pair.IsArray() && pair.Size() == 2 && pair[side].IsInt64();
      sides[side] = whole ? pair[side].GetInt64() : -1;
      if (sides[side] < (side == 0 ? 1 : 0) || sides[side] > most_positions) file.wrong(key, wanted);
    }
    see_both_sides(model.layers[i], sliding_attention, sides[0] - 1, std::max<Index>(sides[1] - 1, 0));
  }
  file.warn(key, "its code has these windows where it is given an attention_mask, and none without one");
}

/// Longformer and LED's encoder: half of the number on each side.
void read_local_windows(const Object& file, const char* part, Model& model) {
  constexpr const char* key = "attention_window";
  std::vector<Layer*> layers;
  for (Layer& layer : model.layers) {
    if (layer.part == part) layers.push_back(&layer);
  }
  const rapidjson::Value* given = file.find(key);
  std::vector<Index> widths;
  if (given != nullptr && given->IsArray()) {
    widths = *file.integers(key, static_cast<std::size_t>(most_layers), 2, most_positions);
    if (widths.size() != layers.size()) {
      file.wrong(key, "a whole number, or " + std::to_string(layers.size()) + ", one per layer");
    }
  } else {
    const Index width = given == nullptr ? plain_size(file, {key}, 512) : *file.integer(key, 2, most_positions);
    widths.assign(layers.size(), width);
  }
  if (std::any_of(widths.begin(), widths.end(), [](Index width) { return width % 2 != 0; })) {
    file.wrong(key, "even, half of it for each side");
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    see_both_sides(*layers[i], "local_attention", widths[i] / 2, widths[i] / 2);
  }
  file.warn(key,
            "tokens of a call's global_attention_mask see all others and are seen by all, by projections of their own: "
            "the window says what the others see");
}

/// BigBird: which blocks are seen is drawn.
void warn_of_drawn_blocks(const Object& file, Model& model) {
  constexpr const char* key = "attention_type";
  const std::string type = file.text(key).value_or("block_sparse");
  if (type == "original_full") return;
  if (type != "block_sparse") file.wrong(key, "block_sparse or original_full");
  const std::string block = std::to_string(file.integer("block_size", 1, most_positions).value_or(64));
  const std::string drawn = std::to_string(file.integer("num_random_blocks", 0, most_positions).value_or(3));
  for (Layer& layer : model.layers) {
    if (layer.part != "decoder") layer.type = "block_sparse_attention";
  }
  file.warn(key,
            "block_sparse: of blocks of " + block +
                " tokens a query sees its own, those beside it, the first, the last and " + drawn +
                " that are drawn at random, and the first and the last block see all: no window says that, so that "
                "all keys are shown as seen",
            json::Weight::grave);
}

/// Qwen's encoders of sound cut the frames into chunks, in which positions begin again. One of Qwen2.5 sees its own
/// chunk; those of Qwen3 see as many chunks together as n_window_infer has.
void read_chunks_of_sound(const Config& config, Model& model) {
  const Object& file = config.file;
  const bool second = config.model_type == "qwen2_5_omni_audio_encoder";
  const Index half = plain_size(file, {"n_window"}, second ? 100 : 50, most_positions / 2);
  Index frames = half;  // 2 n_window of the spectrogram, of which a convolution leaves every second
  Index together = 1;
  if (!second) {
    frames = (half + 3) / 4;  // three convolutions
    const Index seen = plain_size(file, {"n_window_infer"}, 800, most_positions);
    if (seen < 2 * half) {
      file.notes().fail(file.pointer("n_window_infer"),
                        "must be at least 2 n_window = " + std::to_string(2 * half) + ", got " + std::to_string(seen));
    }
    together = seen / (2 * half);
  }
  for (Layer& layer : model.layers) see_chunks(layer, frames * together, 0);
  const std::string in_a_chunk = "index of the frame in its own chunk of " + std::to_string(frames) + " frames";
  for (ModelInput& input : model.inputs) input.positions = in_a_chunk;
  // max_position_embeddings counts the frames of one chunk: it says nothing about the sound's length.
  model.context_length = model.trained_length = 0;
  file.warn(second ? "n_window" : "n_window_infer",
            "a frame sees those of its own " + std::to_string(frames * together) +
                " frames of one recording alone, and positions on the input begin again every " +
                std::to_string(frames) + " frames",
            json::Weight::slight);
}

}  // namespace

void see_chunks(Layer& layer, Index chunk, Index before) {
  layer.type = "chunked_attention", layer.window = chunk, layer.window_after = chunk - 1;
  layer.chunks_before = before;
}

void read_windows(const Config& config, Model& model) {
  const Object& file = config.file;
  const std::string_view type = config.model_type;
  if (type == "moonshine_streaming_encoder") return read_pairs_of_windows(file, model);
  if (type == "longformer") return count_layers(file, 12, model), read_local_windows(file, "", model);
  if (type == "led") return read_local_windows(file, "encoder", model);
  if (type == "big_bird" || type == "bigbird_pegasus") return warn_of_drawn_blocks(file, model);
  if (type == "qwen2_5_omni_audio_encoder" || type == "qwen3_omni_moe_audio_encoder" || type == "qwen3_asr_encoder") {
    read_chunks_of_sound(config, model);
  }
}

void see_as_its_code_does(const Config& config, Layer& layer) {
  const Index w = layer.window;
  if (w == 0) return;
  switch (sight_of(config)) {
    case Sight::back:
      return;
    case Sight::both:
      layer.window = w + 1, layer.window_after = w;
      return;
    case Sight::halves:
      layer.window = w / 2 + 1, layer.window_after = w / 2;
      return;
    case Sight::wider:
      layer.window = w / 2 + 2, layer.window_after = w / 2 + 1;
      return;
    case Sight::uneven:
      layer.window = (w + 1) / 2, layer.window_after = w / 2;
      return;
    case Sight::half_back:
      layer.window = std::max<Index>(w / 2, 1);
      return;
  }
}

}  // namespace bearing::hf
