#pragma once

#include <bearing/view.hpp>
#include <cstddef>
#include <span>
#include <string_view>

// What a GGUF file does not say because llama.cpp's code does: one row per general.architecture. Facts are those of
// llama.cpp's src/llama-model.cpp and src/models/*.cpp as llama-cpp-python 0.3.36 carries them.

namespace bearing::gguf {

/// How queries and keys turn.
enum class Turn {
  none,         ///< not at all
  neighbours,   ///< dimensions 2i and 2i + 1 (ggml's "normal")
  halves,       ///< i and i + n/2 ("neox")
  sections,     ///< halves, the pairs dealt out to position axes in sections ("mrope")
  interleaved,  ///< halves, dealt out in turn ("imrope")
  refused,      ///< the name is known, what the file says of positions is not read here
};

/// When layers slide.
enum class Slides {
  never,          ///< no layer, whatever the file says
  needed,         ///< attention.sliding_window must be there
  if_given,       ///< if it is there and not 0
  or_4096,        ///< 4096 if it is not there (Gemma 2)
  always_4096,    ///< 4096 if it is there and not 0, whatever it says (SmallThinker)
  exaone4,        ///< in the model of 64 layers; 4096 if the key is not there
  chunks_of_8192  ///< chunks, unless it is there and 0 (Llama 4)
};

/// The base of sliding layers.
enum class Base {
  main,      ///< rope.freq_base, whatever rope.freq_base_swa says
  own,       ///< rope.freq_base_swa, 10000 if it is not there
  inherits,  ///< rope.freq_base_swa, rope.freq_base if it is not there
  needed,    ///< rope.freq_base_swa, which must be there
};

/// The scaling of sliding layers.
enum class Scale {
  inherits,  ///< that of full layers
  none,      ///< no factor; attn_factor stays
  plain,     ///< no factor at all
};

/// Which layers of a model slide, and how these turn.
struct Sliding {
  Slides when = Slides::never;
  Index period = 0;         ///< of n layers one is full; 0: all slide; −1: the file must list the layers
  bool full_first = false;  ///< the full one is the first of the n, not the last
  Base base = Base::inherits;
  Scale scale = Scale::inherits;
  bool own_dims = false;   ///< rope.dimension_count_swa and attention.key_length_swa count
  bool both_ways = false;  ///< half of the window lies before the query, and half after it
};
inline constexpr Index listed = -1;

/// What else is peculiar. Flags, combined with |.
enum Trait : unsigned {
  freqs = 1,                     ///< rope_freqs.weight divides the frequencies
  freqs_of_full_layers = 2,      ///< … of layers that do not slide (with `freqs`)
  freqs_unused = 4,              ///< reads it and does nothing with it
  factors = 8,                   ///< rope_factors_long.weight and rope_factors_short.weight
  factors_if_longrope = 16,      ///< … if rope.scaling.type is longrope
  last_part = 32,                ///< the last dimensions of a head turn, not the first
  scores_scaled = 64,            ///< latent attention: YaRN's factor goes into the softmax scale (DeepSeek)
  log_times_tenth = 128,         ///< rope.scaling.yarn_log_multiplier is 0.1·mscale_all_dim
  log_plain = 256,               ///< rope.scaling.yarn_log_multiplier is mscale_all_dim
  reads_betas = 512,             ///< rope.scaling.yarn_beta_fast and yarn_beta_slow count
  reads_ramp = 1024,             ///< … and yarn_ext_factor, yarn_attn_factor; beta_fast is 8 if missing (Grok)
  sections_if_given = 2048,      ///< rope.dimension_sections makes it Turn::sections
  sections_unused = 4096,        ///< reads it and turns all pairs by one position
  finetuned_switch = 8192,       ///< rope.scaling.finetuned says whether it turns at all (Granite)
  recurrent_without_kv = 16384,  ///< layers with 0 key heads are recurrent
  recurrent_but_nth = 32768,     ///< layers are recurrent but each n-th (attention.recurrent_layers says which)
  full_without = 65536,          ///< layers that do not slide do not turn
  fourth_without = 131072,       ///< every fourth layer does not turn: 3, 7, … (Llama 4, SmolLM3, AFM)
  first_without = 262144,        ///< every fourth layer does not turn: 0, 4, … if layers slide (SmallThinker)
  alibi_8 = 524288,              ///< ALiBi with an exponent of 8
  alibi_by_key = 1048576,        ///< ALiBi with attention.max_alibi_bias
  alibi_if_40_layers = 2097152,  ///< … in the model of 40 layers; that of 32 turns (Baichuan)
  table = 4194304,               ///< position_embd.weight is added to the input
  table_maybe = 8388608,         ///< … if it is there
  whole_head = 16777216,         ///< the whole head turns, whatever rope.dimension_count says
  unscaled = 33554432,           ///< no scaling
  base_10000 = 67108864,         ///< and base 10000, whatever the file says
  half_count = 134217728,        ///< full layers turn half of rope.dimension_count (Step 3.5)
  alpha = 268435456,             ///< rope.scaling.alpha (Hunyuan VL)
  permuted = 536870912,          ///< converters reorder queries and keys: the same model turns halves elsewhere
  buckets = 1073741824,          ///< T5's bias
  feeds_forward = 1u << 31,  ///< … unless feed_forward_length is above 0: then they mix no tokens (Nemotron-H; with
                             ///< `recurrent_without_kv`)
};

struct Architecture {
  std::string_view name;
  Turn turn = Turn::none;
  unsigned traits = 0;
  Sliding sliding = {};
  std::string_view why = {};  ///< of Turn::refused

  bool is(Trait trait) const { return (traits & trait) != 0; }
  /// Whether its layers turn, and one spec says how: DeepSeek-V4 turns values too.
  bool turns_in_one_way() const { return turn != Turn::none && turn != Turn::refused && name != "deepseek4"; }
};

/// Null for an architecture that is not in the table.
const Architecture* find_architecture(std::string_view name);

/// All of them, sorted by name.
std::span<const Architecture> architectures();

}  // namespace bearing::gguf
