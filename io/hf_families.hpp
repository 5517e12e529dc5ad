#pragma once

#include <bearing/encodings/rope.hpp>
#include <span>
#include <string_view>

// What the file does not say because the model's code does: one row per model_type. Facts and defaults are those of
// Hugging Face transformers 4.57.1 and 5.24.0 (configuration_*.py and modeling_*.py), or of the model's own remote
// code.

namespace bearing::hf {

inline constexpr Pairing half = Pairing::half, interleaved = Pairing::interleaved;

/// Which layers see a window, unless the file lists layer_types. n is `period`, or the file's key for it.
enum class Mix {
  full,               ///< every layer sees everything
  all_slide,          ///< every layer slides if sliding_window is given (and use_sliding_window is not false)
  all_slide_if_on,    ///< the same, but only with use_sliding_window
  slide_from,         ///< with use_sliding_window: layers from max_window_layers on
  slide_even_below,   ///< with use_sliding_window: every other layer below max_window_layers (qwen2_moe)
  full_every_last,    ///< every n-th layer is full, the last of each n; the others slide
  full_every_first,   ///< the first of each n
  linear_but_last,    ///< as full_every_last, the others are linear attention without positions
  linear_even_first,  ///< layers 1, 3, … are linear attention (minimax)
  no_rope_list,       ///< no_rope_layers, a list in which 1 means "rotary", or every n-th layer without
};

/// What else is peculiar. Flags, combined with |.
enum Trait : unsigned {
  mla = 1,                    ///< multi-head latent attention: the last qk_rope_head_dim dimensions turn
  local_base = 2,             ///< sliding layers: rope_local_base_freq and no scaling (Gemma 3)
  modern_bases = 4,           ///< global_rope_theta, local_rope_theta (ModernBERT)
  scale_full_only = 8,        ///< rope_scaling holds for full layers alone (OLMo 3)
  rope_on_sliding_only = 16,  ///< layers that see everything have no encoding (Cohere 2, EXAONE 4)
  sections = 32,              ///< M-RoPE in sections
  interleaved_sections = 64,  ///< M-RoPE interleaved
  ernie_sections = 128,       ///< M-RoPE with height and width alternating, then time
  global_heads = 256,         ///< full layers: heads of global_head_dim (Gemma 4)
  top_level_original = 512,   ///< original_max_position_embeddings at the top level, 4096 if missing (Phi-3)
  half_of_channels = 1024,    ///< rotary on half of kv_channels, base · rope_ratio (ChatGLM)
  alibi_flag = 2048,          ///< ALiBi instead if `alibi` is true (Falcon)
  alibi_if_large = 4096,      ///< ALiBi instead in the 13B model (Baichuan)
  rotary_if_named = 8192,     ///< only with position_embedding_type "rotary" or "rope" (ESM, Granite hybrid)
  negative_angles = 16384,    ///< turns the other way round (nanochat)
  partial_heads = 32768,    ///< its code reads which part of a head turns; without this it turns whole heads, and with
                            ///< a rope_type other than default it fails where the file says otherwise
  fixed_angles = 65536,     ///< base 10000 and no scaling in its code, whatever the file says (GPT-J)
  unscaled = 262144,        ///< its code reads the base, but no scaling (ESM)
  remote_code = 131072,     ///< not in transformers: it is not stated here which keys its code reads
  groups = 1 << 19,         ///< one dictionary of rotary parameters per layer type
  listed_bases = 1 << 20,   ///< layer_rope_theta: a base per layer, 0 for a layer without encoding (Granite-SWA)
  listed_nope = 1 << 21,    ///< layer_rope_theta: only its zeros count; without it every 4th layer from the back (Muse)
  typed_lists = 1 << 22,    ///< rope_theta and partial_rotary_factors as lists, a scaling for full layers (Step 3.5)
  scaled_layers = 1 << 23,  ///< rope_scaling_layers lists the layers whose frequencies are scaled (Molmo 2)
  rotary_if_memory = 1 << 24,   ///< only with use_mem_rope (Zamba 2)
  sliding_sizes = 1 << 25,      ///< sliding layers: swa_rope_theta and heads of their own (dots3)
  alternating_axes = 1 << 26,   ///< pairs turn by row and column in turn; every other window is longer (NeoMME)
  none_if_null_base = 1 << 27,  ///< a rope_theta of null switches it off (OLMo Hybrid)
  unrotated = 1 << 28,          ///< its code turns nothing, whatever the file says
  learned_factors = 1 << 29,    ///< its weights multiply the frequencies and the queries (Mistral Large 4)
  two_parts = 1 << 30,          ///< an encoder and a decoder whose layers turn alike (Moonshine)
  compressed = 1u << 31,        ///< values turn too; layers with compressed keys have a base and a scaling of their own
                                ///< (DeepSeek-V4)
};

/// Sizes the configuration class assumes; 0: none (kv_heads: as heads; head_dim: hidden / heads).
struct Shape {
  Index hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, positions = 0;
};

struct Family {
  std::string_view model_type;
  Required<Pairing> pairing;
  double base = 10'000;
  double fraction = 1;  ///< of the head that turns
  Shape shape = {};
  Mix mix = Mix::full;
  Index period = 0;  ///< n; of slide_from and slide_even_below: max_window_layers
  Index window = 0;
  unsigned traits = 0;
  const char* scaling = nullptr;  ///< the class' rope_scaling when the file has none, as JSON
  double newer_base = 0;          ///< where 5.24.0 assumes another base than 4.57.1
  Index rotary_dim = 0;           ///< what turns if the file does not say, in place of a fraction (GPT-J)
  const char* pattern = nullptr;  ///< layers in place of a mix, see types_by_pattern

  bool is(Trait trait) const { return (traits & trait) != 0; }
};

/// What is read of newer models: hf_newer_families.cc.
std::span<const Family> newer_families();

/// Null for a model_type that is not in the table.
const Family* find_family(std::string_view model_type);

/// Where the code of a model_type reads other spellings than the first of a list (hf_spellings.cc): those it reads as
/// well, and those it reads instead. Words between spaces.
struct Spellings {
  std::string_view model_type, also, instead = {};
};
const Spellings* find_spellings(std::string_view model_type);

}  // namespace bearing::hf
