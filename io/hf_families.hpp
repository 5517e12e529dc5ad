#pragma once

#include <bearing/encodings/rope.hpp>
#include <cstdint>
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

/// A set of the traits below, combined with |.
using Traits = std::uint64_t;

/// What else is peculiar.
enum Trait : Traits {
  // What the code turns
  mla = Traits{1} << 0,            ///< multi-head latent attention: the last qk_rope_head_dim dimensions turn
  partial_heads = Traits{1} << 1,  ///< its code reads which part of a head turns; without this it turns whole
                                   ///< heads, and with a rope_type other than default it fails where the file
                                   ///< says otherwise
  part_of_head = Traits{1} << 2,   ///< latent attention: a scaling takes the fraction of the whole head (Mistral 4)
  class_fractions =
      Traits{1} << 3,  ///< where a layer type's dictionary has no fraction, the class' one counts (NeoMME)
  half_of_channels = Traits{1} << 4,    ///< rotary on half of kv_channels, base · rope_ratio (ChatGLM)
  negative_angles = Traits{1} << 5,     ///< turns the other way round (nanochat)
  fixed_angles = Traits{1} << 6,        ///< base 10000 and no scaling in its code, whatever the file says (GPT-J)
  unscaled = Traits{1} << 7,            ///< its code reads the base, but no scaling (ESM)
  unrotated = Traits{1} << 8,           ///< its code turns nothing, whatever the file says
  rotary_if_named = Traits{1} << 9,     ///< only with position_embedding_type "rotary" or "rope" (ESM, Granite hybrid)
  rotary_if_memory = Traits{1} << 10,   ///< only with use_mem_rope (Zamba 2)
  none_if_null_base = Traits{1} << 11,  ///< a rope_theta of null switches it off (OLMo Hybrid)
  alibi_flag = Traits{1} << 12,         ///< ALiBi instead if `alibi` is true (Falcon)
  alibi_if_large = Traits{1} << 13,     ///< ALiBi instead in the 13B model (Baichuan)
  learned_factors = Traits{1} << 14,    ///< its weights multiply the frequencies and the queries (Mistral Large 4)
  rounded_heads = Traits{1} << 15,  ///< its code runs with heads that are no whole part of the width, and with an odd
                                    ///< number that turns: see rounds_heads
  double_heads = Traits{1} << 16,   ///< its heads share twice the width (Zamba)
  remote_code = Traits{1} << 17,    ///< not in transformers: it is not stated here which keys its code reads
  // Axes and angles
  sections = Traits{1} << 18,              ///< M-RoPE in sections
  interleaved_sections = Traits{1} << 19,  ///< M-RoPE interleaved
  ernie_sections = Traits{1} << 20,        ///< M-RoPE with height and width alternating, then time
  alternating_axes = Traits{1} << 21,  ///< pairs turn by row and column in turn; every other window is longer (NeoMME)
  two_angles = Traits{1} << 22,        ///< with sections the members of a pair have an angle each (HunyuanVL)
  // Bases, scalings and sizes of some layers
  groups = Traits{1} << 23,                ///< one dictionary of rotary parameters per layer type
  local_base = Traits{1} << 24,            ///< sliding layers: rope_local_base_freq and no scaling (Gemma 3)
  modern_bases = Traits{1} << 25,          ///< global_rope_theta, local_rope_theta (ModernBERT)
  scale_full_only = Traits{1} << 26,       ///< rope_scaling holds for full layers alone (OLMo 3)
  rope_on_sliding_only = Traits{1} << 27,  ///< layers that see everything have no encoding (Cohere 2, EXAONE 4)
  global_heads = Traits{1} << 28,          ///< full layers: heads of global_head_dim (Gemma 4)
  sliding_sizes = Traits{1} << 29,         ///< sliding layers: swa_rope_theta and heads of their own (dots3)
  listed_bases = Traits{1} << 30,  ///< layer_rope_theta: a base per layer, 0 for a layer without encoding (Granite-SWA)
  listed_nope = Traits{1} << 31,   ///< layer_rope_theta: only its zeros count; without it every 4th layer from the back
                                   ///< (Muse)
  typed_lists = Traits{1} << 32,   ///< rope_theta and partial_rotary_factors as lists, a scaling for full layers
                                   ///< (Step 3.5)
  scaled_layers = Traits{1} << 33,  ///< rope_scaling_layers lists the layers whose frequencies are scaled (Molmo 2)
  compressed = Traits{1} << 34,     ///< values turn too; layers with compressed keys have a base and a scaling of their
                                    ///< own (DeepSeek-V4)
  unread_scaling = Traits{1} << 35,      ///< its class has a field rope_scaling that nothing reads (Cohere 2 MoE)
  top_level_original = Traits{1} << 36,  ///< original_max_position_embeddings at the top level, 4096 if missing (Phi-3)
  // Layers and windows
  indexed = Traits{1} << 37,    ///< what is called full_attention sees keys that an indexer chooses (DeepSeek-V3.2)
  two_parts = Traits{1} << 38,  ///< an encoder and a decoder whose layers turn alike (Moonshine)
  attention_slides = Traits{1} << 39,  ///< block_types, repeated, in which "attention" slides (RecurrentGemma)
  lists_blocks = Traits{1} << 40,      ///< layer_types may list attention and mlp by turns: two are a layer (Dory)
  window_of_others = Traits{1} << 41,  ///< sliding_window_size leaves out the token itself (MiMo)
  counts_its_list = Traits{1} << 42,   ///< as many layers as its list names, whatever the file says (Nemotron-H)
  // What queries are multiplied by
  log_past_seq_length = Traits{1} << 43,  ///< seq_length is the trained length: past it queries grow, and the base with
                                          ///< the text, unless use_logn_attn and use_dynamic_ntk are false (Qwen)
  tuned_without_rope = Traits{1} << 44,   ///< attn_temperature_tuning: queries of layers without a rotation (Llama 4)
  power_without_rope = Traits{1} << 45,   ///< queries of layers without a rotation grow by a power (Beam)
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
  Traits traits = 0;
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
