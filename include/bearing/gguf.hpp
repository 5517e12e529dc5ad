#pragma once

#include <bearing/io.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// GGUF files (llama.cpp's format) in, encodings out; and the rotary part of such a file's metadata back. Link
// `bearing::io`.

namespace bearing {

/// Whether bytes begin as a GGUF file does, in either byte order.
BEARING_EXPORT bool is_gguf(std::string_view first_bytes);

/// Whether a path is that of a regular file that begins so; false for one that is missing or cannot be read.
BEARING_EXPORT bool is_gguf_file(const std::string& path);

/// Reads what a GGUF file says of positions: versions 2 and 3, little-endian. Only the header, the metadata and the
/// small tensors of factors (rope_freqs.weight, rope_factors_long.weight, rope_factors_short.weight) are read, whatever
/// the size of the file.
///
/// The Model says what llama.cpp computes from the file: the pairing of its architecture, its defaults, and what its
/// code holds and the file does not (layers without an encoding, ALiBi, temperatures). Keys, tensors and architectures:
/// docs/guide/gguf.md. Warnings name a key.
///
/// Throws ConfigError for a file that is not one, or is damaged: "FILE: byte N: what must hold, got what"; and
/// "FILE: KEY: …" for a key or an architecture that is missing, wrong, or would change positions in a way that this
/// reader does not know.
BEARING_EXPORT Model read_gguf(const std::string& path);

/// The same from bytes in memory; `name` stands for the file in messages.
BEARING_EXPORT Model parse_gguf(std::string_view bytes, const std::string& name = "model.gguf");

/// Reads a model's file of either format, as its first bytes say: read_gguf() or read_hf_config(). Of a folder it reads
/// config.json, or the only GGUF file (*.gguf) where there is none; Model::file is the one that was read.
///
/// Throws ConfigError as those two do, and for a folder with several GGUF files and no config.json.
BEARING_EXPORT Model read_model_file(const std::string& path);

/// The types of GGUF values, with the format's numbers.
enum class GgufType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// One key of the metadata. Of an array, `type` is the elements' type and the value a vector.
struct GgufEntry {
  std::string key;
  GgufType type = GgufType::u32;
  std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>> value;
  bool operator==(const GgufEntry&) const = default;
};

/// A tensor of float32 numbers with one dimension.
struct GgufFactors {
  std::string name;
  std::vector<float> values;
  bool operator==(const GgufFactors&) const = default;
};

/// The rotary part of a GGUF file.
struct GgufRope {
  std::vector<GgufEntry> metadata;
  std::vector<GgufFactors> tensors;
};

/// What a GGUF file of an architecture ("llama", "qwen2", …) must hold so that llama.cpp turns queries and keys as
/// `rope` says: read_gguf() gives that encoding back, with numbers rounded to float32. Llama 3's scaling becomes
/// rope_freqs.weight, LongRoPE two tensors.
///
/// Throws ConfigError for what the architecture's code cannot do, and names it: another pairing (the weights of queries
/// and keys must then be permuted first), dynamic NTK, a part of the head that is not the one that it turns, factors
/// that it does not read.
BEARING_EXPORT GgufRope gguf_rope(const Rope& rope, const std::string& architecture);

/// The rotary part of a whole model's file.
struct GgufModel {
  std::string architecture;
  GgufRope part;
  std::vector<ConfigWarning> warnings = {};  ///< what its user must do, or what was left out
};

/// What a GGUF file of an architecture must hold so that llama.cpp turns queries and keys of all layers as the model's
/// file says: the sizes, gguf_rope() of its layers, and the window and the base of those that slide. It is read again,
/// and every layer must come out the same, with numbers rounded to float32. Where the architecture's converter reorders
/// queries and keys, a model that turns halves is written as one that turns neighbours, and a warning says so.
///
/// An empty architecture: the one that gguf_architecture_of() gives. Throws ConfigError as gguf_rope(), for an
/// architecture that is not known, and for a layer that its code computes in another way; names the layer.
BEARING_EXPORT GgufModel gguf_model(const Model& model, const std::string& architecture = "");

/// llama.cpp's name for the code of a model type of transformers: "llama" for "mistral"; "" if it is not known.
BEARING_EXPORT std::string gguf_architecture_of(std::string_view model_type);

/// A GGUF file of version 3, little-endian, that holds that part and no weights but its factors.
BEARING_EXPORT std::string gguf_bytes(const GgufModel& model);

/// "llama.rope.freq_base f32 500000", one line for each entry and tensor.
BEARING_EXPORT std::string to_text(const GgufRope& part);

/// The architectures that read_gguf() knows, sorted.
BEARING_EXPORT std::vector<std::string_view> gguf_architectures();

}  // namespace bearing
