#pragma once

#include <bearing/description.hpp>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/bert_relative.hpp>
#include <bearing/encodings/deberta.hpp>
#include <bearing/encodings/elementwise_rope.hpp>
#include <bearing/encodings/gated_t5.hpp>
#include <bearing/encodings/learned.hpp>
#include <bearing/encodings/position_temperature.hpp>
#include <bearing/encodings/relative_logits.hpp>
#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/sam.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/encodings/sinusoidal_2d.hpp>
#include <bearing/encodings/swin_v2.hpp>
#include <bearing/encodings/t5_axis.hpp>
#include <bearing/encodings/transformer_xl.hpp>
#include <bearing/encodings/xlnet.hpp>
#include <bearing/error.hpp>
#include <bearing/export.hpp>
#include <bearing/regions.hpp>
#include <bearing/rope_report.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// Model files in, encodings out. Link `bearing::io`.

namespace bearing {

/// A layer without a positional encoding: NoPE, or the model has one on its input.
struct NoPosition {
  bool operator==(const NoPosition&) const = default;
};

/// An encoding that is recognised, but its numbers are not read. It has a name in the literature ("sinusoidal", …).
struct OtherEncoding {
  std::string name;
  std::string why = {};  ///< why not, where there is more to say: a sentence without its full stop
  bool operator==(const OtherEncoding&) const = default;
};

/// What a layer's attention does with positions. A config holds no learned numbers: the spec says which ones there are.
using LayerEncoding =
    std::variant<NoPosition, Rope, Alibi, T5, BertRelative, Wav2Vec2BertRelative, Deberta, TransformerXL, Xlnet, Swin,
                 SwinV2, Shaw, GatedT5, T5Axis, Sam, RelativeLogits, ElementwiseRope, OtherEncoding>;

/// What one layer does with positions.
struct Layer {
  LayerEncoding encoding;
  std::string type = "full_attention";  ///< the file's word: full_attention, sliding_attention, chunked_attention, …
  /// Sliding window or chunk in tokens: the query and those before it, as many as its code lets it see; 0: none.
  Index window = 0;
  Index window_after = 0;  ///< … and tokens after the query, where the layer looks both ways: ModernBERT, …
  /// Of a chunk: how many chunks before its own the query sees too; −1: all of them. SeamlessM4T 2.
  Index chunks_before = 0;
  std::string part = {};  ///< "encoder" and "decoder" (or "predictor") of a model that has both (self-attention)
  std::optional<PositionTemperature> temperature = {};  ///< what queries are multiplied by: Llama 4, Ministral 3, …
  /// Others beside the first: LayoutLMv3 adds three tables, Gemma 4's vision tower turns two parts of a head.
  std::vector<LayerEncoding> also = {};
  std::string positions = {};  ///< what a token's position is, if not its index: "row and column of the patch"
  /// Patches of the images that it was trained on (Pixtral: of the largest): image_size over patch_size, the file's or,
  /// with a warning, the class' defaults. 0: of any size, or these give no grid.
  GridSize grid = {};
  double span = 0;  ///< positions run from −span to span across the image, whatever its size; 0: they count patches
  std::optional<Rope> values = {};  ///< what turns values, and back what they add up to (RotaryValues): DeepSeek-V4
  /// Where the base of its rotation comes from: the file's key, "rope_theta", or "default of llama"; "" if not told.
  std::string base_from = {};

  /// False where tokens are mixed without attention, by the type: linear_attention, mamba, recurrent, conv, …
  BEARING_EXPORT bool attends() const;
  /// What attention takes as its window: without limits if the layer has none, or sees chunks. Without limits too where
  /// windows are of the image (window_attention): each of these is a packed sequence.
  BEARING_EXPORT Window attention_window() const;
  /// What attention takes as its band: the query's chunk and chunks_before; of other layers a band without limits,
  /// also where windows are of the image (window_attention).
  BEARING_EXPORT Band attention_band() const;
};

/// What is added to the input.
using InputSpec = std::variant<Learned, Sinusoidal, Sinusoidal2d, OtherEncoding>;

/// … of a model, or of its encoder or decoder.
struct ModelInput {
  InputSpec encoding;
  std::string part = {};       ///< as Layer's
  Index first_position = 0;    ///< of the first token: 2 in fairseq's sinusoidal tables
  std::string positions = {};  ///< as Layer's
  Index length = 0;            ///< tokens of its part, where the file says so and the encoding does not; else 0
  /// Which of several inputs of its part, after the names in the model's code: LayoutLM's "text", "x", "y", "height"
  /// and "width"; "" of a single one.
  std::string label = {};
};

/// The encoding's name in the literature: "rope", "alibi", "t5", …; "none" for NoPosition. Its page has the same name.
BEARING_EXPORT std::string encoding_name(const LayerEncoding& encoding);
BEARING_EXPORT std::string encoding_name(const InputSpec& encoding);

/// Something in the file that may be a mistake, or that the model's users should know.
struct ConfigWarning {
  std::string pointer;  ///< JSON pointer of the key, "" for the whole file
  std::string text;
};

/// Regions of one softmax that a file asks for: dual chunk attention, and a softmax that sharpens with the text.
struct ModelRegions {
  DualChunk chunks;
  Index original_length = 0;  ///< 0: the softmax stays as it is
  /// What the scale of the softmax is multiplied by in a text of so many tokens:
  /// max(1, 0.1 ln(length / original_length) + 1).
  BEARING_EXPORT double softmax_factor(Index length) const;
  bool operator==(const ModelRegions&) const = default;
};

/// A model's file, as far as positions go. A composite has one Model per part: the language model, if it has one, and
/// beside it its towers.
struct Model {
  std::string file;
  std::string part = {};  ///< of a composite: "vision tower", "audio tower", "encoder", …; "" is the language model
  std::string model_type;
  /// What its class is for, by the file's `architectures`: "generate", "understand", "images" or "speech", as choose()
  /// has it; "" if they do not say, as names of classes that are made of encoders and of decoders do not. A GGUF file
  /// says whether attention is causal.
  std::string task = {};
  Index heads = 0, kv_heads = 0;
  Index head_dim = 0;         ///< dimensions of a query or key head
  Index trained_length = 0;   ///< before any stretching; 0 if the file does not say
  Index context_length = 0;   ///< what the model promises (max_position_embeddings); 0 if the file does not say
  std::vector<Layer> layers;  ///< one per layer, at least one; the encoder's first
  std::vector<ModelInput> inputs = {};       ///< none for a model that only acts in its layers
  std::vector<ConfigWarning> warnings;       ///< of the whole file, its towers too
  std::vector<Model> towers = {};            ///< the other parts, as far as the file has them
  std::optional<ModelRegions> regions = {};  ///< of all layers: attention's, for texts past the chunk
};

/// Reads a Hugging Face config.json. Old keys (rope_theta, rope_scaling, partial_rotary_factor, …) and the new
/// rope_parameters, nested per layer type or not; the pairing is known per model_type. An unknown model_type works if
/// its keys are the common ones, with a warning. Which keys, in which order, and all limits: docs/guide/model-files.md.
///
/// Throws ConfigError, which names the file, line and column or JSON pointer, what must hold and what was found. Files
/// over 16 MiB or nested deeper than 128 levels are refused; nothing is fetched, executed or written.
BEARING_EXPORT Model read_hf_config(const std::string& path);

/// The same from text in memory; `name` stands for the file in messages.
BEARING_EXPORT Model parse_hf_config(std::string_view text, const std::string& name = "config.json");

/// Layers that are alike in everything, in order of their first layer.
struct LayerGroup {
  std::vector<Index> layers;
  Layer layer;
};
BEARING_EXPORT std::vector<LayerGroup> layer_groups(const Model& model);

/// How far the angles of a layer were trained and are used. `trained` is the length of the file or of the layer's
/// scaling. It is 0 if the layer's window is not longer than it, as no two tokens are then further apart in use than in
/// training. `longest` is the largest of the file's length, the scaling's length and seq_len.
BEARING_EXPORT RopeLengths lengths_of(const Model& model, const Layer& layer, Index seq_len = 0);

/// The tokens that a scaling by a factor reaches from its trained length; 0 if the factor does not say how far.
BEARING_EXPORT Index scaled_length(const RopeScaling& scaling);

/// The model types that have that encoding if their files say nothing else, in the order of the reader's tables. The
/// encoding is named as in the catalog: "rope", "alibi", ….
BEARING_EXPORT std::vector<std::string> model_types_of(std::string_view encoding);

/// A record as JSON, {"type": "T5", "buckets": 32, …}, and back. Every member is written, in the shortest form that
/// reads back; a member that is missing has its default. `among`: the types that are allowed (empty: all that are
/// described); if that is one type, "type" may be left out. Throws RangeError for a number that is not finite,
/// ConfigError as read_hf_config does.
BEARING_EXPORT std::string to_json(const Record& record);
BEARING_EXPORT Record parse_record(std::string_view json, const std::string& name = "record",
                                   const std::vector<const RecordType*>& among = {});

/// A rotary spec as JSON, and back: {"head_dim": 128, "pairing": "half", "base": 500000, "scaling": {"type": "llama3",
/// …}}. Numbers are written in the shortest form that reads back; docs/guide/rope-json.md lists the keys. parse_rope
/// throws ConfigError as read_hf_config does.
BEARING_EXPORT std::string to_json(const Rope& rope);
BEARING_EXPORT Rope parse_rope(std::string_view json, const std::string& name = "rope");

}  // namespace bearing
