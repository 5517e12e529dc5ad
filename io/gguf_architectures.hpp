#pragma once

#include <bearing/view.hpp>
#include <cstddef>
#include <cstdint>
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

/// A set of the traits below, combined with |.
using Traits = std::uint64_t;

/// What else is peculiar.
enum Trait : Traits {
  freqs = Traits{1} << 0,                 ///< rope_freqs.weight divides the frequencies
  freqs_of_full_layers = Traits{1} << 1,  ///< … of layers that do not slide (with `freqs`)
  freqs_unused = Traits{1} << 2,          ///< reads it and does nothing with it
  factors = Traits{1} << 3,               ///< rope_factors_long.weight and rope_factors_short.weight
  factors_if_longrope = Traits{1} << 4,   ///< … if rope.scaling.type is longrope
  last_part = Traits{1} << 5,             ///< the last dimensions of a head turn, not the first
  scores_scaled = Traits{1} << 6,         ///< latent attention: YaRN's factor goes into the softmax scale (DeepSeek)
  log_times_tenth = Traits{1} << 7,       ///< rope.scaling.yarn_log_multiplier is 0.1·mscale_all_dim
  mscale_alike = Traits{1} << 8,          ///< its files have mscale = mscale_all_dim, others mscale = 1 (DeepSeek-V2)
  log_plain = Traits{1} << 9,             ///< rope.scaling.yarn_log_multiplier is mscale_all_dim
  reads_betas = Traits{1} << 10,          ///< rope.scaling.yarn_beta_fast and yarn_beta_slow count
  reads_ramp = Traits{1} << 11,         ///< … and yarn_ext_factor, yarn_attn_factor; beta_fast is 8 if missing (Grok)
  sections_if_given = Traits{1} << 12,  ///< rope.dimension_sections makes it Turn::sections
  draft_model = Traits{1} << 13,        ///< a draft model: a single section makes it Turn::sections too
  sections_unused = Traits{1} << 14,    ///< reads it and turns all pairs by one position
  finetuned_switch = Traits{1} << 15,   ///< rope.scaling.finetuned says whether it turns at all (Granite)
  recurrent_without_kv = Traits{1} << 16,  ///< layers with 0 key heads are recurrent
  feeds_forward = Traits{1} << 17,  ///< … unless feed_forward_length is above 0: then they mix no tokens (Nemotron-H;
                                    ///< with `recurrent_without_kv`)
  recurrent_but_nth = Traits{1} << 18,  ///< layers are recurrent but each n-th (attention.recurrent_layers says which)
  eighth_attends = Traits{1} << 19,   ///< … that n is 8 and not 4 if full_attention_interval is missing (MiniMax-01)
  full_without = Traits{1} << 20,     ///< layers that do not slide do not turn
  dense_with = Traits{1} << 21,       ///< with `full_without`: the first, dense layers turn though they do not slide
  fourth_without = Traits{1} << 22,   ///< every fourth layer does not turn: 3, 7, … (Llama 4, SmolLM3, AFM)
  first_without = Traits{1} << 23,    ///< every fourth layer does not turn: 0, 4, … if layers slide (SmallThinker)
  pattern_without = Traits{1} << 24,  ///< attention.rope_pattern says which layers turn
  alibi_8 = Traits{1} << 25,          ///< ALiBi with an exponent of 8
  alibi_by_key = Traits{1} << 26,     ///< ALiBi with attention.max_alibi_bias
  alibi_if_40_layers = Traits{1} << 27,       ///< … in the model of 40 layers; that of 32 turns (Baichuan)
  table = Traits{1} << 28,                    ///< position_embd.weight is added to the input
  table_maybe = Traits{1} << 29,              ///< … if it is there
  whole_head = Traits{1} << 30,               ///< the whole head turns, whatever rope.dimension_count says
  unscaled = Traits{1} << 31,                 ///< no scaling
  base_10000 = Traits{1} << 32,               ///< and base 10000, whatever the file says
  half_count = Traits{1} << 33,               ///< full layers turn half of rope.dimension_count (Step 3.5)
  alpha = Traits{1} << 34,                    ///< rope.scaling.alpha (Hunyuan VL)
  temperature_if_stated = Traits{1} << 35,    ///< queries grow by temperature_scale and temperature_length
  temperature_by_original = Traits{1} << 36,  ///< … and the original context length (Mistral 3)
  temperature_unused = Traits{1} << 37,  ///< reads attention.temperature_length and leaves queries as they are (Grok)
  permuted = Traits{1} << 38,            ///< converters reorder queries and keys: the same model turns halves elsewhere
  compressed = Traits{1} << 39,  ///< layers of compressed keys have a base of their own, and they alone are stretched;
                                 ///< values turn too (DeepSeek-V4)
  buckets = Traits{1} << 40,     ///< T5's bias
  encoder_alone = Traits{1} << 41,  ///< … of an encoder without a decoder
};

struct Architecture {
  std::string_view name;
  Turn turn = Turn::none;
  Traits traits = 0;
  Sliding sliding = {};
  std::string_view why = {};  ///< of Turn::refused

  bool is(Trait trait) const { return (traits & trait) != 0; }
  /// Whether its layers turn, and one spec says how: DeepSeek-V4 turns values too.
  bool turns_in_one_way() const { return turn != Turn::none && turn != Turn::refused && !is(compressed); }
};

/// Null for an architecture that is not in the table.
const Architecture* find_architecture(std::string_view name);

/// All of them, sorted by name.
std::span<const Architecture> architectures();

}  // namespace bearing::gguf
