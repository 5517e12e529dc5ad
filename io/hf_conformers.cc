#include <iterator>

#include "hf_reader.hpp"

// Conformers, encoders of speech, and SeamlessM4T, which has two encoders, a decoder and a maker of units of sound.
// Facts: configuration_*.py and modeling_*.py of Hugging Face transformers 5.24.0.

namespace bearing::hf {
namespace {

using json::Object;

TransformerXL both_directions(const Object& file, const std::string& projection) {
  file.warn("model_type",
            "the sinusoids of distances have sine and cosine in turn, where Transformer-XL has all sines first: "
            "columns of " +
                projection + " are in that order, until load() sorts them");
  return {.direction = TransformerXLDirection::bidirectional};
}

void read_parakeet(const Object& file, Model& model) {
  const TransformerXL xl = both_directions(file, "relative_k_proj");
  model.heads = model.kv_heads = plain_size(file, {"num_attention_heads"}, 8, most_heads);
  model.head_dim =
      file.integer("head_dim", 1, most_head_dim).value_or(plain_size(file, {"hidden_size"}, 1024) / model.heads);
  model.context_length = model.trained_length = file.integer("max_position_embeddings", 1, most_positions).value_or(0);
  all_layers(model, plain_size(file, {"num_hidden_layers"}, 24, most_layers), xl);
}

/// A frame sees its own chunk, which ends with the frames that the model looks ahead, and those before it of which the
/// window holds the whole.
void limit_to_lookahead(const Object& file, std::vector<Layer>& layers) {
  constexpr const char* key = "default_num_lookahead_tokens";
  const Index window = plain_size(file, {"sliding_window"}, 71, most_positions);
  if (!file.has(key)) file.warn(key, "not in the file; 13 is assumed", json::Weight::slight);
  const Index chunk = file.integer(key, 0, most_positions - 1).value_or(13) + 1;
  const Index before = (window - 1) / chunk;
  for (Layer& layer : layers) see_chunks(layer, chunk, before);
  file.warn(key,
            "a frame sees its own chunk of " + std::to_string(chunk) + " frames and the " + std::to_string(before) +
                " before it; a call may look ahead by another num_lookahead_tokens n: chunks have n + 1 frames then, "
                "and (sliding_window - 1) / (n + 1), rounded down, are seen before",
            json::Weight::slight);
}

/// By position_embeddings_type, which may be null. `usual`: the class' default.
LayerEncoding by_type(const Object& file, const std::string& usual) {
  constexpr const char* key = "position_embeddings_type";
  if (file.mentions(key) && !file.has(key)) return NoPosition{};
  const std::string type = file.text(key).value_or(usual);
  if (type == "relative") return both_directions(file, "linear_pos");
  if (type == "relative_key") {
    return Wav2Vec2BertRelative{file.integer("left_max_position_embeddings", 0, most_positions).value_or(64),
                                file.integer("right_max_position_embeddings", 0, most_positions).value_or(8)};
  }
  if (type != "rotary") file.wrong(key, "relative, relative_key, rotary or null");
  const char* why = "rows turn before they are projected to queries and keys, not the queries and keys themselves";
  file.warn(key, std::string("its numbers are not read: ") + why, json::Weight::grave);
  return OtherEncoding{"rope", why};
}

/// Sinusoids of fairseq's kind, which begin after the row of the padding.
void add_sinusoids(const Object& file, const std::string& part, const char* padding_key, Index padding, Model& model) {
  Sinusoidal spec{.dim = plain_size(file, {"hidden_size"}, 1024), .layout = SinusoidalLayout::tensor2tensor};
  const Index row = file.integer(padding_key, 0, most_positions).value_or(padding);
  spec.padding_position = row;
  model.inputs.push_back({.encoding = spec, .part = part, .first_position = row + 1});
}

/// A frame of version 2 sees its own chunk, and some before it.
void limit_to_chunks(const Object& file, std::vector<Layer>& layers) {
  if (file.mentions("speech_encoder_chunk_size") && !file.has("speech_encoder_chunk_size")) return;
  const Index chunk = file.integer("speech_encoder_chunk_size", 1, most_positions).value_or(20'000);
  const Index before = file.integer("speech_encoder_left_chunk_num", -1, most_positions).value_or(128);
  for (Layer& layer : layers) see_chunks(layer, chunk, before);
  file.warn("speech_encoder_left_chunk_num",
            "a frame also sees " + (before < 0 ? "all" : "the " + std::to_string(before)) + " chunks before its own",
            json::Weight::slight);
}

void read_seamless(const Object& file, bool second, Model& model) {
  const auto layers = [&](const char* key, Index usual) { return plain_size(file, {key}, usual, most_layers); };
  all_layers(model, layers("speech_encoder_layers", 24), by_type(file, second ? "relative_key" : "relative"),
             "speech encoder");
  if (second) limit_to_chunks(file, model.layers);
  all_layers(model, layers("encoder_layers", 24), NoPosition{}, "encoder");
  all_layers(model, layers("decoder_layers", 24), NoPosition{}, "decoder");
  all_layers(model, layers("t2u_encoder_layers", 6), NoPosition{}, "unit encoder");
  all_layers(model, layers("t2u_decoder_layers", 6), NoPosition{}, "unit decoder");
  for (const char* part : {"encoder", "decoder"}) add_sinusoids(file, part, "pad_token_id", 0, model);
  if (second) {
    const char* why = "sinusoids of characters and of units are multiplied by a learned number each";
    model.inputs.push_back({.encoding = OtherEncoding{"sinusoidal", why}, .part = "unit decoder"});
  } else {
    add_sinusoids(file, "unit decoder", "t2u_pad_token_id", 1, model);
  }
  model.heads = model.kv_heads = plain_size(file, {"encoder_attention_heads"}, 16, most_heads);
  model.head_dim = plain_size(file, {"hidden_size"}, 1024) / model.heads;
}

constexpr std::string_view types[] = {"parakeet_encoder", "nemotron_asr_streaming_encoder",
                                      "wav2vec2-bert",    "wav2vec2-conformer",
                                      "seamless_m4t",     "seamless_m4t_v2"};

}  // namespace

void add_conformer_types(std::vector<std::string_view>& to) { to.insert(to.end(), std::begin(types), std::end(types)); }

bool read_conformers(const Config& config, Model& model) {
  const Object& file = config.file;
  const std::string& type = config.model_type;
  if (type == "parakeet_encoder" || type == "nemotron_asr_streaming_encoder") {
    read_parakeet(file, model);
    if (type == "nemotron_asr_streaming_encoder") limit_to_lookahead(file, model.layers);
    return true;
  }
  if (type == "seamless_m4t" || type == "seamless_m4t_v2") {
    return read_seamless(file, type == "seamless_m4t_v2", model), true;
  }
  if (type != "wav2vec2-bert" && type != "wav2vec2-conformer") return false;
  const Index layers = plain_size(file, {"num_hidden_layers"}, type == "wav2vec2-bert" ? 24 : 12, most_layers);
  all_layers(model, layers, by_type(file, type == "wav2vec2-bert" ? "relative_key" : "relative"));
  return true;
}

}  // namespace bearing::hf
