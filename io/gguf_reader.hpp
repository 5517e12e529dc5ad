#pragma once

#include "gguf_architectures.hpp"
#include "gguf_metadata.hpp"

// The steps from a GGUF file's metadata to a Model, each on what the earlier ones found.

namespace bearing::gguf {

inline constexpr Index most_layers = 4'096;  ///< llama.cpp: 512
inline constexpr Index most_heads = 65'536;
inline constexpr Index most_head_dim = 65'536;
inline constexpr Index most_positions = max_position;
inline constexpr Index most_copied_numbers = Index{1} << 20;  ///< of divisors in all layers together

/// What one layer is, before its numbers.
struct Kind {
  bool attends = true;  ///< else it is recurrent, or has no heads
  bool recurrent = false;
  bool feeds_forward = false;  ///< it mixes no tokens: an MLP, or experts
  bool slides = false;
  bool compressed = false;  ///< DeepSeek-V4: its keys are compressed ones too
  bool turns = true;
  bool operator==(const Kind&) const = default;
};

/// A file's metadata with its row of the table and its sizes.
struct File {
  const Metadata& data;
  const Architecture& row;

  Index blocks = 0;  ///< block_count: with layers that predict further tokens
  Index layers = 0;
  Index context = 0;
  Index head_dim = 0, sliding_head_dim = 0;  ///< of queries and keys; with latent attention of its heads
  Index turned = 0, sliding_turned = 0;      ///< dimensions
  Index window = 0;                          ///< 0: no layer slides
  std::vector<Index> heads = {}, kv_heads = {};
  std::vector<Kind> kinds = {};

  bool is(Trait trait) const { return row.is(trait); }
  bool slides() const { return window > 0; }
};

/// Fails for an architecture that is not known or not read, and for keys of positions that llama.cpp does not have.
const Architecture& find_row(const Metadata& data);

/// blocks, layers, heads, dimensions (gguf_sizes.cc).
void read_sizes(File& file);

/// window and kinds (gguf_layers.cc).
void read_kinds(File& file);

/// How a layer of a kind turns, and where its base comes from (gguf_rope.cc).
void read_rope(const File& file, const Kind& kind, Layer& layer);

/// Scaling and attention factor (gguf_scaling.cc).
void read_scaling(const File& file, const Kind& kind, Rope& rope);
/// original_context_length, 0 if the file does not say.
Index original_length(const File& file);

/// The axes of rope.dimension_sections for so many pairs (gguf_sections.cc).
RopeAxes read_sections(const File& file, Index pairs);
Turn turn_of(const File& file);

/// What queries of a layer are multiplied by (gguf_scores.cc).
std::optional<PositionTemperature> read_temperature(const File& file, const Kind& kind);
/// ALiBi's largest exponent; 0: none.
double alibi_exponent(const File& file);
/// T5's layers, and what the input gets.
void read_buckets(const File& file, Model& model);
void read_inputs(const File& file, Model& model);

/// What may be wrong with a file that was read, and what its users should know (gguf_warnings.cc).
void warn(const File& file, const Model& model);

}  // namespace bearing::gguf
